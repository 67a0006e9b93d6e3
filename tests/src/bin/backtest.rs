//! Compares what a backtest of the first half of a recording predicts with what is reported in the
//! second half.
//!
//!     backtest CLIP HALF_S SPEC
//!
//! SPEC is a file with a pipeline as JSON, whose source is `road`; models are found as by the
//! daemons. Prints the events of each rule. See `docs/design/backtest.md`.

#![allow(clippy::print_stdout, reason = "a command's output")]

use std::path::Path;

use anyhow::Context as _;
use watchkeeper_tests::halves::compare;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [clip, half_s, spec] = arguments.as_slice() else {
        anyhow::bail!("usage: backtest CLIP HALF_S SPEC");
    };
    let half_s = half_s.parse().context("HALF_S is no number of seconds")?;
    let spec = std::fs::read_to_string(spec).with_context(|| spec.clone())?;
    let spec = serde_json::from_str(&spec).context("SPEC is no JSON")?;
    println!("{:20} {:>10} {:>10}", "rule", "predicted", "reported");
    for (rule, events) in compare(Path::new(clip), &spec, half_s)? {
        println!("{rule:20} {:>10} {:>10}", events.predicted, events.reported);
    }
    Ok(())
}
