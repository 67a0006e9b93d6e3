//! What one source found, and the link that it becomes.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use watchkeeper_contract::event::{Evidence, MAX_EVIDENCE_DATA};
use watchkeeper_contract::time::Wall;

/// Longest note of a link in characters.
const MAX_NOTE: usize = 300;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SourceAnswer {
    /// The source has an answer, whose confidence counts.
    Answered {
        /// `0.0..=1.0`; below 0.5 it speaks against the event.
        confidence: f64,
        note: String,
        data: Value,
    },
    /// The source works and has no answer: nothing was read, no row fits, two rows are equally
    /// near.
    NoAnswer { note: String },
    /// The source answered, but a text in the picture addressed the model: a person decides.
    Suspect { note: String },
    /// The source failed. Its weight counts with a confidence of 0.
    Failed { cause: String },
}

impl SourceAnswer {
    pub fn no_answer(note: impl Into<String>) -> Self {
        Self::NoAnswer { note: note.into() }
    }

    pub fn failed(cause: impl Into<String>) -> Self {
        Self::Failed {
            cause: cause.into(),
        }
    }
}

/// An answer with its time and cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SourceResult {
    pub answer: SourceAnswer,
    /// When it was found.
    pub at: Wall,
    /// Milliseconds, pauses between tries included.
    pub took_ms: u64,
    /// US dollars; absent for sources that cost nothing.
    pub cost_usd: Option<f64>,
}

impl SourceResult {
    /// The link of this result in the evidence of an event.
    pub fn link(&self, source: &str, weight: f64) -> Evidence {
        let (confidence, weight, note, data) = match &self.answer {
            SourceAnswer::Answered {
                confidence,
                note,
                data,
            } => (in_unit(*confidence), weight, note, Some(bounded(data))),
            SourceAnswer::NoAnswer { note } | SourceAnswer::Suspect { note } => {
                (0.0, 0.0, note, None)
            }
            SourceAnswer::Failed { cause } => (0.0, weight, cause, None),
        };
        Evidence {
            failed: matches!(self.answer, SourceAnswer::Failed { .. }),
            data: data.filter(|data| !data.is_null()),
            at: Some(self.at),
            took_ms: Some(self.took_ms),
            cost_usd: self.cost_usd.filter(|usd| usd.is_finite() && *usd >= 0.0),
            ..Evidence::new(source, confidence, weight, one_line(note))
        }
    }
}

/// A confidence in `0.0..=1.0`, rounded to four digits; 0 for what is not a number.
pub fn in_unit(confidence: f64) -> f64 {
    match confidence.is_finite() {
        true => (confidence.clamp(0.0, 1.0) * 1e4).round() / 1e4,
        false => 0.0,
    }
}

/// Data of a link; what is too long is replaced by its size.
fn bounded(data: &Value) -> Value {
    match data.to_string().len() {
        bytes if bytes > MAX_EVIDENCE_DATA => json!({"left_out_bytes": bytes}),
        _ => data.clone(),
    }
}

/// Cuts a text to the longest note, on one line.
pub fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let plain = words.join(" ");
    let plain = plain.chars().filter(|c| !c.is_control());
    plain.take(MAX_NOTE).collect()
}
