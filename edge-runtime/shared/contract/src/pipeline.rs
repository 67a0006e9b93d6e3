//! Pipelines: a workflow deployed on a source, as both daemons and the HTTP API v1 write it.
//!
//! - Plain data only.
//! - A new field has a default and is not written while it has it, so no older client and no stored
//!   record breaks.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::confidence::round_down;
use crate::id::{DisplayName, PipelineId, SourceId, TrackId};
use crate::model::BackendChange;
use crate::rule::RuleSpec;
use crate::time::Wall;

/// Specification of a pipeline, as a user writes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PipelineSpec {
    /// Name of the pipeline.
    pub id: PipelineId,
    /// What people call it, such as `Night patrol`. Absent: its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<DisplayName>,
    /// Source it watches.
    pub source: SourceId,
    /// Workflow definition in Roboflow's JSON.
    #[schema(value_type = Object)]
    pub workflow: serde_json::Value,
    /// Values of the workflow's parameters.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = Object)]
    pub parameters: BTreeMap<String, serde_json::Value>,
    /// Model used instead of the one named in every detection step: a name from the zoo, or
    /// `motion`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Rules that make events. Absent: rules that follow from the workflow (crossings of each line
    /// counter, entries and stays of each zone, else any appearance). An empty list: no events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<Vec<RuleSpec>>,
    /// When the detector runs.
    #[serde(default)]
    pub detect: DetectMode,
    /// Most frames a second of a camera that are looked at. Absent: every frame. In a recording
    /// every frame is looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_fps: Option<f64>,
    /// Its share relative to other pipelines while the box is busy or hot.
    #[serde(default, skip_serializing_if = "Priority::is_normal")]
    pub priority: Priority,
    /// Writes every annotated frame to a video in the state folder, in parts; `GET …/recording`
    /// lists them.
    ///
    /// A part ends with a pause, when it is long enough, and when a camera changes its picture
    /// size. In a file or folder, pictures of another size are scaled to the first one's.
    #[serde(default)]
    pub record: bool,
    /// Shows every annotated frame in a window on this machine's screen.
    #[serde(default)]
    pub show: bool,
    /// Ends the pipeline after this many seconds of source time, counted from its first frame; the
    /// frame exactly there is the last one. Replacing the pipeline counts from zero.
    ///
    /// The count survives restarts of the runtime, including the time between, if the clock shows
    /// how long it was. A pipeline that has ended stays so until it is resumed. Absent: it runs as
    /// long as its source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_after_s: Option<f64>,
    #[serde(default)]
    pub paused: bool,
}

impl PipelineSpec {
    /// A pipeline of a workflow on a source, with the default of every other field.
    pub fn new(id: PipelineId, source: SourceId, workflow: serde_json::Value) -> Self {
        Self {
            id,
            name: None,
            source,
            workflow,
            parameters: BTreeMap::new(),
            model: None,
            rules: None,
            detect: DetectMode::default(),
            target_fps: None,
            priority: Priority::Normal,
            record: false,
            show: false,
            stop_after_s: None,
            paused: false,
        }
    }
}

/// When the detector runs.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(tag = "mode", rename_all = "snake_case", deny_unknown_fields)]
pub enum DetectMode {
    /// On every frame that is taken.
    #[default]
    Always,
    /// Only while something moves, and every `refresh_s` seconds. In between, the last detections
    /// of still objects are repeated, so that their tracks continue.
    OnMotion {
        /// Seconds after which the detector runs although nothing moved.
        #[serde(default = "default_refresh_s")]
        refresh_s: f64,
    },
    /// At most this often; frames in between are not processed.
    Periodic {
        /// Seconds between two runs.
        every_s: f64,
    },
}

fn default_refresh_s() -> f64 {
    5.0
}

/// Share of a pipeline where several want the same model, or the box is hot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// Half the share of `normal`. Pauses while the box is hot and a lower rate does not suffice.
    Low,
    /// Keeps one look a second, however hot the box is.
    #[default]
    Normal,
    /// Twice the share of `normal`.
    High,
}

impl Priority {
    pub fn is_normal(&self) -> bool {
        *self == Self::Normal
    }
}

/// Frames that a pipeline wants to look at and does, over the last seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct LookRate {
    /// Frames a second that it would look at: those of its source, or `target_fps`.
    pub wanted_fps: f64,
    /// Frames a second that it looks at.
    pub looked_fps: f64,
    /// Why it looks at fewer than it wants; absent if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<RateLimit>,
}

