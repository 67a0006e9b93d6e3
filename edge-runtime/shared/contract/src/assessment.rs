//! Assessments: what a person, a second opinion or a chain says about an event of the journal.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::id::EventId;

/// Longest [`Assessment::note`] and [`Person::name`] in characters.
pub const MAX_ASSESSMENT_TEXT: usize = 300;
/// Longest [`Assessment::label`] in characters.
pub const MAX_ASSESSMENT_LABEL: usize = 64;
/// Most fields of [`Assessment::fields`], as of a look-up that reads fields.
pub const MAX_ASSESSMENT_FIELDS: usize = 16;

/// An assessment of an event. It is part of the record `assessed` of that event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Assessment {
    pub by: Assessor,
    pub answer: AssessmentAnswer,
    /// Class that the object really has; only with the answer `correct`, without `fields`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Values that a person entered, by the names of the chain's `fields`, `code` and `text`; only
    /// with the answer `correct`, without `label`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fields: BTreeMap<String, String>,
    /// One line: what was seen, or why there is no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Assessment {
    /// Whether it says that the event happened with an object of its class.
    #[must_use]
    pub fn confirms_event(&self) -> bool {
        match self.answer {
            AssessmentAnswer::Approve => true,
            AssessmentAnswer::Correct => !self.fields.is_empty(),
            AssessmentAnswer::Reject | AssessmentAnswer::None => false,
        }
    }

    /// The values that a person entered, such as `plate = "AB123"`.
    #[must_use]
    pub fn entered(&self) -> String {
        let fields = self.fields.iter();
        let texts: Vec<String> = fields
            .map(|(name, value)| format!("{name} = {value:?}"))
            .collect();
        texts.join(", ")
    }
}

/// Answer of an assessment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AssessmentAnswer {
    /// It happened as the event says.
    Approve,
    /// It did not happen.
    Reject,
    /// Something happened with an object of another class, or with other values of its fields.
    Correct,
    /// It could not be decided; only of a second opinion or a chain.
    None,
}

/// Who assessed an event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Assessor {
    Person(Person),
    SecondOpinion(Box<OpinionDetails>),
    /// The sources of the rule's chain; the record's evidence has one link for each that was asked.
    Chain(Box<ChainDetails>),
}

/// Details of the result of a chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChainDetails {
    pub result: ChainResult,
    /// Sources that were asked, in their order.
    pub asked: Vec<String>,
    /// Fields that look-ups of the chain read from the picture; a person may enter them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
    /// Cost of all sources in US dollars.
    pub cost_usd: f64,
    /// Seconds from the first question to the result, without the time in which no agent ran.
    pub took_s: f64,
}

/// Final state of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChainResult {
    /// The confidence of the answers reaches the gate `record` or `act`.
    Decided,
    /// A person decides: the chain came to one, or the answers do not reach the gate `record`.
    Person,
    /// No source answered; a person decides.
    Unknown,
}

/// A person who answered a review.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Person {
    /// Name as the client gave it; it is not verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub via: Via,
}

/// Way on which a person's answer arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    CommandLine,
    Api,
    Chat,
    Mqtt,
    /// By the link of a notification.
    Link,
}

/// Details of a second opinion.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OpinionDetails {
    /// Model that answered, as its provider names it; absent without an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Confidence of the answer, `0.0..=1.0`; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// SHA-256 (hex) of the kept picture, which the model saw in a smaller size; absent for a
    /// shared answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub picture_sha256: Option<String>,
    /// Cost of all attempts in US dollars; 0 for a shared answer, absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Seconds from the question to its answer; absent for a shared answer and without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_s: Option<f64>,
    /// Event of the same scene that the model was asked about instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub shared_from: Option<EventId>,
}
