//! Sources: where frames come from, and how each one is doing, as both daemons and the HTTP API v1 write it.
//!
//! Invariant: only data, and no answer carries a credential. What is added has a default and is not written while it has it.

use serde::{Deserialize, Serialize};

use crate::id::{DisplayName, SourceId};
use crate::time::Wall;

/// What a person writes to add a source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SourceSpec {
    /// Name of the source.
    pub id: SourceId,
    /// What people call it, such as `Loading dock`. Absent: its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<DisplayName>,
    /// Where the pictures come from: `rtsp://…`, `rtsps://…`, `http(s)://…` (MJPEG or a file), `/dev/videoN` or `v4l2:/dev/videoN`,
    /// a video file, a folder of images, or `demo:[?option=value&…]`.
    ///
    /// A credential in the address is accepted here and never shown again: every answer carries it as `***`.
    pub uri: String,
    /// Pace of sources that could go faster than real time (files, image folders, the demo scene).
    #[serde(default)]
    pub pace: Pace,
    /// Upper bound on delivered frames per second; the rest is dropped before decoding results are copied. Absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_fps: Option<f64>,
    /// Transport for RTSP.
    #[serde(default)]
    pub rtsp_transport: RtspTransport,
    /// Whether the certificate of an `rtsps` or `https` source must be made out to its address by an authority that the
    /// system trusts. `false` is for cameras that signed their own: what they send is encrypted, but anybody in between can
    /// stand in for them and is told the password.
    #[serde(default = "verified")]
    pub tls_verify: bool,
    /// Longest time between two pictures of a camera, in seconds (1 to 1800): after it the camera counts as lost and is connected anew. Absent:
    /// 5. Recordings may leave out as much as an hour, whatever this says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stall_s: Option<f64>,
}

/// Bounds of [`SourceSpec::stall_s`] in seconds. Network elements take an hour at most and must wait longer than the camera may be silent.
pub const STALL_S: std::ops::RangeInclusive<f64> = 1.0..=1800.0;

fn verified() -> bool {
    true
}

/// Pace of a source that is not live by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Pace {
    /// As fast as the pipeline takes them; nothing is dropped. A pipeline that comes to a recording that another one is watching goes on
    /// from where that one is.
    #[default]
    Fast,
    /// At the speed at which it was recorded; treated as live, so late frames are dropped and counted.
    Native,
}

/// Transport for RTSP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum RtspTransport {
    /// Interleaved in the RTSP connection: no loss, the right choice on most sites.
    #[default]
    Tcp,
    /// RTP over UDP.
    Udp,
}

/// Why a source is not delivering.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum LossCause {
    /// The other side refused the connection.
    Refused,
    /// The name did not resolve or the host is not reachable.
    Unreachable,
    /// No answer within the stage's deadline.
    Timeout,
    /// User name or password were rejected.
    Authentication,
    /// Its certificate is not trusted (see [`SourceSpec::tls_verify`]).
    Untrusted,
    /// The path does not exist there (file missing, RTSP 404).
    NotFound,
    /// This process may not open it.
    Permission,
    /// What arrives can't be decoded (not a video, or no decoder for it).
    Codec,
    /// Connected, but no picture that can be decoded from arrived within the deadline.
    NoKeyframe,
    /// Frames came, then none within the deadline.
    Stalled,
    /// The other side ended the stream.
    EndOfStream,
    /// Anything else; the message says what.
    Other,
}

/// What a source is doing now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum SourceState {
    /// Opening, with no failed attempt since it was wanted or frames last came; after one it is `lost` until frames come.
    Connecting {
        /// Number of this attempt since frames last came.
        attempt: u32,
    },
    /// Frames are coming.
    Live {
        /// Set while the picture is useless although frames come.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        blind: Option<Blindness>,
    },
    /// Not delivering; the next attempt is scheduled or under way.
    Lost {
        /// Why.
        cause: LossCause,
        /// One sentence for a person, free of credentials.
        message: String,
        /// Seconds until the next attempt, from the moment of this answer; 0 while one is under way.
        retry_in_s: f64,
    },
    /// The source came to its regular end (a file that was played through).
    Ended,
    /// A source that can't come back by itself (a file that is not a video).
    Failed {
        /// Why.
        cause: LossCause,
        /// One sentence for a person, free of credentials.
        message: String,
    },
    /// No pipeline wants frames from it.
    Idle,
}

/// Frames come, but they show nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Blindness {
    /// The same picture again and again.
    Frozen,
    /// Black, or one flat colour.
    Black,
}

/// Counters of a source since the runtime started.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SourceCounters {
    /// Frames that came out of the decoder.
    pub frames: u64,
    /// Frames overwritten by a newer one before anybody took them (live sources).
    pub dropped: u64,
    /// Successful connects.
    pub connects: u64,
    /// Times the source was lost.
    pub losses: u64,
    /// Times the source's own timestamps jumped and were replaced by what is plausible.
    #[serde(default)]
    pub time_jumps: u64,
    /// Frames per second over the last few seconds.
    pub fps: f64,
}

/// Answer about one source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SourceStatus {
    /// What was asked for, credentials replaced by `***`.
    pub spec: SourceSpec,
    /// What it is doing.
    pub state: SourceState,
    /// Since when it is doing that; of one that is lost, since the loss, over all attempts.
    pub since: Wall,
    /// Picture size in pixels once known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<[u32; 2]>,
    /// Nominal frame rate once known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nominal_fps: Option<f64>,
    /// What a person should know about where the specification comes from: that it stands over a section of the configuration file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Counters.
    pub counters: SourceCounters,
}
