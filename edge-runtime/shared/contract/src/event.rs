//! Events: what the box decided is worth reporting, with the evidence and the reason.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::assessment::Assessment;
pub use crate::chain::{
    ChainBreak, ChainGap, ChainLoss, ChainLossCause, ChainPart, ChainReport, ChainStart, GapCause,
    LostRange,
};
use crate::confidence::round_down;
pub use crate::confidence::{confidence_text, gate_text};
use crate::id::{ChannelId, EventId, EventSeq, PipelineId, SourceId, TrackId};
use crate::model::BackendChangeResult;
use crate::rule::{BelowGates, ClipMaterial, DecideSpec, Gates, Severity};
use crate::source::{Blindness, LossCause};
use crate::time::Wall;

/// Version of [`Event`] as written by this build.
pub const EVENT_SCHEMA: u16 = 1;

/// Most records of the journal that one request returns or checks.
pub const MAX_PAGE: u32 = 1000;
/// Most bytes of [`Evidence::data`] as JSON.
pub const MAX_EVIDENCE_DATA: usize = 4096;
/// Most readings of one event.
pub const MAX_READINGS: usize = 8;
/// Longest [`Reading::value`] in characters.
pub const MAX_READING_CHARS: usize = 200;

/// One record of the journal.
///
/// All records of an event have the same id: one `new`, any number of `update` and one `end`. There
/// is one `clip` where `new` announces a clip, and one `assessed` for each assessment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Version of the record's schema.
    pub schema: u16,
    /// Id of the event, the same in all its records.
    pub id: EventId,
    /// Position in the journal; set when the record is appended.
    pub seq: EventSeq,
    /// Id of the run of the runtime that wrote it.
    pub boot_id: String,
    /// Milliseconds since the runtime started, monotonic.
    pub mono_ms: u64,
    /// Wall clock, UTC.
    pub at: Wall,
    /// Which part of the event this record holds.
    pub phase: Phase,
    /// Source of the event; absent for events about the box.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceId>,
    /// Pipeline that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<PipelineId>,
    /// SHA-256 (hex) of the pipeline's definition; absent if the box could not store that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<String>,
    /// How much it matters.
    pub severity: Severity,
    pub body: EventBody,
    /// The box's decision, and its reason.
    pub decision: Decision,
    /// Observations that the decision was computed from.
    pub evidence: Vec<Evidence>,
    /// Pictures that were kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub media: Vec<Media>,
    /// Only in `assessed`: what a person, a second opinion or a chain says. `decision` and
    /// `evidence` take it into account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assessment: Option<Box<Assessment>>,
    /// Clip that its rule keeps: announced by `new`, complete or lost by `clip`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clip: Option<Clip>,
    /// SHA-256 (hex) over this record without this field, and over the hash of its predecessor. Set
    /// when the record is appended.
    pub hash: String,
}

/// Part of an event that a record holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The event began.
    New,
    /// It continues, and something about it changed.
    Update,
    /// It ended. An event without duration (a crossing) is `new` followed at once by `end`.
    End,
    /// Its clip is complete, or lost. It may come after `end` and changes nothing about the event.
    Clip,
    /// A person, a second opinion or a chain assessed it. It may come after `end`.
    Assessed,
}

