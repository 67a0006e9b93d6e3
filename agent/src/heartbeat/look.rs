//! What a heartbeat looks at, as plain data.

use jiff::civil::{Date, DateTime};
use serde::{Deserialize, Serialize};
use watchkeeper_contract::id::{ChannelId, EventSeq, PipelineId, SourceId};
use watchkeeper_contract::pipeline::{PipelineState, PipelineStatus};
use watchkeeper_contract::source::{Blindness, LossCause, SourceState, SourceStatus};
use watchkeeper_contract::time::Wall;
use watchkeeper_llm::money::Money;

/// One look.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    /// When.
    pub at: Wall,
    /// The same at the box; none where its clock was never set.
    pub local: Option<DateTime>,
    /// What the runtime said; none where it does not answer.
    pub house: Option<House>,
    /// Messages that wait for the broker while there is no session with it.
    pub undelivered: u64,
    /// Channels over which nobody can be told.
    pub silent_channels: Vec<ChannelId>,
    /// What was spent on models; none where none is configured, or its books can't be read.
    pub budget: Option<Budget>,
    /// Second opinions that had no answer, since the agent's start.
    pub given_up: u64,
}

/// What the runtime said.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct House {
    /// Its cameras.
    pub cameras: Vec<Camera>,
    /// Its pipelines that are wanted and do not run.
    pub failed: Vec<FailedPipeline>,
    /// Events since the look before.
    pub events: Vec<Moment>,
    /// Up to which record the journal was read.
    pub cursor: EventSeq,
    /// Records in between were not read: there were too many, or the journal has dropped them.
    pub is_cut: bool,
}

/// A camera.
#[derive(Debug, Clone, PartialEq)]
pub struct Camera {
    /// Its name.
    pub id: SourceId,
    /// What it does.
    pub state: CameraState,
    /// Since when.
    pub since: Wall,
}

/// A pipeline that has failed, can't run or is held.
#[derive(Debug, Clone, PartialEq)]
pub struct FailedPipeline {
    /// Its name.
    pub id: PipelineId,
    /// What it should watch.
    pub camera: SourceId,
    /// Since when.
    pub since: Wall,
}

impl FailedPipeline {
    /// A pipeline of the runtime, where it is one.
    #[must_use]
    pub fn of(pipeline: &PipelineStatus) -> Option<Self> {
        let is_failed = matches!(pipeline.state, PipelineState::Failed { .. });
        // What a person paused is not missed.
        (is_failed && !pipeline.spec.paused).then(|| Self {
            id: pipeline.spec.id.clone(),
            camera: pipeline.spec.source.clone(),
            since: pipeline.since,
        })
    }
}

/// What a camera does, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum CameraState {
    /// It shows something.
    Live,
    /// It shows nothing useful.
    Blind {
        /// How.
        how: Blindness,
    },
    /// It is out.
    Out {
        /// Why.
        cause: LossCause,
    },
    /// Nobody wants it, it is at its end, or it begins.
    Other,
}

impl Camera {
    /// A source of the runtime.
    #[must_use]
    pub fn of(source: &SourceStatus) -> Self {
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

/// An event of a camera, by the hour in which it began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment {
    /// The camera.
    pub camera: SourceId,
    /// When.
    pub hour: Hour,
}

/// An hour at the box.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Hour {
    /// The day.
    pub day: Date,
    /// 0 to 23.
    pub hour: u8,
}

impl Hour {
    /// The one in which this moment lies.
    #[must_use]
    pub fn of(at: DateTime) -> Self {
        Self {
            day: at.date(),
            hour: u8::try_from(at.hour()).unwrap_or(0).min(23),
        }
    }

    /// The one after it.
    #[must_use]
    pub fn next(self) -> Self {
        match self.hour {
            23 => Self {
                day: self.day.tomorrow().unwrap_or(self.day),
                hour: 0,
            },
            hour => Self {
                hour: hour + 1,
                ..self
            },
        }
    }
}

/// What was spent on models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Budget {
    /// Of the day's money.
    pub day: Money,
    /// The day's money.
    pub day_limit: Money,
    /// Of the month's money.
    pub month: Money,
    /// The month's money.
    pub month_limit: Money,
}
