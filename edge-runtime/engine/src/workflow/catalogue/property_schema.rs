//! The forms in which a property is accepted, read from its JSON Schema.
//!
//! The command line and docs/ref/blocks.md describe properties with it.

use serde_json::Value as Json;

/// One form in which a property is accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AcceptedForm {
    /// A selector of one of these kinds.
    Selector(Vec<String>),
    /// One of these values, written as JSON.
    OneOf(Vec<String>),
    /// A literal, as type and bounds: `number 0 to 1`.
    Literal(String),
}

/// Returns the accepted forms of the property with this schema, in the schema's order.
pub fn accepted_forms(schema: &Json) -> Vec<AcceptedForm> {
    match schema["anyOf"].as_array() {
        Some(any) => any.iter().filter_map(form_of).collect(),
        None => form_of(schema).into_iter().collect(),
    }
}

fn form_of(schema: &Json) -> Option<AcceptedForm> {
    if let Some(kinds) = schema["kinds"].as_array() {
        let kinds = kinds.iter().filter_map(Json::as_str);
        return Some(AcceptedForm::Selector(kinds.map(str::to_owned).collect()));
    }
    if let Some(choices) = schema["enum"].as_array() {
        return Some(AcceptedForm::OneOf(
            choices.iter().map(ToString::to_string).collect(),
        ));
    }
    let r#type = schema["type"].as_str()?;
    let bound = |key: &str| schema[key].as_f64();
    let range = match (bound("minimum"), bound("maximum")) {
        _ if bound("exclusiveMinimum").is_some() => " above 0".to_owned(),
        (Some(low), Some(high)) => format!(" {low} to {high}"),
        (Some(low), None) => format!(" from {low}"),
        (None, Some(high)) => format!(" up to {high}"),
        (None, None) => String::new(),
    };
    let format = schema["format"].as_str().map(|f| format!(" ({f})"));
    Some(AcceptedForm::Literal(format!(
        "{type}{range}{}",
        format.unwrap_or_default()
    )))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::workflow::catalogue;
    use crate::workflow::details;

    #[test]
    fn schemas_map_to_bounds_values_and_selectors() {
        let schema = json!({"anyOf": [{"type": "number", "minimum": 0, "maximum": 1}, {"kinds": ["float"], "type": "string"}, {"enum": ["a", null]}]});
        let forms = [
            AcceptedForm::Literal("number 0 to 1".to_owned()),
            AcceptedForm::Selector(vec!["float".to_owned()]),
            AcceptedForm::OneOf(vec!["\"a\"".to_owned(), "null".to_owned()]),
        ];
        assert_eq!(accepted_forms(&schema), forms);
    }

    #[test]
    fn every_property_has_an_accepted_form() {
        for block in catalogue() {
            let details = details(&block.r#type).unwrap();
            for (name, schema) in details.schema["properties"].as_object().unwrap() {
                assert!(
                    !accepted_forms(schema).is_empty(),
                    "{} of {}: {schema}",
                    name,
                    block.r#type
                );
            }
        }
    }
}
