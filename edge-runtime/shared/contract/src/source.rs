//! Sources: where frames come from and how each one is doing, as both daemons and the HTTP API v1
//! write it.
//!
//! - Plain data only.
//! - No answer carries a credential.
//! - A new field has a default and is not written while it has it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::{DisplayName, SourceId};
use crate::privacy::PrivacyStatus;
use crate::time::Wall;

/// Specification of a source, as a user writes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SourceSpec {
    /// Name of the source.
    pub id: SourceId,
    /// What people call it, such as `Loading dock`. Absent: its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<DisplayName>,
    /// Address: `rtsp://…`, `rtsps://…`, `http(s)://…` (MJPEG or a file), `/dev/videoN` or
    /// `v4l2:/dev/videoN`, a video file, a folder of images, or `demo:[?option=value&…]`.
    ///
    /// A credential in it is never shown again: every answer carries `***` instead.
    pub uri: String,
    /// Pace of sources that could go faster than real time (files, image folders, the demo scene).
    #[serde(default)]
    pub pace: Pace,
    /// Most frames delivered a second; the rest is dropped before decoded pictures are copied.
    /// Absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_fps: Option<f64>,
    /// Transport for RTSP.
    #[serde(default)]
    pub rtsp_transport: RtspTransport,
    /// Whether the certificate of an `rtsps` or `https` source must be issued for its address by an
    /// authority that the system trusts.
    ///
    /// `false` is for cameras with a self-signed certificate: the connection is encrypted, but
    /// anyone in between can impersonate the camera and learn the password.
    #[serde(default = "verified")]
    pub tls_verify: bool,
    /// Longest time between two pictures of a camera in seconds (1 to 1800). After it the camera
    /// counts as lost and is reconnected. Absent: 5 seconds. Recordings may have gaps of an hour in
    /// any case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stall_s: Option<f64>,
    /// Whether the camera always shows the same view. Then it is reported when it is moved, covered
    /// or out of focus. `false` is for one that pans or drives.
    #[serde(default = "fixed", skip_serializing_if = "is_fixed")]
    pub fixed_view: bool,
    /// Controls of a V4L2 device, such as `exposure_time_absolute`, with their values; set each
    /// time the device is opened. `cameras show` lists names and ranges.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub controls: BTreeMap<String, i64>,
}

/// Bounds of [`SourceSpec::stall_s`] in seconds. Network elements wait an hour at most, and must
/// wait longer than this.
pub const STALL_S: std::ops::RangeInclusive<f64> = 1.0..=1800.0;

fn verified() -> bool {
    true
}

fn fixed() -> bool {
    true
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_fixed(fixed_view: &bool) -> bool {
    *fixed_view
}

/// Pace of a source that is not live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Pace {
    /// As fast as the pipeline takes frames; none are dropped. A pipeline added to a recording that
    /// is already playing joins it where it is.
    #[default]
    Fast,
    /// At the recorded speed. Treated as live: late frames are dropped and counted.
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
    /// The host refused the connection.
    Refused,
    /// The name did not resolve, or the host is not reachable.
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
    /// The data can't be decoded (not a video, or no decoder for it).
    Codec,
    /// Connected, but no picture that decoding can start from arrived within the deadline.
    NoKeyframe,
    /// Frames came, then none within the deadline.
    Stalled,
    /// The other side ended the stream.
    EndOfStream,
    /// Anything else; the message has the details.
    Other,
}

/// State of a source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum SourceState {
    /// Opening, without a failed attempt since frames last came; after a failed attempt it is
    /// `lost`.
    Connecting {
        /// Number of this attempt since frames last came.
        attempt: u32,
    },
    /// Frames are coming.
    Live {
        /// Set while frames come but do not show what they should.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        blind: Option<Blindness>,
    },
    /// Not delivering; the next attempt is scheduled or under way.
    Lost {
        cause: LossCause,
        /// One sentence for a person, free of credentials.
        message: String,
        /// Seconds until the next attempt, at the time of this answer; 0 while one is under way.
        retry_in_s: f64,
    },
    /// The source ended (a file that was played through).
    Ended,
    /// A source that can't recover by itself (a file that is not a video).
    Failed {
        cause: LossCause,
        /// One sentence for a person, free of credentials.
        message: String,
    },
    /// No pipeline wants frames from it.
    Idle,
}

/// Why frames that come do not show what they should.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Blindness {
    /// The same picture again and again.
    Frozen,
    /// Black, or one flat colour.
    Black,
    /// Another view than usual: the camera was moved.
    Moved,
    /// Something covers more than half of the usual view.
    Covered,
    /// The usual view without detail: out of focus, dirty, fogged or dazzled.
    Blurred,
}

/// Counters of a source since the runtime started.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SourceCounters {
    /// Frames that came out of the decoder.
    pub frames: u64,
    /// Frames replaced by a newer one before they were taken (live sources).
    pub dropped: u64,
    /// Number of successful connections.
    pub connects: u64,
    /// Times the source was lost.
    pub losses: u64,
    /// Times the source's own timestamps jumped and were replaced by plausible ones.
    #[serde(default)]
    pub time_jumps: u64,
    /// Frames per second over the last few seconds.
    pub fps: f64,
}

/// Answer about one source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SourceStatus {
    /// Its specification, credentials replaced by `***`.
    pub spec: SourceSpec,
    pub state: SourceState,
    /// When it entered this state; when it is lost, since the loss, over all attempts.
    pub since: Wall,
    /// Picture size in pixels, once known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<[u32; 2]>,
    /// Nominal frame rate, once known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nominal_fps: Option<f64>,
    /// Set where the specification overrides a section of the configuration file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Its privacy mask, which only the configuration file sets; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub privacy: Option<PrivacyStatus>,
    pub counters: SourceCounters,
}
