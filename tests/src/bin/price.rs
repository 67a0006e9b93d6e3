//! Prints what a proposal says that a watch takes, beside what the watch took.
//!
//!     price [URI] [REQUEST]
//!
//! Starts a box of its own with the camera `street` at URI, a file or an address (default: the
//! built-in street), confirms the request and meters it for a minute. Before it, a watch makes
//! events for a minute, with clips if the request asks for some. See `docs/design/backtest.md`.

#![allow(clippy::print_stdout, reason = "a command's output")]

use std::time::Duration;

use serde_json::json;
use watchkeeper_tests::daemons::Bench;
use watchkeeper_tests::price::meter;
use watchkeeper_tests::scene::{STREET, TRACKED, door_workflow};

/// Time for which events are made before, and for which the watch is metered.
const TIME: Duration = Duration::from_secs(60);

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
    let mut rule = json!({"name": "somebody", "when": {"kind": "appears", "detections": TRACKED}});
    if request.contains("clip") {
        rule["clip"] = json!({"before_s": 5, "after_s": 10});
    }
    let earlier = json!({
        "id": "earlier", "source": "street", "workflow": door_workflow(), "rules": [rule],
    });
    let watch = meter(&bench, &runtime, &earlier, &request, TIME)?;
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
    for (what, [pipeline, others, events], rate) in [
        ("predicted", watch.predicted, watch.rates[0]),
        ("metered", watch.metered, watch.rates[1]),
    ] {
        println!(
            "{what}: pipeline {pipeline:.4}, decoding and others {others:.4}, events {events:.4} \
             ({rate:.2} a second)"
        );
    }
    println!("stages, ms a frame: {}", watch.results["stages_ms"]);
    for (what, why) in watch.price["unknown"].as_object().into_iter().flatten() {
        println!("{what} a day or month is unknown: {why}");
    }
    Ok(())
}
