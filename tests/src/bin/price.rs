//! Prints what a proposal says that a watch takes, beside what the watch took.
//!
//!     price [URI] [REQUEST]
//!
//! Starts a box of its own with the camera `street` at URI, a file or an address (default: the
//! built-in street), confirms the request and meters it. See `docs/design/backtest.md`.

#![allow(clippy::print_stdout, reason = "a command's output")]

use serde_json::json;
use watchkeeper_tests::daemons::Bench;
use watchkeeper_tests::price::meter;
use watchkeeper_tests::scene::{STREET, TRACKED, door_workflow};

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let uri = arguments.next().unwrap_or_else(|| STREET.to_owned());
    let request = arguments
        .next()
        .unwrap_or_else(|| "tell me each time something moves on the street camera".to_owned());
    let bench = Bench::new(&format!(
        "[sources.street]\nuri = {uri:?}\npace = \"native\"\n"
    ))?;
    let runtime = bench.runtime()?;
    let rule = json!({"name": "somebody", "when": {"kind": "appears", "detections": TRACKED}});
    let earlier = json!({
        "id": "earlier", "source": "street", "workflow": door_workflow(), "rules": [rule],
    });
    let watch = meter(&bench, &runtime, &earlier, &request)?;
    println!(
        "{:28} {:>12} {:>12} {:>8}",
        "", "predicted", "metered", "ratio"
    );
    for line in &watch.lines {
        let (told, metered) = (line.predicted, line.metered);
        println!(
            "{:28} {told:>12.4} {metered:>12.4} {:>8.2}",
            line.what,
            told / metered
        );
    }
    let [pipeline, others] = watch.metered;
    println!("metered pieces: pipeline {pipeline:.4}, decoding, events and others {others:.4}");
    println!("predicted pieces: others {}", watch.price["others_share"]);
    println!("stages, ms a frame: {}", watch.results["stages_ms"]);
    for (what, why) in watch.price["unknown"].as_object().into_iter().flatten() {
        println!("{what} a day or month is unknown: {why}");
    }
    Ok(())
}
