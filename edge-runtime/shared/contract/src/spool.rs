//! Effects in the spool: what the runtime keeps until the agent has executed it.
//!
//! The runtime numbers the effects of its workflows and keeps them on disk. The agent fetches,
//! executes and reports them.
//!
//! - A number is given once, over restarts too.
//! - An effect stays until one [`EffectOutcome`] was reported.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::effect::Effect;
use crate::id::{PipelineId, number_type};
use crate::time::Wall;

/// Most effects in one answer of `GET /v1/effects`.
pub const MAX_EFFECTS_PAGE: u64 = 256;

/// Longest that `GET /v1/effects` waits for an effect, in seconds.
pub const MAX_EFFECTS_WAIT_S: u64 = 30;

/// Most entries of [`EffectCounts::last_failed`].
pub const MAX_FAILURES_SHOWN: usize = 16;

number_type!(
    /// Number of an effect: rising over restarts too, not without gaps.
    EffectNumber
);

/// An effect in the spool, without its contents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WaitingEffect {
    pub number: EffectNumber,
    /// Idempotency key over all boxes, a ULID: the same id is the same effect sent again.
    pub id: String,
    /// When the step made it.
    pub at: Wall,
    /// Pipeline of that step.
    pub pipeline: PipelineId,
    /// Step that made it. The effects of one step are executed one after the other, in the order of
    /// their numbers.
    pub step: String,
    /// Short name of the effect.
    pub what: String,
    /// Size in bytes.
    pub bytes: u64,
}

/// An effect in the spool, with its contents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SpooledEffect {
    pub number: EffectNumber,
    /// Idempotency key over all boxes, a ULID.
    pub id: String,
    /// When the step made it.
    pub at: Wall,
    /// Pipeline of that step.
    pub pipeline: PipelineId,
    /// Step that made it.
    pub step: String,
    pub effect: Effect,
}

/// Result of an effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum EffectOutcome {
    Done,
    /// It was given up.
    Failed {
        /// Reason in one sentence.
        why: String,
    },
}

/// An effect that was given up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FailedEffect {
    pub number: EffectNumber,
    /// When the step made it.
    pub at: Wall,
    /// Pipeline of that step.
    pub pipeline: PipelineId,
    /// Step that made it.
    pub step: String,
    /// Short name of the effect.
    pub what: String,
    /// Reason in one sentence.
    pub why: String,
}

/// Counts of the effects of this box.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct EffectCounts {
    /// Effects that wait for the agent.
    pub waiting: u64,
    /// Bytes that these take.
    pub waiting_bytes: u64,
    /// Effects accepted from steps since the runtime started.
    pub taken: u64,
    /// Effects refused since the runtime started: not allowed, too many waited, or the disk
    /// refused them. The step's `error_status` reports it too.
    pub refused: u64,
    /// Effects executed since the runtime started.
    pub done: u64,
    /// Effects given up, ever.
    pub failed: u64,
    /// The last of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last_failed: Vec<FailedEffect>,
}
