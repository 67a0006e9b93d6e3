//! Weights of sources, and what follows from the links of a chain.
//!
//! | source | weight | why |
//! |---|---|---|
//! | `code` | 0.45 | a code has a check sum, so it is read rightly or not at all |
//! | first look-up | 0.45 | the primary register |
//! | later look-ups | 0.25 | a supplement, often filled by others |
//! | `text` | 0.20 | readers confuse characters |
//! | `model`, fields | 0.20 | a model may be wrong with confidence |
//! | `box` | 0.20 | it says that something happened, not what it was |

use watchkeeper_contract::assessment::ChainResult;
use watchkeeper_contract::event::Verdict;

use super::{Chain, Source, SourceKind};
use crate::source::{SourceAnswer, SourceResult, in_unit};

/// Final state of a chain.
#[derive(Debug, Clone, PartialEq)]
pub struct Final {
    pub result: ChainResult,
    /// `act` or `record` where the chain decided, otherwise `review` or `escalate`.
    pub verdict: Verdict,
    /// Weighted mean of the links; 0 without an answer.
    pub confidence: f64,
    /// One sentence with gate and cause.
    pub reason: String,
}

/// Default weight of a source, after `lookups_before` look-ups of the chain.
pub(super) fn default_weight(kind: SourceKind, name: &str, lookups_before: usize) -> f64 {
    match (kind, name, lookups_before) {
        (SourceKind::Reading, "code", _) | (SourceKind::Lookup | SourceKind::Unknown, _, 0) => 0.45,
        (SourceKind::Lookup | SourceKind::Unknown, _, _) => 0.25,
        _ => 0.20,
    }
}

impl Chain {
    /// Weighted mean of the links that count; 0 without one.
    pub(super) fn confidence(&self) -> f64 {
        let counted = self
            .asked_links()
            .filter_map(|(source, result)| Some((source.weight, confidence_of(result)?)));
        let (sum, weight) = counted.fold((0.0, 0.0), |(sum, weights), (weight, confidence)| {
            (sum + weight * confidence, weights + weight)
        });
        match weight > 0.0 {
            true => in_unit(sum / weight),
            false => 0.0,
        }
    }

    /// The final state after the links so far.
    pub(super) fn weigh(&self) -> Final {
        let deciding = || {
            let links = self.asked_links();
            links.filter(|(source, result)| source.can_decide && has_answered(result))
        };
        let left = self.left_to_person();
        if deciding().next().is_none() {
            let why = left.unwrap_or_else(|| "no source that can decide answered".to_owned());
            return Final {
                result: ChainResult::Unknown,
                verdict: Verdict::Review,
                confidence: 0.0,
                reason: format!("review: unknown, {why}; a person decides"),
            };
        }
        let confidence = self.confidence();
        if let Some(why) = left {
            return Final {
                result: ChainResult::Person,
                verdict: Verdict::Review,
                confidence,
                reason: format!("review: {confidence:.2}, and {why}"),
            };
        }
        let is_model = |(source, _): (&Source, &SourceResult)| source.kind.is_paid();
        let is_model_alone = deciding().all(is_model);
        self.by_gates(confidence, is_model_alone)
    }

    fn by_gates(&self, confidence: f64, is_model_alone: bool) -> Final {
        let gates = &self.gates;
        let decided = |verdict, word: &str, gate: f64, note: &str| Final {
            result: ChainResult::Decided,
            verdict,
            confidence,
            reason: format!("{word}: {confidence:.2} is at or above the gate of {gate:.2}{note}"),
        };
        let person = |verdict, text: String| Final {
            result: ChainResult::Person,
            verdict,
            confidence,
            reason: format!("{text}; a person decides"),
        };
        match confidence {
            c if c >= gates.act && !is_model_alone => decided(Verdict::Act, "act", gates.act, ""),
            c if c >= gates.record => {
                let note = match c >= gates.act {
                    true => "; a model alone makes no event certain",
                    false => "",
                };
                decided(Verdict::Record, "record", gates.record, note)
            }
            c if c >= gates.review => person(
                Verdict::Review,
                format!("review: {c:.2} is below the gate of {:.2}", gates.record),
            ),
            c if c >= gates.escalate => person(
                Verdict::Escalate,
                format!(
                    "escalate: {c:.2} after all sources is below {:.2}",
                    gates.review
                ),
            ),
            c => person(
                Verdict::Review,
                format!(
                    "review: {c:.2} is below the last gate of {:.2}",
                    gates.escalate
                ),
            ),
        }
    }

    /// Why a person decides, whatever the links say.
    fn left_to_person(&self) -> Option<String> {
        let suspect = self
            .asked_links()
            .find_map(|(source, result)| match &result.answer {
                SourceAnswer::Suspect { note } => Some(format!("{}: {note}", source.name)),
                _ => None,
            });
        let is_person = self.next_kind() == Some(SourceKind::Person) && !self.is_stopped();
        let person = is_person.then(|| "the chain came to a person".to_owned());
        suspect.or_else(|| self.given_up.clone()).or(person)
    }

    /// Whether the links so far are enough, so that no further source is asked.
    pub(super) fn is_stopped(&self) -> bool {
        let last = self.asked_links().last();
        let is_enough = |(source, result): (&Source, &SourceResult)| {
            source.can_decide && has_answered(result) && self.confidence() >= self.stop_at
        };
        last.is_some_and(is_enough)
    }
}

fn has_answered(result: &SourceResult) -> bool {
    matches!(result.answer, SourceAnswer::Answered { .. })
}

/// Confidence of a result that counts; `None` for one that does not.
fn confidence_of(result: &SourceResult) -> Option<f64> {
    match &result.answer {
        SourceAnswer::Answered { confidence, .. } => Some(in_unit(*confidence)),
        SourceAnswer::Failed { .. } => Some(0.0),
        SourceAnswer::NoAnswer { .. } | SourceAnswer::Suspect { .. } => None,
    }
}
