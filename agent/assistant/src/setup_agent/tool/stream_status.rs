//! One pipeline: its state, its results now and in the last hours, and its definition.

use futures_util::FutureExt as _;
use serde::Deserialize;
use serde_json::{Value, json};
use watchkeeper_contract::backtest::{Backtest, BacktestReport, MAX_BACKTEST_HOURS};
use watchkeeper_contract::pipeline::PipelineSpec;

use super::super::tool_context::ToolContext;
use super::definition::{Tool, ToolInput, ToolOutcome, schema, text};
use super::dry_run_workflow::past_event;
use crate::permissions::Effect;
use crate::proposal::counts::format_counts;
use crate::redact;
use crate::wording::{cut, local_time};

/// Longest text of one output, in characters.
const MAX_OUTPUT_CHARS: usize = 200;
/// Maximum outputs in the result.
const MAX_OUTPUTS: usize = 20;
/// Maximum past events in the result.
const MAX_PAST_EVENTS: usize = 10;

pub(super) const TOOL: Tool = Tool {
    name: "stream_status",
    description: "The details of one pipeline: state, warnings, counts, latest outputs in short, \
        rules, when it ends by itself; with `past_hours` its results in these hours, by the hour; \
        with `definition` its workflow (to change it: validate a changed copy and propose it under \
        the same name; leave a secret as ***).",
    schema: || {
        let properties = json!({
            "pipeline": text("name of the pipeline"),
            "definition": {"type": "boolean", "description": "whether to include the workflow"},
            "past_hours": {"type": "number", "description": "at most 24; leave out: only now"},
        });
        schema(&properties, &["pipeline", "definition"])
    },
    effect: Effect::Read,
    max_uses: 10,
    run: |given| async move { status(given).await.into() }.boxed(),
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    pipeline: String,
    #[serde(default)]
    definition: bool,
    #[serde(default)]
    past_hours: f64,
}

async fn status(given: ToolInput<'_>) -> Result<ToolOutcome, String> {
    let arguments: Arguments = given.arguments()?;
    let here = given.context.snapshot().await?;
    let id = ToolContext::pipeline(&arguments.pipeline, &here)?;
    let Some(status) = here.pipeline(id.as_str()) else {
        return Err("the pipeline was removed".to_owned());
    };
    let outputs = status.results.outputs.as_object().into_iter().flatten();
    let outputs: Value = outputs
        .take(MAX_OUTPUTS)
        .map(|(name, value)| (name.clone(), shorten(value)))
        .collect();
    let mut answer = json!({
        "pipeline": id, "camera": status.spec.source, "state": status.state,
        "detector": status.detector,
        "note": status.note,
        "warnings": status.warnings.iter().map(|w| &w.message).collect::<Vec<_>>(),
        "counts": format_counts(status, &here.sources), "frames": status.results.frames, "tracks": status.results.tracks,
        "events": status.results.events, "too_weak": status.results.discarded,
        "failing_steps": status.results.step_errors, "latest_outputs": outputs,
        "rules": status.spec.rules,
    });
    if let Some(seconds) = status.spec.stop_after_s {
        answer["stop_after_s"] = seconds.into();
        answer["left_s"] = status.results.left_s.map(f64::round).into();
    }
    if arguments.past_hours > 0.0 {
        answer["past"] = past_results(given, &status.spec, arguments.past_hours).await?;
    }
    if arguments.definition {
        // Secrets in the specification are only for the runtime.
        let mut spec = redact::spec(&status.spec);
        answer["workflow"] = spec["workflow"].take();
        if !status.spec.parameters.is_empty() {
            answer["parameters"] = spec["parameters"].take();
        }
    }
    Ok(ToolOutcome::json(&answer))
}

/// The results of a pipeline in the last hours: its detections, replayed with its present rules.
async fn past_results(
    given: ToolInput<'_>,
    spec: &PipelineSpec,
    hours: f64,
) -> Result<Value, String> {
    let wanted = Backtest {
        pipeline: spec.clone(),
        hours: hours.min(MAX_BACKTEST_HOURS),
        pictures: false,
    };
    let report = given.context.client.backtest(&wanted).await;
    Ok(past_to_json(&report.map_err(|e| e.in_full())?))
}

fn past_to_json(report: &BacktestReport) -> Value {
    if let Some(why) = &report.not_replayed {
        return json!({"unknown": why});
    }
    let rules = report.rules.iter().map(|rule| {
        let hours = rule.by_hour.iter();
        let hours: Vec<Value> = hours.map(|(at, n)| json!([local_time(*at), n])).collect();
        json!({
            "rule": rule.name, "events": rule.events, "by_class": rule.by_class, "by_hour": hours,
        })
    });
    let latest = report.events.iter().rev().take(MAX_PAST_EVENTS);
    json!({
        "about_this": "what its detector saw in this time, replayed with its present rules; the \
            events that people were told of are in query_events",
        "from": local_time(report.from_ms), "to": local_time(report.to_ms),
        "covered_s": report.covered_s.round(), "tracks": report.results.tracks,
        "lines": report.results.lines, "zones": report.results.zones,
        "rules": rules.collect::<Vec<_>>(), "limits": report.limits,
        "latest_events": latest.map(past_event).collect::<Vec<_>>(),
    })
}

/// Shortens a value: detections to their number and classes.
fn shorten(value: &Value) -> Value {
    if let Some(found) = value.get("predictions").and_then(Value::as_array) {
        let classes: std::collections::BTreeSet<&str> = found
            .iter()
            .filter_map(|d| d.get("class")?.as_str())
            .collect();
        return json!({"detections": found.len(), "classes": classes});
    }
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        other => Value::from(cut(other.to_string(), MAX_OUTPUT_CHARS)),
    }
}

#[cfg(test)]
mod tests {
    use watchkeeper_contract::backtest::RuleBacktest;

    use super::*;

    #[test]
    fn past_results_are_by_hour_or_say_why_not() {
        let none = BacktestReport {
            not_replayed: Some("there is no history".to_owned()),
            ..BacktestReport::default()
        };
        assert_eq!(
            past_to_json(&none),
            json!({"unknown": "there is no history"})
        );
        let rule = RuleBacktest {
            name: "in".to_owned(),
            events: 3,
            by_class: [("car".to_owned(), 3)].into(),
            by_hour: [(0, 1), (3_600_000, 2)].into(),
            ..RuleBacktest::default()
        };
        let answer = past_to_json(&BacktestReport {
            covered_s: 7_100.4,
            rules: vec![rule],
            ..BacktestReport::default()
        });
        assert_eq!(answer["covered_s"], 7_100.0);
        let rule = &answer["rules"][0];
        assert_eq!(
            (&rule["events"], &rule["by_class"]["car"]),
            (&json!(3), &json!(3))
        );
        assert_eq!(rule["by_hour"].as_array().map(Vec::len), Some(2));
        assert_eq!(rule["by_hour"][1][1], 2);
    }

    #[test]
    fn detections_and_long_values_are_shortened() {
        let found = json!({"predictions": [{"class": "car"}, {"class": "car"}, {"class": "bus"}]});
        assert_eq!(
            shorten(&found),
            json!({"detections": 3, "classes": ["bus", "car"]})
        );
        assert_eq!(shorten(&json!(3)), json!(3));
        let long = shorten(&json!("x".repeat(500)));
        assert!(
            long.as_str()
                .is_some_and(|t| t.len() < 210 && t.ends_with('…'))
        );
    }
}
