//! Measures what the answers of people do to the events that follow.
//!
//!     review-answers IN_DIR [--answers COUNT] [--events FILE]
//!
//! Reads `IN_DIR/<sequence>/det.txt`, `gt.txt` and `seqinfo.json`. Of each camera and rule, the
//! annotation answers the first events; the rule is narrowed and calibrated by them, and the rest
//! is counted. `--events` writes one JSON object for each of the rest: truth, confidence before and
//! after calibration. See `docs/design/reviews.md`.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command's output"
)]

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use serde_json::json;
use watchkeeper_engine::rules::calibration::apply;
use watchkeeper_tests::exit;
use watchkeeper_tests::mot::answers::{AfterAnswers, LabelledEvents, labelled};
use watchkeeper_tests::mot::files::{Sequence, read_truth};

/// Fewest events after the answers.
const LEAST_AFTER: usize = 10;

/// Measures what the answers of people do to the events that follow.
#[derive(Debug, Parser)]
struct Args {
    /// Folder that holds one folder for each sequence.
    in_dir: PathBuf,
    /// Events that are answered.
    #[arg(long, default_value_t = 50)]
    answers: usize,
    /// File for the events that follow, one JSON object a line.
    #[arg(long)]
    events: Option<PathBuf>,
}

fn main() -> ExitCode {
    exit(run(&Args::parse()).map(|()| 0), 1)
}

fn run(args: &Args) -> anyhow::Result<()> {
    let mut out = match &args.events {
        Some(path) => {
            let file = File::create(path).with_context(|| path.display().to_string())?;
            Some(BufWriter::new(file))
        }
        None => None,
    };
    println!("true/false events after {} answers", args.answers);
    let mut sums: [AfterAnswers; 2] = Default::default();
    for sequence in Sequence::read_all(&args.in_dir)? {
        let sequence = sequence?;
        let truth = read_truth(&args.in_dir.join(&sequence.name), sequence.info.frames)?;
        for (of, sum) in labelled(&sequence, &truth)?.iter().zip(&mut sums) {
            let name = format!("{} {}", sequence.name, of.rule.name);
            let Some(after) = of.answer(args.answers, LEAST_AFTER) else {
                println!("{name}: {} events are too few", of.events.len());
                continue;
            };
            print(&name, &after);
            add(sum, &after);
            if let Some(out) = out.as_mut() {
                write(out, &sequence.name, of, args.answers)?;
            }
        }
    }
    for (name, sum) in ["all crosses", "all appears"].iter().zip(&sums) {
        print(name, sum);
    }
    if let Some(mut out) = out {
        out.flush()?;
    }
    Ok(())
}

fn print(name: &str, after: &AfterAnswers) {
    let pair = |[right, wrong]: [usize; 2]| format!("{right}/{wrong}");
    let narrowed = after.narrowing.as_ref().map(|found| {
        let score = found.min_score.map(|min| format!(", lowest score {min}"));
        let areas = found.ignore.len();
        format!(" (narrowed: {areas} areas{})", score.unwrap_or_default())
    });
    println!(
        "{name}: {} become {}{}; without review {} become {}",
        pair(after.events),
        pair(after.narrowed),
        narrowed.unwrap_or_default(),
        pair(after.certain),
        pair(after.calibrated_certain)
    );
}

fn add(sum: &mut AfterAnswers, after: &AfterAnswers) {
    for (own, other) in [
        (&mut sum.events, after.events),
        (&mut sum.narrowed, after.narrowed),
        (&mut sum.certain, after.certain),
        (&mut sum.calibrated_certain, after.calibrated_certain),
    ] {
        for (own, other) in own.iter_mut().zip(other) {
            *own += other;
        }
    }
}

fn write(
    out: &mut impl Write,
    sequence: &str,
    of: &LabelledEvents,
    answers: usize,
) -> anyhow::Result<()> {
    let calibration = of.calibration(answers);
    for event in of.events.iter().skip(answers) {
        let raw = event.raw_confidence.unwrap_or_default();
        let line = json!({
            "sequence": sequence,
            "rule": of.rule.name,
            "is_true": event.is_true,
            "raw": raw,
            "calibrated": calibration.map_or(raw, |found| apply(&found, raw)),
        });
        writeln!(out, "{line}")?;
    }
    Ok(())
}
