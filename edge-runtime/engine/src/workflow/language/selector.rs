//! Selectors: `$inputs.name`, `$steps.name.output` and `$steps.name`.
//!
//! - A [`Selector`] is well-formed; what it names may not exist.

use std::fmt;

/// A well-formed reference to an input, a step's output, or a step.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Selector {
    Input(String),
    /// `$steps.step.output`; the output may be `*` for all.
    Output {
        step: String,
        output: String,
    },
    /// `$steps.name`, legal only as a target of flow control.
    Step(String),
}

fn is_name(text: &str, star: bool) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-' || (star && c == '*'))
}

impl Selector {
    /// Parses `text`; `None` if it is not a well-formed selector.
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(name) = text.strip_prefix("$inputs.") {
            return is_name(name, false).then(|| Self::Input(name.to_owned()));
        }
        let rest = text.strip_prefix("$steps.")?;
        match rest.split_once('.') {
            None => is_name(rest, false).then(|| Self::Step(rest.to_owned())),
            Some((step, output)) => {
                (is_name(step, false) && is_name(output, true)).then(|| Self::Output {
                    step: step.to_owned(),
                    output: output.to_owned(),
                })
            }
        }
    }

    /// Returns whether `value` is a string that must be read as a selector, well-formed or not.
    pub fn looks_like(value: &serde_json::Value) -> bool {
        value.as_str().is_some_and(|text| text.starts_with('$'))
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(name) => write!(f, "$inputs.{name}"),
            Self::Output { step, output } => write!(f, "$steps.{step}.{output}"),
            Self::Step(name) => write!(f, "$steps.{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Selector;

    #[test]
    fn well_formed_selectors_round_trip() {
        for text in [
            "$inputs.image",
            "$steps.a-b_1.out",
            "$steps.x.*",
            "$steps.only",
        ] {
            let parsed = Selector::parse(text).map(|s| s.to_string());
            assert_eq!(parsed.as_deref(), Some(text));
        }
    }

    #[test]
    fn malformed_selectors_are_refused() {
        for text in [
            "",
            "$inputs.",
            "$inputs.a.b",
            "$steps..x",
            "$steps.a b.c",
            "inputs.x",
            "$input.x",
        ] {
            assert_eq!(Selector::parse(text), None, "{text}");
        }
    }
}
