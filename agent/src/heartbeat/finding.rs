//! Findings of the heartbeat.
//!
//! Invariant: a sentence consists of fixed words, numbers, validated names, and names of rules
//! without control characters. It contains nothing that a camera showed or a server answered.

use jiff::civil::Date;
use serde::Serialize;
use watchkeeper_contract::id::{ChannelId, PipelineId, SourceId};
use watchkeeper_contract::rule::Severity;
use watchkeeper_contract::source::Blindness;

use super::input::CameraState;
use watchkeeper_assistant::proposal::llm_proposal::words;
use watchkeeper_assistant::wording::{counted, cut};

/// Limit of a rule's name in a sentence, in characters.
const MAX_RULE: usize = 60;

/// Something to report.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Finding {
    /// The runtime does not answer; probably nothing is watched.
    RuntimeAway,
    /// A camera delivers no frames, or no useful picture.
    CameraOut {
        camera: SourceId,
        #[serde(flatten)]
        state: CameraState,
    },
    /// A pipeline that should run failed.
    PipelineFailed {
        pipeline: PipelineId,
        camera: SourceId,
    },
    /// Messages wait while no session with the broker is up.
    NotDelivered {
        /// Number of messages.
        waiting: u64,
    },
    /// The agent's disk is full or read-only. Reported at once, not by a check.
    NotStored {
        /// Whether the disk is read-only, and not full.
        is_read_only: bool,
    },
    /// Deliveries of a channel fail.
    ChannelSilent { channel: ChannelId },
    BudgetNearlySpent {
        /// `day` or `month`.
        period: &'static str,
        /// Percentage spent, rounded down.
        percent: u64,
    },
    /// Events of a rule need a person too often. Reported once a day.
    TooManyReviews {
        pipeline: PipelineId,
        rule: String,
        /// Events of the last day that need a person.
        doubtful: u64,
        /// All events of the rule in the last day.
        events: u64,
        /// Local day of the report.
        day: Date,
    },
    /// Second opinions had no answer.
    OpinionsGivenUp {
        /// Number since the last check.
        number: u64,
    },
}

impl Finding {
    /// Name of the kind; the last level of the MQTT topic.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::RuntimeAway => "runtime_away",
            Self::CameraOut { .. } => "camera_out",
            Self::PipelineFailed { .. } => "pipeline_failed",
            Self::NotDelivered { .. } => "not_delivered",
            Self::NotStored { .. } => "not_stored",
            Self::ChannelSilent { .. } => "channel_silent",
            Self::BudgetNearlySpent { .. } => "budget_nearly_spent",
            Self::TooManyReviews { .. } => "too_many_reviews",
            Self::OpinionsGivenUp { .. } => "opinions_given_up",
        }
    }

    pub const fn camera(&self) -> Option<&SourceId> {
        match self {
            Self::CameraOut { camera, .. } | Self::PipelineFailed { camera, .. } => Some(camera),
            Self::RuntimeAway
            | Self::NotDelivered { .. }
            | Self::NotStored { .. }
            | Self::ChannelSilent { .. }
            | Self::BudgetNearlySpent { .. }
            | Self::TooManyReviews { .. }
            | Self::OpinionsGivenUp { .. } => None,
        }
    }

    /// Identity of the finding over checks.
    pub fn key(&self) -> String {
        let about = match self {
            Self::ChannelSilent { channel } => channel.as_str(),
            Self::PipelineFailed { pipeline, .. } => pipeline.as_str(),
            Self::BudgetNearlySpent { period, .. } => *period,
            Self::TooManyReviews { pipeline, rule, .. } => {
                return format!("{}/{pipeline}/{rule}", self.kind());
            }
            other => other.camera().map_or("", SourceId::as_str),
        };
        format!("{}/{about}", self.kind())
    }

    /// State of the finding: a change is reported again.
    pub fn mark(&self) -> String {
        match self {
            Self::CameraOut { state, .. } => format!("{state:?}"),
            Self::BudgetNearlySpent { percent, .. } => format!("{}", *percent >= 100),
            Self::TooManyReviews { day, .. } => day.to_string(),
            Self::RuntimeAway
            | Self::PipelineFailed { .. }
            | Self::NotDelivered { .. }
            | Self::NotStored { .. }
            | Self::ChannelSilent { .. }
            | Self::OpinionsGivenUp { .. } => String::new(),
        }
    }

    pub const fn severity(&self) -> Severity {
        match self {
            Self::RuntimeAway | Self::PipelineFailed { .. } | Self::NotStored { .. } => {
                Severity::Critical
            }
            Self::CameraOut { .. }
            | Self::NotDelivered { .. }
            | Self::ChannelSilent { .. }
            | Self::TooManyReviews { .. } => Severity::Warning,
            Self::BudgetNearlySpent { .. } | Self::OpinionsGivenUp { .. } => Severity::Info,
        }
    }

    /// The report, for a user.
    pub fn sentence(&self) -> String {
        match self {
            Self::RuntimeAway => "the runtime does not answer, so probably nothing is watched; \
                see `systemctl status watchkeeper-runtime`"
                .to_owned(),
            Self::CameraOut { camera, state } => describe_camera(camera, *state),
            Self::PipelineFailed { pipeline, camera } => format!(
                "pipeline {pipeline} does not run, so it watches nothing of camera {camera}; see \
                 `watchkeeper pipelines` for the cause, and restart it with `watchkeeper \
                 pipelines resume {pipeline}`"
            ),
            Self::NotDelivered { waiting } => {
                let (messages, verb) = match waiting {
                    1 => ("message", "waits"),
                    _ => ("messages", "wait"),
                };
                format!(
                    "{waiting} {messages} {verb} for the broker, but there is no session with it; \
                     check [mqtt]"
                )
            }
            Self::NotStored { is_read_only } => describe_disk(*is_read_only),
            Self::ChannelSilent { channel } => {
                format!("channel {channel} delivers no notifications; check [channels.{channel}]")
            }
            Self::BudgetNearlySpent { period, percent } => format!(
                "{percent} % of the {period}'s budget for models is spent; llm.{period}_usd is \
                 the limit"
            ),
            Self::TooManyReviews {
                pipeline,
                rule,
                doubtful,
                events,
                ..
            } => describe_reviews(pipeline, rule, [*doubtful, *events]),
            Self::OpinionsGivenUp { number } => format!(
                "{} that the box was unsure of had no second opinion; see `watchkeeper trace`",
                counted(*number, "event")
            ),
        }
    }
}

