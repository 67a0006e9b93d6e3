//! What an event knows about its object.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use watchkeeper_contract::event::{Event, EventBody, Reading, ReadingKind};

/// Confidence of a decoded code: it has a check sum, but may belong to something else.
const CODE_CONFIDENCE: f64 = 0.95;
/// Confidences of text with the scores 0 and 1. Text without a score counts as unclear.
const TEXT_CONFIDENCE: [f64; 2] = [0.40, 0.85];

/// Values that are looked up, by their placeholders.
pub type LookupValues = BTreeMap<String, String>;

/// Facts of an event about its object.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct EventFacts {
    /// Confidence of the box, `0.0..=1.0`.
    pub confidence: f64,
    pub label: Option<String>,
    pub readings: Vec<Reading>,
}

/// A value with the confidence that it was read rightly.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadValue {
    pub text: String,
    pub confidence: f64,
}

impl EventFacts {
    /// The facts of a record of an event.
    pub fn of(event: &Event) -> Self {
        let mut facts = Self {
            confidence: event.decision.confidence,
            ..Self::default()
        };
        if let EventBody::Rule(rule) = &event.body {
            facts.label.clone_from(&rule.label);
            facts.readings.clone_from(&rule.readings);
        }
        facts
    }

    /// The code that was read.
    ///
    /// # Errors
    /// A sentence if there is none, or more than one.
    pub fn code(&self) -> Result<ReadValue, String> {
        let codes: BTreeSet<&str> = self.of_kind(ReadingKind::Code).map(|r| &*r.value).collect();
        let mut codes = codes.into_iter();
        match (codes.next(), codes.count()) {
            (None, _) => Err("no code was read".to_owned()),
            (Some(code), 0) => Ok(ReadValue {
                text: code.to_owned(),
                confidence: CODE_CONFIDENCE,
            }),
            (Some(_), more) => Err(format!(
                "{} codes were read, and which one belongs to the event is unknown",
                more + 1
            )),
        }
    }

    /// The text with the best score.
    ///
    /// # Errors
    /// A sentence if there is none.
    pub fn text(&self) -> Result<ReadValue, String> {
        let score = |reading: &Reading| reading.score.unwrap_or(0.0);
        let texts = self.of_kind(ReadingKind::Text);
        let best = texts.reduce(|best, next| {
            if score(next) > score(best) {
                next
            } else {
                best
            }
        });
        let best = best.ok_or("no text was read")?;
        let [unclear, clear] = TEXT_CONFIDENCE;
        Ok(ReadValue {
            text: best.value.clone(),
            confidence: unclear + (clear - unclear) * score(best).clamp(0.0, 1.0),
        })
    }

    /// The code, or the text if no code was read.
    ///
    /// # Errors
    /// A sentence where there is neither.
    pub fn read(&self) -> Result<String, String> {
        match (self.code(), self.text()) {
            (Ok(code), _) => Ok(code.text),
            (Err(_), Ok(text)) => Ok(text.text),
            (Err(code), Err(text)) => Err(format!("{code}; {text}")),
        }
    }

    fn of_kind(&self, kind: ReadingKind) -> impl Iterator<Item = &Reading> {
        self.readings.iter().filter(move |r| r.kind == kind)
    }
}
