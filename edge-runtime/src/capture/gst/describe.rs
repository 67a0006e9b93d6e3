//! Descriptions of pipelines: from the origin of a stream and the platform to elements and links.
//!
//! - Pure: nothing is created or opened, so a pipeline of any board is tested as text.
//! - `decodebin` reads containers and RTP; [`Platform::choose`] decides what decodes H.264 and
//!   H.265. Sound and subtitles are never decoded.
//! - A recording that is stored on its side or head, as phones do, is turned upright where frames
//!   are in system memory.
//! - Frames in NVMM leave it through `nvvidconv`, which scales before anything is copied.
//! - Settings for memory and pace (queue length, dropping) are made only here.
//! - Credentials are not here: the builder passes them as properties.

use std::path::{Path, PathBuf};
use std::time::Duration;

use url::Url;
use watchkeeper_contract::source::{DecoderChoice, DecoderStatus, RtspTransport};

use super::platform::{Codec, Memory, Platform};
use crate::capture::address::Credentials;

/// Time in which `rtspsrc` reorders RTP packets and requests lost ones.
const RTSP_LATENCY_MS: u64 = 100;

/// Min timeout of a network element, in seconds.
///
/// Below the supervisor's deadline, so that the element's more exact error comes first.
const NETWORK_TIMEOUT_S: u32 = 8;

/// Buffers of `nvvidconv`: its default of 4 is what the mailbox, the sink's queue and a pipeline
/// can hold together. Frames that are kept longer are copied (`Pictures::kept`).
const NVMM_COPIES: u64 = 8;

/// Mode of a CSI camera whose address names none.
const CSI_SIZE: [u32; 2] = [1920, 1080];
const CSI_FPS: u32 = 30;

/// Formats that leave a pipeline.
pub(super) const FORMATS: &str = "video/x-raw,format={I420,NV12}";

const NVMM_FORMAT: &str = "video/x-raw(memory:NVMM),format=NV12";

/// Origin of a stream to open.
pub(in crate::capture) enum Origin<'a> {
    File {
        path: &'a Path,
        native_pace: bool,
    },
    Rtsp {
        url: &'a Url,
        credentials: Option<&'a Credentials>,
        transport: RtspTransport,
        tls_verify: bool,
        /// Longest allowed time without a picture.
        silence: Duration,
    },
    Http {
        url: &'a Url,
        credentials: Option<&'a Credentials>,
        native_pace: bool,
        tls_verify: bool,
        /// Longest allowed time without a picture.
        silence: Duration,
    },
    V4l2 {
        device: &'a Path,
        size: Option<[u32; 2]>,
        fps: Option<u32>,
        /// Rate above which the source drops pictures.
        max_fps: Option<f64>,
    },
    Csi {
        sensor: u32,
        size: Option<[u32; 2]>,
        fps: Option<u32>,
    },
}

/// A stream and how it is to be decoded.
pub(in crate::capture) struct Request<'a> {
    pub(in crate::capture) origin: Origin<'a>,
    pub(in crate::capture) decoder: DecoderChoice,
    /// Size of the frames, if not as they come.
    pub(in crate::capture) scale: Option<[u32; 2]>,
    /// Why hardware is not used any more.
    pub(in crate::capture) failure: Option<&'a str>,
}

/// Value of a property.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Path(PathBuf),
    Text(String),
    /// Value of an enumeration, by its name.
    Nick(&'static str),
    Number(u64),
    Flag(bool),
}

/// A property and its value.
pub(super) type Property = (&'static str, Value);

/// One part of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stage {
    Element(&'static str, Vec<Property>),
    Caps(String),
    /// Waits for a key frame, which it requests, and adds decoding times.
    ///
    /// `nvv4l2decoder` gives no frame of a stream that begins with other frames and reorders
    /// frames without decoding times (roboflow/inference 2759).
    KeyFrameAndTimes,
}

/// Elements after `decodebin` for one kind of stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Branch {
    /// Media type of the stream.
    pub(super) media_type: &'static str,
    pub(super) memory: Memory,
    pub(super) stages: Vec<Stage>,
    /// Absent: `decodebin` has chosen it.
    pub(super) decoder: Option<DecoderStatus>,
}

/// The elements between an origin and the sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Description {
    pub(super) head: Vec<Stage>,
    /// Follow a `decodebin` after the head; empty if the head gives frames.
    pub(super) branches: Vec<Branch>,
    /// Whether `decodebin` may choose hardware, for MJPEG and rare formats.
    pub(super) may_use_hardware: bool,
    /// Whether the sink waits for the time of each frame.
    pub(super) sync: bool,
    /// Whether the sink drops frames that are not taken in time.
    pub(super) drop: bool,
}

