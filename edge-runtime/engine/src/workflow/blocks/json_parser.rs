//! Extracts fields of a JSON document in text.

use crate::workflow::block_api::manifest::names;
use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::llm_json;

const FIELDS: &str = "expected_fields";

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/json_parser@v1",
    summary: "Extracts fields of a JSON document written by a language model, one output each.",
    properties: &[
        Property::value("raw_json", Shape::Text)
            .about("text with a JSON document")
            .kinds(&[Kind::LanguageModelOutput]),
        Property::literal(FIELDS, Shape::Texts(0)).about("names of the fields; each is an output"),
    ],
    outputs: &[
        Output::new("error_status", &[Kind::Boolean]),
        Output::new("*", &[Kind::Any]),
    ],
    own_outputs: |literals| {
        names(literals, FIELDS)
            .into_iter()
            .map(|name| StepOutput::new(name, &[Kind::Any]))
            .collect()
    },
    build,
    ..Manifest::of("formatter")
}];

fn build(setup: &Setup<'_>) -> Result<Box<dyn Instance>, String> {
    let fields: Vec<String> = names(setup.literals, FIELDS)
        .into_iter()
        .map(str::to_owned)
        .collect();
    if fields.iter().any(|f| f == "error_status") {
        return Err(format!(
            "{FIELDS} has error_status, which is an output of every parser"
        ));
    }
    Ok(Box::new(move |call: &mut Call<'_>| run(call, &fields)))
}

fn run(call: &mut Call<'_>, fields: &[String]) -> Result<(), String> {
    let text = llm_json::fenced(call.text(arg!("raw_json"))?);
    let document: Json = serde_json::from_str(text).unwrap_or_default();
    let mut missing = !document.is_object();
    for (i, field) in (1..).zip(fields) {
        match document.get(field) {
            Some(value) => call.put(i, Value::from(value.clone())),
            None => missing = true,
        }
    }
    call.finish(missing)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::tests::bench::Bench;
    use super::{Json, Kind};

    fn parsed(text: &str) -> Json {
        let step = json!({
            "type": "roboflow_core/json_parser@v1", "raw_json": "$inputs.text", "expected_fields": ["a", "b"]
        });
        let mut bench = Bench::new(step, &[("text", Kind::LanguageModelOutput)]);
        bench.feed(&[("text", text.into())]).unwrap()
    }

    #[test]
    fn fields_become_outputs_and_a_missing_one_is_reported() {
        let all = json!({"error_status": false, "a": [1, 2], "b": "x"});
        assert_eq!(parsed(r#"{"a": [1, 2], "b": "x", "c": 3}"#), all);
        assert_eq!(
            parsed("Sure:\n```JSON\n{\"a\": [1, 2], \"b\": \"x\"}\n```"),
            all
        );
        let part = json!({"error_status": true, "a": 1, "b": null});
        assert_eq!(parsed(r#"{"a": 1}"#), part);
        let none = json!({"error_status": true, "a": null, "b": null});
        for text in ["", "[1]", "no", "{"] {
            assert_eq!(parsed(text), none, "{text}");
        }
    }
}
