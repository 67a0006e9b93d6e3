//! Counts on real footage by the real command, against ground truth by eye.
//!
//! Needs the folder of footage; without it, each test says so and passes.

use std::path::Path;

use serde_json::Value;
use watchkeeper_tests::daemons::{data, program, run_json, soak};
use watchkeeper_tests::rtsp::{RtspOptions, RtspServer};

/// Returns the summary of `watchkeeper run SOURCE ARGUMENTS…`.
fn summary_of(source: &str, arguments: &[&str]) -> anyhow::Result<Value> {
    let arguments: Vec<&str> = [source]
        .into_iter()
        .chain(arguments.iter().copied())
        .collect();
    let (code, mut lines, errors) = run_json(&arguments)?;
    anyhow::ensure!(code == 0, "{source}: exit code {code}: {errors}");
    let summary = lines.pop().unwrap_or_default();
    anyhow::ensure!(summary["type"] == "summary", "{source}: {summary}");
    Ok(summary)
}

/// Returns the summary of `watchkeeper run CLIP --model MODEL --line|--zone SHAPE`.
fn summary(clip: &Path, model: &str, flag: &str, shape: &str) -> anyhow::Result<Value> {
    summary_of(
        &clip.display().to_string(),
        &["--model", model, flag, shape],
    )
}

/// Returns the summary of a camera that plays a clip once in real time, for its first `seconds`
/// seconds.
fn summary_of_camera(clip: &Path, seconds: &str, arguments: &[&str]) -> anyhow::Result<Value> {
    let server = RtspServer::start(
        &program("rtsp-server")?,
        &RtspOptions {
            file: Some(clip.to_path_buf()),
            ..RtspOptions::default()
        },
    )?;
    summary_of(server.uri(), &[&["--for", seconds][..], arguments].concat())
}

fn counts(summary: &Value) -> (u64, u64) {
    let side = |side: &str| summary["lines"]["l"][side].as_u64().unwrap_or(u64::MAX);
    (side("in"), side("out"))
}

/// Zone that covers the whole picture of the clip with one person after another.
const WHOLE_PICTURE: &str = "z:0,0,768,0,768,432,0,432";

/// Checks the first `visitors` of six, each as long as by eye within two seconds.
fn assert_visits(summary: &Value, visitors: usize) {
    /// Presence by eye in seconds, in the order of entering.
    const DWELL_S: [f64; 6] = [13.7, 22.2, 19.5, 12.5, 27.7, 12.5];
    let visits = summary["zones"]["z"]["visits"].as_array();
    let visits = visits.cloned().unwrap_or_default();
    assert_eq!(visits.len(), visitors, "{summary}");
    for (visit, real) in visits.iter().zip(DWELL_S) {
        let dwell = visit["dwell_s"].as_f64().unwrap_or(f64::NAN);
        assert!((dwell - real).abs() <= 2.0, "{visit}, really {real} s");
    }
}

fn near(found: u64, wanted: u64, tolerance: u64) -> bool {
    found.abs_diff(wanted) <= tolerance
}

#[test]
fn cars_seen_from_above_are_counted_each_way_without_a_network() -> anyhow::Result<()> {
    let Some(data) = data("cars in a car park") else {
        return Ok(());
    };
    let clip = data.join("video/intel_car-detection.mp4");
    let summary = summary(&clip, "motion", "--line", "l:0,216,768,216")?;
    assert_eq!(counts(&summary), (2, 2), "{summary}");
    Ok(())
}

#[test]
fn vehicles_on_a_suburban_road_are_counted_without_a_network() -> anyhow::Result<()> {
    let Some(data) = data("a suburban road") else {
        return Ok(());
    };
    let clip = data.join("video/ahmetozlu_road.mp4");
    let summary = summary(&clip, "motion", "--line", "l:0,218,640,218")?;
    let (away, towards) = counts(&summary);
    assert!(near(away + towards, 8, 1), "{summary}");
    Ok(())
}

#[test]
fn vehicles_on_a_motorway_are_counted_without_a_network() -> anyhow::Result<()> {
    let Some(data) = data("a motorway") else {
        return Ok(());
    };
    let clip = data.join("video/bgs_highway02.avi");
    let summary = summary(&clip, "motion", "--line", "l:0,144,320,144")?;
    let (away, towards) = counts(&summary);
    assert!(near(away + towards, 23, 3), "{summary}");
    Ok(())
}