/// Subject of an event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EventBody {
    /// A rule of a pipeline fired.
    Rule(Box<RuleEvent>),
    /// A source delivers nothing, or nothing useful. Ends when frames come again.
    SourceOutage {
        /// Why no frame comes; absent when frames come.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<LossCause>,
        /// What is wrong with frames that come; absent when none comes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        blind: Option<Blindness>,
        /// One sentence, free of credentials.
        message: String,
        /// Duration in seconds; set at the end, absent if nobody saw that: the source was replaced,
        /// removed, left, or lost while its frames showed nothing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lasted_s: Option<f64>,
    },
    /// A pipeline is held, because the runtime died several times soon after its start. Ends when a
    /// user resumes it.
    PipelineHeld {
        /// One sentence: the reason, and how to resume it.
        message: String,
    },
    /// A pipeline has failed or can't run, and watches nothing. Ends when it has run for a minute
    /// without failure, or was deleted.
    PipelineFailed {
        /// One sentence: the reason, and whether it is restarted.
        message: String,
        /// Restarts since the first failure.
        tries: u32,
        /// Seconds from the first failure until it ran again; set at the end, absent if it did not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lasted_s: Option<f64>,
    },
    /// A step of a pipeline fails in most runs. Ends when it works again, or the pipeline takes no
    /// more frames.
    StepFailing {
        /// Name of the step.
        step: String,
        /// Runs in which it failed so far.
        failures: u64,
        /// One sentence: the step, and its last failure.
        message: String,
        /// Seconds of source time until it worked again; set at the end, absent if that was not
        /// observed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lasted_s: Option<f64>,
    },
    /// The box is hot and does less. Each step is an `update`. Ends when nothing is shed any more.
    LoadShed {
        /// How much is shed: 0 is nothing, 6 is all that may be.
        level: u8,
        /// One sentence: what is shed, and why.
        message: String,
        /// Seconds since the first step; set at the end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lasted_s: Option<f64>,
    },
    /// Heat or a low supply voltage slows the board down. Ends when neither was seen for a while.
    BoardThrottled {
        /// One sentence: the cause, and the remedy.
        message: String,
        /// Duration in seconds; set at the end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lasted_s: Option<f64>,
    },
    /// A storage device is near the end of its life time; reported once in a run of the runtime.
    StorageWorn {
        /// Name of the device, such as `mmcblk0`.
        drive: String,
        /// One sentence: the life time used, and the remedy.
        message: String,
    },
    /// The processor decodes a camera although hardware was expected; reported when a stream opens
    /// for a reason that was not reported before.
    DecoderFallback {
        /// GStreamer element that decodes, such as `avdec_h264`.
        element: String,
        /// One sentence with the cause, and the remedy.
        message: String,
    },
    /// A frame of a source was kept at a request; its picture is in `media`.
    FrameKept { message: String },
    /// A model changes its back end in the background. Ends with the result; a back end that fails
    /// after the change makes another event.
    BackendChange {
        model: String,
        /// Back end that served when the change began.
        from: String,
        /// Back end that may replace it.
        to: String,
        /// Set at the end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<BackendChangeResult>,
        /// One sentence with the reason, and the remedy where it failed.
        message: String,
    },
    /// Something that should have been kept was lost.
    Loss {
        /// Queue or store that lost it.
        from: String,
        /// Number of entries; with `chain`, at most.
        count: u64,
        message: String,
        /// Which records are missing from the journal; absent if none of its records is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        chain: Option<Box<ChainLoss>>,
    },
}

/// Details of an event that a rule made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RuleEvent {
    /// Name of the rule.
    pub rule: String,
    /// Kind of its condition: `appears`, `enters`, `leaves`, `stays`, `crosses`, `count`, `value`.
    pub condition: String,
    /// One sentence: what happened, and which bound was passed.
    pub reason: String,
    /// Class of the object, where the event is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Tracks it is about.
    pub tracks: Vec<TrackId>,
    /// Zone it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Line it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
    /// `in` or `out`, for crossings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<String>,
    /// Number that was compared, for counts and values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<f64>,
    /// Seconds in the zone, or for `appears` in sight, so far; in all, at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dwell_s: Option<f64>,
    /// Best score of the object so far, `0.0..=1.0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// Bounding box of the object, normalised `[x_min, y_min, x_max, y_max]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bbox: Option<[f64; 4]>,
    /// Number of the frame of the bounding box and of the pictures, where that is an earlier one:
    /// the latest that shows the object well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown_frame: Option<u64>,
    /// Number of the frame in its source, from 1.
    pub frame: u64,
    /// Presentation time of that frame in seconds since the source began.
    pub pts_s: f64,
    /// Events that the cool-down or the hourly limit suppressed since the last one.
    #[serde(default)]
    pub held_back: u32,
    /// Channels that the rule names. Kept in the event, because the rule may have changed when it
    /// is sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notify: Vec<ChannelId>,
    /// Channels that the rule names for certain events. In a record that must not notify them any
    /// more, the list is empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on_act: Vec<ChannelId>,
    /// Codes and texts that the workflow read, where the rule has a chain that names them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub readings: Vec<Reading>,
    /// Chain of sources that decides about the event. Kept in the event, because the rule may have
    /// changed when they answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decide: Option<Box<DecideSpec>>,
}