/// Why a pipeline looks at fewer frames than it wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RateLimit {
    /// Its camera delivers no frames.
    Camera,
    /// Events wait for a disk that refuses, and no place is left for another one.
    Disk,
    /// The box is hot and sheds load.
    Heat,
    /// The model or the processor is busy.
    Capacity,
    /// A cause of a newer version.
    #[serde(other)]
    Unknown,
}

/// State of a pipeline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum PipelineState {
    /// Loading its model or waiting for the first frame.
    Starting,
    Running,
    /// Paused by request, or by heat (`looks` says so); every event until then is durable.
    Paused,
    /// Its source ended, or `stop_after_s` passed; every event of it is durable.
    Ended,
    /// Deleted by a user; it is listed because the configuration file names it.
    Stopped,
    /// It can't run; the message has the reason and the remedy.
    Failed {
        message: String,
    },
}

impl PipelineState {
    /// Whether it takes frames, or is about to.
    pub const fn takes_frames(&self) -> bool {
        matches!(self, Self::Starting | Self::Running)
    }

    /// Name in JSON.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Ended => "ended",
            Self::Stopped => "stopped",
            Self::Failed { .. } => "failed",
        }
    }
}

/// Answer about one pipeline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PipelineStatus {
    /// Specification that was deployed.
    pub spec: PipelineSpec,
    pub state: PipelineState,
    /// When it entered this state.
    pub since: Wall,
    /// When it resumes by itself, where it is paused until a given time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub paused_until: Option<Timestamp>,
    /// Model and back end in use, such as `yolox-nano on rten`, once loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detector: Option<String>,
    /// The latest change of each model's back end. A model that never changed has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub backend_changes: Vec<BackendChange>,
    /// Names of the rules in force: those that were written, else those that follow from the
    /// workflow, and those of its event sinks.
    #[serde(default)]
    pub rules: Vec<String>,
    /// A remark although nothing failed, such as `no rules: no events`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Settings that can't take effect as meant. Those that depend on the picture are known from
    /// the first frame on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<PipelineWarning>,
    /// Window of a pipeline with `show`; absent before its first picture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<WindowState>,
    /// Rate of its looks at a camera; absent for a recording, and before the first frame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub looks: Option<LookRate>,
    pub results: PipelineResults,
}

/// Request to pause a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PauseRequest {
    /// When it resumes by itself, in RFC 3339, such as `2026-03-29T08:00:00+02:00`. Absent: when a
    /// user resumes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub until: Option<Timestamp>,
}

/// State of the window of a pipeline with `show`. The pipeline runs without it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum WindowState {
    /// It shows pictures.
    Open,
    /// A user closed it. It stays closed until the pipeline is deployed again.
    Closed,
    /// It could not be opened, or its screen went away.
    Failed { message: String },
}

/// A part of a running pipeline that can't do what it was meant to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PipelineWarning {
    pub kind: WarningKind,
    /// One sentence with the name and the remedy.
    pub message: String,
}

/// Kind of a pipeline's warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WarningKind {
    /// A line or zone lies outside the picture: it counts nothing. Part of the runtime's health.
    OutsidePicture,
    /// A line or zone reaches out of the picture: it counts where it lies inside.
    PartlyOutsidePicture,
    /// A filter names classes that the model does not have: it keeps nothing of them, or has no
    /// effect.
    ClassFilter,
    /// The annotated video can't be written now; this is retried. Part of the runtime's health.
    NotRecording,
    /// Its pictures are black, because the objects that a privacy mask hides are not known. Part of
    /// the runtime's health.
    PrivacyMask,
    /// A step sends a password over a network without TLS.
    LoginInClear,
    /// A zone without area (fewer than three different corners, or at most a pixel) or with
    /// crossing sides, or a line without length.
    EmptyZone,
    /// A rule or a step that can never report anything. Examples are a class that the detection
    /// leaves out, scores below those of the detection, boxes without track ids.
    WithoutEffect,
}

