//! Pipelines as text, for boards that the tests do not have.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::*;
use crate::capture::check::package_of;
use crate::capture::gst::platform::DecoderBoard;
use crate::capture::gst::platform::tests::with;

const NVIDIA: [&str; 3] = ["nvarguscamerasrc", "nvv4l2decoder", "nvvidconv"];

/// Orin with JetPack 6 (GStreamer 1.20).
fn jetpack_6() -> Platform {
    with(
        DecoderBoard::Jetson,
        &[&NVIDIA[..], &["avdec_h264", "avdec_h265"]].concat(),
    )
}

/// Orin with JetPack 7 (GStreamer 1.24), where NVIDIA's elements for graphics cards may be too.
fn jetpack_7() -> Platform {
    let more = [
        "nvh264dec",
        "nvh265dec",
        "openh264dec",
        "avdec_h264",
        "avdec_h265",
    ];
    with(DecoderBoard::Jetson, &[&NVIDIA[..], &more].concat())
}

fn raspberry_pi_4() -> Platform {
    let elements = ["avdec_h264", "avdec_h265", "libcamerasrc", "v4l2h264dec"];
    with(DecoderBoard::RaspberryPi4, &elements)
}

fn x86_with_va() -> Platform {
    let va = ["vah264dec", "vah265dec", "vapostproc"];
    with(
        DecoderBoard::Other,
        &[&va[..], &["avdec_h264", "avdec_h265"]].concat(),
    )
}

fn bare() -> Platform {
    with(DecoderBoard::Other, &["openh264dec"])
}

fn property((name, value): &Property) -> String {
    match value {
        Value::Path(path) => format!(" {name}={}", path.display()),
        Value::Text(text) => format!(" {name}={text}"),
        Value::Nick(nick) => format!(" {name}={nick}"),
        Value::Number(number) => format!(" {name}={number}"),
        Value::Flag(flag) => format!(" {name}={flag}"),
    }
}

fn chain(stages: &[Stage]) -> String {
    let text = |stage: &Stage| match stage {
        Stage::Element(name, properties) => {
            format!(
                "{name}{}",
                properties.iter().map(property).collect::<String>()
            )
        }
        Stage::Caps(caps) => caps.clone(),
        Stage::KeyFrameAndTimes => "(key frame, times)".to_owned(),
    };
    stages.iter().map(text).collect::<Vec<_>>().join(" ! ")
}

/// Writes a pipeline: the head, then a line for each branch.
fn text(request: &Request<'_>, platform: &Platform) -> String {
    let description = match describe(request, platform) {
        Ok(description) => description,
        Err(why) => return format!("refused: {why}"),
    };
    let mut text = chain(&description.head);
    for branch in &description.branches {
        let memory = match branch.memory {
            Memory::System => "",
            Memory::Nvmm => "(NVMM)",
        };
        let stages = chain(&branch.stages);
        write!(text, "\n  {}{memory} ! {stages}", branch.media_type).expect("a string");
    }
    text
}

fn request(origin: Origin<'_>) -> Request<'_> {
    Request {
        origin,
        decoder: DecoderChoice::Auto,
        scale: None,
        failure: None,
    }
}

fn camera(url: &Url) -> Request<'_> {
    request(Origin::Rtsp {
        url,
        credentials: None,
        transport: RtspTransport::Tcp,
        tls_verify: true,
        silence: Duration::from_secs(5),
    })
}

fn url() -> Url {
    Url::parse("rtsp://cam/live").expect("valid")
}

fn file<'a>() -> Request<'a> {
    request(Origin::File {
        path: Path::new("street.mp4"),
        native_pace: false,
    })
}

fn csi(sensor: u32, mode: (Option<[u32; 2]>, Option<u32>)) -> Request<'static> {
    request(Origin::Csi {
        sensor,
        size: mode.0,
        fps: mode.1,
    })
}

const RTSP: &str = "rtspsrc location=rtsp://cam/live latency=100 protocols=tcp timeout=8000000 \
                    tcp-timeout=8000000";