/// A code or text that the workflow read near the start of an event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Reading {
    pub kind: ReadingKind,
    /// One line, at most 200 characters. It comes from the scene, so it is not verified.
    pub value: String,
    /// Score of the reader, `0.0..=1.0`; absent if it gives none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
}

/// Kind of a reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReadingKind {
    /// A barcode or two-dimensional code, such as QR.
    Code,
    /// Text in the picture.
    Text,
}

/// Verdict on an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Too weak: counted, not journaled.
    Discard,
    /// Ask for a second opinion.
    Escalate,
    /// A person should look at it.
    Review,
    /// Certain enough to be recorded without review.
    Record,
    /// Certain enough to act upon.
    Act,
}

/// A decision with its reason.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Decision {
    /// What to do.
    pub verdict: Verdict,
    /// Weighted confidence it rests on, `0.0..=1.0`.
    pub confidence: f64,
    /// Confidence that the evidence alone gives, `0.0..=1.0`. Present where answers of people
    /// calibrated `confidence`, and in the records of assessments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_confidence: Option<f64>,
    /// One sentence that names the gate and the weakest and strongest evidence.
    pub reason: String,
    /// With the verdict `escalate`: what a second opinion may change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asks: Option<Asks>,
}

impl Decision {
    /// Confidence in whole percent, rounded down: 69.9 % does not look as if it passed a gate of
    /// 70 %.
    pub fn percent(&self) -> f64 {
        round_down(self.confidence, 100.0)
    }
}

/// Changes that a second opinion may make to an event. Kept in the event, because the rule may have
/// changed when the opinion comes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Asks {
    /// Confidence gates of the decision.
    pub gates: Gates,
    /// Whether the opinion may also lower the verdict.
    pub may_lower: bool,
    /// What happens below the last gate.
    #[serde(default)]
    pub below_gates: BelowGates,
}

/// One observation that a confidence is computed from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Evidence {
    /// What was observed, such as `detector_score`, `track_age`, `box_stability`, `rule_margin`.
    pub source: String,
    /// Confidence of the observation, `0.0..=1.0`.
    pub confidence: f64,
    /// Weight in the sum.
    pub weight: f64,
    /// The observation in words; of a failed source, the cause.
    pub note: String,
    /// Whether the source failed. Its confidence is then 0. In a chain its weight counts; that of
    /// a second opinion is 0.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
    /// Reading or answer, at most 4,096 bytes of JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub data: Option<Value>,
    /// When the source answered or failed; absent for observations of the box.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Wall>,
    /// Milliseconds until the answer or the failure, pauses between tries included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
    /// Cost in US dollars; absent for sources that cost nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

impl Evidence {
    /// An observation of the box, without data, time and cost.
    pub fn new(source: impl Into<String>, confidence: f64, weight: f64, note: String) -> Self {
        Self {
            source: source.into(),
            confidence,
            weight,
            note,
            failed: false,
            data: None,
            at: None,
            took_ms: None,
            cost_usd: None,
        }
    }
}

/// A picture that belongs to an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Media {
    /// Id under `/v1/media/{id}`.
    pub id: String,
    /// What it shows.
    pub kind: MediaKind,
    pub content_type: String,
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256 of the file, hex.
    pub sha256: String,
}

/// What a kept picture shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MediaKind {
    /// The frame as it came.
    Clean,
    /// The frame with bounding boxes, lines and zones drawn.
    Annotated,
}

