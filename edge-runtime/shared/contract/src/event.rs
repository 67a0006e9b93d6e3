//! Events: what the box decided is worth telling, with the evidence and the reason.

use serde::{Deserialize, Serialize};

use crate::id::{ChannelId, EventId, EventSeq, PipelineId, SourceId, TrackId};
use crate::rule::{Gates, Severity};
use crate::source::LossCause;
use crate::time::Wall;

/// Version of [`Event`] as written by this build.
pub const EVENT_SCHEMA: u16 = 1;

/// Most records of the journal that one request answers or checks.
pub const MAX_PAGE: u32 = 1000;

/// One record of the journal. An event has one `new`, any number of `update` and one `end`, all with the same id; where its `new` announces a clip,
/// also one `clip`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Event {
    /// [`EVENT_SCHEMA`] of the writer.
    pub schema: u16,
    /// Identity over the event's life.
    pub id: EventId,
    /// Position in the journal; set when it is appended.
    pub seq: EventSeq,
    /// Identity of the run of the runtime that wrote it.
    pub boot_id: String,
    /// Milliseconds since the runtime started, monotonic.
    pub mono_ms: u64,
    /// Wall clock, UTC.
    pub at: Wall,
    /// Which part of its life this record is.
    pub phase: Phase,
    /// Which source it is about; absent for events about the box.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceId>,
    /// Which pipeline made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<PipelineId>,
    /// How much it matters.
    pub severity: Severity,
    /// What happened.
    pub body: EventBody,
    /// What the box decided and why.
    pub decision: Decision,
    /// The chain that the decision was computed from.
    pub evidence: Vec<Evidence>,
    /// Pictures that were kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub media: Vec<Media>,
    /// The clip that its rule keeps: announced by `new`, complete or lost by `clip`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clip: Option<Clip>,
    /// SHA-256 (hex) over this record without this field and the hash of its predecessor; set when it is appended.
    pub hash: String,
}

/// Part of an event's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Phase {
    /// It began.
    New,
    /// It goes on and something about it changed.
    Update,
    /// It is over. An event without duration (a crossing) is one `new` followed at once by its `end`.
    End,
    /// Its clip is complete, or lost. It says nothing new about the event itself, and may come after its `end`.
    Clip,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum EventBody {
    /// A rule of a pipeline fired.
    Rule(Box<RuleEvent>),
    /// A source stopped delivering, or delivers nothing useful. Ends when frames come again.
    SourceOutage {
        /// Why; absent when frames come but show nothing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<LossCause>,
        /// One sentence, free of credentials.
        message: String,
        /// Seconds it lasted, at the end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lasted_s: Option<f64>,
    },
    /// A pipeline is held back, because the runtime died several times soon after its start. Ends when a person lifts it.
    PipelineHeld {
        /// One sentence: why, and what lifts it.
        message: String,
    },
    /// A pipeline has failed or can't run, and watches nothing. Ends when it has run well again for a minute, or nobody wants it any more.
    PipelineFailed {
        /// One sentence: why, and whether it is begun anew.
        message: String,
        /// How often it was begun anew since it failed first.
        tries: u32,
        /// Seconds from the first failure until it ran again, at the end; absent where it did not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lasted_s: Option<f64>,
    },
    /// A step of a pipeline does little else but fail. Ends when it works again, or the pipeline takes no more frames.
    StepFailing {
        /// Name of the step.
        step: String,
        /// Runs in which it failed so far.
        failures: u64,
        /// One sentence: the step, and what it last failed of.
        message: String,
        /// Seconds of source time until it worked again, at the end; absent where nobody saw that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lasted_s: Option<f64>,
    },
    /// Something was lost although we promise to keep it: the record of the hole.
    Loss {
        /// Which queue or store.
        from: String,
        /// How many entries.
        count: u64,
        /// One sentence.
        message: String,
    },
}

