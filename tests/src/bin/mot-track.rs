//! Follows the objects of tracking sequences, and scores what came out where there is truth.
//!
//!     mot-track IN_DIR OUT_DIR [--setting NAME] [--score]
//!
//! Reads `IN_DIR/<sequence>/det.txt` and `seqinfo.json`, writes `OUT_DIR/<sequence>.txt` with a line
//! `frame,id,x,y,w,h,1,-1,-1,-1` a box, and prints the milliseconds a frame that the tracker took. With `--score` it reads
//! `gt.txt` too and prints HOTA / MOTA / IDF1 / identity switches of each sequence and group. See `docs/ref/tracking.md`.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command's output"
)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use watchkeeper_tests::mot::files::{Sequence, read_truth, results_text};
use watchkeeper_tests::mot::follow::{Setting, follow};
use watchkeeper_tests::mot::score::{Score, Scored, score};

/// Follows the objects of tracking sequences.
#[derive(Debug, Parser)]
struct Args {
    /// Folder with a folder for each sequence.
    in_dir: PathBuf,
    /// Folder for the results; made if need be.
    out_dir: PathBuf,
    /// Which tracker.
    #[arg(long, value_enum, default_value_t)]
    setting: Setting,
    /// Compares with gt.txt.
    #[arg(long)]
    score: bool,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // In one line and without a backtrace: it is about files, not about this program.
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether every sequence could be followed; what is wrong with one doesn't keep the others from it.
fn run(args: &Args) -> anyhow::Result<bool> {
    let out = &args.out_dir;
    std::fs::create_dir_all(out).with_context(|| out.display().to_string())?;
    let mut groups: BTreeMap<String, Score> = BTreeMap::new();
    let mut all_well = true;
    for sequence in Sequence::read_all(&args.in_dir)? {
        let told = sequence.and_then(|sequence| one(args, &sequence, &mut groups));
        if let Err(error) = told {
            eprintln!("{error:#}");
            all_well = false;
        }
    }
    for (group, found) in groups {
        println!("{group} combined  {}", line(&found.figures()));
    }
    Ok(all_well)
}

/// Follows one sequence, writes what came out and tells the time it took, and its score where that is wanted.
fn one(
    args: &Args,
    sequence: &Sequence,
    groups: &mut BTreeMap<String, Score>,
) -> anyhow::Result<()> {
    let name = &sequence.name;
    let followed = follow(sequence, args.setting);
    let path = args.out_dir.join(format!("{name}.txt"));
    std::fs::write(&path, results_text(&followed.tracked))
        .with_context(|| path.display().to_string())?;
    let ms = followed.ms_per_frame();
    if args.score {
        let truth = read_truth(&args.in_dir.join(name), sequence.info.frames)?;
        let found = score(&sequence.info.set, &truth, &followed.tracked);
        println!("{name} {ms:.4} ms/frame  {}", line(&found.figures()));
        let group = groups.entry(sequence.info.set.clone()).or_default();
        group.add(&found);
    } else {
        println!("{name} {ms:.4} ms/frame");
    }
    Ok(())
}

fn line(s: &Scored) -> String {
    format!(
        "{:.1} / {:.1} / {:.1} / {}",
        s.hota, s.mota, s.idf1, s.switches
    )
}
