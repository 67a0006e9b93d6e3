//! Health of the runtime.

use serde::{Deserialize, Serialize};

/// Overall state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum HealthState {
    /// Everything that was asked for runs.
    Up,
    /// Something does not; the rest runs. `reasons` says what.
    Degraded,
}

/// Answer of `GET /v1/health`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Health {
    /// Overall state.
    pub state: HealthState,
    /// One sentence for each thing that is wrong.
    pub reasons: Vec<String>,
    /// Version of the runtime.
    pub version: String,
    /// Identity of this run of the runtime, new at every start.
    pub boot_id: String,
    /// Seconds since the runtime started.
    pub uptime_s: f64,
    /// Process id.
    pub pid: u32,
    /// Last event number in the journal; zero when it is empty.
    pub last_seq: crate::id::EventSeq,
    /// What workflows want done outside. A runtime that is older than this tells nothing of it.
    #[serde(default)]
    pub effects: crate::spool::EffectCounts,
    /// Channels that rules may name in `notify`.
    #[serde(default)]
    pub channels: Vec<crate::id::ChannelId>,
}
