//! What follows from the links of a chain.
//!
//! - A failure is a link with confidence 0; no answer is not a link.
//! - Without an answer of a source that can decide, the result is unknown and a person decides.
//! - Networks alone never reach `act`.

use watchkeeper_contract::assessment::ChainResult;
use watchkeeper_contract::event::{Verdict, confidence_text, gate_text};
use watchkeeper_contract::rule::Gates;

use super::sources::Source;
use crate::source::{SourceAnswer, SourceResult, in_unit};

/// A source that was asked, with its result.
#[derive(Clone, Copy)]
pub(super) struct AskedSource<'a> {
    pub(super) source: &'a Source,
    pub(super) result: &'a SourceResult,
}

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

impl AskedSource<'_> {
    /// Whether it has an answer that may decide.
    fn decides(&self) -> bool {
        self.source.can_decide && matches!(self.result.answer, SourceAnswer::Answered { .. })
    }

    /// Whether it answered with a row whose key is not what was looked up.
    fn is_of_another_key(&self) -> bool {
        let SourceAnswer::Answered { data, .. } = &self.result.answer else {
            return false;
        };
        data.get("match").is_some_and(|how| how != "exact")
    }

    /// Confidence that counts; `None` for a source without an answer.
    fn confidence(&self) -> Option<f64> {
        match &self.result.answer {
            SourceAnswer::Answered { confidence, .. } => Some(in_unit(*confidence)),
            SourceAnswer::Failed { .. } => Some(0.0),
            SourceAnswer::NoAnswer { .. } | SourceAnswer::Suspect { .. } => None,
        }
    }
}

/// Weighted mean of the links that count; 0 without one. Where one that decides found a row of
/// another key, what can't decide counts at most as much as the best of them. That a code was read
/// well is no evidence for a row that it does not name.
pub(super) fn confidence(asked: &[AskedSource<'_>]) -> f64 {
    let deciding = || asked.iter().filter(|a| a.decides());
    let best = deciding()
        .filter_map(AskedSource::confidence)
        .reduce(f64::max);
    let near = best.filter(|_| deciding().any(AskedSource::is_of_another_key));
    let counted = asked.iter().filter_map(|a| {
        let most = near.filter(|_| !a.source.can_decide).unwrap_or(1.0);
        Some((a.source.weight, a.confidence()?.min(most)))
    });
    let (sum, weight) = counted.fold((0.0, 0.0), |(sum, weights), (weight, confidence)| {
        (sum + weight * confidence, weights + weight)
    });
    match weight > 0.0 {
        true => in_unit(sum / weight),
        false => 0.0,
    }
}

/// Whether the links reach `stop_at` and one of them decides, so that no further source is asked.
pub(super) fn is_enough(asked: &[AskedSource<'_>], stop_at: f64) -> bool {
    asked.iter().any(AskedSource::decides) && confidence(asked) >= stop_at
}

/// Why a text in the picture leaves the event to a person.
pub(super) fn suspicion(asked: &[AskedSource<'_>]) -> Option<String> {
    asked.iter().find_map(|a| match &a.result.answer {
        SourceAnswer::Suspect { note } => Some(format!("{}: {note}", a.source.name)),
        _ => None,
    })
}

/// The final state after these links; `left` says why a person decides, whatever they say.
pub(super) fn weigh(asked: &[AskedSource<'_>], gates: &Gates, left: Option<String>) -> Final {
    let mut deciding = asked.iter().filter(|a| a.decides()).peekable();
    if deciding.peek().is_none() {
        let why = left.unwrap_or_else(|| "no source that can decide answered".to_owned());
        return Final {
            result: ChainResult::Unknown,
            verdict: Verdict::Review,
            confidence: 0.0,
            reason: format!("review: unknown, {why}; a person decides"),
        };
    }
    let confidence = confidence(asked);
    if let Some(why) = left {
        return Final {
            result: ChainResult::Person,
            verdict: Verdict::Review,
            confidence,
            reason: format!("review: {}, and {why}", confidence_text(confidence)),
        };
    }
    let is_model_alone = deciding.all(|a| a.source.kind.is_network());
    by_gates(confidence, gates, is_model_alone)
}

fn by_gates(confidence: f64, gates: &Gates, is_model_alone: bool) -> Final {
    let decided = |verdict, word: &str, gate: f64, note: &str| Final {
        result: ChainResult::Decided,
        verdict,
        confidence,
        reason: format!("{word}: {}{note}", gate_text(confidence, gate)),
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
            format!("review: {}", gate_text(c, gates.record)),
        ),
        c if c >= gates.escalate => person(
            Verdict::Escalate,
            format!("escalate: {} after all sources", gate_text(c, gates.review)),
        ),
        c => person(
            Verdict::Review,
            format!("review: {}, the last one", gate_text(c, gates.escalate)),
        ),
    }
}
