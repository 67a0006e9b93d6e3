//! Reviews: the queue of events that wait for a person, and requests to add an assessment.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::assessment::Assessment;
use crate::event::{Decision, Event, Evidence};
use crate::id::{EventId, PipelineId};

/// Most events that wait for a review.
pub const MAX_REVIEWS: usize = 1000;
/// Most answers about events of one rule that are kept for its calibration and for narrowing it.
pub const MAX_RULE_ANSWERS: usize = 500;

/// A rule of which too many events of the last day need a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReviewShare {
    pub pipeline: PipelineId,
    pub rule: String,
    /// Events that need a person.
    pub doubtful: u64,
    /// All events, these included.
    pub events: u64,
}

/// Request to add an assessment to the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewAssessment {
    /// Id of the event, to be sure of it; refused if the record is of another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub event: Option<EventId>,
    pub assessment: Assessment,
    /// Whether it is refused if a person has given another answer about the event. The same answer
    /// again, such as a retry, returns the record that is there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only_if_unanswered: bool,
    /// Decision after a second opinion or a chain; required for them, refused for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// One link for each source of a chain that was asked, or that of the second opinion; refused
    /// for a person.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<Evidence>,
}

/// An event that waits for a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Review {
    /// First record of the event.
    pub event: Event,
    /// Its second opinion, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opinion: Option<Assessment>,
    /// Evidence after it, with a link for each source of a chain; empty without one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
}

/// Events that wait for a person, the most severe first, among equals the oldest.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReviewQueue {
    /// All waiting events; the list may be shorter.
    pub waiting: u64,
    /// Events that left without an answer, because more than 1,000 waited or the journal deleted
    /// them. Counted among the records that the journal had when the runtime started, and since.
    pub given_up: u64,
    pub reviews: Vec<Review>,
}

/// Answers of people about the events of a pipeline, and what follows from them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PipelineAnswers {
    pub pipeline: PipelineId,
    /// One entry for each rule with an answer, by name. Answers about events from before the
    /// pipeline was last replaced are left out.
    pub rules: Vec<RuleAnswers>,
}

/// Answers of people about the events of one rule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RuleAnswers {
    /// Name of the rule.
    pub rule: String,
    /// The latest answers, at most 500, in the order of their events.
    pub answers: Vec<RuleAnswer>,
    /// How the answers change the confidence of the rule's events. Absent with fewer than five
    /// answers of a kind, and where the rule has `calibrate = false`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
}

/// A person's answer about an event of a rule, with what was known of the event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RuleAnswer {
    /// Id of the event.
    #[schema(value_type = String)]
    pub event: EventId,
    /// Whether it happened as the event says; false for `reject` and `correct`.
    pub is_true: bool,
    /// Confidence from the evidence alone; absent in answers that an earlier version recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_confidence: Option<f64>,
    /// Best score of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// Bounding box of the object, normalised `[x_min, y_min, x_max, y_max]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bbox: Option<[f64; 4]>,
}

/// Calibration of a rule by answers: its confidence is
/// `logistic(slope * logit(raw_confidence) + offset)`. The verdict of a `critical` rule is at least
/// that of its raw confidence.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Calibration {
    /// Answers that an event happened as it says.
    pub approved: u32,
    /// Answers that it did not.
    pub rejected: u32,
    /// 0 or more; 1 without answers.
    pub slope: f64,
    /// 0 without answers.
    pub offset: f64,
}