#[test]
fn jetson_decodes_cameras_and_files_in_nvmm() {
    let nvmm = "nvvidconv output-buffers=8 ! video/x-raw,format=NV12";
    let wanted = format!(
        "{RTSP}\n  \
         video/x-h264 ! h264parse ! (key frame, times) ! nvv4l2decoder ! {nvmm}\n  \
         video/x-h265 ! h265parse ! (key frame, times) ! nvv4l2decoder ! {nvmm}\n  \
         video/x-raw ! videoconvert\n  \
         video/x-raw(NVMM) ! {nvmm}"
    );
    for jetson in [jetpack_6(), jetpack_7()] {
        assert_eq!(text(&camera(&url()), &jetson), wanted);
        // A file begins with a key frame and has decoding times.
        assert_eq!(
            text(&file(), &jetson),
            wanted
                .replace(RTSP, "filesrc location=street.mp4")
                .replace("(key frame, times) ! ", "")
        );
    }
}

#[test]
fn jetson_scales_in_nvmm_before_frames_are_copied() {
    let scaled = Request {
        scale: Some([1280, 720]),
        ..file()
    };
    let size = "width=1280,height=720,pixel-aspect-ratio=1/1";
    let nvmm = format!("nvvidconv output-buffers=8 ! video/x-raw,format=NV12,{size}");
    assert_eq!(
        text(&scaled, &jetpack_6()),
        format!(
            "filesrc location=street.mp4\n  \
             video/x-h264 ! h264parse ! nvv4l2decoder ! {nvmm}\n  \
             video/x-h265 ! h265parse ! nvv4l2decoder ! {nvmm}\n  \
             video/x-raw ! videoscale ! video/x-raw,{size} ! videoconvert\n  \
             video/x-raw(NVMM) ! {nvmm}"
        )
    );
}

#[test]
fn jetson_whose_decoder_failed_uses_the_processor() {
    let address = url();
    let failed = Request {
        failure: Some("nvv4l2decoder failed"),
        ..camera(&address)
    };
    let description = describe(&failed, &jetpack_6()).expect("a pipeline");
    assert!(!description.may_use_hardware);
    assert_eq!(
        chain(&description.branches[0].stages),
        "h264parse ! avdec_h264 ! videoconvert"
    );
    let decoder = description.branches[0].decoder.as_ref();
    let reason = decoder.and_then(|decoder| decoder.fallback.as_deref());
    assert_eq!(reason, Some("nvv4l2decoder failed"));
}

#[test]
fn raspberry_pi_decodes_h264_by_v4l2_only() {
    assert_eq!(
        text(&camera(&url()), &raspberry_pi_4()),
        format!(
            "{RTSP}\n  \
             video/x-h264 ! h264parse ! (key frame, times) ! v4l2h264dec ! videoconvert\n  \
             video/x-h265 ! h265parse ! avdec_h265 ! videoconvert\n  \
             video/x-raw ! videoconvert"
        )
    );
}

#[test]
fn x86_decodes_and_scales_by_va() {
    let scaled = Request {
        scale: Some([640, 360]),
        ..file()
    };
    let size = "video/x-raw,width=640,height=360,pixel-aspect-ratio=1/1";
    assert_eq!(
        text(&scaled, &x86_with_va()),
        format!(
            "filesrc location=street.mp4\n  \
             video/x-h264 ! h264parse ! vah264dec ! vapostproc ! {size} ! videoconvert\n  \
             video/x-h265 ! h265parse ! vah265dec ! vapostproc ! {size} ! videoconvert\n  \
             video/x-raw ! videoscale ! {size} ! videoconvert"
        )
    );
}

#[test]
fn bare_machine_leaves_other_codecs_to_decodebin() {
    assert_eq!(
        text(&file(), &bare()),
        "filesrc location=street.mp4\n  \
         video/x-h264 ! h264parse ! openh264dec ! videoconvert\n  \
         video/x-raw ! videoconvert"
    );
}

