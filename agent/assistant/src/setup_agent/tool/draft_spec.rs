//! The specification of a pipeline that a draft and rules make.

use serde_json::Value;
use watchkeeper_contract::id::{PipelineId, SourceId};
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::rule::RuleSpec;

/// The specification of a new pipeline.
pub(super) fn spec(
    id: PipelineId,
    source: SourceId,
    workflow: &Value,
    rules: Vec<RuleSpec>,
) -> PipelineSpec {
    PipelineSpec {
        rules: Some(rules),
        ..PipelineSpec::new(id, source, workflow.clone())
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
