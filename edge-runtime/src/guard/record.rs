//! The record kept from run to run, and its format on disk.
//!
//! - Invariant: a record of a newer format is recognised, whatever fields it has.
//! - Not here: what follows from a record (`policy`), the file (`file`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use watchkeeper_contract::id::{EventId, PipelineId};

/// Version of [`Record`].
pub(super) const FORMAT: u16 = 1;

/// How far a run of the runtime got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The run started less than [`EARLY`](super::EARLY) ago.
    Starting,
    /// The run lasted for at least [`EARLY`](super::EARLY).
    Healthy,
    /// The run was asked to stop, or refused to start with a reason.
    Stopped,
}

/// A pipeline that is held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Fingerprint of the held specification.
    pub fingerprint: String,
    /// The reason in one sentence.
    pub why: String,
    /// The open event about the hold.
    pub event: EventId,
    /// Minutes of a running runtime after which the pipeline is tried again; `None`: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_min: Option<u64>,
}

/// The state kept from run to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub(super) format: u16,
    /// Identity of the machine's boot in which this run started.
    pub(super) machine: String,
    pub(super) stage: Stage,
    pub(super) early_deaths: u32,
    /// Holds of pipelines of which none was changed, since one was last trusted.
    #[serde(default)]
    pub(super) unchanged_holds: u32,
    /// Fingerprints of pipelines that ran for [`EARLY`](super::EARLY).
    pub(super) trusted: BTreeMap<PipelineId, String>,
    pub(super) held: BTreeMap<PipelineId, Held>,
}

impl Default for Record {
    fn default() -> Self {
        Self {
            format: FORMAT,
            machine: String::new(),
            stage: Stage::Stopped,
            early_deaths: 0,
            unchanged_holds: 0,
            trusted: BTreeMap::new(),
            held: BTreeMap::new(),
        }
    }
}
