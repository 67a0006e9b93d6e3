//! The specification of a pipeline that a draft and rules make.

use std::collections::BTreeMap;

use serde_json::Value;
use watchkeeper_contract::id::{PipelineId, SourceId};
use watchkeeper_contract::pipeline::{DetectMode, PipelineSpec, Priority};
use watchkeeper_contract::rule::RuleSpec;

/// The specification of a new pipeline.
pub(super) fn spec(
    id: PipelineId,
    source: SourceId,
    workflow: &Value,
    rules: Vec<RuleSpec>,
) -> PipelineSpec {
    PipelineSpec {
        id,
        name: None,
        source,
        workflow: workflow.clone(),
        parameters: BTreeMap::new(),
        model: None,
        rules: Some(rules),
        detect: DetectMode::Always,
        target_fps: None,
        priority: Priority::Normal,
        record: false,
        show: false,
        stop_after_s: None,
        paused: false,
    }
}

/// Parses rules: JSON text, or the list from a model that ignores the schema.
pub(super) fn rules(given: Value) -> Result<Vec<RuleSpec>, String> {
    let read = match given {
        Value::String(text) => serde_json::from_str(&text),
        other => serde_json::from_value(other),
    };
    read.map_err(|e| format!("rules: {e}; give a list as in the instructions"))
}