/// Consequence of a disk that refuses writes.
const WHILE_DISK_REFUSES: &str = "new events wait in memory, recorded ones in the \
    journal, frames are dropped once too many wait, and commands are refused";

fn describe_disk(is_read_only: bool) -> String {
    let (state, remedy) = match is_read_only {
        true => ("read-only", "mount it for writing"),
        false => ("full", "free some space"),
    };
    format!(
        "the disk of the box is {state}, so it stores nothing: {WHILE_DISK_REFUSES}; {remedy}, and \
         see `watchkeeper doctor`"
    )
}

fn describe_camera(camera: &SourceId, state: CameraState) -> String {
    match state {
        CameraState::Blind {
            how: Blindness::Black,
        } => format!("camera {camera} shows nothing but one colour"),
        CameraState::Blind {
            how: Blindness::Frozen,
        } => format!("camera {camera} shows the same picture again and again"),
        CameraState::Blind {
            how: Blindness::Moved,
        } => format!("camera {camera} shows another view than usual"),
        CameraState::Blind {
            how: Blindness::Covered,
        } => format!("camera {camera} is covered"),
        CameraState::Blind {
            how: Blindness::Blurred,
        } => format!("camera {camera} is out of focus, dirty, fogged or dazzled"),
        CameraState::Out { cause } => format!(
            "camera {camera} is out ({}); see `watchkeeper sources`",
            describe_cause(&cause)
        ),
        CameraState::Live | CameraState::Other => format!("camera {camera} is unavailable"),
    }
}

/// The serialised name of a cause, with spaces.
fn describe_cause(cause: &impl Serialize) -> String {
    let name = serde_json::to_value(cause).unwrap_or_default();
    name.as_str().unwrap_or("other").replace('_', " ")
}

/// Describes a rule of which `doubtful` of `events` need a person.
fn describe_reviews(pipeline: &PipelineId, rule: &str, [doubtful, events]: [u64; 2]) -> String {
    format!(
        "{doubtful} of {events} events of the rule {:?} of pipeline {pipeline} in the last day \
         need a person, more than a tenth; answer them (`watchkeeper reviews`), or change the \
         rule's place, classes or gates",
        cut(words(rule), MAX_RULE)
    )
}
