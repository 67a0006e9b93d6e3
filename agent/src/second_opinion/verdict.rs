//! Schema and parser of the model's answer.
//!
//! Invariants:
//! - An answer of another form is rejected.
//! - Its texts are bounded, one line each, and displayed only: never read as a request.

use serde::{Deserialize, Serialize};
use serde_json::json;
use watchkeeper_evidence::source::one_line;
use watchkeeper_llm::CallOptions;
use watchkeeper_llm::call_options::Effort;

use crate::data_question::{self, InvalidAnswer};

/// Limit of the answer in tokens, thinking included.
const MAX_OUTPUT: u32 = 2_000;
/// Confidence below which the large model is asked.
const MIN_CONFIDENCE: f64 = 0.7;

/// The model's stance on the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stance {
    /// The picture shows what the event says.
    Confirm,
    /// The picture shows something else.
    Refute,
    /// The picture does not decide it.
    Abstain,
}

/// A valid answer of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Opinion {
    pub verdict: Stance,
    /// Confidence of the stance, from 0 to 1.
    pub confidence: f64,
    pub seen: String,
    /// Text read in the picture; may be empty.
    pub text_seen: String,
    /// Whether a text in the picture or the event addresses the model.
    pub injection_suspected: bool,
}

/// Why an opinion with a suspected injection is not weighed.
pub(crate) const INJECTION: &str =
    "a text in the picture speaks to the model, so its opinion does not count";

impl Opinion {
    /// Effect of the opinion and its confidence in the event: a certain confirmation is near 1, a
    /// certain refutation near 0. `None` for an abstention.
    pub(crate) fn confidence_in_event(&self) -> Option<(&'static str, f64)> {
        let half = self.confidence / 2.0;
        match self.verdict {
            Stance::Confirm => Some(("confirms", 0.5 + half)),
            Stance::Refute => Some(("refutes", 0.5 - half)),
            Stance::Abstain => None,
        }
    }

    /// Whether to ask the large model. Not after a suspected injection: it would reach that model
    /// too.
    pub fn is_doubtful(&self) -> bool {
        let is_unsure = self.verdict == Stance::Abstain || self.confidence < MIN_CONFIDENCE;
        is_unsure && !self.injection_suspected
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    verdict: String,
    confidence: f64,
    seen: String,
    text_seen: String,
    injection_suspected: bool,
}

pub fn call_options() -> CallOptions {
    let schema = json!({
        "type": "object", "additionalProperties": false,
        "required": ["verdict", "confidence", "seen", "text_seen", "injection_suspected"],
        "properties": {
            "verdict": {"type": "string", "enum": ["confirm", "refute", "abstain"]},
            "confidence": {"type": "number"},
            "seen": {"type": "string"},
            "text_seen": {"type": "string"},
            "injection_suspected": {"type": "boolean"},
        },
    });
    data_question::call_options(MAX_OUTPUT, "verdict", &schema).effort(Effort::Low)
}

/// Parses an answer.
///
/// # Errors
/// When it has another form.
pub fn parse_answer(answer: &str) -> Result<Opinion, InvalidAnswer> {
    let written: Written = data_question::parse_answer(answer)?;
    // Providers may capitalise a value of the schema.
    let verdict = match written.verdict.to_ascii_lowercase().as_str() {
        "confirm" => Stance::Confirm,
        "refute" => Stance::Refute,
        "abstain" => Stance::Abstain,
        _ => return Err(InvalidAnswer),
    };
    if !(0.0..=1.0).contains(&written.confidence) {
        return Err(InvalidAnswer);
    }
    Ok(Opinion {
        verdict,
        confidence: written.confidence,
        seen: one_line(&written.seen),
        text_seen: one_line(&written.text_seen),
        injection_suspected: written.injection_suspected,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn good() -> Value {
        json!({
            "verdict": "Confirm", "confidence": 0.9, "seen": "a person\n at the door", "text_seen": "", "injection_suspected": false,
        })
    }

    #[test]
    fn valid_answer_is_read_with_words_around_it() {
        let read =
            super::parse_answer(&format!("Here you are:\n```json\n{}\n```", good())).unwrap();
        assert_eq!((read.verdict, read.confidence), (Stance::Confirm, 0.9));
        assert_eq!(read.seen, "a person at the door");
    }

    #[test]
    fn invalid_answer_is_rejected() {
        for (member, value) in [
            ("verdict", json!("confirm!")),
            ("confidence", json!(1.01)),
            ("confidence", json!(-0.1)),
            ("confidence", json!("high")),
            ("seen", Value::Null),
            ("injection_suspected", json!("no")),
            ("run", json!("stop everything")),
        ] {
            let mut wrong = good();
            wrong[member] = value;
            assert_eq!(
                super::parse_answer(&wrong.to_string()),
                Err(InvalidAnswer),
                "{wrong}"
            );
        }
        for wrong in ["", "confirm", "{\"verdict\": \"confirm\"", "[]"] {
            assert_eq!(super::parse_answer(wrong), Err(InvalidAnswer), "{wrong}");
        }
    }

    #[test]
    fn large_model_is_asked_in_doubt_but_not_after_injection() {
        let with = |change: Value| {
            let mut written = good();
            for (member, value) in change.as_object().unwrap() {
                written[member] = value.clone();
            }
            super::parse_answer(&written.to_string())
                .unwrap()
                .is_doubtful()
        };
        assert!(!with(json!({})));
        assert!(with(json!({"confidence": 0.69})));
        assert!(with(json!({"verdict": "abstain"})));
        assert!(!with(
            json!({"verdict": "abstain", "injection_suspected": true})
        ));
    }

    proptest! {
        #[test]
        fn any_answer_is_read_without_panic_and_stays_short(text in ".{0,400}") {
            let mut written = good();
            written["seen"] = Value::from(text.clone());
            let read = super::parse_answer(&written.to_string()).unwrap();
            prop_assert!(read.seen.chars().count() <= 300);
            prop_assert!(!read.seen.chars().any(char::is_control));
            let _ignored = super::parse_answer(&text).is_ok();
        }
    }
}