#[test]
fn a_small_network_counts_every_vehicle_on_a_suburban_road() -> anyhow::Result<()> {
    let Some(data) = data("a suburban road, by a network") else {
        return Ok(());
    };
    let clip = data.join("video/ahmetozlu_road.mp4").display().to_string();
    let model = data.join("models/yolox_nano.onnx").display().to_string();
    let line = "l:0,218,640,218";
    // The seventh vehicle crosses after 19.8 s, the eighth and last after 29.6 s.
    let summary = summary_of(&clip, &["--model", &model, "--line", line, "--for", "21"])?;
    assert_eq!(counts(&summary), (0, 7), "{summary}");
    Ok(())
}

#[test]
fn small_network_sees_each_visitor_once_for_their_stay() -> anyhow::Result<()> {
    let Some(data) = data("people one by one, by a network") else {
        return Ok(());
    };
    let clip = data.join("video/intel_one-by-one.mp4");
    let model = data.join("models/yolox_nano.onnx").display().to_string();
    // Without --watch, as a new user would: furniture is not a visitor.
    let clip = clip.display().to_string();
    let (visitors, seconds) = if soak("all six visitors") {
        (6, "140")
    } else {
        (2, "48")
    };
    let arguments = ["--model", &model, "--zone", WHOLE_PICTURE, "--for", seconds];
    let summary = summary_of(&clip, &arguments)?;
    assert_visits(&summary, visitors);
    Ok(())
}

#[test]
fn a_small_network_counts_people_who_cross_each_way() -> anyhow::Result<()> {
    let Some(data) = data("people on a square, by a network") else {
        return Ok(());
    };
    let clip = data
        .join("video/pets09_f001-300_768x576.mp4")
        .display()
        .to_string();
    let model = data.join("models/yolox_nano.onnx").display().to_string();
    let line = "l:384,0,384,576";
    let summary = summary_of(
        &clip,
        &["--model", &model, "--watch", "person", "--line", line],
    )?;
    // The line runs downwards: crossing to the right is `in`.
    let (right, left) = counts(&summary);
    assert!(near(right, 2, 1) && near(left, 7, 1), "{summary}");
    Ok(())
}

#[test]
fn a_small_network_counts_vehicles_on_a_motorway() -> anyhow::Result<()> {
    if !soak("a motorway, by a network") {
        return Ok(());
    }
    let Some(data) = data("a motorway, by a network") else {
        return Ok(());
    };
    let clip = data.join("video/bgs_highway02.avi");
    let model = data.join("models/yolox_nano.onnx").display().to_string();
    let summary = summary(&clip, &model, "--line", "l:0,144,320,144")?;
    let (away, towards) = counts(&summary);
    assert!(near(away + towards, 23, 2), "{summary}");
    Ok(())
}

#[test]
fn a_camera_counts_what_its_recording_counts() -> anyhow::Result<()> {
    if !soak("clips over RTSP") {
        return Ok(());
    }
    let Some(data) = data("clips over RTSP") else {
        return Ok(());
    };
    let clip = data.join("video/intel_car-detection.mp4");
    let motion = ["--model", "motion", "--line"];
    let line = |line| [&motion[..], &[line]].concat();
    let cars = summary_of_camera(&clip, "29", &line("l:0,216,768,216"))?;
    assert_eq!(counts(&cars), (2, 2), "{cars}");
    let clip = data.join("video/ahmetozlu_road.mp4");
    let road = summary_of_camera(&clip, "33", &line("l:0,218,640,218"))?;
    let (away, towards) = counts(&road);
    assert!(near(away + towards, 8, 1), "{road}");
    Ok(())
}

#[test]
fn a_camera_counts_by_a_network_what_its_recording_counts() -> anyhow::Result<()> {
    if !soak("clips over RTSP, by a network") {
        return Ok(());
    }
    let Some(data) = data("clips over RTSP, by a network") else {
        return Ok(());
    };
    let model = data.join("models/yolox_nano.onnx").display().to_string();
    let clip = data.join("video/ahmetozlu_road.mp4");
    let line = ["--model", &model, "--line", "l:0,218,640,218"];
    let road = summary_of_camera(&clip, "33", &line)?;
    let (away, towards) = counts(&road);
    assert_eq!(away + towards, 8, "{road}");
    let clip = data.join("video/intel_one-by-one.mp4");
    let zone = ["--model", &model, "--zone", WHOLE_PICTURE];
    assert_visits(&summary_of_camera(&clip, "139", &zone)?, 6);
    Ok(())
}
