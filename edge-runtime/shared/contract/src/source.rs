//! Sources: where frames come from and how each one is doing, as both daemons and the HTTP API v1
//! write it.
//!
//! - Plain data only.
//! - No answer carries a credential.
//! - A new field has a default and is not written while it has it.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use crate::id::{DisplayName, SourceId};
use crate::privacy::PrivacyStatus;
use crate::time::Wall;

/// Specification of a source, as a user writes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SourceSpec {
    /// Name of the source.
    pub id: SourceId,
    /// What people call it, such as `Loading dock`. Absent: its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<DisplayName>,
    /// Address: `rtsp://…`, `rtsps://…`, `http(s)://…` (MJPEG or a file), `/dev/videoN` or
    /// `v4l2:/dev/videoN`, `csi://N`, a video file, a folder of images, or
    /// `demo:[?option=value&…]`.
    ///
    /// A credential in it is never shown again: every answer carries `***` instead.
    pub uri: String,
    /// Pace of sources that could go faster than real time (files, image folders, the demo scene).
    #[serde(default)]
    pub pace: Pace,
    /// Most frames delivered a second (0.01 to 1000); the rest is dropped before decoded pictures
    /// are copied. Absent: all.
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
    /// Which decoders may decode H.264 and H.265.
    #[serde(default, skip_serializing_if = "DecoderChoice::is_auto")]
    pub decoder: DecoderChoice,
    /// Width and height in pixels (16 to 16384) to which every picture is scaled before it is
    /// copied. Lines, zones and events are in these pixels. Absent: as the camera sends it.
    #[serde(
        default,
        deserialize_with = "scale_in_range",
        skip_serializing_if = "Option::is_none"
    )]
    pub scale: Option<[u32; 2]>,
}

impl SourceSpec {
    /// A source at an address, with the default of every other field.
    pub fn new(id: SourceId, uri: impl Into<String>) -> Self {
        Self {
            id,
            name: None,
            uri: uri.into(),
            pace: Pace::default(),
            max_fps: None,
            rtsp_transport: RtspTransport::default(),
            tls_verify: true,
            stall_s: None,
            fixed_view: true,
            controls: BTreeMap::new(),
            decoder: DecoderChoice::default(),
            scale: None,
        }
    }
}

fn scale_in_range<'de, D: Deserializer<'de>>(from: D) -> Result<Option<[u32; 2]>, D::Error> {
    let scale = Option::<[u32; 2]>::deserialize(from)?;
    match scale {
        Some(sides) if !sides.iter().all(|side| SCALE_PX.contains(side)) => {
            Err(D::Error::custom(format!(
                "scale is {sides:?}; use a width and a height from {} to {} pixels",
                SCALE_PX.start(),
                SCALE_PX.end()
            )))
        }
        scale => Ok(scale),
    }
}

/// Bounds of each side of [`SourceSpec::scale`] in pixels.
pub const SCALE_PX: std::ops::RangeInclusive<u32> = 16..=16_384;

/// Bounds of [`SourceSpec::stall_s`] in seconds. Network elements wait an hour at most, and must
/// wait longer than this.
pub const STALL_S: std::ops::RangeInclusive<f64> = 1.0..=1800.0;

/// Bounds of [`SourceSpec::max_fps`].
pub const MAX_FPS: std::ops::RangeInclusive<f64> = 0.01..=1000.0;

fn verified() -> bool {
    true
}

fn fixed() -> bool {
    true
}

fn is_fixed(fixed_view: &bool) -> bool {
    *fixed_view
}

/// Pace of a source that is not live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// As fast as the pipeline takes frames; none are dropped. A pipeline added to a recording that
    /// is already playing joins it where it is.
    #[default]
    Fast,
    /// At the recorded speed. Treated as live: late frames are dropped and counted.
    Native,
}

