//! Counts of the motion detector on real clips, through the tracker and the line counter, and
//! what is noticed about a camera that shows them.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use image::imageops::FilterType;
use image::{DynamicImage, GrayImage, Rgb, RgbImage, imageops};
use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::source::{Blindness, SourceSpec};
use watchkeeper_demo::{DemoOptions, Kind, truth};
use watchkeeper_detect::motion::{MODEL, MotionDetector};
use watchkeeper_detect::{DetectParams, Detector as _, RawDetection};
use watchkeeper_vision::analytics::LineCounter;
use watchkeeper_vision::detections::{Detection, DetectionId, Detections};
use watchkeeper_vision::frame::{Frame, Picture};
use watchkeeper_vision::geometry::Point;
use watchkeeper_vision::track::byte_track::{ByteTrack, ByteTrackConfig};

use crate::capture::blind::{BlindChange, BlindWatch};
use crate::capture::mailbox::{FrameReceiver, Recv};
use crate::capture::source::{Deps, Source, SourceHandle};

/// Opens a clip and subscribes to its frames.
fn open(uri: &str) -> (SourceHandle, FrameReceiver) {
    let spec = SourceSpec::new(SourceId::new("clip").unwrap(), uri);
    let source = Source::spawn(spec, Deps::default());
    let frames = source.subscribe();
    (source, frames)
}

/// The next frame; `None` at the end.
fn next(frames: &FrameReceiver) -> Option<Frame> {
    match frames.recv(Duration::from_secs(60)) {
        Recv::Frame(frame) => Some(frame),
        Recv::Ended => None,
        other => panic!("{other:?}"),
    }
}

/// The motion detector and a tracker after it.
#[derive(Default)]
struct Follower {
    detector: MotionDetector,
    tracker: Option<ByteTrack>,
    out: Vec<RawDetection>,
}

impl Follower {
    fn follow(&mut self, frame: &Frame) -> Detections {
        let Self {
            detector,
            tracker,
            out,
        } = self;
        detector
            .detect(frame, &DetectParams::default(), out)
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
        tracker
            .get_or_insert_with(|| {
                ByteTrack::new(ByteTrackConfig {
                    frame_rate: frame.fps.unwrap_or(25.0),
                    ..ByteTrackConfig::default()
                })
            })
            .update(&found)
    }
}

/// Crossings in and out of the line from `start` to `end`.
fn count(uri: &str, start: [f64; 2], end: [f64; 2]) -> (u64, u64) {
    let (_source, frames) = open(uri);
    let point = |[x, y]: [f64; 2]| Point::new(x, y);
    let mut line = LineCounter::new(point(start), point(end), &[]);
    let mut follower = Follower::default();
    while let Some(frame) = next(&frames) {
        line.update(&follower.follow(&frame));
    }
    (line.count_in(), line.count_out())
}

/// Luma above black of a decoded frame, row by row.
fn luma(picture: &Picture) -> Vec<f32> {
    let plane = picture.planes.plane(0);
    let rows = plane.data.chunks(plane.stride);
    let rows = rows.take(picture.height as usize);
    rows.flat_map(|row| row.iter().take(picture.width as usize))
        .map(|luma| f32::from(luma.saturating_sub(16)))
        .collect()
}

/// A frame in darkness: its luma times `gain`, with noise, and perhaps a lamp of six pixels.
fn darkened(frame: &Frame, gain: f32, noise: &[f32], has_lamp: bool) -> Frame {
    let (width, height) = (frame.picture.width, frame.picture.height);
    // Each frame starts elsewhere in the noise, whose length is prime.
    let start = frame.id.seq as usize * 7919 % noise.len();
    let mut noise = noise.iter().cycle().skip(start);
    let mut pixels = RgbImage::new(width, height);
    for ((x, y, pixel), luma) in pixels.enumerate_pixels_mut().zip(luma(&frame.picture)) {
        let noise = noise.next().unwrap_or(&0.0);
        let from_lamp = (f32::from(x as u16) - width as f32 * 0.8)
            .hypot(f32::from(y as u16) - height as f32 * 0.3);
        let lamp = if has_lamp && from_lamp <= 6.0 {
            240.0
        } else {
            0.0
        };
        *pixel = Rgb([(luma * gain + noise + lamp).clamp(0.0, 255.0) as u8; 3]);
    }
    Frame {
        picture: pixels.into(),
        ..frame.clone()
    }
}

