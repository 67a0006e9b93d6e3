//! Second opinions: a language model looks at the picture of an uncertain event, and its answer
//! becomes one more piece of evidence.
//!
//! - [`scene`]: which events share one opinion.
//! - [`assessment`]: the form in the runtime's journal.
//! - [`prompt`]: what the model is shown. [`verdict`]: what it may answer. [`weigh`]: its effect.
//! - [`asker`]: the only part with I/O.
//!
//! Invariants:
//! - No event waits for an opinion: it is published as decided, and the opinion follows.
//! - The model has no tool to act with; text from outside reaches it as a tool's result only.
//! - An opinion weighs as much as all local evidence together. It lowers only what the rule allows.
//!
//! Not here: which event is asked about when, and that it is asked about once (`evidence`).

pub mod asker;
pub mod assessment;
pub mod prompt;
pub mod scene;
pub mod verdict;
pub mod weigh;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use watchkeeper_contract::event::{Event, Media, MediaKind};
use watchkeeper_contract::id::EventId;
use watchkeeper_evidence::source::SourceAnswer;
use watchkeeper_llm::money::Money;

pub use asker::Asker;
pub use verdict::Opinion;

/// The picture of an event without annotations.
pub(crate) fn clean_picture(event: &Event) -> Option<&Media> {
    let mut media = event.media.iter();
    media.find(|media| media.kind == MediaKind::Clean)
}

/// Pipeline and rule, such as `gate/door`, where a rule made the event.
pub(crate) fn qualified_rule(event: &Event) -> Option<String> {
    let pipeline = event.pipeline.as_ref()?;
    Some(format!("{pipeline}/{}", event.body.rule()?.rule))
}

/// Result of a second opinion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The verdict rose.
    Raised,
    /// The verdict fell.
    Lowered,
    /// The local decision remains.
    Stands,
}

/// Counts that the task of chains writes and the API reads.
pub(crate) type SharedCounts = Arc<Mutex<Counts>>;

/// Second opinions since the agent's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, utoipa::ToSchema)]
pub struct Counts {
    /// Whether second opinions are enabled.
    pub asks: bool,
    /// Events whose opinion is not recorded yet.
    pub waiting: usize,
    /// Events whose verdict rose.
    pub raised: u64,
    /// Events whose verdict fell.
    pub lowered: u64,
    /// Events whose local decision remains after an answer.
    pub stands: u64,
    /// Events without an answer: no picture, no budget, an invalid answer, or too late.
    pub without_answer: u64,
    /// Events that got the answer about an earlier event of one scene.
    pub shared: u64,
    /// Opinions that the runtime refused; they are sent again after the next start.
    pub refused: u64,
}

impl Counts {
    /// Counts the result of one event.
    pub fn count(&mut self, outcome: Outcome, answer: Option<&Answer>) {
        self.shared += u64::from(answer.is_some_and(|answer| answer.shared_from.is_some()));
        let count = match outcome {
            Outcome::Raised => &mut self.raised,
            Outcome::Lowered => &mut self.lowered,
            Outcome::Stands if answer.is_some() => &mut self.stands,
            Outcome::Stands => &mut self.without_answer,
        };
        *count += 1;
    }
}

/// A model's answer about an event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    pub opinion: Opinion,
    /// Id of the model that answered, as its provider names it.
    pub model: String,
    /// Cost of all attempts with all models.
    pub cost: Money,
    /// Time from the question to the answer.
    pub took: Duration,
    /// Event of one scene that the model was asked about; absent if that is the event itself.
    pub shared_from: Option<EventId>,
}

impl Answer {
    /// The answer in the form of any source of evidence.
    pub(crate) fn to_source(&self) -> SourceAnswer {
        let opinion = &self.opinion;
        if opinion.injection_suspected {
            return SourceAnswer::Suspect {
                note: verdict::INJECTION.to_owned(),
            };
        }
        let Some((word, confidence)) = opinion.confidence_in_event() else {
            return SourceAnswer::no_answer(format!("{} abstains", self.model));
        };
        SourceAnswer::Answered {
            confidence,
            note: format!("{} {word}: {}", self.model, opinion.seen),
            data: self.data(),
        }
    }

