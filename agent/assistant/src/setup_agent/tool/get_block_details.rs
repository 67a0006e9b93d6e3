//! The details of one block: the properties of its step and its outputs.

use futures_util::FutureExt as _;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use watchkeeper_engine::workflow::{models_of_block, operation_names};

use super::definition::{Tool, ToolInput, ToolOutcome, name_tools, schema, text};
use super::list_workflow_blocks::BlockModel;
use crate::permissions::Effect;

pub(super) const TOOL: Tool = Tool {
    name: "get_block_details",
    description: "The details of one block: the JSON Schema of its step and the kinds of its \
        outputs. Call it before you use a block that is not in the example.",
    schema: || {
        schema(
            &json!({"type": text("such as roboflow_core/time_in_zone@v3")}),
            &["type"],
        )
    },
    effect: Effect::Read,
    max_uses: 12,
    run: |given| async move { details(given).await.into() }.boxed(),
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    r#type: String,
}

async fn details(given: ToolInput<'_>) -> Result<ToolOutcome, String> {
    let arguments: Arguments = given.arguments()?;
    let block = given.context.client.block(&arguments.r#type).await;
    let block = block.map_err(|e| name_tools(&e.in_full()))?;
    let mut answer = json!({
        "type": block.summary.r#type, "summary": block.summary.summary,
        "selector": "where a property lists kinds under `selector`, \"$inputs.NAME\" or \
            \"$steps.NAME.OUTPUT\" of one of them fits; only the former where it says so",
        "properties": block.schema.get("properties").map(shorten),
        "required": block.schema.get("required"), "outputs": block.outputs,
    });
    let models = models_of_block(&block.summary.r#type);
    if !models.is_empty() {
        let here = given.context.snapshot().await?;
        answer["model"] = Value::from(match BlockModel::find(&models, &here) {
            BlockModel::Here(model) => format!("{model} is on this box"),
            BlockModel::Absent(why) => format!("it can't run here: {why}"),
        });
    }
    let schema = block.schema.to_string();
    if OPERATION_MARKS.iter().any(|what| schema.contains(what)) {
        answer["operations"] = describe_operations();
    }
    Ok(ToolOutcome::json(&answer))
}

/// Texts in the schema of a property that takes operations or conditions.
const OPERATION_MARKS: [&str; 2] = ["operations {", "StatementGroup"];

/// Operations and statements in short.
fn describe_operations() -> Value {
    let names = operation_names();
    json!({
        "an_operation": "{\"type\": NAME, …}; each takes the result of the previous one. The \
            error of an unknown name lists all names.",
        "keeps_persons_and_what_is_fast": example(),
        "properties_of_a_detection": names.detection_properties,
        "size_of_a_detection": "area of its box in square pixels",
        "comparators_of_a_BinaryStatement": names.comparators,
        "operators_of_a_UnaryStatement": names.operators,
        "a_UnaryStatement": "{\"type\": \"UnaryStatement\", \"operand\": {…}, \"operator\": \
            {\"type\": …}}",
        "to_negate": "\"negate\": true in the statement: not in a list is \"in (Sequence)\" \
            with it",
    })
}

/// An example of operations for a `detections_filter`.
fn example() -> Value {
    let is = |property: &str, comparator: &str, value: Value| {
        json!({
            "type": "BinaryStatement", "comparator": {"type": comparator},
            "right_operand": {"type": "StaticOperand", "value": value},
            "left_operand": {"type": "DynamicOperand",
            "operations": [{"type": "ExtractDetectionProperty", "property_name": property}]},
        })
    };
    let statements = [
        is("class_name", "in (Sequence)", json!(["person"])),
        is("speed", "(Number) >", json!(50)),
    ];
    json!([{"type": "DetectionsFilter", "filter_operation": {"type": "StatementGroup",
    "operator": "or", "statements": statements}}])
}

/// Shortens a schema: drops the pattern that all selectors share.
fn shorten(schema: &Value) -> Value {
    match schema {
        Value::Object(members) => {
            let kinds = members.get("kinds").filter(|kinds| kinds.is_array());
            let pattern = members.get("pattern").and_then(Value::as_str);
            let (Some(kinds), Some(pattern)) = (kinds, pattern) else {
                let short = members.iter().map(|(k, v)| (k.clone(), shorten(v)));
                return short.collect::<Map<_, _>>().into();
            };
            let repeated = ["kinds", "pattern", "type"];
            let mut short: Map<String, Value> = members.clone();
            short.retain(|name, _| !repeated.contains(&name.as_str()));
            short.insert("selector".to_owned(), kinds.clone());
            if !pattern.contains("steps") {
                short.insert("only".to_owned(), json!("$inputs.NAME"));
            }
            short.into()
        }
        Value::Array(items) => items.iter().map(shorten).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn example_and_every_listed_property_compile() {
        let valid = |operations: &Value| {
            let filter = json!({"type": "roboflow_core/detections_filter@v1", "name": "filter",
            "predictions": "$steps.detect.predictions", "operations": operations});
            let detect = json!({"type": "roboflow_core/roboflow_object_detection_model@v2",
            "name": "detect", "images": "$inputs.image", "model_id": "m/1"});
            let image = json!({"type": "WorkflowImage", "name": "image"});
            let definition = json!({"version": "1.0", "inputs": [image], "steps": [detect,
            filter], "outputs": []});
            let report = watchkeeper_engine::workflow::validate(&definition);
            assert!(report.ok, "{operations}: {:?}", report.errors);
            let details =
                watchkeeper_engine::workflow::details("roboflow_core/detections_filter@v1");
            let schema = details.map(|d| d.schema.to_string()).unwrap_or_default();
            assert!(OPERATION_MARKS.iter().any(|what| schema.contains(what)));
        };
        valid(&example());
        let negated = example()
            .to_string()
            .replace("\"comparator\"", "\"negate\":true,\"comparator\"");
        valid(&serde_json::from_str(&negated).expect("JSON"));
        for name in operation_names().detection_properties {
            let text = example()
                .to_string()
                .replace("\"speed\"", &json!(name).to_string());
            valid(&serde_json::from_str(&text).expect("JSON"));
        }
    }

    #[test]
    fn only_selectors_of_a_schema_are_shortened() {
        let any = r"^\$(inputs\.[A-Za-z_0-9-]+|steps\.[A-Za-z_0-9-]+\.[A-Za-z_0-9-]+)$";
        let schema = json!({
            "image": {"description": "the frame", "kinds": ["image"],
            "pattern": r"^\$inputs\.[A-Za-z_0-9-]+$", "type": "string"},
            "kinds": {"type": "array", "minItems": 1},
            "code": {"type": "string", "pattern": "^[a-z]+$"},
            "zone": {"anyOf": [{"type": "array"}, {"kinds": ["list_of_values"], "pattern": any,
            "type": "string"}], "default": []},
        });
        let short = json!({
            "image": {"description": "the frame", "selector": ["image"], "only": "$inputs.NAME"},
            "kinds": {"type": "array", "minItems": 1},
            "code": {"type": "string", "pattern": "^[a-z]+$"},
            "zone": {"anyOf": [{"type": "array"}, {"selector": ["list_of_values"]}], "default": []},
        });
        assert_eq!(shorten(&schema), short);
    }
}
