//! Codes and texts that a workflow read lately, for the events of a rule with a chain.
//!
//! - A reading is kept for [`KEPT_S`] of source time; of equal ones the best score.
//! - At most [`MAX_READINGS`] are kept; the oldest is dropped first.
//! - Values are single lines of at most [`MAX_READING_CHARS`] characters.

use serde_json::Value;
use watchkeeper_contract::event::{MAX_READING_CHARS, MAX_READINGS, Reading, ReadingKind};
use watchkeeper_vision::detections::Detection;

use super::boxes::Inputs;
use super::moment::NeedValue;
use super::plan::ReadingNeeds;

/// Seconds that a reading is kept: a code is seldom read in the frame in which an event begins.
const KEPT_S: f64 = 3.0;
/// Member of a box's data that holds the text of a code.
const CODE_TEXT: &str = "data";

#[derive(Debug)]
pub(super) struct Readings {
    needs: ReadingNeeds,
    /// With the time at which each was read last.
    kept: Vec<(f64, Reading)>,
}

impl Readings {
    pub(super) fn new(needs: ReadingNeeds) -> Self {
        Self {
            needs,
            kept: Vec::new(),
        }
    }

    /// Adds what this frame holds.
    pub(super) fn observe(&mut self, inputs: Inputs<'_>, clock: f64) {
        let needs = [
            (ReadingKind::Code, self.needs.code),
            (ReadingKind::Text, self.needs.text),
        ];
        for (kind, need) in needs {
            match need.map(|need| inputs.value(need)) {
                Some(NeedValue::Text(text)) => self.add(clock, kind, text, None),
                Some(NeedValue::Detections(found)) => {
                    for d in &found.boxes {
                        self.add(clock, kind, text_of(d), Some(d.confidence));
                    }
                }
                _ => {}
            }
        }
    }

    /// The readings that are not too old, best score first.
    pub(super) fn latest(&self, clock: f64) -> Vec<Reading> {
        let fresh = self.kept.iter().filter(|(at, _)| clock - at <= KEPT_S);
        let mut fresh: Vec<Reading> = fresh.map(|(_, reading)| reading.clone()).collect();
        let score = |reading: &Reading| reading.score.unwrap_or(0.0);
        fresh.sort_by(|a, b| {
            let by_score = score(b).total_cmp(&score(a));
            by_score.then_with(|| (a.kind, &a.value).cmp(&(b.kind, &b.value)))
        });
        fresh
    }

    fn add(&mut self, clock: f64, kind: ReadingKind, text: &str, score: Option<f64>) {
        let words: Vec<&str> = text.split_whitespace().collect();
        let value: String = words.join(" ");
        let value = value.chars().filter(|c| !c.is_control());
        let value: String = value.take(MAX_READING_CHARS).collect();
        if value.is_empty() {
            return;
        }
        let score = score.filter(|s| s.is_finite()).map(|s| s.clamp(0.0, 1.0));
        self.kept.retain(|(at, _)| clock - at <= KEPT_S);
        let is_it = |(_, known): &&mut (f64, Reading)| known.kind == kind && known.value == value;
        if let Some((at, known)) = self.kept.iter_mut().find(is_it) {
            *at = clock;
            known.score = match (known.score, score) {
                (Some(old), Some(new)) => Some(old.max(new)),
                (old, new) => old.or(new),
            };
            return;
        }
        if self.kept.len() >= MAX_READINGS {
            let oldest = self.kept.iter().enumerate();
            let oldest = oldest.min_by(|(_, a), (_, b)| a.0.total_cmp(&b.0));
            if let Some((nth, _)) = oldest {
                self.kept.swap_remove(nth);
            }
        }
        self.kept.push((clock, Reading { kind, value, score }));
    }
}

/// The text of a code, else the class: that of a box of text is its text.
fn text_of(d: &Detection) -> &str {
    let data = d.extra.as_ref().and_then(|extra| extra.data.get(CODE_TEXT));
    data.and_then(Value::as_str).unwrap_or(&d.class)
}