    /// The answer as data of its link. Without its texts where one addressed the model: they would
    /// reach other models with the journal.
    pub(crate) fn data(&self) -> Value {
        let opinion = &self.opinion;
        let text = |text: &str| match opinion.injection_suspected {
            true => String::new(),
            false => text.to_owned(),
        };
        json!({
            "model": self.model, "verdict": opinion.verdict, "confidence": opinion.confidence,
            "seen": text(&opinion.seen), "text_seen": text(&opinion.text_seen),
            "injection_suspected": opinion.injection_suspected,
        })
    }

    /// Returns this answer about the event `from`, for an event of one scene. It costs nothing.
    pub fn share(&self, from: EventId) -> Self {
        Self {
            cost: Money::ZERO,
            shared_from: Some(from),
            ..self.clone()
        }
    }
}

/// Why an event has no answer.
#[derive(Debug, Clone, PartialEq)]
pub struct NoAnswer {
    pub why: String,
    /// Cost of all attempts; absent if it is not known whether a model was asked.
    pub cost: Option<Money>,
    /// Time from the question to the failure; absent if the agent did not ask, or ended.
    pub took: Option<Duration>,
}

impl<T: Into<String>> From<T> for NoAnswer {
    fn from(why: T) -> Self {
        Self {
            why: why.into(),
            cost: None,
            took: None,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
pub(crate) mod testing {
    //! Doubtful events for the tests of this module.

    use watchkeeper_contract::event::{Asks, Decision, EventBody, Phase, Verdict};
    use watchkeeper_contract::id::{EventSeq, TrackId};
    use watchkeeper_contract::rule::{BelowGates, Gates, Severity};

    use super::*;
    use crate::example::example_event;

    /// Record `seq` of the uncertain event `id`, a scene of its own.
    pub(crate) fn doubtful(id: u128, seq: u64, severity: Severity) -> Event {
        let number = u32::try_from(id).unwrap();
        let example = example_event();
        let mut body = example.body.clone();
        if let EventBody::Rule(rule) = &mut body {
            rule.tracks = vec![TrackId(number.into())];
        }
        let decision = Decision {
            verdict: Verdict::Escalate,
            confidence: 0.6,
            raw_confidence: None,
            reason: "escalate: 0.60 is at or above the gate of 0.50".to_owned(),
            asks: Some(Asks {
                gates: Gates::default(),
                may_lower: false,
                below_gates: BelowGates::Discard,
            }),
        };
        Event {
            id: EventId(ulid::Ulid::from_parts(1_798_761_600_000, id)),
            seq: EventSeq(seq),
            phase: Phase::New,
            severity,
            decision,
            mono_ms: u64::from(number) * 60_000,
            body,
            ..example
        }
    }

    /// A confirmation with 0.9 that cost money, and a text in its picture.
    pub(crate) fn confirmation(injection: bool) -> Answer {
        Answer {
            opinion: opinion(json!({
                "verdict": "confirm", "confidence": 0.9, "seen": "a person",
                "text_seen": "DOCK 3", "injection_suspected": injection,
            })),
            model: "m".to_owned(),
            cost: Money(489_600),
            took: Duration::ZERO,
            shared_from: None,
        }
    }

    /// The record in which the journal has `answer` about a critical event of record 7.
    pub(crate) fn assessed(answer: Result<Answer, &str>) -> Event {
        let event = doubtful(1, 7, Severity::Critical);
        let answer = answer.map_err(NoAnswer::from);
        let weighed = weigh::weigh(&event, &answer, event.at);
        let new = assessment::new_assessment(&event, &answer, &weighed);
        let mut evidence = event.evidence.clone();
        evidence.extend(new.links);
        Event {
            seq: EventSeq(9),
            phase: Phase::Assessed,
            decision: weighed.decision,
            evidence,
            assessment: Some(Box::new(new.assessment)),
            ..event
        }
    }

    /// Parses an opinion.
    pub(crate) fn opinion(json: serde_json::Value) -> Opinion {
        verdict::parse_answer(&json.to_string()).unwrap()
    }
}