/// Properties of elements that `decodebin` adds.
pub(super) const INSIDE: [(&str, &str, bool); 2] = [
    // Otherwise it queues megabytes of pictures while it waits for a second stream.
    ("multipartdemux", "single-stream", true),
    // After lost packets; `rtph265depay` has no such property before GStreamer 1.26.
    ("rtph264depay", "request-keyframe", true),
];

fn element(name: &'static str) -> Stage {
    Stage::Element(name, Vec::new())
}

/// Returns the timeout of a network element, in seconds; longer than the source may be silent.
fn network_timeout_s(silence: Duration) -> u32 {
    let silence = u32::try_from(silence.as_secs()).unwrap_or(u32::MAX);
    // 3600 is the maximum of souphttpsrc.
    silence.saturating_add(1).clamp(NETWORK_TIMEOUT_S, 3600)
}

/// Describes the pipeline of a stream on a platform.
///
/// # Errors
/// A sentence with the remedy, if the platform lacks what was asked for.
pub(super) fn describe(request: &Request<'_>, platform: &Platform) -> Result<Description, String> {
    platform.check_choice(request.decoder)?;
    let (sync, drop) = match request.origin {
        Origin::File { native_pace, .. } | Origin::Http { native_pace, .. } => {
            (native_pace, native_pace)
        }
        Origin::Rtsp { .. } | Origin::V4l2 { .. } | Origin::Csi { .. } => (false, true),
    };
    let (head, branches) = match request.origin {
        Origin::Csi { sensor, size, fps } => {
            let mode = (size.unwrap_or(CSI_SIZE), fps.unwrap_or(CSI_FPS));
            (csi(sensor, mode, request.scale, platform)?, Vec::new())
        }
        _ => (head(&request.origin), branches(request, platform)),
    };
    // Frames of `nvv4l2decoder` would have no way out.
    let is_closed = platform.has("nvv4l2decoder") && !platform.has("nvvidconv");
    let may_use_hardware =
        request.failure.is_none() && request.decoder != DecoderChoice::Software && !is_closed;
    Ok(Description {
        head,
        branches,
        may_use_hardware,
        sync,
        drop,
    })
}

/// The elements before `decodebin`.
fn head(origin: &Origin<'_>) -> Vec<Stage> {
    match origin {
        Origin::File { path, .. } => {
            vec![Stage::Element(
                "filesrc",
                vec![("location", Value::Path(path.to_path_buf()))],
            )]
        }
        Origin::V4l2 {
            device, size, fps, ..
        } => vec![
            Stage::Element(
                "v4l2src",
                vec![("device", Value::Text(device.display().to_string()))],
            ),
            Stage::Caps(device_caps(*size, *fps)),
        ],
        Origin::Http {
            url,
            tls_verify,
            silence,
            ..
        } => vec![
            Stage::Element(
                "souphttpsrc",
                vec![
                    ("location", Value::Text(url.to_string())),
                    ("timeout", Value::Number(network_timeout_s(*silence).into())),
                    ("retries", Value::Number(0)),
                    ("ssl-strict", Value::Flag(*tls_verify)),
                ],
            ),
            element("typefind"),
        ],
        Origin::Rtsp {
            url,
            transport,
            silence,
            ..
        } => {
            let micros = u64::from(network_timeout_s(*silence)) * 1_000_000;
            let protocols = match (url.scheme(), transport) {
                // The connection is encrypted; the media in it is plain interleaved TCP.
                ("rtsps", _) => "tcp+tls",
                (_, RtspTransport::Tcp) => "tcp",
                (_, RtspTransport::Udp) => "udp",
            };
            vec![Stage::Element(
                "rtspsrc",
                vec![
                    ("location", Value::Text(url.to_string())),
                    ("latency", Value::Number(RTSP_LATENCY_MS)),
                    ("protocols", Value::Nick(protocols)),
                    ("timeout", Value::Number(micros)),
                    ("tcp-timeout", Value::Number(micros)),
                ],
            )]
        }
        // It has no `decodebin`.
        Origin::Csi { .. } => Vec::new(),
    }
}

/// Raw or JPEG frames of a device, in a size and at a rate if they are given.
fn device_caps(size: Option<[u32; 2]>, fps: Option<u32>) -> String {
    let size = size.map_or_else(String::new, |[w, h]| format!(",width={w},height={h}"));
    let fps = fps.map_or_else(String::new, |fps| format!(",framerate={fps}/1"));
    ["video/x-raw", "image/jpeg"]
        .map(|name| format!("{name}{size}{fps}"))
        .join(";")
}

