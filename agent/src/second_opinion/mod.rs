//! The second opinion: a model of language looks at the picture of an event that the box is unsure of, and what it says becomes one more piece of evidence.
//!
//! Map: [`queue`] which event is asked about when, [`on_disk`] what of that survives a restart, [`talk`] what the model is shown and told, [`verdict`] what it may answer,
//! [`weigh`] what comes of the answer, [`asker`] the one part that does I/O. All but the last are sans-IO. The message is [`OpinionMessage`](crate::fleet::mqtt::payload::OpinionMessage).
//!
//! Invariants:
//! - no event waits for an opinion: it is told as the box decided, and what the model says of it comes afterwards;
//! - an event is asked about once, whatever crashes: that it is, is stored before it is;
//! - every event that was to be asked about gets one word: what the opinion makes of it, or that there is none and the local decision stands;
//! - the model has nothing to act with, and what a camera saw and a person named reaches it as what a tool found, never as an instruction;
//! - an opinion counts as much as all of the local evidence together and no more, and lowers nothing unless the rule says that it may.

pub mod asker;
pub mod on_disk;
pub mod queue;
pub mod talk;
pub mod verdict;
pub mod weigh;

use serde::{Deserialize, Serialize};
use watchkeeper_contract::event::{Event, EventBody, Media, MediaKind};
use watchkeeper_llm::money::Money;

pub use asker::Asker;
pub use queue::Queue;
pub use verdict::Opinion;

/// An event that an opinion is wanted on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// The first record of it that asked for one, which names the picture, with the decision of the latest and what that rests on.
    pub event: Event,
}

impl Case {
    /// The case of the record that asks.
    #[must_use]
    pub fn of(event: &Event) -> Self {
        Self {
            event: event.clone(),
        }
    }

    /// The picture that a model is shown: the frame as it came, without anything that was drawn by us.
    #[must_use]
    pub fn picture(&self) -> Option<&Media> {
        let mut media = self.event.media.iter();
        media.find(|media| media.kind == MediaKind::Clean)
    }

    /// The rule's name, where it is a rule's event.
    #[must_use]
    pub fn rule(&self) -> Option<&str> {
        match &self.event.body {
            EventBody::Rule(rule) => Some(&rule.rule),
            EventBody::SourceOutage { .. }
            | EventBody::PipelineHeld { .. }
            | EventBody::PipelineFailed { .. }
            | EventBody::StepFailing { .. }
            | EventBody::Loss { .. } => None,
        }
    }
}

/// What came of asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The event is taken for more than the box thought.
    Raised,
    /// It is taken for less.
    Lowered,
    /// The local decision stands.
    Stands,
}

/// What came of second opinions since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, utoipa::ToSchema)]
pub struct Counts {
    /// Whether a model is asked for them.
    pub asks: bool,
    /// Events that wait for their turn.
    pub waiting: usize,
    /// Events that were taken for more than the box thought.
    pub raised: u64,
    /// Events that were taken for less.
    pub lowered: u64,
    /// Events of which the local decision stands after an answer.
    pub stands: u64,
    /// Events of which it stands because there was no answer: no picture, no money, no sense in it, too late.
    pub without_answer: u64,
}

impl Counts {
    /// Counts what came of one event.
    pub fn count(&mut self, outcome: Outcome, is_answered: bool) {
        let count = match outcome {
            Outcome::Raised => &mut self.raised,
            Outcome::Lowered => &mut self.lowered,
            Outcome::Stands if is_answered => &mut self.stands,
            Outcome::Stands => &mut self.without_answer,
        };
        *count += 1;
    }
}

/// What a model said about a case.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Its opinion.
    pub opinion: Opinion,
    /// The model that has it, in its provider's words.
    pub model: String,
    /// What the answer cost, with every attempt and every model that was asked.
    pub cost: Money,
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
pub(crate) mod testing {
    //! Doubtful events for the tests of this module.

    use watchkeeper_contract::event::{Asks, Decision, Phase, Verdict};
    use watchkeeper_contract::id::{EventId, EventSeq};
    use watchkeeper_contract::rule::{Gates, Severity};

    use super::*;
    use crate::example::example_event;

    /// Record number `seq` of the event `id`: the box is unsure of it.
    pub(crate) fn doubtful(id: u128, seq: u64, severity: Severity) -> Event {
        let decision = Decision {
            verdict: Verdict::Escalate,
            confidence: 0.6,
            reason: "escalate: 0.60 is at or above the gate of 0.50".to_owned(),
            asks: Some(Asks {
                gates: Gates::default(),
                may_lower: false,
            }),
        };
        Event {
            id: EventId(ulid::Ulid::from_parts(1_798_761_600_000, id)),
            seq: EventSeq(seq),
            phase: Phase::New,
            severity,
            decision,
            ..example_event()
        }
    }

    /// What a model says.
    pub(crate) fn opinion(json: serde_json::Value) -> Opinion {
        verdict::read(&json.to_string()).unwrap()
    }
}