/// Reported changes of a clip, 150 frames of it, darkened to a mean of `level`; and the number of
/// frames with tracks.
fn watch_darkened(path: &Path, level: f32, has_lamp: bool) -> (Vec<BlindChange>, u32) {
    let (_source, frames) = open(path.to_str().unwrap());
    let (mut watch, mut follower) = (BlindWatch::default(), Follower::default());
    let (mut gain, mut changes, mut followed) = (None, Vec::new(), 0);
    let mut random = fastrand::Rng::with_seed(7);
    // Nearly normal, with a deviation of one level.
    let mut one = || (0..12).map(|_| random.f32()).sum::<f32>() - 6.0;
    let noise: Vec<f32> = (0..65_537).map(|_| one()).collect();
    for _ in 0..150 {
        let Some(frame) = next(&frames) else { break };
        let gain = *gain.get_or_insert_with(|| {
            let luma = luma(&frame.picture);
            level * luma.len() as f32 / luma.iter().sum::<f32>()
        });
        let dark = darkened(&frame, gain, &noise, has_lamp);
        if !follower.follow(&dark).boxes.is_empty() {
            followed += 1;
        }
        changes.extend(watch.observe(dark.pts, &dark.picture, None));
    }
    (changes, followed)
}

#[test]
fn darkened_footage_with_a_lamp_is_not_black() {
    let Some(path) = test_data("video/bgs_highway02.avi") else {
        return;
    };
    for level in [2.0, 4.0, 8.0] {
        let (changes, _) = watch_darkened(&path, level, true);
        assert_eq!(changes, [], "level {level}");
    }
}

#[test]
fn darkened_footage_without_a_lamp_is_not_black() {
    for (clip, level) in [
        ("bgs_highway02.avi", 8.0),
        ("TUD-Stadtmitte.mp4", 8.0),
        ("TUD-Stadtmitte.mp4", 4.0),
        ("ahmetozlu_road.mp4", 4.0),
    ] {
        let Some(path) = test_data(&format!("video/{clip}")) else {
            return;
        };
        let (changes, _) = watch_darkened(&path, level, false);
        assert_eq!(changes, [], "{clip} at level {level}");
    }
}

#[test]
fn nothing_is_followed_behind_a_covered_lens() {
    let Some(path) = test_data("video/bgs_highway02.avi") else {
        return;
    };
    let (changes, followed) = watch_darkened(&path, 0.0, false);
    assert!(
        matches!(
            changes.as_slice(),
            [BlindChange::Blind {
                kind: Blindness::Black,
                ..
            }]
        ),
        "{changes:?}"
    );
    assert_eq!(followed, 0);
}

/// Two pictures a second of the first 15 seconds of a clip.
fn first_pictures(path: &Path) -> Vec<GrayImage> {
    let mut pictures = Vec::new();
    let (_source, frames) = open(path.to_str().unwrap());
    while let Some(frame) = next(&frames)
        && frame.pts < Duration::from_secs(15)
    {
        if frame.pts >= Duration::from_millis(500) * pictures.len() as u32 {
            let (width, height) = (frame.picture.width, frame.picture.height);
            let levels = luma(&frame.picture).into_iter().map(|level| level as u8);
            pictures.push(GrayImage::from_vec(width, height, levels.collect()).unwrap());
        }
    }
    pictures
}

