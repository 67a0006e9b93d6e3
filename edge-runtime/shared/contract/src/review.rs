//! Reviews: the queue of events that wait for a person, and requests to add an assessment.

use serde::{Deserialize, Serialize};

use crate::assessment::Assessment;
use crate::event::{Decision, Event, Evidence};
use crate::id::EventId;

/// Most events that wait for a review.
pub const MAX_REVIEWS: usize = 1000;

/// Request to add an assessment to the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewAssessment {
    /// Id of the event, to be sure of it; refused if the record is of another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub event: Option<EventId>,
    pub assessment: Assessment,
    /// Decision after a second opinion; required for one, refused for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// The second opinion as evidence; absent where it does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
}

/// An event that waits for a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Review {
    /// First record of the event.
    pub event: Event,
    /// Its second opinion, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opinion: Option<Assessment>,
}

/// Events that wait for a person, the most severe first, among equals the oldest.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReviewQueue {
    /// All waiting events; the list may be shorter.
    pub waiting: u64,
    /// Events that left without an answer, because more than 1,000 waited or the journal deleted
    /// them; among the records that the journal had when the runtime started, and since.
    pub given_up: u64,
    pub reviews: Vec<Review>,
}
