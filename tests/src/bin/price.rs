//! Prints the price in a proposal, and the metered values of the watch.
//!
//!     price [--uri URI] [--fps N] [--seconds S] [--models DIR] [--second] [--beside URI]
//!         [--opinions] [REQUEST]
//!
//! Starts a box of its own with the camera `street` at URI, a file or an address (default: the
//! built-in street). The watch runs for some seconds, is proposed again and is metered for as long.
//! With `--second` a watch on `motion` already runs on the camera. With `--beside` the same
//! workflow without rules runs on another camera, on its own session: decoding is unknown then.
//! With `--opinions` a scripted language model gives second opinions. See `docs/ref/price.md`.

#![allow(clippy::print_stdout, reason = "a command's output")]

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::Parser;
use serde_json::{Value, json};
use watchkeeper_tests::daemons::Bench;
use watchkeeper_tests::person::ask_json;
use watchkeeper_tests::price::{PricedWatch, meter};
use watchkeeper_tests::scene::{STREET, door_workflow};
use watchkeeper_tests::scripted_model::{ScriptedModel, says};

/// Compares the price of a watch with what it takes.
#[derive(Debug, Parser)]
struct Args {
    /// Camera or file.
    #[arg(long, default_value = STREET)]
    uri: String,
    /// Most frames of the camera a second.
    #[arg(long)]
    fps: Option<f64>,
    /// Another watch runs on the camera already.
    #[arg(long)]
    second: bool,
    /// Another camera or file, on which the workflow runs without rules.
    #[arg(long, conflicts_with = "second")]
    beside: Option<String>,
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
    let max_fps = args.fps.map(|fps| format!("max_fps = {fps}\n"));
    config.extend(max_fps.clone());
    if let Some(uri) = &args.beside {
        config.push_str(&format!(
            "[sources.beside]\nuri = {uri:?}\npace = \"native\"\n"
        ));
        config.extend(max_fps);
    }
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
    if args.second {
        bench.json("POST", "/v1/pipelines", Some(&another_watch()))?;
    }
    if args.beside.is_some() {
        bench.json(
            "POST",
            "/v1/pipelines",
            Some(&watch_beside(&bench, &args.request)?),
        )?;
    }
    let is_second = args.second || args.beside.is_some();
    let watch = meter(&bench, &runtime, &args.request, time, is_second)?;
    print(&watch);
    Ok(())
}

/// A pipeline that follows what moves, without rules.
fn another_watch() -> Value {
    let mut workflow = door_workflow();
    if let Some(steps) = workflow["steps"].as_array_mut() {
        steps.truncate(2);
    }
    workflow["outputs"] = json!([]);
    json!({"id": "another", "source": "street", "workflow": workflow, "rules": []})
}

/// The pipeline of `request` on the camera `beside`, without rules.
fn watch_beside(bench: &Bench, request: &str) -> anyhow::Result<Value> {
    let (_, objects, errors) = ask_json(bench, &[request])?;
    let mut spec = objects.first().context(errors)?["changes"][0]["spec"].clone();
    spec["id"] = json!("beside");
    spec["source"] = json!("beside");
    spec["rules"] = json!([]);
    Ok(spec)
}

fn print(watch: &PricedWatch) {
    println!(
        "{:28} {:>30} {:>12} {:>8}",
        "", "predicted", "metered", "ratio"
    );
    for line in &watch.lines {
        let (predicted, metered) = (line.predicted, line.metered);
        let is_held = predicted.low * 0.8 <= metered && metered <= predicted.high * 1.2;
        println!(
            "{:28} {:>30} {metered:>12.5} {:>8.2} {}",
            line.what,
            predicted.text(|number| format!("{number:.5}")),
            predicted.likely / metered,
            if is_held { "held" } else { "MISSED" }
        );
    }
    let shares = watch.price.shares;
    println!("in the trial: {shares:?}");
    let [pipeline, others, events] = watch.metered;
    println!(
        "metered: pipeline {pipeline:.4}, decoding and others {others:.4}, events {events:.4}"
    );
    println!("stages, ms a frame: {}", watch.results["stages_ms"]);
    println!("{}", watch.price.sentence());
}
