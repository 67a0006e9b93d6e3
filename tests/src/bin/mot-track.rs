//! Tracks the objects of tracking sequences, and scores the result where there is ground truth.
//!
//!     mot-track IN_DIR OUT_DIR [--setting NAME] [--score]
//!
//! Reads `IN_DIR/<sequence>/det.txt` and `seqinfo.json`. Writes `OUT_DIR/<sequence>.txt` with a
//! line `frame,id,x,y,w,h,1,-1,-1,-1` for each bounding box, and prints the tracker's milliseconds
//! per frame. With `--score` it also reads `gt.txt` and prints HOTA / MOTA / IDF1 / identity
//! switches of each sequence and group. See `docs/ref/tracking.md`.

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
use watchkeeper_tests::exit;
use watchkeeper_tests::mot::files::{Sequence, read_truth, results_text};
use watchkeeper_tests::mot::follow::{Setting, run_tracker};
use watchkeeper_tests::mot::score::{Figures, Score, score};

/// Tracks the objects of tracking sequences.
#[derive(Debug, Parser)]
struct Args {
    /// Folder that holds one folder for each sequence.
    in_dir: PathBuf,
    /// Folder for the results; created if missing.
    out_dir: PathBuf,
    /// Tracker and its settings.
    #[arg(long, value_enum, default_value_t)]
    setting: Setting,
    /// Scores the result against gt.txt.
    #[arg(long)]
    score: bool,
}

fn main() -> ExitCode {
    exit(run(&Args::parse()).map(|is_well| u8::from(!is_well)), 1)
}

/// Processes every sequence; returns whether all of them succeeded. A failure does not stop the
/// others.
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

/// Tracks one sequence, writes the result and prints its time, and its score if wanted.
fn one(
    args: &Args,
    sequence: &Sequence,
    groups: &mut BTreeMap<String, Score>,
) -> anyhow::Result<()> {
    let name = &sequence.name;
    let followed = run_tracker(sequence, args.setting);
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

fn line(s: &Figures) -> String {
    format!(
        "{:.1} / {:.1} / {:.1} / {}",
        s.hota, s.mota, s.idf1, s.switches
    )
}