/// The clip of an event: the camera from some seconds before its begin until some seconds after.
/// Events that follow each other closely may share one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Clip {
    /// Id under `/v1/media/{id}`; available once the clip is kept.
    pub id: String,
    /// Arrival of its first picture.
    pub start: Wall,
    /// Arrival of its last picture; absent while it is being recorded, and where it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Wall>,
    /// Seconds of it before the event, in source time. Can be fewer than the rule asks for.
    pub before_s: f64,
    /// Seconds of it after the event began: those that the rule asks for while it is being
    /// recorded, then those that it has.
    pub after_s: f64,
    /// Pictures missing because the source lost them, or the encoder or the disk was too slow; set
    /// when it is complete.
    #[serde(default)]
    pub left_out: u32,
    /// What it is made of.
    #[serde(default, skip_serializing_if = "ClipMaterial::is_default")]
    pub made_of: ClipMaterial,
    /// Why it is made of pictures although its rule asks for the stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    pub state: ClipState,
}

/// State of a clip.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClipState {
    /// It is being recorded; a record `clip` of the same event says whether it was kept.
    Filming,
    /// It can be fetched.
    Kept {
        /// MIME type: `video/mp4`, or `video/webm` on a box that has no encoder for MP4.
        content_type: String,
        /// Size in bytes.
        bytes: u64,
        /// SHA-256 of the file, hex.
        sha256: String,
    },
    /// There is none.
    Lost {
        /// Reason in one sentence.
        message: String,
    },
}

impl ClipState {
    /// Returns MIME type and SHA-256 of its file, or why there is none.
    ///
    /// # Errors
    /// A phrase with the subject "it".
    pub fn file(&self) -> Result<(&str, &str), String> {
        match self {
            Self::Filming => Err("it was still being recorded".to_owned()),
            Self::Kept {
                content_type,
                sha256,
                ..
            } => Ok((content_type, sha256)),
            Self::Lost { message } => Err(format!("it was lost: {message}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::PipelineState;
    use crate::source::{Blindness, SourceState};

    #[test]
    fn names_are_those_of_json() {
        fn name(value: impl Serialize) -> serde_json::Value {
            let value = serde_json::to_value(value).unwrap_or_default();
            value.get("state").cloned().unwrap_or(value)
        }
        for verdict in [
            Verdict::Discard,
            Verdict::Escalate,
            Verdict::Review,
            Verdict::Record,
            Verdict::Act,
        ] {
            assert_eq!(name(verdict), verdict.name());
        }
        for state in [
            PipelineState::Starting,
            PipelineState::Running,
            PipelineState::Paused,
            PipelineState::Ended,
            PipelineState::Stopped,
            PipelineState::Failed {
                message: String::new(),
            },
        ] {
            assert_eq!(name(&state), state.name());
        }
        for state in [
            SourceState::Connecting { attempt: 1 },
            SourceState::Live { blind: None },
            SourceState::Lost {
                cause: LossCause::Other,
                message: String::new(),
                retry_in_s: 0.0,
            },
            SourceState::Failed {
                cause: LossCause::Other,
                message: String::new(),
            },
            SourceState::Ended,
            SourceState::Idle,
        ] {
            assert_eq!(name(&state), state.name());
        }
        for how in [
            Blindness::Frozen,
            Blindness::Black,
            Blindness::Moved,
            Blindness::Covered,
            Blindness::Blurred,
        ] {
            assert_eq!(name(how), how.name());
        }
    }

    #[test]
    fn percent_never_exceed_the_confidence() {
        for (confidence, percent) in [(0.6999, 69.0), (0.7, 70.0), (0.29, 29.0), (1.0, 100.0)] {
            let decision = Decision {
                verdict: Verdict::Review,
                confidence,
                raw_confidence: None,
                reason: String::new(),
                asks: None,
            };
            let shown = decision.percent();
            assert!(
                (shown - percent).abs() < f64::EPSILON,
                "{confidence}: {shown}"
            );
        }
    }
}