/// Transport for RTSP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RtspTransport {
    /// Interleaved in the RTSP connection: no loss, the right choice on most sites.
    #[default]
    Tcp,
    /// RTP over UDP.
    Udp,
}

/// Decoders that a source may use for H.264 and H.265.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DecoderChoice {
    /// The best hardware decoder that is installed, otherwise the processor.
    #[default]
    Auto,
    /// Only decoders that run on the processor.
    Software,
    /// NVIDIA's hardware: `nvv4l2decoder` of a Jetson, `nvh264dec` of a graphics card.
    Nvidia,
    /// A decoder of the kernel's V4L2 interface, as on a Raspberry Pi 4.
    V4l2,
    /// VA-API, for graphics of Intel and AMD.
    Va,
}

impl DecoderChoice {
    /// Returns the word of the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Software => "software",
            Self::Nvidia => "nvidia",
            Self::V4l2 => "v4l2",
            Self::Va => "va",
        }
    }

    fn is_auto(&self) -> bool {
        *self == Self::Auto
    }
}

/// Decoder of a source's video.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DecoderStatus {
    /// GStreamer element, such as `nvv4l2decoder`.
    pub element: String,
    /// Whether it is hardware and not the processor.
    pub hardware: bool,
    /// Why the processor decodes although hardware was expected: one sentence with the remedy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
}

/// Why a source is not delivering.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
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

impl SourceState {
    /// Name in JSON.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Connecting { .. } => "connecting",
            Self::Live { .. } => "live",
            Self::Lost { .. } => "lost",
            Self::Ended => "ended",
            Self::Failed { .. } => "failed",
            Self::Idle => "idle",
        }
    }
}

/// Why frames that come do not show what they should.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
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

impl Blindness {
    /// Name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Frozen => "frozen",
            Self::Black => "black",
            Self::Moved => "moved",
            Self::Covered => "covered",
            Self::Blurred => "blurred",
        }
    }
}

/// Counters of a source since the runtime started.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, ToSchema)]
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
    /// Packets that the network lost on the way from the camera (RTSP); their frames are damaged or
    /// missing.
    #[serde(default)]
    pub lost_packets: u64,
    /// Frames that the decoder took and gave no picture of; of one or two in a row none is counted.
    #[serde(default)]
    pub undecoded: u64,
    /// Frames per second over the last few seconds.
    pub fps: f64,
}

/// Answer about one source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
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
    /// Set where the specification overrides a section of the configuration file, and where a
    /// recording or folder is incomplete. Such a source ends before its length, or has pictures
    /// that can't be decoded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Its privacy mask, which only the configuration file sets; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub privacy: Option<PrivacyStatus>,
    /// Decoder of its video, since the first frame; absent for pictures and the demo scene.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decoder: Option<DecoderStatus>,
    pub counters: SourceCounters,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(members: &str) -> Result<SourceSpec, String> {
        let text = format!(r#"{{"id": "cam", "uri": "rtsp://cam/live"{members}}}"#);
        serde_json::from_str(&text).map_err(|e| e.to_string())
    }

    #[test]
    fn scale_out_of_range_is_refused() {
        let scaled = spec(r#", "scale": [1280, 720]"#);
        assert_eq!(scaled.map(|spec| spec.scale), Ok(Some([1280, 720])));
        let refused = spec(r#", "scale": [1280, 0]"#).err().unwrap_or_default();
        assert!(refused.contains("from 16 to 16384 pixels"), "{refused}");
    }

    #[test]
    fn defaults_of_decoding_are_not_written() {
        let plain = spec("").map(|spec| serde_json::to_string(&spec).unwrap_or_default());
        let written = plain.unwrap_or_default();
        assert!(
            written.contains("uri") && !written.contains("decoder"),
            "{written}"
        );
        assert!(!written.contains("scale"), "{written}");
        let named = spec(r#", "decoder": "nvidia""#).map(|spec| spec.decoder.name());
        assert_eq!(named, Ok("nvidia"));
    }
}
