//! Pipelines: a workflow deployed on a source, as both daemons and the HTTP API v1 write it.
//!
//! Invariant: only data. What is added has a default and is not written while it has it, so that neither side and no stored record breaks over it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::id::{DisplayName, PipelineId, SourceId, TrackId};
use crate::rule::RuleSpec;
use crate::time::Wall;

/// What a person writes to deploy a workflow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PipelineSpec {
    /// Name of the pipeline.
    pub id: PipelineId,
    /// What people call it, such as `Night patrol`. Absent: its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<DisplayName>,
    /// Source it watches.
    pub source: SourceId,
    /// Workflow definition in Roboflow's JSON.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub workflow: serde_json::Value,
    /// Values of the workflow's parameters.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub parameters: BTreeMap<String, serde_json::Value>,
    /// Model that takes the place of the one named in every detection step: a name from the zoo or `motion`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What to make events of. Absent: what follows from the workflow (crossings of each line counter, entries and stays of
    /// each zone, else whatever appears). An empty list means none: no events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<Vec<RuleSpec>>,
    /// When the detector runs.
    #[serde(default)]
    pub detect: DetectMode,
    /// Writes every annotated frame to a video under the state folder, in parts: `GET …/recording` answers them. A part ends with a pause, when it is
    /// long enough, and when a camera changes the size of its picture; pictures of another size in a file or folder are fitted into the first one's.
    #[serde(default)]
    pub record: bool,
    /// Shows every annotated frame in a window on this machine's screen.
    #[serde(default)]
    pub show: bool,
    /// Ends the pipeline after this many seconds of its source's presentation time, counted from the first frame it
    /// takes; the frame that lies exactly there is the last one. Replacing the pipeline counts them anew. A restart of the runtime changes nothing about that: what a camera showed meanwhile counts
    /// where a clock tells how long it was, and what has ended stays so until it is resumed. Absent: it goes on as long as its source does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_after_s: Option<f64>,
    /// Created paused.
    #[serde(default)]
    pub paused: bool,
}

/// When the detector runs.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "snake_case", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum DetectMode {
    /// On every frame that is taken.
    #[default]
    Always,
    /// Only while something moves, and once every `refresh_s` seconds all the same. In between the last detections of
    /// things that stand still are repeated, so that tracks go on.
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

/// What a pipeline is doing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum PipelineState {
    /// Loading its model or waiting for the first frame.
    Starting,
    /// Frames go through.
    Running,
    /// Paused by request; every event until then is durable.
    Paused,
    /// Its source came to a regular end, or `stop_after_s` passed; every event of it is durable.
    Ended,
    /// It can't run; the message says why and what to do.
    Failed {
        /// One sentence.
        message: String,
    },
}

/// Answer about one pipeline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PipelineStatus {
    /// What was deployed.
    pub spec: PipelineSpec,
    /// What it is doing.
    pub state: PipelineState,
    /// Since when.
    pub since: Wall,
    /// When it goes on by itself, where it is paused and somebody said until when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub paused_until: Option<Timestamp>,
    /// Model and back end in use, such as `yolox-nano on rten`, once loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detector: Option<String>,
    /// Names of the rules in force: those that were written, else those that follow from the workflow, and those of its event sinks.
    #[serde(default)]
    pub rules: Vec<String>,
    /// What a person should know although nothing failed, such as `no rules: no events`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// What was asked for and can't happen as it was meant. What depends on the picture is known from the first frame on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<PipelineWarning>,
    /// The window of a pipeline with `show`; absent before its first picture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<WindowState>,
    /// Numbers so far.
    pub results: PipelineResults,
}

/// How a pipeline is to be paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PauseRequest {
    /// When it goes on by itself: a moment of RFC 3339, such as `2026-03-29T08:00:00+02:00`. Absent: when somebody resumes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub until: Option<Timestamp>,
}

/// What became of the window of a pipeline with `show`. The pipeline goes on without it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum WindowState {
    /// It shows pictures.
    Open,
    /// A person closed it. It stays closed until the pipeline is deployed again.
    Closed,
    /// It could not be opened, or its screen went away.
    Failed {
        /// One sentence.
        message: String,
    },
}

/// Something in a pipeline that runs but can't do what it was meant to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PipelineWarning {
    /// What it is.
    pub kind: WarningKind,
    /// One sentence with the name and the remedy.
    pub message: String,
}

/// Kind of a [`PipelineWarning`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum WarningKind {
    /// A line or zone that shares no point with the picture: it counts nothing. Part of the runtime's health.
    OutsidePicture,
    /// A line or zone that reaches out of the picture: it counts where it lies inside.
    PartlyOutsidePicture,
    /// A filter on classes that the model does not know: it keeps nothing of them, or has no effect.
    ClassFilter,
    /// The annotated video can't be written now; it is tried again. Part of the runtime's health.
    NotRecording,
    /// A step sends a password over a network without TLS.
    LoginInClear,
    /// A zone without an inside (fewer than three different corners, or no more than a pixel), or a line without a length.
    EmptyZone,
}

/// What a pipeline has seen so far.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PipelineResults {
    /// Frames processed.
    pub frames: u64,
    /// Source time from the first processed frame to the last, in seconds.
    pub source_s: f64,
    /// Wall time spent since the first frame, in seconds.
    pub elapsed_s: f64,
    /// Seconds of source time that were left of `stop_after_s` at the last frame; absent where nothing ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_s: Option<f64>,
    /// When tracks, lines, zones and events began to be counted: with the first frame. A camera's counts outlast restarts of the runtime, so this may be long
    /// before the time that `frames` and `elapsed_s` are about. Replacing the pipeline begins anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counting_since: Option<Wall>,
    /// Different confirmed tracks.
    pub tracks: u64,
    /// Line counters by step name.
    pub lines: BTreeMap<String, LineCount>,
    /// Zones by step name.
    pub zones: BTreeMap<String, ZoneVisits>,
    /// Events journaled.
    pub events: u64,
    /// Events that were too weak to journal.
    pub discarded: u64,
    /// How often a rule had no place for another track, because it watches as many at once as it can.
    #[serde(default)]
    pub unwatched: u64,
    /// Step failures by step name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub step_errors: BTreeMap<String, StepError>,
    /// Mean cost of each stage, in milliseconds a frame.
    pub stages_ms: BTreeMap<String, f64>,
    /// Serialised outputs of the workflow for the last frame.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub outputs: serde_json::Value,
}

/// Counts of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LineCount {
    /// Crossings counted as in.
    pub r#in: u64,
    /// Crossings counted as out.
    pub out: u64,
}

/// Visits of a zone. The latest 1000 are listed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ZoneVisits {
    /// How many there were.
    pub count: u64,
    /// How many are in the zone now.
    pub present: u32,
    /// The visits, oldest first.
    pub visits: Vec<Visit>,
}

/// One stay of one track in a zone.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Visit {
    /// Which track.
    pub track: TrackId,
    /// Source time at which it was first seen in the zone, in seconds.
    pub enter_s: f64,
    /// Seconds from then to when it was last seen there.
    pub dwell_s: f64,
}

/// Failures of one step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StepError {
    /// How often it failed.
    pub count: u64,
    /// The last message.
    pub message: String,
}
