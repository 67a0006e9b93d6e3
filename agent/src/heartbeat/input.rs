//! Input of a heartbeat's check, as plain data.
//!
//! - What was not answered is absent, never empty: without a runtime no camera is judged.
//! - Hours are those of the box's time zone; without a set clock there are none.

use jiff::{SignedDuration, Zoned};
use serde::{Deserialize, Serialize};
use watchkeeper_contract::id::{ChannelId, EventSeq, PipelineId, SourceId};
use watchkeeper_contract::pipeline::{PipelineState, PipelineStatus};
use watchkeeper_contract::review::ReviewShare;
use watchkeeper_contract::source::{Blindness, LossCause, SourceState, SourceStatus};
use watchkeeper_contract::time::Wall;
use watchkeeper_llm::money::Money;
use watchkeeper_memory::Note;

/// Everything that one check considers.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckInput {
    /// Time of the check.
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

/// The runtime's report for one check.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RuntimeReport {
    pub cameras: Vec<Camera>,
    /// Pipelines that should run but failed.
    pub failed: Vec<FailedPipeline>,
    /// Events since the last check.
    pub events: Vec<CameraEvent>,
    /// Rules whose events need a person too often.
    pub review_shares: Vec<ReviewShare>,
    /// Last journal record that was read.
    pub cursor: EventSeq,
    /// Whether records were skipped: too many, or deleted from the journal.
    pub is_cut: bool,
}

/// State of one camera.
#[derive(Debug, Clone, PartialEq)]
pub struct Camera {
    pub id: SourceId,
    pub state: CameraState,
    /// Start of the state.
    pub since: Wall,
}

/// A pipeline that failed.
#[derive(Debug, Clone, PartialEq)]
pub struct FailedPipeline {
    pub id: PipelineId,
    /// Source of the pipeline.
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

/// An event of a camera, with the hour of its start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CameraEvent {
    pub camera: SourceId,
    pub hour: Hour,
}

/// An hour in the box's time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Hour {
    /// Hours since 1970, counted at the bounds of the box's hours: a change of the clock neither
    /// skips a number nor repeats one.
    pub number: i64,
    /// Hour of the day, 0 to 23.
    pub hour: u8,
}

impl Hour {
    /// The hour that contains `at`.
    pub(crate) fn from_zoned(at: &Zoned) -> Self {
        // Some zones differ from UTC by half an hour.
        let shift = at.offset().seconds().rem_euclid(3600);
        Self {
            number: (at.timestamp().as_second() + i64::from(shift)).div_euclid(3600),
            hour: u8::try_from(at.hour()).unwrap_or(0).min(23),
        }
    }

    /// The hour that contains the time `hours` before `at`.
    pub(crate) fn before(at: &Zoned, hours: i64) -> Self {
        let before = at.checked_sub(SignedDuration::from_hours(hours));
        Self::from_zoned(before.as_ref().unwrap_or(at))
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
