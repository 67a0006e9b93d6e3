//! Input of a heartbeat's check, as plain data.
//!
//! - What was not answered is absent, never empty: without a runtime no camera is judged.

use jiff::Zoned;
use serde::{Deserialize, Serialize};
use watchkeeper_contract::id::{ChannelId, PipelineId, SourceId};
use watchkeeper_contract::pipeline::{PipelineState, PipelineStatus};
use watchkeeper_contract::review::ReviewShare;
use watchkeeper_contract::source::{Blindness, LossCause, SourceState, SourceStatus};
use watchkeeper_contract::time::Wall;
use watchkeeper_llm::money::Money;
use watchkeeper_memory::Note;

/// Everything that one check considers.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckInput {
    pub at: Wall,
    /// Local time of the check; absent if the clock was never set.
    pub local: Option<Zoned>,
    /// Report of the runtime; absent if it does not answer.
    pub runtime: Option<RuntimeReport>,
    /// Messages that wait for a broker while no session is up.
    pub undelivered: u64,
    /// Channels whose deliveries fail.
    pub failing_channels: Vec<ChannelId>,
    /// Spending; absent without a model or a readable ledger.
    pub budget: Option<Budget>,
    /// Second opinions without an answer since the agent's start.
    pub opinions_without_answer: u64,
    /// Latest observations of the cameras with findings, from the notes; read once a check found
    /// something.
    pub observations: Vec<Note>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct RuntimeReport {
    pub cameras: Vec<Camera>,
    /// Pipelines that should run but failed.
    pub failed: Vec<FailedPipeline>,
    /// Rules whose events need a person too often.
    pub review_shares: Vec<ReviewShare>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Camera {
    pub id: SourceId,
    pub state: CameraState,
    /// Start of the state.
    pub since: Wall,
}

#[derive(Debug, Clone, PartialEq)]
pub struct FailedPipeline {
    pub id: PipelineId,
    pub camera: SourceId,
    /// Start of the state.
    pub since: Wall,
}

impl FailedPipeline {
    /// `Some` where `pipeline` failed and is not paused.
    pub(crate) fn from_status(pipeline: &PipelineStatus) -> Option<Self> {
        let is_failed = matches!(pipeline.state, PipelineState::Failed { .. });
        // A paused pipeline is not expected to run.
        (is_failed && !pipeline.spec.paused).then(|| Self {
            id: pipeline.spec.id.clone(),
            camera: pipeline.spec.source.clone(),
            since: pipeline.since,
        })
    }
}

/// State of a camera, as far as findings need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum CameraState {
    Live,
    /// Live, but its picture does not show what it should.
    Blind {
        how: Blindness,
    },
    /// It delivers no frames.
    Out {
        cause: LossCause,
    },
    /// Idle, ended or connecting.
    Other,
}

impl Camera {
    /// State of the runtime's `source`.
    pub(crate) fn from_status(source: &SourceStatus) -> Self {
        let state = match &source.state {
            SourceState::Live { blind: None } => CameraState::Live,
            SourceState::Live { blind: Some(how) } => CameraState::Blind { how: *how },
            SourceState::Lost { cause, .. } | SourceState::Failed { cause, .. } => {
                CameraState::Out { cause: *cause }
            }
            SourceState::Connecting { .. } | SourceState::Ended | SourceState::Idle => {
                CameraState::Other
            }
        };
        Self {
            id: source.spec.id.clone(),
            state,
            since: source.since,
        }
    }
}

/// Spending on models, with its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Budget {
    /// Amount spent in the present UTC day.
    pub day: Money,
    pub day_limit: Money,
    /// Amount spent in the present UTC month.
    pub month: Money,
    pub month_limit: Money,
}
