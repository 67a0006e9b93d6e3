//! Variants of cameras: codec, login, TLS, sound, sizes and colours. Every received picture equals
//! the sent one.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::path::Path;

use watchkeeper_contract::source::{LossCause, RtspTransport};
use watchkeeper_tests::certificates::Authority;
use watchkeeper_tests::rtsp::{RtspOptions, RtspServer};
use watchkeeper_tests::watch::Watched;
use watchkeeper_vision::frame::Frame;
use watchkeeper_vision::jpeg;

fn camera(options: &RtspOptions) -> RtspServer {
    RtspServer::start(Path::new(env!("CARGO_BIN_EXE_rtsp-server")), options).unwrap()
}

fn serving(launch: &str) -> RtspServer {
    camera(&RtspOptions {
        launch: Some(launch.to_owned()),
        ..RtspOptions::default()
    })
}

/// 75 % colour bars: the upper two thirds of the pattern `smpte75`, from left to right.
const BARS: [[u8; 3]; 7] = [
    [191, 191, 191],
    [191, 191, 0],
    [0, 191, 191],
    [0, 191, 0],
    [191, 0, 191],
    [191, 0, 0],
    [0, 0, 191],
];

/// Returns the largest difference of a channel in the middle of a bar.
fn worst_bar(frame: &Frame) -> u8 {
    let rgb = jpeg::to_rgb(&frame.picture).unwrap();
    let (width, height) = rgb.dimensions();
    let mut worst = 0;
    for (i, bar) in (0_u32..).zip(BARS) {
        let pixel = rgb.get_pixel((2 * i + 1) * width / 14, height / 3);
        for (seen, wanted) in pixel.0.into_iter().zip(bar) {
            worst = worst.max(seen.abs_diff(wanted));
        }
    }
    worst
}

/// Makes a live pattern of bars with these caps, up to the encoder. It is drawn in RGB, because the
/// pattern itself has no full range.
fn bars(caps: &str) -> String {
    format!(
        "videotestsrc is-live=true pattern=smpte75 ! video/x-raw,format=RGB,framerate=15/1 ! videoconvert ! \
         video/x-raw,{caps}"
    )
}

/// GStreamer's notation of colours: range (1 = full, 2 = limited), matrix (3 = BT.709, 4 = BT.601),
/// transfer, primaries. These are a JPEG's.
const FULL: &str = "colorimetry=1:4:0:0";

const H264: &str = "x264enc tune=zerolatency speed-preset=ultrafast quantizer=10 key-int-max=15 ! \
    rtph264pay name=pay0 pt=96 config-interval=1";
const H265: &str = "x265enc tune=zerolatency speed-preset=ultrafast key-int-max=15 ! \
    rtph265pay name=pay0 pt=96 config-interval=1";
const JPEG: &str = "jpegenc quality=95 ! rtpjpegpay name=pay0 pt=26";

/// Largest difference that coding and chroma of half the size cause.
const CLOSE: u8 = 12;

fn shows_bars(launch: &str, size: [u32; 2], transport: RtspTransport) {
    let server = serving(launch);
    let watched = Watched::start_over(server.uri(), transport).unwrap();
    let mut frame = watched.frame().unwrap();
    for _ in 0..2 {
        frame = watched.frame().unwrap();
    }
    assert_eq!(
        [frame.picture.width, frame.picture.height],
        size,
        "{launch}"
    );
    let worst = worst_bar(&frame);
    let picture = &frame.picture;
    assert!(
        worst <= CLOSE,
        "off by {worst}: {launch}: {:?} {:?}",
        picture.format,
        picture.color
    );
}

#[test]
fn h264_h265_and_jpeg_keep_colours_over_both_transports() {
    for transport in [RtspTransport::Tcp, RtspTransport::Udp] {
        for (encoder, colours) in [(H264, "bt601"), (H265, "bt709"), (JPEG, FULL)] {
            let colours = colours.trim_start_matches("colorimetry=");
            let caps = format!("format=I420,width=320,height=240,colorimetry={colours}");
            shows_bars(
                &format!("{} ! {encoder}", bars(&caps)),
                [320, 240],
                transport,
            );
        }
    }
}

#[test]
fn announced_colour_matrix_and_range_are_kept() {
    for colorimetry in ["bt601", "bt709", "1:4:0:0", "1:3:5:1"] {
        let caps = format!("format=I420,width=320,height=240,colorimetry={colorimetry}");
        let launch = format!("{} ! {H264}", bars(&caps));
        shows_bars(&launch, [320, 240], RtspTransport::Tcp);
    }
}

