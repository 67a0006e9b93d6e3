//! One pipeline: its state, its results and its definition.

use futures_util::FutureExt as _;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::tool_context::ToolContext;
use super::definition::{Tool, ToolInput, ToolOutcome, schema, text};
use crate::permissions::{Effect, ToolScope};
use crate::proposal::counts::format_counts;
use crate::redact;
use crate::wording::cut;

/// Longest text of one output, in characters.
const MAX_OUTPUT_CHARS: usize = 200;
/// Maximum outputs in the result.
const MAX_OUTPUTS: usize = 20;

pub(super) const TOOL: Tool = Tool {
    name: "stream_status",
    description: "The details of one pipeline: state, warnings, counts, latest outputs in short, \
        rules, when it ends by itself, and with `definition` its workflow (to change it: validate \
        a changed copy and propose it under the same name; leave a secret as ***).",
    schema: || {
        let properties = json!({
            "pipeline": text("name of the pipeline"),
            "definition": {"type": "boolean", "description": "whether to include the workflow"},
        });
        schema(&properties, &["pipeline", "definition"])
    },
    effect: Effect::Read,
    scope: ToolScope::Pipelines,
    max_uses: 10,
    run: |given| async move { status(given).await.into() }.boxed(),
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    pipeline: String,
    #[serde(default)]
    definition: bool,
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
    let mut told = json!({
        "pipeline": id, "camera": status.spec.source, "state": status.state,
        "detector": status.detector,
        "note": status.note,
        "warnings": status.warnings.iter().map(|w| &w.message).collect::<Vec<_>>(),
        "counts": format_counts(status), "frames": status.results.frames, "tracks": status.results.tracks,
        "events": status.results.events, "too_weak": status.results.discarded,
        "failing_steps": status.results.step_errors, "latest_outputs": outputs,
        "rules": status.spec.rules,
    });
    if let Some(seconds) = status.spec.stop_after_s {
        told["stop_after_s"] = seconds.into();
        told["left_s"] = status.results.left_s.map(f64::round).into();
    }
    if arguments.definition {
        // Secrets in the specification are only for the runtime.
        let mut spec = redact::spec(&status.spec);
        told["workflow"] = spec["workflow"].take();
        if !status.spec.parameters.is_empty() {
            told["parameters"] = spec["parameters"].take();
        }
    }
    Ok(ToolOutcome::json(&told))
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
    use super::*;

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
