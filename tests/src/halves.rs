//! Backtest against later truth: the first half of a recording predicts the second.
//!
//! - The first box only watches the first half; the backtest replays that.
//! - The second box watches the whole recording with the rules; its events of the second half are
//!   the truth. It is another box, because the time of a source continues when a recording starts
//!   again.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use crate::daemons::{Bench, wait_up_to};
use crate::scene::LONG;

/// Source of the pipelines.
pub const SOURCE: &str = "road";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RuleEvents {
    /// In the first half, by the backtest.
    pub predicted: u64,
    /// In the second half, as reported.
    pub reported: u64,
}

/// Events by rule of the pipeline `spec`, whose source is [`SOURCE`], on two halves of the
/// recording `clip`, each `half_s` seconds long.
///
/// # Errors
/// If the runtime refuses the pipeline, or the backtest replays another part.
pub fn compare(
    clip: &Path,
    spec: &Value,
    half_s: f64,
) -> anyhow::Result<BTreeMap<String, RuleEvents>> {
    let config = format!("[sources.{SOURCE}]\nuri = {clip:?}\n");
    let bench = Bench::new(&config)?;
    let runtime = bench.runtime()?;
    let mut first = spec.clone();
    first["rules"] = json!([]);
    first["stop_after_s"] = json!(half_s);
    watch_to_the_end(&bench, &first)?;
    let report = backtest(&bench, spec)?;
    let replayed_s = report["results"]["source_s"].as_f64().unwrap_or_default();
    ensure!((replayed_s - half_s).abs() < 1.0, "{report:#}");
    runtime.stop()?;
    let later = Bench::new(&config)?;
    let _runtime = later.runtime()?;
    watch_to_the_end(&later, spec)?;
    let mut all: BTreeMap<String, RuleEvents> = BTreeMap::new();
    for (rule, predicted) in by_rule(&report) {
        all.entry(rule).or_default().predicted = predicted;
    }
    for event in later.events()? {
        let body = &event["body"];
        if event["phase"] == "new" && body["pts_s"].as_f64() > Some(half_s) {
            let rule = body["rule"].as_str().context("a rule")?;
            all.entry(rule.to_owned()).or_default().reported += 1;
        }
    }
    Ok(all)
}

/// Replays a pipeline on the last hour.
///
/// # Errors
/// If the runtime refuses it.
pub fn backtest(bench: &Bench, pipeline: &Value) -> anyhow::Result<Value> {
    let wanted = json!({"pipeline": pipeline, "hours": 1});
    bench.json("POST", "/v1/workflows/backtest", Some(&wanted))
}

/// Events of a backtest by rule.
pub fn by_rule(report: &Value) -> BTreeMap<String, u64> {
    let rules = report["rules"].as_array().into_iter().flatten();
    let one = |rule: &Value| Some((rule["name"].as_str()?.to_owned(), rule["events"].as_u64()?));
    rules.filter_map(one).collect()
}

/// Watches a recording to its end, or that of the pipeline.
fn watch_to_the_end(bench: &Bench, spec: &Value) -> anyhow::Result<()> {
    bench.json("POST", "/v1/pipelines", Some(spec))?;
    let path = format!("/v1/pipelines/{}", spec["id"].as_str().unwrap_or_default());
    wait_up_to(10 * LONG, "the end of the recording", || {
        let state = bench.get(&path).ok()?["state"].to_string();
        state.contains("ended").then_some(())
    })
}
