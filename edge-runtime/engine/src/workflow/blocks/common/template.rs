//! Text templates: `{{ $parameters.name }}` is replaced by a parameter of the step.
//!
//! - Inserted text is not expanded again.
//! - A placeholder of an unknown parameter stays.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use crate::workflow::block_api::block::IdCounter;
use crate::workflow::block_api::prelude::*;
use crate::workflow::uql::{Chain, apply_alone};

static HOLE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\{\{\s*\$parameters\.(\w+)\s*\}\}").expect("a valid pattern"));

/// Fills the placeholders of `text`; `show` formats each parameter after its operations.
///
/// # Errors
/// If an operation does not fit its value.
pub(crate) fn fill_with(
    text: &str,
    parameters: &Value,
    operations: &BTreeMap<String, Chain>,
    ids: &IdCounter,
    mut show: impl FnMut(&str, &Value) -> Result<String, String>,
) -> Result<String, String> {
    let mut values: BTreeMap<&str, String> = BTreeMap::new();
    for hole in HOLE.captures_iter(text) {
        let Some(name) = hole.get(1).map(|m| m.as_str()) else {
            continue;
        };
        let Some(value) = parameters.get(name).filter(|_| !values.contains_key(name)) else {
            continue;
        };
        let value = match operations.get(name) {
            Some(chain) => apply_alone(chain, value.clone(), ids)?,
            None => value.clone(),
        };
        values.insert(name, show(name, &value)?);
    }
    let filled = HOLE.replace_all(text, |hole: &Captures<'_>| {
        let name = hole.get(1).map_or("", |m| m.as_str());
        let whole = hole.get(0).map_or("", |m| m.as_str());
        values.get(name).map_or(whole, String::as_str).to_owned()
    });
    Ok(filled.into_owned())
}

/// Fills the placeholders of `text` with plain text.
///
/// # Errors
/// If an operation does not fit its value.
pub(crate) fn fill(
    text: &str,
    parameters: &Value,
    operations: &BTreeMap<String, Chain>,
    ids: &IdCounter,
) -> Result<String, String> {
    fill_with(text, parameters, operations, ids, |_, value| {
        Ok(value.python_str())
    })
}

/// Cuts text to a number of characters and marks the cut.
pub(crate) fn cut(text: String, most: usize) -> String {
    const MARK: &str = " [...]";
    if text.chars().count() <= most {
        return text;
    }
    let head: String = text.chars().take(most.saturating_sub(MARK.len())).collect();
    head + MARK
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failing test may panic")]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::{IdCounter, Value, cut, fill};
    use crate::workflow::uql::Chain;

    fn filled(text: &str) -> String {
        let chain = |json| serde_json::from_value::<Chain>(json).unwrap();
        let operations = BTreeMap::from([(
            "names".to_owned(),
            chain(json!([{"type": "SequenceLength"}])),
        )]);
        let parameters = json!({"names": ["a", "b"], "what": "{{ $parameters.names }}"});
        fill(
            text,
            &Value::from(parameters),
            &operations,
            &IdCounter::default(),
        )
        .unwrap()
    }

    #[test]
    fn placeholders_are_filled_once() {
        assert_eq!(
            filled("{{ $parameters.names }} of {{$parameters.what}}, {{$parameters.names}}"),
            "2 of {{ $parameters.names }}, 2"
        );
    }

    #[test]
    fn unknown_placeholder_stays() {
        assert_eq!(
            filled("{{ $parameters.x }} {{ names }}"),
            "{{ $parameters.x }} {{ names }}"
        );
    }

    #[test]
    fn long_text_is_cut_with_a_mark() {
        assert_eq!(cut("0123456789".to_owned(), 10), "0123456789");
        assert_eq!(cut("0123456789a".to_owned(), 10), "0123 [...]");
        assert_eq!(cut("0123456789".to_owned(), 2), " [...]");
    }
}