#[test]
fn odd_sizes_and_non_square_pixels_keep_every_column() {
    // H.264 crops such sizes out of whole blocks of 16; RTP states a JPEG's in eighths.
    for size in [[642, 362], [322, 242], [98, 66]] {
        let [width, height] = size;
        let caps = format!("format=I420,width={width},height={height},pixel-aspect-ratio=4/3");
        let launch = format!("{} ! {H264}", bars(&caps));
        shows_bars(&launch, size, RtspTransport::Tcp);
    }
    // 4:4:4 has odd sizes; it is converted to 4:2:0 with separate chroma for the last column.
    for size in [[641, 361], [321, 239]] {
        let [width, height] = size;
        let caps = format!("format=Y444,width={width},height={height}");
        let launch = format!("{} ! {H264}", bars(&caps));
        shows_bars(&launch, size, RtspTransport::Tcp);
    }
}

#[test]
fn camera_with_sound_delivers_pictures() {
    let sound = "audiotestsrc is-live=true ! alawenc ! rtppcmapay name=pay1 pt=8";
    let picture = format!("{} ! {H264}", bars("format=I420,width=320,height=240"));
    for launch in [
        format!("{picture} {sound}"),
        // A camera that announces sound first.
        format!(
            "{} {}",
            sound.replace("pay1", "pay0"),
            picture.replace("pay0", "pay1")
        ),
    ] {
        shows_bars(&launch, [320, 240], RtspTransport::Tcp);
    }
}

#[test]
fn size_change_in_mid_stream_loses_no_source() {
    let pattern = "videotestsrc is-live=true pattern=smpte75 ! video/x-raw,format=RGB,framerate=15/1 ! videoscale ! \
        capsfilter name=size caps=video/x-raw,width=320,height=240 ! videoconvert";
    for (encoder, colours) in [(H264, "colorimetry=bt601"), (JPEG, FULL)] {
        let launch = format!("{pattern} ! video/x-raw,format=I420,{colours} ! {encoder}");
        let mut server = serving(&launch);
        let watched = Watched::start(server.uri()).unwrap();
        let before = watched.frame().unwrap();
        assert_eq!([before.picture.width, before.picture.height], [320, 240]);
        for (command, size) in [("size 640x480", [640, 480]), ("size 160x120", [160, 120])] {
            server.send(command).unwrap();
            let mut frame = watched.frame().unwrap();
            while [frame.picture.width, frame.picture.height] != size {
                frame = watched.frame().unwrap();
            }
            let worst = worst_bar(&frame);
            assert!(worst <= CLOSE, "{command}: off by {worst}");
            assert!(frame.pts > before.pts);
        }
        assert_eq!(watched.notices.take(), None, "the source was lost");
    }
}

#[test]
fn digest_login_works_and_a_wrong_one_has_its_own_cause() {
    let server = camera(&RtspOptions {
        login: Some(("viewer".to_owned(), "p@ss:w/rd ü".to_owned())),
        digest: true,
        ..RtspOptions::default()
    });
    let right = server.uri_with("viewer", "p%40ss%3Aw%2Frd%20%C3%BC");
    Watched::start(&right).unwrap().frame().unwrap();
    let wrong = Watched::start(&server.uri_with("viewer", "wrong-one")).unwrap();
    let (cause, message) = wrong.lost().unwrap();
    assert_eq!(cause, LossCause::Authentication, "{message}");
    assert!(!message.contains("wrong-one"), "{message}");
}

#[test]
fn self_signed_certificate_is_refused_unless_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("the camera itself").unwrap();
    let identity = authority.issue(folder.path(), "camera", &["127.0.0.1"]);
    let server = camera(&RtspOptions {
        login: Some(("viewer".to_owned(), "right-one".to_owned())),
        tls: Some(identity.unwrap()),
        ..RtspOptions::default()
    });
    let uri = server.uri_with("viewer", "right-one");
    assert!(uri.starts_with("rtsps://"), "{uri}");
    let refused = Watched::start(&uri).unwrap();
    let (cause, message) = refused.lost().unwrap();
    assert_eq!(cause, LossCause::Untrusted, "{message}");
    assert!(message.contains("tls_verify"), "{message}");
    assert!(!message.contains("right-one"), "{message}");
    let trusted = Watched::start_trusting(&uri).unwrap();
    for _ in 0..5 {
        trusted.frame().unwrap();
    }
    let wrong = Watched::start_trusting(&server.uri_with("viewer", "wrong-one")).unwrap();
    let (cause, message) = wrong.lost().unwrap();
    assert_eq!(cause, LossCause::Authentication, "{message}");
}
