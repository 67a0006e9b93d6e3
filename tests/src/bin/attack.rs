//! Attacks a box with kills, damaged files and floods, and counts what it loses.
//!
//!     tests/tools/attack [--only NAME] [--share N] [--seed N] [--json FILE]
//!
//! Exit code 0: nothing was lost silently, no process ended by itself, no daemon was silent for a
//! minute. 1: one of these happened. 2: it could not run. `tests/README.md` has the details.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this is the answer to a command"
)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context as _;
use clap::{Parser, ValueEnum};
use watchkeeper_tests::attack::{self, Report};
use watchkeeper_tests::exit;

/// Attacks a box and counts what it loses.
#[derive(Debug, Parser)]
struct Args {
    /// Runs only this attack; may be repeated.
    #[arg(long, value_enum)]
    only: Vec<Attack>,
    /// Divides the number of attempts of each attack.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    share: u64,
    /// Seed of the random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// File for the reports as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Attack {
    Kills,
    Damage,
    Commands,
    Models,
    Requests,
    Flaps,
}

impl Attack {
    fn run(self, share: u64, seed: u64) -> anyhow::Result<Report> {
        let mut random = fastrand::Rng::with_seed(seed);
        let attempts = |whole: u64| whole.div_ceil(share);
        match self {
            Self::Kills => attack::kills(attempts(200), &mut random),
            Self::Damage => attack::damage(attempts(200), &mut random),
            Self::Commands => attack::commands(attempts(100_000), &mut random),
            Self::Models => attack::model_files(attempts(1_000), &mut random),
            Self::Requests => attack::requests(attempts(20_000), &mut random),
            Self::Flaps => attack::flaps(attempts(20), &mut random),
        }
    }
}

fn main() -> ExitCode {
    exit(run(&Args::parse()).map(|is_well| u8::from(!is_well)), 2)
}

/// Runs the attacks; returns whether the box withstood all of them.
fn run(args: &Args) -> anyhow::Result<bool> {
    let mut reports = Vec::new();
    for attack in Attack::value_variants() {
        if !args.only.is_empty() && !args.only.contains(attack) {
            continue;
        }
        let began = Instant::now();
        let report = attack
            .run(args.share, args.seed)
            .with_context(|| format!("{attack:?}"))?;
        print(&report, began.elapsed().as_secs());
        reports.push(report);
    }
    if let Some(file) = &args.json {
        std::fs::write(file, serde_json::to_vec_pretty(&reports)?)
            .with_context(|| file.display().to_string())?;
    }
    Ok(reports.iter().all(Report::holds))
}

fn print(report: &Report, seconds: u64) {
    println!("{} ({seconds} s)", report.attack);
    for (what, count) in &report.attempts {
        println!("  {count:>7} {what}");
    }
    println!("  {:>7} silent losses", report.silent_losses);
    println!("  {:>7} aborts", report.aborts);
    println!("  {:>7.1} s longest silence", report.longest_silence_s);
    for violation in &report.violations {
        println!("  violation: {violation}");
    }
}
