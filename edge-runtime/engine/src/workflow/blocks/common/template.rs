//! Text templates: `{{ $parameters.name }}` is replaced by a parameter of the step.
//!
//! - Inserted text is not expanded again.
//! - A placeholder of an unknown parameter stays.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use crate::workflow::block_api::prelude::*;
use crate::workflow::uql::{Chain, apply_alone};

static HOLE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\{\{\s*\$parameters\.(\w+)\s*\}\}").expect("a valid pattern"));

/// The text of a step, from its property `text`, `text_parameters` and
/// `text_parameters_operations`, or another name instead of `text`.
pub(crate) struct Template {
    text: &'static str,
    parameters: String,
    operations: BTreeMap<String, Chain>,
}

impl Template {
    /// Reads the operations of the template in property `text`. Fails if they do not parse.
    pub(crate) fn of(setup: &Setup<'_>, text: &'static str) -> Result<Self, String> {
        let parameters = format!("{text}_parameters");
        Ok(Self {
            operations: setup.parse(&format!("{parameters}_operations"))?,
            parameters,
            text,
        })
    }

    /// Fills the placeholders with plain text. Fails if an operation does not fit its value.
    pub(crate) fn fill(&self, call: &Call<'_>) -> Result<String, String> {
        self.fill_with(call, |_, value| Ok(value.python_str()))
    }

    /// Fills the placeholders; `show` formats each parameter after its operations. Fails if an
    /// operation does not fit its value.
    pub(crate) fn fill_with(
        &self,
        call: &Call<'_>,
        mut show: impl FnMut(&str, &Value) -> Result<String, String>,
    ) -> Result<String, String> {
        let text = call.text(call.named(self.text))?;
        let parameters = call.arg(call.named(&self.parameters));
        let mut values: BTreeMap<&str, String> = BTreeMap::new();
        for hole in HOLE.captures_iter(text) {
            let Some(name) = hole.get(1).map(|m| m.as_str()) else {
                continue;
            };
            let Some(value) = parameters.get(name).filter(|_| !values.contains_key(name)) else {
                continue;
            };
            let value = match self.operations.get(name) {
                Some(chain) => apply_alone(chain, value.clone(), call.ids)?,
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
mod tests {
    use serde_json::json;
    use watchkeeper_contract::effect::Effect;

    use super::cut;
    use crate::workflow::tests::bench::Bench;

    fn filled(text: &str) -> String {
        let step = json!({
            "type": "roboflow_core/slack_notification@v1", "slack_token": "t", "channel": "c",
            "message": text, "cooldown_session_key": "a",
            "message_parameters": {"names": ["a", "b"], "what": "{{ $parameters.names }}"},
            "message_parameters_operations": {"names": [{"type": "SequenceLength"}]},
        });
        let mut bench = Bench::new(step, &[]);
        bench.feed(&[]).unwrap();
        let [Effect::Slack(sent)] = bench.effects() else {
            panic!("{:?}", bench.effects())
        };
        sent.text.clone()
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