/// Elements after `decodebin`, for each kind of stream that this platform can take from it.
fn branches(request: &Request<'_>, platform: &Platform) -> Vec<Branch> {
    let is_live_network = matches!(request.origin, Origin::Rtsp { .. });
    let is_turned = matches!(request.origin, Origin::File { .. }) && platform.has("videoflip");
    let turn = |memory: Memory| {
        let upright = vec![("video-direction", Value::Nick("auto"))];
        let flip = Stage::Element("videoflip", upright);
        let stages = [element("videoconvert"), flip].into_iter();
        stages.filter(move |_| is_turned && memory == Memory::System)
    };
    let of_codec = |codec: &Codec| {
        let (decoder, status) = platform.choose(*codec, request.decoder, request.failure)?;
        let mut stages = vec![element(codec.parser())];
        if is_live_network && decoder.is_hardware() {
            stages.push(Stage::KeyFrameAndTimes);
        }
        stages.push(element(decoder.element));
        stages.extend(turn(decoder.memory));
        let is_va = decoder.element.starts_with("va") && platform.has("vapostproc");
        match (decoder.memory, request.scale) {
            (Memory::System, Some(_)) if is_va => stages.push(element("vapostproc")),
            (Memory::System, Some(_)) => stages.push(element("videoscale")),
            (Memory::System, None) | (Memory::Nvmm, _) => {}
        }
        stages.extend(tail(decoder.memory, request.scale));
        Some(Branch {
            media_type: codec.media_type(),
            memory: Memory::System,
            stages,
            decoder: Some(status),
        })
    };
    let raw = |memory: Memory| {
        let is_scaled = memory == Memory::System && request.scale.is_some();
        let scaler = is_scaled.then(|| element("videoscale"));
        Branch {
            media_type: "video/x-raw",
            memory,
            stages: turn(memory)
                .chain(scaler)
                .chain(tail(memory, request.scale))
                .collect(),
            decoder: None,
        }
    };
    let nvmm = platform.has("nvvidconv").then(|| raw(Memory::Nvmm));
    Codec::ALL
        .iter()
        .filter_map(of_codec)
        .chain([raw(Memory::System)])
        .chain(nvmm)
        .collect()
}

/// From decoded frames to the formats of the sink, in system memory and the wanted size.
fn tail(memory: Memory, scale: Option<[u32; 2]>) -> Vec<Stage> {
    let size = scale.map(|[w, h]| format!("width={w},height={h},pixel-aspect-ratio=1/1"));
    match memory {
        Memory::System => {
            let caps = size.map(|size| Stage::Caps(format!("video/x-raw,{size}")));
            let convert = element("videoconvert");
            caps.into_iter().chain([convert]).collect()
        }
        Memory::Nvmm => {
            let size = size.map_or_else(String::new, |size| format!(",{size}"));
            let copies = vec![("output-buffers", Value::Number(NVMM_COPIES))];
            vec![
                Stage::Element("nvvidconv", copies),
                Stage::Caps(format!("video/x-raw,format=NV12{size}")),
            ]
        }
    }
}

/// A CSI camera in this mode, by the element that the platform has for it.
fn csi(
    sensor: u32,
    ([width, height], fps): ([u32; 2], u32),
    scale: Option<[u32; 2]>,
    platform: &Platform,
) -> Result<Vec<Stage>, String> {
    let mode = format!("width={width},height={height},framerate={fps}/1");
    if platform.has("nvarguscamerasrc") && platform.has("nvvidconv") {
        let number = vec![("sensor-id", Value::Number(sensor.into()))];
        let mut stages = vec![
            Stage::Element("nvarguscamerasrc", number),
            Stage::Caps(format!("{NVMM_FORMAT},{mode}")),
        ];
        stages.extend(tail(Memory::Nvmm, scale));
        return Ok(stages);
    }
    if !platform.has("libcamerasrc") {
        return Err(
            "a CSI camera needs nvarguscamerasrc and nvvidconv on a Jetson (sudo apt-get install \
             nvidia-l4t-gstreamer), or libcamerasrc on a Raspberry Pi (sudo apt-get install \
             gstreamer1.0-libcamera), and neither is installed"
                .to_owned(),
        );
    }
    if sensor != 0 {
        return Err(format!(
            "libcamerasrc chooses cameras by name only, so csi://{sensor} is not supported here; \
             use csi://0"
        ));
    }
    let scaler = scale.map(|_| element("videoscale"));
    let stages = [
        element("libcamerasrc"),
        Stage::Caps(format!("video/x-raw,{mode}")),
    ];
    let tail = tail(Memory::System, scale);
    Ok(stages.into_iter().chain(scaler).chain(tail).collect())
}

#[cfg(test)]
mod tests;
