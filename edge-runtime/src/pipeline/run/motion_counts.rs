//! Counts of the motion detector on real clips, through the tracker and the line counter.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::source::{Pace, RtspTransport, SourceSpec};
use watchkeeper_demo::{DemoOptions, Kind, truth};
use watchkeeper_detect::motion::{MODEL, MotionDetector};
use watchkeeper_detect::{DetectParams, Detector as _};
use watchkeeper_vision::analytics::LineCounter;
use watchkeeper_vision::detections::{Detection, DetectionId, Detections};
use watchkeeper_vision::geometry::Point;
use watchkeeper_vision::track::byte_track::{ByteTrack, ByteTrackConfig};

use crate::capture::mailbox::Recv;
use crate::capture::source::{Deps, Source};

/// Crossings in and out of the line from `start` to `end`.
fn count(uri: &str, start: [f64; 2], end: [f64; 2]) -> (u64, u64) {
    let spec = SourceSpec {
        id: SourceId::new("clip").unwrap(),
        name: None,
        uri: uri.to_owned(),
        pace: Pace::Fast,
        max_fps: None,
        rtsp_transport: RtspTransport::Tcp,
        tls_verify: true,
        stall_s: None,
    };
    let source = Source::spawn(spec, Deps::default());
    let frames = source.subscribe();
    let mut detector = MotionDetector::default();
    let point = |[x, y]: [f64; 2]| Point::new(x, y);
    let mut line = LineCounter::new(point(start), point(end), &[]);
    let mut tracker = None;
    let mut out = Vec::new();
    loop {
        let frame = match frames.recv(Duration::from_secs(60)) {
            Recv::Frame(frame) => frame,
            Recv::Ended => break,
            other => panic!("{other:?}"),
        };
        detector
            .detect(&frame, &DetectParams::default(), &mut out)
            .unwrap();
        let boxes = out.iter().enumerate().map(|(i, d)| {
            Detection::new(
                d.bbox,
                f64::from(d.score),
                0,
                MODEL,
                DetectionId::Local {
                    stream: 0,
                    number: i as u64,
                },
            )
        });
        let found = Detections {
            boxes: boxes.collect(),
            size: [frame.picture.width, frame.picture.height],
        };
        let tracked = tracker
            .get_or_insert_with(|| {
                ByteTrack::new(ByteTrackConfig {
                    frame_rate: frame.fps.unwrap_or(25.0),
                    ..ByteTrackConfig::default()
                })
            })
            .update(&found);
        line.update(&tracked);
    }
    (line.count_in(), line.count_out())
}

/// A file of the test data; without it the test is skipped with a message.
#[expect(clippy::print_stderr, reason = "a skip must be loud")]
fn test_data(file: &str) -> Option<PathBuf> {
    let root = std::env::var_os("WATCHKEEPER_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data"),
        PathBuf::from,
    );
    let path = root.join(file);
    if !path.exists() {
        eprintln!("SKIPPED: (no test data at {})", path.display());
        return None;
    }
    Some(path)
}

fn count_clip(name: &str, start: [f64; 2], end: [f64; 2]) -> Option<(u64, u64)> {
    let path = test_data(&format!("video/{name}"))?;
    Some(count(path.to_str().unwrap(), start, end))
}

#[test]
fn figures_of_the_demo_street_are_counted_once() {
    let uri = "demo:?seconds=30";
    let options = DemoOptions::parse("?seconds=30").unwrap();
    let truth = truth(&options);
    for (start, end) in [
        ([320.0, 0.0], [320.0, 360.0]),
        ([0.0, 250.0], [640.0, 250.0]),
    ] {
        let real = [Kind::Person, Kind::Car].map(|kind| {
            truth.crossings(
                kind,
                Point::new(start[0], start[1]),
                Point::new(end[0], end[1]),
            )
        });
        let real = (
            (real[0].r#in + real[1].r#in) as u64,
            (real[0].out + real[1].out) as u64,
        );
        assert_eq!(count(uri, start, end), real, "line {start:?} to {end:?}");
    }
}

#[test]
fn cars_in_a_car_park_from_above_are_counted_each_way() {
    // By eye: two up, two down; the camera's exposure changes with every car.
    if let Some(counts) = count_clip("intel_car-detection.mp4", [0.0, 216.0], [768.0, 216.0]) {
        assert_eq!(counts, (2, 2));
    }
}

#[test]
fn cars_on_a_suburban_road_under_trees_are_counted() {
    // By eye: eight towards the camera, none away from it.
    if let Some((up, down)) = count_clip("ahmetozlu_road.mp4", [0.0, 218.0], [640.0, 218.0]) {
        assert_eq!(up, 0);
        assert!(down.abs_diff(8) <= 1, "{down}");
    }
}

#[test]
fn vehicles_on_a_motorway_are_counted() {
    // By eye: 23 on the near carriageway, give or take one.
    if let Some((away, towards)) = count_clip("bgs_highway02.avi", [0.0, 144.0], [320.0, 144.0]) {
        assert!(away.abs_diff(23) <= 2, "{away}");
        assert_eq!(towards, 0);
    }
}