#[test]
fn csi_camera_uses_the_element_of_the_board() {
    let mode = (Some([1280, 720]), Some(60));
    assert_eq!(
        text(&csi(1, mode), &jetpack_6()),
        "nvarguscamerasrc sensor-id=1 ! \
         video/x-raw(memory:NVMM),format=NV12,width=1280,height=720,framerate=60/1 ! \
         nvvidconv output-buffers=8 ! video/x-raw,format=NV12"
    );
    assert_eq!(
        text(&csi(0, (None, None)), &raspberry_pi_4()),
        "libcamerasrc ! video/x-raw,width=1920,height=1080,framerate=30/1 ! videoconvert"
    );
}

#[test]
fn csi_camera_is_refused_where_no_element_reads_it() {
    let refused = text(&csi(0, (None, None)), &bare());
    assert!(refused.contains("neither is installed"), "{refused}");
    let refused = text(&csi(1, (None, None)), &raspberry_pi_4());
    assert!(refused.contains("use csi://0"), "{refused}");
}

#[test]
fn decoder_that_is_not_installed_is_refused() {
    let named = Request {
        decoder: DecoderChoice::Nvidia,
        ..file()
    };
    let refused = text(&named, &x86_with_va());
    assert!(
        refused.starts_with("refused: decoder = \"nvidia\""),
        "{refused}"
    );
}

#[test]
fn device_gives_raw_or_jpeg_in_the_requested_mode() {
    let device = request(Origin::V4l2 {
        device: Path::new("/dev/video0"),
        size: Some([640, 480]),
        fps: Some(25),
        max_fps: None,
    });
    let first = text(&device, &bare()).lines().next().map(str::to_owned);
    let mode = "width=640,height=480,framerate=25/1";
    assert_eq!(
        first,
        Some(format!(
            "v4l2src device=/dev/video0 ! video/x-raw,{mode};image/jpeg,{mode}"
        ))
    );
}

#[test]
fn network_timeout_exceeds_the_allowed_silence() {
    let seconds = |s| network_timeout_s(Duration::from_secs(s));
    assert_eq!((seconds(5), seconds(60)), (8, 61));
    let longest = *watchkeeper_contract::source::STALL_S.end() as u64;
    assert!(u64::from(seconds(longest)) > longest);
}

#[test]
fn every_described_element_has_a_package() {
    let address = url();
    let web = Url::parse("http://cam/mjpg").expect("valid");
    let platforms = [
        jetpack_6(),
        jetpack_7(),
        raspberry_pi_4(),
        x86_with_va(),
        bare(),
    ];
    let mut elements = BTreeSet::new();
    for platform in &platforms {
        for scale in [None, Some([640, 360])] {
            let origins = [
                camera(&address),
                file(),
                csi(0, (None, None)),
                request(Origin::Http {
                    url: &web,
                    credentials: None,
                    native_pace: false,
                    tls_verify: true,
                    silence: Duration::from_secs(5),
                }),
                request(Origin::V4l2 {
                    device: Path::new("/dev/video0"),
                    size: None,
                    fps: None,
                    max_fps: None,
                }),
            ];
            for origin in origins {
                let scaled = Request { scale, ..origin };
                let Ok(description) = describe(&scaled, platform) else {
                    continue;
                };
                let branches = description.branches.into_iter().flat_map(|b| b.stages);
                elements.extend(
                    description
                        .head
                        .into_iter()
                        .chain(branches)
                        .filter_map(|stage| match stage {
                            Stage::Element(name, _) => Some(name),
                            Stage::Caps(_) | Stage::KeyFrameAndTimes => None,
                        }),
                );
            }
        }
    }
    assert!(elements.contains("nvv4l2decoder") && elements.contains("vapostproc"));
    let unknown: Vec<_> = elements
        .iter()
        .filter(|e| package_of(e).is_none())
        .collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}
