//! Counts crossings in tracking sequences, and separates true from wrong ones by the evidence.
//!
//!     mot-count IN_DIR [--events FILE]
//!
//! Reads `IN_DIR/<sequence>/det.txt`, `gt.txt` and `seqinfo.json`, and counts at 13 lines through
//! each picture. Prints for each sequence the true crossings, the wrong and the missed ones, and
//! the verdicts on true and wrong ones. `--events` writes one JSON object for each event and each
//! missed crossing. See `docs/ref/counting.md`.

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
use watchkeeper_contract::event::Verdict;
use watchkeeper_tests::exit;
use watchkeeper_tests::mot::count::{CrossingEvent, count};
use watchkeeper_tests::mot::files::{Sequence, read_truth};
use watchkeeper_tests::mot::follow::{Setting, run_tracker};
use watchkeeper_tests::mot::truth_crossings::{
    Annotated, Finding, Label, Reported, TrueCrossing, lines,
};

/// Counts crossings in tracking sequences.
#[derive(Debug, Parser)]
struct Args {
    /// Folder that holds one folder for each sequence.
    in_dir: PathBuf,
    /// File for the events, one JSON object a line.
    #[arg(long)]
    events: Option<PathBuf>,
}

/// Numbers of one sequence, or of several.
#[derive(Debug, Default, Clone, Copy)]
struct Tally {
    crossings: usize,
    missed: usize,
    /// Verdicts on true and on wrong events, from discard to act.
    verdicts: [[usize; 5]; 2],
}

impl Tally {
    fn add(&mut self, other: &Self) {
        self.crossings += other.crossings;
        self.missed += other.missed;
        for (own, others) in self.verdicts.iter_mut().zip(other.verdicts) {
            for (own, other) in own.iter_mut().zip(others) {
                *own += other;
            }
        }
    }

    fn print(&self, name: &str) {
        let [right, wrong] = self.verdicts.map(|verdicts| {
            let all: usize = verdicts.iter().sum();
            let accepted: usize = verdicts[3..].iter().sum();
            let share = 100.0 * accepted as f64 / all.max(1) as f64;
            format!("{all} {verdicts:?} {share:.0} %")
        });
        println!(
            "{name}: crossings {}, missed {}; true {right}; wrong {wrong}",
            self.crossings, self.missed
        );
    }
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
    println!("verdicts: discard, escalate, review, record, act; share of record and act");
    let mut sum = Tally::default();
    for sequence in Sequence::read_all(&args.in_dir)? {
        let sequence = sequence?;
        let tally = one(args, &sequence, out.as_mut())?;
        tally.print(&sequence.name);
        sum.add(&tally);
    }
    sum.print("sum");
    if let Some(mut out) = out {
        out.flush()?;
    }
    Ok(())
}

fn one(
    args: &Args,
    sequence: &Sequence,
    mut out: Option<&mut BufWriter<File>>,
) -> anyhow::Result<Tally> {
    let truth = read_truth(&args.in_dir.join(&sequence.name), sequence.info.frames)?;
    let tracks = run_tracker(sequence, Setting::Default).tracked;
    let annotated = Annotated::new(&truth, &tracks, sequence.info.fps);
    let lines = lines(&sequence.info);
    let crossings: Vec<_> = lines
        .iter()
        .flat_map(|line| annotated.crossings(line))
        .collect();
    let events = count(sequence, &lines)?;
    let reported: Vec<Reported> = events.iter().map(|e| e.reported.clone()).collect();
    let findings = annotated.label(&reported, &crossings, &lines);
    let is_missed =
        |c: usize| crossings[c].is_target && findings.iter().all(|f| f.crossing != Some(c));
    let missed: Vec<_> = (0..crossings.len()).filter(|c| is_missed(*c)).collect();
    let mut tally = Tally {
        crossings: crossings.iter().filter(|c| c.is_target).count(),
        missed: missed.len(),
        ..Tally::default()
    };
    if let Some(out) = out.as_mut() {
        for c in missed {
            writeln!(out, "{}", missed_record(&sequence.name, &crossings[c]))?;
        }
    }
    for (event, finding) in events.iter().zip(&findings) {
        if let Some(out) = out.as_mut() {
            let crossing = finding.crossing.map(|c| &crossings[c]);
            let mut record = record(sequence, event, finding, crossing);
            let line = lines.iter().find(|line| line.name == event.reported.line);
            record["ends"] = json!(line.map(|line| [line.from, line.to]));
            writeln!(out, "{record}")?;
        }
        let truth = match finding.label {
            Label::True => 0,
            Label::Wrong | Label::Ghost => 1,
            Label::Ignored => continue,
        };
        let verdict = match event.verdict {
            Verdict::Discard => 0,
            Verdict::Escalate => 1,
            Verdict::Review => 2,
            Verdict::Record => 3,
            Verdict::Act => 4,
        };
        tally.verdicts[truth][verdict] += 1;
    }
    Ok(tally)
}

/// A true crossing that no event has.
fn missed_record(sequence: &str, crossing: &TrueCrossing) -> serde_json::Value {
    json!({
        "sequence": sequence,
        "line": crossing.line,
        "label": "missed",
        "in": crossing.is_in,
        "object": crossing.id,
        "crossed": crossing.frame,
    })
}

/// An event with its annotated object, and the frame in which that crossed, if it is true.
fn record(
    sequence: &Sequence,
    event: &CrossingEvent,
    finding: &Finding,
    crossing: Option<&TrueCrossing>,
) -> serde_json::Value {
    let [w, h] = [sequence.info.width, sequence.info.height].map(f64::from);
    let bbox = event.change.event.bbox;
    json!({
        "sequence": sequence.name,
        "line": event.reported.line,
        "label": format!("{:?}", finding.label).to_lowercase(),
        "in": event.reported.is_in,
        "frame": event.reported.frame,
        "box": bbox.map(|[x1, y1, x2, y2]| [x1 * w, y1 * h, x2 * w, y2 * h]),
        "track": event.reported.track,
        "object": finding.object,
        "crossed": crossing.map(|c| c.frame),
        "confidence": event.change.decision.confidence,
        "evidence": event.change.evidence,
    })
}
