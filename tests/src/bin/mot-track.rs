//! Follows the objects of tracking sequences, and scores what came out where there is truth.
//!
//!     mot-track IN_DIR OUT_DIR [--setting NAME] [--score]
//!
//! Reads `IN_DIR/<sequence>/det.txt` and `seqinfo.json`, writes `OUT_DIR/<sequence>.txt` with a line
//! `frame,id,x,y,w,h,1,-1,-1,-1` a box, and prints the milliseconds a frame that the tracker took. With `--score` it reads
//! `gt.txt` too and prints HOTA / MOTA / IDF1 / identity switches of each sequence and group. See `docs/tracking.md`.

#![allow(clippy::print_stdout, reason = "a command's output")]

use std::collections::BTreeMap;
use std::path::PathBuf;

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
    #[arg(long, default_value_t = Setting::default().name().to_owned())]
    setting: String,
    /// Compares with gt.txt.
    #[arg(long)]
    score: bool,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let setting: Setting = args.setting.parse().map_err(anyhow::Error::msg)?;
    let out = &args.out_dir;
    std::fs::create_dir_all(out).with_context(|| out.display().to_string())?;
    let mut groups: BTreeMap<String, Score> = BTreeMap::new();
    for sequence in Sequence::read_all(&args.in_dir)? {
        let name = &sequence.name;
        let followed = follow(&sequence, setting);
        let path = out.join(format!("{name}.txt"));
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
    }
    for (group, found) in groups {
        println!("{group} combined  {}", line(&found.figures()));
    }
    Ok(())
}

fn line(s: &Scored) -> String {
    format!(
        "{:.1} / {:.1} / {:.1} / {}",
        s.hota, s.mota, s.idf1, s.switches
    )
}