/// Counts and measurements of a pipeline.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct PipelineResults {
    /// Frames processed so far.
    pub frames: u64,
    /// Source time from the first processed frame to the last, in seconds.
    pub source_s: f64,
    /// Wall time since the first frame, in seconds.
    pub elapsed_s: f64,
    /// Seconds of source time left of `stop_after_s` at the last frame; absent if nothing ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_s: Option<f64>,
    /// When tracks, lines, zones and events began to be counted: at the first frame. A camera's
    /// counts survive restarts of the runtime, so this may be long before the time that `frames`
    /// and `elapsed_s` are about. Replacing the pipeline counts from zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counting_since: Option<Wall>,
    /// Different confirmed tracks.
    pub tracks: u64,
    /// Line counters by step name.
    pub lines: BTreeMap<String, LineCount>,
    /// Zones by step name.
    pub zones: BTreeMap<String, ZoneVisits>,
    /// Events in the journal.
    pub events: u64,
    /// Events too weak for the journal.
    pub discarded: u64,
    /// The latest of them, at most 20, in order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub too_weak: Vec<TooWeak>,
    /// What was counted in damaged pictures.
    #[serde(default, skip_serializing_if = "DamagedCounts::is_zero")]
    pub damaged: DamagedCounts,
    /// Observations of a rule that made no event.
    #[serde(default, skip_serializing_if = "SuppressedCounts::is_zero")]
    pub suppressed: SuppressedCounts,
    /// How often an object was ignored, because too many were in a zone or a picture at once.
    #[serde(default)]
    pub unwatched: u64,
    /// Step failures by step name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub step_errors: BTreeMap<String, StepError>,
    /// Mean cost of each stage, in milliseconds a frame.
    pub stages_ms: BTreeMap<String, f64>,
    /// Processor time on these frames, in seconds: of the pipeline's own thread, and of the threads
    /// of its networks.
    #[serde(default)]
    pub processor_s: f64,
    /// Serialised outputs of the workflow for the last frame.
    #[schema(value_type = Object)]
    pub outputs: serde_json::Value,
}

/// Maximum number of entries of [`PipelineResults::too_weak`].
pub const MAX_TOO_WEAK: usize = 20;

/// An event too weak for the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TooWeak {
    pub rule: String,
    /// One sentence that names the object and the place.
    pub reason: String,
    /// Source time in seconds.
    pub pts_s: f64,
    /// Confidence by the evidence.
    pub confidence: f64,
}

impl TooWeak {
    /// The confidence in percent, rounded down to a whole number.
    pub fn percent(&self) -> f64 {
        round_down(self.confidence, 100.0)
    }
}

/// Numbers of what was counted while the decoder reported damage, or in the two seconds after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct DamagedCounts {
    pub frames: u64,
    /// Crossings of all lines.
    pub crossings: u64,
    /// Visits of all zones that began to count.
    pub visits: u64,
}

impl DamagedCounts {
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

/// Observations of a rule that made no event, by the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct SuppressedCounts {
    /// During the cool-down of the rule.
    pub cooling_down: u64,
    /// Outside of the schedule of the rule.
    pub inactive: u64,
    /// Objects with a class or score that the rule does not accept.
    pub not_accepted: u64,
    /// Objects in an area that the rule ignores.
    #[serde(default)]
    pub in_ignored_area: u64,
    /// Beyond the most events an hour of the rule.
    #[serde(default)]
    pub over_hourly_limit: u64,
}

impl SuppressedCounts {
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

impl std::ops::Add for SuppressedCounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            cooling_down: self.cooling_down + other.cooling_down,
            inactive: self.inactive + other.inactive,
            not_accepted: self.not_accepted + other.not_accepted,
            in_ignored_area: self.in_ignored_area + other.in_ignored_area,
            over_hourly_limit: self.over_hourly_limit + other.over_hourly_limit,
        }
    }
}

/// Counts of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct LineCount {
    /// Crossings counted as in.
    pub r#in: u64,
    /// Crossings counted as out.
    pub out: u64,
}

/// Visits of a zone. The latest 1000 are listed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct ZoneVisits {
    /// Number of visits.
    pub count: u64,
    /// Visits that are not over.
    pub present: u32,
    /// The visits, oldest first.
    pub visits: Vec<Visit>,
    /// Stays that ended after less than half a second; not visits.
    #[serde(default)]
    pub too_short: u64,
    /// Stays of still objects, such as posts, shadows and parked cars, ended or not; not visits. A
    /// still object has neither moved nor changed since its first sight.
    #[serde(default)]
    pub still: u64,
}

/// One stay of one object in a zone, of half a second or more, or of one look where looks are
/// rarer. `track` is its first one: the object may have continued under others.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Visit {
    pub track: TrackId,
    /// Source time at which it was first seen in the zone, in seconds.
    pub enter_s: f64,
    /// Seconds from then to when it was last seen there.
    pub dwell_s: f64,
}

/// Failures of one step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StepError {
    /// Number of failures.
    pub count: u64,
    pub message: String,
}
