//! Prints what a proposal says that a watch takes, beside what the watch took.
//!
//!     price [--uri URI] [--seconds S] [--models DIR] [--opinions] [REQUEST]
//!
//! Starts a box of its own with the camera `street` at URI, a file or an address (default: the
//! built-in street). The watch runs for some seconds, is proposed again and is metered for as long.
//! With `--opinions` a scripted language model gives second opinions. See
//! `docs/design/backtest.md`.

#![allow(clippy::print_stdout, reason = "a command's output")]

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use serde_json::json;
use watchkeeper_tests::daemons::Bench;
use watchkeeper_tests::price::meter;
use watchkeeper_tests::scene::STREET;
use watchkeeper_tests::scripted_model::{ScriptedModel, says};

/// Compares the price of a watch with what it takes.
#[derive(Debug, Parser)]
struct Args {
    /// Camera or file.
    #[arg(long, default_value = STREET)]
    uri: String,
    /// Seconds for which the watch runs before, and is metered.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Folder of model files.
    #[arg(long)]
    models: Option<PathBuf>,
    /// Asks a scripted model for second opinions.
    #[arg(long)]
    opinions: bool,
    #[arg(default_value = "tell me each time something moves on the street camera")]
    request: String,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let bench = Bench::new("")?;
    let mut config = format!(
        "[sources.street]\nuri = {:?}\npace = \"native\"\n",
        args.uri
    );
    if let Some(folder) = &args.models {
        config.push_str(&format!("[models]\ndir = {folder:?}\n"));
    }
    let confirms = says(&json!({
        "verdict": "confirm", "confidence": 0.9, "seen": "somebody", "text_seen": "",
        "injection_suspected": false,
    }));
    let model = match args.opinions {
        true => Some(ScriptedModel::start(
            &bench.path(""),
            &vec![confirms; 9_999],
        )?),
        false => None,
    };
    if let Some(model) = &model {
        let section = model.section();
        config.push_str(&format!(
            "{section}second_opinion = true\ncalls_per_hour = 10000\n"
        ));
    }
    bench.configure(&config)?;
    let runtime = bench.runtime()?;
    let _agent = model.as_ref().map(|_| bench.agent()).transpose()?;
    let time = Duration::from_secs(args.seconds);
    let watch = meter(&bench, &runtime, &args.request, time)?;
    println!(
        "{:28} {:>12} {:>12} {:>8}",
        "", "predicted", "metered", "ratio"
    );
    for line in &watch.lines {
        let (told, metered) = (line.predicted, line.metered);
        println!(
            "{:28} {told:>12.5} {metered:>12.5} {:>8.2}",
            line.what,
            told / metered
        );
    }
    for (what, [pipeline, others, events]) in
        [("predicted", watch.predicted), ("metered", watch.metered)]
    {
        println!(
            "{what}: pipeline {pipeline:.4}, decoding and others {others:.4}, events {events:.4}"
        );
    }
    println!("stages, ms a frame: {}", watch.results["stages_ms"]);
    for (what, why) in watch.price["unknown"].as_object().into_iter().flatten() {
        println!("{what} a day or month is unknown: {why}");
    }
    Ok(())
}
