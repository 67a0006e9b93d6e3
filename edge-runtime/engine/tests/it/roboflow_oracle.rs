//! Compares tracker, line counter and time in zone with results of Roboflow's engine for the same
//! boxes.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test")]

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use watchkeeper_vision::analytics::{LineCounter, TimeInZone};
use watchkeeper_vision::detections::{Detection, DetectionId, Detections};
use watchkeeper_vision::geometry::{Anchor, BBox, Point};
use watchkeeper_vision::track::{ByteTrack, ByteTrackConfig};

/// Folder with recorded inputs and results, if this machine has it.
fn data() -> Option<PathBuf> {
    let dir = std::env::var_os("WATCHKEEPER_DATA").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    if dir.join("workflows").is_dir() {
        return Some(dir);
    }
    eprintln!(
        "SKIPPED: comparison with Roboflow's engine (no test data at {})",
        dir.display()
    );
    None
}

fn read(path: PathBuf) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn frame(index: usize, rows: &Value, names: &[Arc<str>]) -> Detections {
    let boxes = rows.as_array().unwrap().iter().enumerate().map(|(i, row)| {
        let n = |k: usize| row[k].as_f64().unwrap();
        Detection::new(
            BBox::new(n(0), n(1), n(2), n(3)),
            n(4),
            n(5) as i64,
            names[n(5) as usize].clone(),
            DetectionId::Given(format!("{index}-{i}").into()),
        )
    });
    Detections {
        boxes: boxes.collect(),
        size: [1280, 720],
    }
}

fn points(p: &[[f64; 2]]) -> Vec<Point> {
    p.iter().map(|p| Point::new(p[0], p[1])).collect()
}

fn compare(size: &str) {
    let Some(data) = data() else { return };
    let input = read(data.join(format!("workflows/detections_{size}.json")));
    let expected = read(data.join(format!("workflows/expected_core3_{size}.json")));
    let fps = input["fps"].as_f64().unwrap();
    let names: Vec<Arc<str>> = input["class_names"]
        .as_array()
        .unwrap()
        .iter()
        .map(|n| n.as_str().unwrap().into())
        .collect();

    let mut tracker = ByteTrack::new(ByteTrackConfig {
        frame_rate: fps,
        ..Default::default()
    });
    let mut line = LineCounter::new(Point::new(640.0, 0.0), Point::new(640.0, 720.0), &[]);
    let zone = points(&[
        [200.0, 150.0],
        [1080.0, 150.0],
        [1080.0, 570.0],
        [200.0, 570.0],
    ]);
    let mut zone = TimeInZone::new(&[zone], Anchor::Center, true, true);

    for (i, want) in expected.as_array().unwrap().iter().enumerate() {
        let tracked = tracker.update(&frame(i, &input["frames"][i], &names));
        line.update(&tracked);
        let timed = zone.update(&tracked, (i + 1) as f64 / fps);

        let mut got_tracked: Vec<(i64, String)> = tracked
            .boxes
            .iter()
            .map(|b| match &b.id {
                DetectionId::Given(id) => (b.track.unwrap().0, id.to_string()),
                DetectionId::Local { .. } => unreachable!("ids are kept"),
            })
            .collect();
        got_tracked.sort();
        let want_tracked: Vec<(i64, String)> =
            serde_json::from_value(want["tracked"].clone()).unwrap();
        assert_eq!(got_tracked, want_tracked, "tracks in frame {}", i + 1);

        let mut got_timed: Vec<(i64, f64)> = timed
            .boxes
            .iter()
            .map(|b| (b.track.unwrap().0, b.time_in_zone.unwrap()))
            .collect();
        got_timed.sort_by_key(|t| t.0);
        let want_timed: Vec<(i64, f64)> = serde_json::from_value(want["timed"].clone()).unwrap();
        let same = got_timed.len() == want_timed.len()
            && got_timed
                .iter()
                .zip(&want_timed)
                .all(|(g, w)| g.0 == w.0 && (g.1 - w.1).abs() < 1e-4);
        assert!(
            same,
            "times in frame {}: {got_timed:?} {want_timed:?}",
            i + 1
        );

        let counts = (line.count_in(), line.count_out());
        let want_counts = (
            want["count_in"].as_u64().unwrap(),
            want["count_out"].as_u64().unwrap(),
        );
        assert_eq!(counts, want_counts, "counts in frame {}", i + 1);
    }
}

#[test]
fn ten_boxes_get_the_ids_counts_and_times_of_the_original() {
    compare("10");
}

#[test]
fn fifty_boxes_get_the_ids_counts_and_times_of_the_original() {
    compare("50");
}