/// Changes reported while these pictures are shown for half a minute, disturbed for as long, and
/// shown again, each with its second.
fn watch_disturbed(
    pictures: &[GrayImage],
    disturb: impl Fn(&GrayImage) -> GrayImage,
) -> Vec<(u32, BlindChange)> {
    let disturbed: Vec<GrayImage> = pictures.iter().map(disturb).collect();
    let shown = |pictures: &[GrayImage]| -> Vec<Picture> {
        let rgb = |picture: &GrayImage| DynamicImage::from(picture.clone()).to_rgb8().into();
        pictures.iter().map(rgb).collect()
    };
    let (usual, disturbed) = (shown(pictures), shown(&disturbed));
    let mut watch = BlindWatch::new(true, None);
    let spans = [&usual, &disturbed, &usual];
    let frames = spans.iter().flat_map(|span| span.iter().cycle().take(60));
    let changes = frames.zip(0_u32..).filter_map(|(picture, n)| {
        let change = watch.observe(Duration::from_millis(500) * n, picture, None);
        change.map(|change| (n / 2, change))
    });
    changes.collect()
}

#[test]
fn zoomed_camera_is_noticed() {
    let Some(path) = test_data("video/crossing_bor.mp4") else {
        return;
    };
    let changes = watch_disturbed(&first_pictures(&path), |picture| {
        let [width, height] = [picture.width(), picture.height()];
        let [x, y] = [width * 6 / 112, height * 6 / 112];
        let inner = imageops::crop_imm(picture, x, y, width * 100 / 112, height * 100 / 112);
        imageops::resize(&inner.to_image(), width, height, FilterType::Triangle)
    });
    let kind = changes.first().map(|(_, change)| change);
    let is_moved = |change: &BlindChange| matches!(change, BlindChange::Blind { kind, .. } if *kind == Blindness::Moved);
    assert!(kind.is_some_and(is_moved), "{changes:?}");
}

#[test]
fn moved_covered_or_blurred_camera_is_noticed_until_repair() {
    let fade = |picture: &GrayImage, gain: f32, offset: f32| {
        let mut picture = picture.clone();
        for pixel in picture.pixels_mut() {
            pixel.0[0] = (f32::from(pixel.0[0]) * gain + offset) as u8;
        }
        picture
    };
    let aside = |picture: &GrayImage, part: u32| {
        let width = picture.width();
        GrayImage::from_fn(width, picture.height(), |x, y| {
            picture[((x + width / part) % width, y)]
        })
    };
    for clip in ["crossing_bor.mp4", "pets09_f001-300_768x576.mp4"] {
        let Some(path) = test_data(&format!("video/{clip}")) else {
            return;
        };
        let pictures = first_pictures(&path);
        let kinds = |disturb: &dyn Fn(&GrayImage) -> GrayImage| -> Vec<Option<Blindness>> {
            let changes = watch_disturbed(&pictures, disturb);
            for ((second, change), disturbed) in changes.iter().zip([30, 60]) {
                let is_soon = (disturbed..disturbed + 16).contains(second);
                assert!(is_soon, "{clip}: {change:?} at {second} s");
            }
            let kind = |(_, change)| match change {
                BlindChange::Blind { kind, .. } => Some(kind),
                BlindChange::Seeing { .. } => None,
            };
            changes.into_iter().map(kind).collect()
        };
        assert_eq!(kinds(&|picture| fade(picture, 0.4, 0.0)), [], "{clip}");
        assert_eq!(kinds(&|picture| fade(picture, 0.6, 90.0)), [], "{clip}");
        for part in [8, 37] {
            let moved = kinds(&|picture| aside(picture, part));
            assert_eq!(moved, [Some(Blindness::Moved), None], "{clip}, 1/{part}");
        }
        let dark = kinds(&|picture| fade(picture, 0.025, 0.0));
        assert_eq!(dark, [Some(Blindness::Black), None], "{clip}");
        let bag = |picture: &GrayImage| {
            let mut covered = picture.clone();
            for (x, y, pixel) in covered.enumerate_pixels_mut() {
                if x < picture.width() * 7 / 10 {
                    pixel.0[0] = 60 + ((x + y) / 16) as u8;
                }
            }
            covered
        };
        assert_eq!(kinds(&bag), [Some(Blindness::Covered), None], "{clip}");
        let blurred =
            |picture: &GrayImage| imageops::fast_blur(picture, picture.width() as f32 / 64.0);
        assert_eq!(kinds(&blurred), [Some(Blindness::Blurred), None], "{clip}");
    }
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
