//! The file of a checkpoint: mark, checksum, MessagePack.
//!
//! - A file of another format, a damaged or an incomplete one is refused.
//! - At most [`MAX_BYTES`].
//! - Times of two processes are compared by the boot clock within one boot of the machine, across
//!   boots by synchronised wall clocks only.
//! - Not here: when a checkpoint is written, and what a restored one is used for.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use watchkeeper_contract::id::{PipelineId, SourceId};
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::time::{TimeQuality, Wall};
use watchkeeper_store::machine_boot;

use crate::clock;
use crate::guard::fingerprint;
use crate::pipeline::run::RunState;

/// First bytes of a file; the last one is the format.
const MARK: &[u8] = b"watchkeeper pipeline \x02";

/// Largest file; the state of the workflow takes at most half of it.
pub(super) const MAX_BYTES: u64 = 2 << 20;

/// The counts of a pipeline and the state of its run.
#[derive(Debug, Serialize, Deserialize)]
pub struct CheckpointData {
    /// When its counts began.
    pub counting_since: Option<Wall>,
    pub events: u64,
    /// Whether the run went on after it was saved: a restart from it misses counts.
    #[serde(default)]
    pub is_interim: bool,
    /// When the run was last saved before a stop without notice; counts from there to the stop may
    /// be missing.
    #[serde(default)]
    pub incomplete_after: Option<Wall>,
    pub run: RunState,
}

/// The contents of a file.
#[derive(Serialize, Deserialize)]
pub(super) struct CheckpointFile {
    pub(super) source: SourceId,
    pub(super) at: Stamp,
    /// `None` when the pipeline failed or its duration has passed.
    #[serde(rename = "memory")]
    pub(super) data: Option<CheckpointData>,
    /// How much of its duration had passed when the pipeline failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) elapsed: Option<Duration>,
    /// Fingerprint of the specification whose duration has passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) over: Option<String>,
}

/// Fingerprint of a specification; a pause does not change it.
pub(super) fn fingerprint_of(spec: &PipelineSpec) -> String {
    fingerprint(&PipelineSpec {
        paused: false,
        ..spec.clone()
    })
}

/// A moment that another process can compare with its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Stamp {
    /// Identity of the machine's boot; empty if there is none.
    pub(super) machine_boot: String,
    /// Milliseconds since the boot, including suspend.
    pub(super) boot_ms: u64,
    pub(super) wall: Wall,
}

impl Stamp {
    pub(super) fn now() -> Self {
        let boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Self {
            machine_boot: machine_boot(),
            boot_ms: Duration::try_from(boot).map_or(0, clock::millis),
            wall: clock::wall(),
        }
    }

    /// The time from `self` to `later`. The wall clock is used only across a boot of the machine,
    /// and only if it was synchronised at both moments.
    pub(super) fn until(&self, later: &Self) -> Option<Duration> {
        let ms = if self.machine_boot == later.machine_boot && !self.machine_boot.is_empty() {
            later.boot_ms.checked_sub(self.boot_ms)
        } else if [self, later].map(|s| s.wall.quality) == [TimeQuality::Synced; 2] {
            u64::try_from(later.wall.unix_ms.saturating_sub(self.wall.unix_ms)).ok()
        } else {
            None
        };
        ms.map(Duration::from_millis)
    }
}

pub(super) fn file_name(id: &PipelineId) -> String {
    format!("{id}.state")
}

pub(super) fn encode(file: &CheckpointFile) -> Result<Vec<u8>, String> {
    let body = rmp_serde::to_vec_named(file).map_err(|error| error.to_string())?;
    let bytes = [MARK, Sha256::digest(&body).as_slice(), &body].concat();
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!(
            "{} bytes, more than the limit of {MAX_BYTES}",
            bytes.len()
        ));
    }
    Ok(bytes)
}

pub(super) fn decode(bytes: &[u8]) -> Result<CheckpointFile, String> {
    let rest = bytes
        .strip_prefix(MARK)
        .ok_or("the file was written by another version")?;
    let (sum, body) = rest.split_at_checked(32).ok_or("the file is cut off")?;
    if Sha256::digest(body).as_slice() != sum {
        return Err("the file is damaged".to_owned());
    }
    rmp_serde::from_slice(body).map_err(|error| error.to_string())
}
