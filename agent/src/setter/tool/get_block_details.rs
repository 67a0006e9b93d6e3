//! One block in full: the properties of a step, with what they take, and its outputs.

use futures_util::FutureExt as _;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Effect, Given, Outcome, Scope, Tool, by_tools, schema, text};

/// The tool.
pub(super) const TOOL: Tool = Tool {
    name: "get_block_details",
    about: "One block in full: the JSON Schema of its step and the kinds of its outputs. Ask before you use a block that is not in the example.",
    schema: || {
        schema(
            &json!({"type": text("such as roboflow_core/time_in_zone@v3")}),
            &["type"],
        )
    },
    effect: Effect::Read,
    scope: Scope::Catalogue,
    per_turn: 12,
    run: |given| async move { details(given).await.into() }.boxed(),
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    r#type: String,
}

async fn details(given: Given<'_>) -> Result<Outcome, String> {
    let arguments: Arguments = given.arguments()?;
    let block = given.hands.client.block(&arguments.r#type).await;
    let block = block.map_err(|e| by_tools(&e.in_full()))?;
    Ok(Outcome::json(&json!({
        "type": block.summary.r#type, "summary": block.summary.summary,
        "selector": "where a property lists kinds under `selector`, \"$inputs.NAME\" or \"$steps.NAME.OUTPUT\" of one of them fits; only the former where it says so",
        "properties": block.schema.get("properties").map(in_short), "required": block.schema.get("required"), "outputs": block.outputs,
    })))
}

/// A schema without what it says again for each selector: the pattern that all of them have.
fn in_short(schema: &Value) -> Value {
    match schema {
        Value::Object(members) => {
            let kinds = members.get("kinds").filter(|kinds| kinds.is_array());
            let pattern = members.get("pattern").and_then(Value::as_str);
            let (Some(kinds), Some(pattern)) = (kinds, pattern) else {
                let short = members.iter().map(|(k, v)| (k.clone(), in_short(v)));
                return short.collect::<Map<_, _>>().into();
            };
            let said_once = ["kinds", "pattern", "type"];
            let mut short: Map<String, Value> = members.clone();
            short.retain(|name, _| !said_once.contains(&name.as_str()));
            short.insert("selector".to_owned(), kinds.clone());
            if !pattern.contains("steps") {
                short.insert("only".to_owned(), json!("$inputs.NAME"));
            }
            short.into()
        }
        Value::Array(items) => items.iter().map(in_short).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_is_said_in_few_words_and_everything_else_stays() {
        let any = r"^\$(inputs\.[A-Za-z_0-9-]+|steps\.[A-Za-z_0-9-]+\.[A-Za-z_0-9-]+)$";
        let schema = json!({
            "image": {"description": "the frame", "kinds": ["image"], "pattern": r"^\$inputs\.[A-Za-z_0-9-]+$", "type": "string"},
            "kinds": {"type": "array", "minItems": 1},
            "code": {"type": "string", "pattern": "^[a-z]+$"},
            "zone": {"anyOf": [{"type": "array"}, {"kinds": ["list_of_values"], "pattern": any, "type": "string"}], "default": []},
        });
        let short = json!({
            "image": {"description": "the frame", "selector": ["image"], "only": "$inputs.NAME"},
            "kinds": {"type": "array", "minItems": 1},
            "code": {"type": "string", "pattern": "^[a-z]+$"},
            "zone": {"anyOf": [{"type": "array"}, {"selector": ["list_of_values"]}], "default": []},
        });
        assert_eq!(in_short(&schema), short);
    }
}
