//! Effects on their way: what the runtime keeps until the agent has performed it.
//!
//! The runtime numbers what its workflows want done outside and keeps it on disk; the agent reads what waits, performs it and says what came
//! of it. Invariant: a number is given once, over restarts too, and an effect waits until one [`EffectOutcome`] was told of it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::effect::Effect;
use crate::id::PipelineId;
use crate::time::Wall;

/// Most effects of one answer of `GET /v1/effects`.
pub const MAX_EFFECTS_PAGE: u64 = 256;

/// Longest that `GET /v1/effects` waits for an effect, in seconds.
pub const MAX_EFFECTS_WAIT_S: u64 = 30;

/// Most failures that [`EffectCounts::last_failed`] shows.
pub const MAX_FAILURES_SHOWN: usize = 16;

/// Number of an effect: rising, over restarts too, not without gaps.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EffectNumber(pub u64);

impl fmt::Display for EffectNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for EffectNumber {
    type Err = std::num::ParseIntError;
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        s.parse().map(Self)
    }
}

/// An effect that waits, without what is in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WaitingEffect {
    /// Its number.
    pub number: EffectNumber,
    /// Its identity over all boxes, a ULID. A receiver that sees it twice was told twice.
    pub id: String,
    /// When the step wanted it.
    pub at: Wall,
    /// Pipeline of that step.
    pub pipeline: PipelineId,
    /// The step. What one step wants is done one after the other, in the order of the numbers.
    pub step: String,
    /// What it is, in few words.
    pub what: String,
    /// Bytes that it takes.
    pub bytes: u64,
}

/// An effect that waits, with everything that is in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SpooledEffect {
    /// Its number.
    pub number: EffectNumber,
    /// Its identity over all boxes, a ULID.
    pub id: String,
    /// When the step wanted it.
    pub at: Wall,
    /// Pipeline of that step.
    pub pipeline: PipelineId,
    /// The step.
    pub step: String,
    /// What is to be done.
    pub effect: Effect,
}

/// What came of an effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum EffectOutcome {
    /// It was done.
    Done,
    /// It was given up.
    Failed {
        /// Why, one sentence.
        why: String,
    },
}

/// An effect that was given up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FailedEffect {
    /// Its number.
    pub number: EffectNumber,
    /// When the step wanted it.
    pub at: Wall,
    /// Pipeline of that step.
    pub pipeline: PipelineId,
    /// The step.
    pub step: String,
    /// What it was, in few words.
    pub what: String,
    /// Why it was given up, one sentence.
    pub why: String,
}

/// How the effects of this box fare.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EffectCounts {
    /// That wait for the agent.
    pub waiting: u64,
    /// Bytes that these take.
    pub waiting_bytes: u64,
    /// That were taken over from steps since the runtime started.
    pub taken: u64,
    /// That were not, since the runtime started: not allowed, or too many waited. The step's `error_status` says so too.
    pub refused: u64,
    /// That were done since the runtime started.
    pub done: u64,
    /// That were given up, ever.
    pub failed: u64,
    /// The last of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last_failed: Vec<FailedEffect>,
}