/// A rule fired.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RuleEvent {
    /// Name of the rule.
    pub rule: String,
    /// Kind of its condition: `appears`, `enters`, `leaves`, `stays`, `crosses`, `count`, `value`.
    pub condition: String,
    /// One sentence: what happened and which bound was passed.
    pub reason: String,
    /// Class of the object where the event is about one.
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
    /// Seconds in the zone so far (or in all, at the end).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dwell_s: Option<f64>,
    /// Best score of the object so far, `0.0..=1.0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// Box of the object, normalised `[x_min, y_min, x_max, y_max]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bbox: Option<[f64; 4]>,
    /// Number of the frame in its source, from 1.
    pub frame: u64,
    /// Presentation time of that frame in seconds since the source began.
    pub pts_s: f64,
    /// Events that the cool-down held back since the last one.
    #[serde(default)]
    pub held_back: u32,
    /// Channels that the rule names. They stand in the event because the rule may be another one when it is told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notify: Vec<ChannelId>,
}

/// What to do about an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Verdict {
    /// Too weak: counted, not journaled.
    Discard,
    /// Ask for a second opinion.
    Escalate,
    /// A person should look.
    Review,
    /// Good enough to stand by itself.
    Record,
    /// Certain enough to act upon.
    Act,
}

/// What a check of part of the journal's hash chain found. A chain that holds shows that no record was changed, removed or put in since; somebody
/// who can write the journal can make a new chain, so what proves more is a hash that was seen before, such as in a message over MQTT.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ChainReport {
    /// Number from which on nothing is missing: what is older was dropped to make room, and is not checked.
    pub first: EventSeq,
    /// Last number of the journal.
    pub last: EventSeq,
    /// Records that were looked at.
    pub checked: u64,
    /// Cursor to go on from; `last` when everything was looked at.
    pub next_after: EventSeq,
    /// The first record that does not follow from the one before it, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<ChainBreak>,
}

/// A record that does not follow from its predecessor: it was changed, or the one before it is another or gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ChainBreak {
    /// Its number.
    pub seq: EventSeq,
    /// Hash that follows from its content and its predecessor.
    pub expected: String,
    /// Hash it carries.
    pub found: String,
}

/// A decision with its reason.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Decision {
    /// What to do.
    pub verdict: Verdict,
    /// Weighted confidence it rests on, `0.0..=1.0`.
    pub confidence: f64,
    /// One sentence that names the gate and the weakest and strongest evidence.
    pub reason: String,
    /// With the verdict `escalate`: what a second opinion may make of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asks: Option<Asks>,
}

/// What a second opinion may make of an event. It stands in the event because the rule may be another one when the opinion comes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Asks {
    /// The gates that the decision was made with.
    pub gates: Gates,
    /// Whether it may also lower what the event is taken for.
    pub may_lower: bool,
}

/// One link of the evidence chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Evidence {
    /// What was looked at, such as `detector_score`, `track_age`, `box_stability`, `rule_margin`.
    pub source: String,
    /// What it says, `0.0..=1.0`.
    pub confidence: f64,
    /// How much it counts.
    pub weight: f64,
    /// One phrase.
    pub note: String,
}

/// A picture that belongs to an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Media {
    /// Id under `/v1/media/{id}`.
    pub id: String,
    /// What it shows.
    pub kind: MediaKind,
    /// MIME type.
    pub content_type: String,
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256 of the file, hex.
    pub sha256: String,
}

/// What a kept picture shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum MediaKind {
    /// The frame as it came.
    Clean,
    /// The frame with boxes, lines and zones drawn.
    Annotated,
}

/// The clip of an event: what the camera showed from some seconds before it until some seconds after it began. Events that follow each other closely may
/// share one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Clip {
    /// Id under `/v1/media/{id}`, which has it once it is kept.
    pub id: String,
    /// When its first picture arrived.
    pub start: Wall,
    /// When its last picture arrived; absent while it is filmed, and where nobody is left who knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Wall>,
    /// Seconds of it before the event, by the source's time: those that there were, which can be fewer than the rule asks for.
    pub before_s: f64,
    /// Seconds of it after the event began: those that the rule asks for while it is filmed, then those that it has.
    pub after_s: f64,
    /// Pictures that are not in it because the box could not write them as fast as they came; known when it is complete.
    #[serde(default)]
    pub left_out: u32,
    /// How far it is.
    pub state: ClipState,
}

/// How far a clip is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum ClipState {
    /// It is being filmed; a record `clip` of the same event tells what became of it.
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
        /// One sentence: why.
        message: String,
    },
}
