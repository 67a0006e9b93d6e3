//! The parts of the runtime that every pipeline thread uses.
//!
//! - All are shared with other threads. Only the claim to networks and the definition belong
//!   to one pipeline.

use std::sync::Arc;
use std::time::Duration;

use watchkeeper_contract::id::SourceId;
use watchkeeper_detect::Claim;

use crate::boot::Boot;
use crate::capture::mailbox::FrameReceiver;
use crate::coverage::CoverageLedger;
use crate::journal::Answers;
use crate::journal::media::MediaStore;
use crate::metrics::Metrics;
use crate::pipeline::recorder::Recorder;

/// Longest wait for a pipeline to stop: its frame, its video
/// ([`FINISH_TIMEOUT`](crate::media::video::FINISH_TIMEOUT)) and its last events.
pub const STOP_TIMEOUT: Duration = Duration::from_secs(40);

/// Finds sources by name; implemented by the manager, so that a replaced source is found again.
pub trait Subscribe: Send + Sync {
    /// Subscribes to `source`; `None` while it does not exist.
    fn subscribe(&self, source: &SourceId) -> Option<FrameReceiver>;
}

/// Parts of the runtime for a pipeline thread.
#[derive(Clone)]
pub struct Services {
    pub sources: Arc<dyn Subscribe>,
    /// Makes events durable.
    pub recorder: Recorder,
    /// Stores the clips of events.
    pub media: Arc<MediaStore>,
    pub metrics: Arc<Metrics>,
    /// Answers that calibrate its rules.
    pub answers: Arc<Answers>,
    /// Records when the pipeline watched.
    pub coverage: Arc<CoverageLedger>,
    pub boot: Boot,
    /// Claim of the pipeline to networks that other pipelines use too.
    pub claim: Arc<Claim>,
    /// SHA-256 of its definition, where that is stored.
    pub definition: Option<String>,
    /// Longest wait for the pipeline to stop, usually [`STOP_TIMEOUT`].
    pub stop_timeout: Duration,
}
