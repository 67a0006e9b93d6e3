//! A run with outages, jumping wall clocks, files of variable rate and replaced sources.

#![allow(clippy::unwrap_used, reason = "a test that can't set up has failed")]

mod motion_counts;

use proptest::prelude::{Strategy, any, prop, prop_assert, prop_assert_eq, proptest};
use serde_json::{Value as Json, json};
use watchkeeper_contract::event::Phase;
use watchkeeper_contract::pipeline::{DamagedCounts, PipelineSpec};
use watchkeeper_contract::rule::Weekday;
use watchkeeper_detect::{
    DetectError, DetectParams, DetectTimes, Detector, DetectorInfo, OwnThresholds, RawDetection,
};
use watchkeeper_vision::frame::testing::rgb_frame;
use watchkeeper_vision::geometry::BBox;

use super::*;
use crate::pipeline::inference::detectors::Detectors;
use crate::pipeline::plan::plan;

/// Detects one person in every frame that is not black.
struct Statue(DetectorInfo);

impl Detector for Statue {
    fn info(&self) -> &DetectorInfo {
        &self.0
    }

    fn detect(
        &mut self,
        frame: &Frame,
        _: &DetectParams,
        out: &mut Vec<RawDetection>,
    ) -> Result<DetectTimes, DetectError> {
        out.clear();
        if frame.picture.planes.plane(0).data.first() != Some(&0) {
            out.push(RawDetection {
                bbox: BBox::new(10.0, 10.0, 30.0, 50.0),
                score: 0.9,
                class_id: 0,
                column: 0,
            });
        }
        Ok(DetectTimes::default())
    }
}

/// Detects one person that walks down, by a pixel in each frame.
struct Walker(DetectorInfo);

impl Detector for Walker {
    fn info(&self) -> &DetectorInfo {
        &self.0
    }

    fn detect(
        &mut self,
        frame: &Frame,
        _: &DetectParams,
        out: &mut Vec<RawDetection>,
    ) -> Result<DetectTimes, DetectError> {
        let top = frame.id.seq as f64;
        out.clear();
        out.push(RawDetection {
            bbox: BBox::new(20.0, top, 28.0, top + 16.0),
            score: 0.9,
            class_id: 0,
            column: 0,
        });
        Ok(DetectTimes::default())
    }
}

/// Detector, tracker, a zone around the statue, and an event for a stay of three seconds.
fn run(detect: Json) -> Run {
    run_for(detect, None)
}

/// Like [`run`], for a duration.
fn run_for(detect: Json, stop_after_s: Option<f64>) -> Run {
    run_of_json(loitering(detect, stop_after_s))
}

fn run_of_json(spec: Json) -> Run {
    let spec = serde_json::from_value(spec).unwrap();
    run_of(&spec, &|| Box::new(Statue(info("person", false))))
}

fn loitering(detect: Json, stop_after_s: Option<f64>) -> Json {
    let image = "$inputs.image";
    let tracked = "$steps.tracker.tracked_detections";
    json!({
        "id": "p", "source": "test", "detect": detect, "stop_after_s": stop_after_s,
        "workflow": {
            "version": "1.0",
            "inputs": [{"type": "WorkflowImage", "name": "image"}],
            "steps": [
                {"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "model",
                 "images": image, "model_id": "statue"},
                {"type": "roboflow_core/byte_tracker@v3", "name": "tracker",
                 "image": image, "detections": "$steps.model.predictions"},
                {"type": "roboflow_core/time_in_zone@v3", "name": "zone", "image": image,
                 "detections": tracked, "zone": [[0, 0], [64, 0], [64, 64], [0, 64]]},
            ],
            "outputs": [
                {"type": "JsonField", "name": "timed", "selector": "$steps.zone.timed_detections"},
            ],
        },
        "rules": [{"name": "loitering", "when": {"kind": "stays", "zone": "zone", "for_s": 3.0}}],
    })
}

/// Facts of a detector of one class; one that follows one picture knows no kinds of objects.
fn info(class: &str, follows_one_picture: bool) -> DetectorInfo {
    DetectorInfo {
        model: "statue".into(),
        backend: "test".into(),
        threads: None,
        tensor_copies: None,
        task: watchkeeper_models::manifest::Task::ObjectDetection,
        input: None,
        labels: Arc::from([Arc::from(class)]),
        knows_classes: !follows_one_picture,
        follows_one_picture,
        space: None,
        own: OwnThresholds::default(),
    }
}

fn run_of(spec: &PipelineSpec, detector: &dyn Fn() -> Box<dyn Detector>) -> Run {
    let plan = plan(spec).unwrap();
    let detectors = Detectors::open(spec, &plan, &|_| Ok(detector())).unwrap();
    Run::new(plan, DetectHost::new(detectors, 1), spec)
}

/// A pipeline of these steps, each with an output under its own name.
fn spec(steps: &[Json], outputs: &[(&str, &str)], more: Json) -> PipelineSpec {
    let outputs = outputs.iter().map(|(step, output)| {
        json!({"type": "JsonField", "name": step, "selector": format!("$steps.{step}.{output}")})
    });
    let mut spec = json!({"id": "p", "source": "test", "workflow": {
        "version": "1.0", "inputs": [{"type": "WorkflowImage", "name": "image"}],
        "steps": steps, "outputs": outputs.collect::<Vec<_>>()}});
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    serde_json::from_value(spec).unwrap()
}

fn looks_for(name: &str, image: &str) -> Json {
    json!({"type": "roboflow_core/roboflow_object_detection_model@v2", "name": name, "images": image,
        "model_id": "statue"})
}

fn tracker(name: &str, of: &str) -> Json {
    json!({"type": "roboflow_core/byte_tracker@v3", "name": name, "image": "$inputs.image",
        "detections": format!("$steps.{of}.predictions")})
}

fn always() -> Json {
    json!({"mode": "always"})
}

/// A still picture of a camera at `ms` milliseconds of source time.
fn live(seq: u64, ms: u64) -> Frame {
    let mut frame = rgb_frame(64, 64, [90, 90, 90]);
    frame.id.seq = seq;
    frame.pts = Duration::from_millis(ms);
    frame.fps = Some(10.0);
    frame.recorded = false;
    frame
}

#[test]
fn warnings_about_the_picture_follow_its_size() {
    let mut run = run(always());
    let mut shown = 0;
    let mut kinds_at = |width: u32| {
        shown += 1;
        let frame = Frame {
            picture: rgb_frame(width, 64, [90; 3]).picture,
            ..live(shown, shown * 100)
        };
        show(&mut run, [frame]);
        let warnings = run.warnings().iter();
        warnings.map(|warning| warning.kind).collect::<Vec<_>>()
    };
    let partly = WarningKind::PartlyOutsidePicture;
    for (width, kinds) in [
        (64, vec![]),
        (32, vec![partly]),
        (32, vec![partly]),
        (64, vec![]),
    ] {
        assert_eq!(kinds_at(width), kinds, "{width}");
    }
}

/// Phases of the events, with the source times in milliseconds at which they were reported.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    reported: Vec<(Phase, u64)>,
    results: PipelineResults,
}

fn show(run: &mut Run, frames: impl IntoIterator<Item = Frame>) -> Seen {
    let local = Some(LocalTime {
        weekday: Weekday::Mon,
        minute_of_day: 600,
    });
    let mut ids = 0u128;
    let mut new_id = || {
        ids += 1;
        EventId(ulid::Ulid(ids))
    };
    let mut seen = Seen::default();
    for frame in frames {
        let ms = frame.pts.as_millis() as u64;
        let outcome = run.process(&frame, local, &mut new_id);
        let changes = outcome
            .processed
            .map(|seen| seen.changes)
            .unwrap_or_default();
        seen.reported.extend(changes.iter().map(|c| (c.phase, ms)));
    }
    seen.results = run.results();
    seen.results.stages_ms.clear();
    seen
}

fn zone_s(results: &PipelineResults) -> f64 {
    let boxes = &results.outputs["timed"]["predictions"];
    boxes[0]["time_in_zone"].as_f64().unwrap()
}

fn visits(results: &PipelineResults) -> Vec<(i64, f64)> {
    let visits = &results.zones["zone"].visits;
    visits.iter().map(|v| (v.track.0, v.dwell_s)).collect()
}

proptest! {
    #[test]
    fn jumping_wall_clock_changes_nothing(
        jumps in prop::collection::vec(any::<i64>().prop_map(|ms| ms / 2), 60),
    ) {
        let frames = |wall: &dyn Fn(usize) -> i64| -> Vec<Frame> {
            (0..60u64)
                .map(|n| {
                    let mut frame = live(n + 1, n * 100);
                    frame.wall.unix_ms = wall(n as usize);
                    frame
                })
                .collect()
        };
        let steady = show(&mut run(always()), frames(&|n| 1_760_000_000_000 + n as i64 * 100));
        let jumpy = show(&mut run(always()), frames(&|n| jumps[n]));
        prop_assert_eq!(steady.reported.first(), Some(&(Phase::New, 3000)));
        prop_assert_eq!(steady, jumpy);
    }
}

proptest! {
    #[test]
    fn another_process_resumes_the_run(at in 1u64..59, dark_ms in 0u64..5_000) {
        // The camera's frames while nothing watched are missing either way.
        let before: Vec<Frame> = (0..at).map(|n| live(n + 1, n * 100)).collect();
        let after: Vec<Frame> = (at..60).map(|n| live(n + 1, n * 100 + dark_ms)).collect();
        let mut whole = run(always());
        let wanted = show(&mut whole, before.iter().chain(&after).cloned()).results;

        let mut first = run(always());
        show(&mut first, before);
        let bytes = rmp_serde::to_vec_named(&first.save().unwrap()).unwrap();
        let mut second = run(always());
        let state = rmp_serde::from_slice(&bytes).unwrap();
        // The step of the first frame, plus the time that this process took to get there, nearly
        // nothing.
        let away = Duration::from_millis(100 + dark_ms);
        prop_assert_eq!(second.restore(state, Some(away)).unwrap(), vec![]);
        let results = show(&mut second, after).results;
        prop_assert_eq!(results.tracks, wanted.tracks);
        let (results, wanted) = (visits(&results), visits(&wanted));
        prop_assert_eq!(results.len(), wanted.len());
        for (visit, wanted) in results.iter().zip(&wanted) {
            prop_assert_eq!(visit.0, wanted.0);
            prop_assert!((visit.1 - wanted.1).abs() < 0.2, "{:?} {:?}", visit, wanted);
        }
    }
}

#[test]
fn another_process_resumes_the_requested_duration() {
    let timed = || run_for(always(), Some(10.0));
    let camera = |from_ms: u64| (0..200u64).map(move |n| live(n + 1, from_ms + n * 100));
    let watched = |run: &mut Run| {
        let mut ids = || EventId(ulid::Ulid(1));
        let local = Some(LocalTime {
            weekday: Weekday::Mon,
            minute_of_day: 600,
        });
        let mut taken = camera(0).map(|frame| run.process(&frame, local, &mut ids));
        taken.position(|outcome| outcome.is_last).unwrap()
    };
    assert_eq!(watched(&mut timed()), 100);
    for (away_s, left) in [(Some(0), 60), (Some(4), 20), (Some(60), 0), (None, 60)] {
        let mut first = timed();
        show(&mut first, camera(0).take(40));
        let state = first.save().unwrap();
        let mut second = timed();
        let away = away_s.map(Duration::from_secs);
        second.restore(state, away).unwrap();
        let found = watched(&mut second);
        assert!(found.abs_diff(left) <= 2, "{away_s:?}: {found}, not {left}");
    }
}

#[test]
fn only_a_changed_tracker_or_zone_ends_stays() {
    let webhook = |cooldown_s: i64| {
        json!({"type": "roboflow_core/webhook_sink@v1", "name": "hook", "method": "POST",
            "url": "https://host/in", "cooldown_seconds": cooldown_s})
    };
    for (what, step, change, tracks, stays_on) in [
        ("nothing", 3, webhook(5), 1, true),
        ("settings of a sink", 3, webhook(9), 1, true),
        (
            "zone",
            2,
            json!({"zone": [[0, 0], [64, 0], [64, 60], [0, 60]]}),
            1,
            false,
        ),
        ("tracker", 1, json!({"lost_track_buffer": 60}), 2, false),
    ] {
        let mut spec = loitering(always(), None);
        let steps = &mut spec["workflow"]["steps"];
        steps.as_array_mut().unwrap().push(webhook(5));
        let mut first = run_of_json(spec.clone());
        show(&mut first, (0..20u64).map(|n| live(n + 1, n * 100)));

        let step = &mut spec["workflow"]["steps"][step];
        for (property, value) in change.as_object().unwrap() {
            step[property] = value.clone();
        }
        let mut second = run_of_json(spec);
        let away = Duration::from_millis(100);
        second.restore(first.save().unwrap(), Some(away)).unwrap();
        let results = show(&mut second, (20..35u64).map(|n| live(n + 1, n * 100))).results;
        assert_eq!(results.tracks, tracks, "{what}");
        let visits = visits(&results);
        assert_eq!(visits.len(), 1, "{what}: {visits:?}");
        assert_eq!(visits[0].1 > 3.0, stays_on, "{what}: {visits:?}");
    }
}

#[test]
fn frames_and_visits_of_two_seconds_after_damage_are_counted() {
    let mut run = run(always());
    let frames = (0..60u64).map(|n| Frame {
        is_damaged: n < 4,
        ..live(n + 1, n * 100)
    });
    let wanted = DamagedCounts {
        frames: 24,
        crossings: 0,
        visits: 1,
    };
    assert_eq!(show(&mut run, frames).results.damaged, wanted);
}

#[test]
fn state_of_a_recording_is_not_saved() {
    let mut run = run(always());
    let recorded = (0..20u64).map(|n| Frame {
        recorded: true,
        ..live(n + 1, n * 100)
    });
    show(&mut run, recorded);
    assert!(run.save().is_none());
}

#[test]
fn outage_ends_visit_at_last_sight_and_begins_a_track() {
    let mut run = run(always());
    let before = (0..20u64).map(|n| live(n + 1, n * 100));
    let after = (0..20u64).map(|n| live(n + 21, 600_000 + n * 100));
    let seen = show(&mut run, before.chain(after));
    // Neither was there for three seconds.
    assert_eq!(seen.reported, []);
    assert_eq!(seen.results.tracks, 2);
    let visits = visits(&seen.results);
    assert_eq!(visits.len(), 2);
    assert_eq!(visits[0], (1, 1.9));
    assert!(
        visits[1].0 == 2 && (visits[1].1 - 1.8).abs() < 1e-6,
        "{visits:?}"
    );
    assert!((zone_s(&seen.results) - 1.8).abs() < 1e-6);
}

#[test]
fn zone_timer_and_visit_agree_on_variable_frame_rate() {
    let frames = [0, 33, 66, 500, 533, 566, 900, 1500, 1533]
        .into_iter()
        .zip(1..);
    let frames = frames.map(|(ms, seq)| {
        let mut frame = live(seq, ms);
        frame.recorded = true;
        frame.fps = Some(30.0);
        frame
    });
    let results = show(&mut run(always()), frames).results;
    let visits = visits(&results);
    assert_eq!(visits.len(), 1);
    assert!((visits[0].1 - 1.533).abs() < 1e-9);
    assert!((visits[0].1 - zone_s(&results)).abs() < 1e-9);
}

#[test]
fn replaced_source_continues_time_and_ends_visits() {
    let mut run = run(always());
    let mut frames: Vec<Frame> = (0..20u64)
        .map(|n| live(n + 1, 3_600_000 + n * 100))
        .collect();
    let replaced = frames[19].arrived + Duration::from_secs(8);
    frames.extend((0..10u64).map(|n| {
        let mut frame = live(n + 1, n * 100);
        frame.arrived = replaced + Duration::from_millis(n * 100);
        frame
    }));
    let results = show(&mut run, frames).results;
    assert_eq!(results.zones["zone"].present, 1);
    let (track, dwell_s) = visits(&results)[0];
    assert!(track == 1 && (dwell_s - 1.9).abs() < 1e-6, "{dwell_s}");
    assert!(
        (results.source_s - (1.9 + 8.0 + 0.9)).abs() < 0.2,
        "{}",
        results.source_s
    );
}

#[test]
fn frame_with_a_followed_object_says_so() {
    let steps = [
        looks_for("model", "$inputs.image"),
        tracker("tracker", "model"),
    ];
    let outputs = [("tracker", "tracked_detections")];
    let spec = spec(&steps, &outputs, json!({"detect": always()}));
    let says = |detector: &dyn Fn() -> Box<dyn Detector>| {
        let mut run = run_of(&spec, detector);
        let local = Some(LocalTime {
            weekday: Weekday::Mon,
            minute_of_day: 600,
        });
        let frames = (1..5).map(|n| live(n, n * 100));
        let outcomes = frames.map(|frame| run.process(&frame, local, &mut EventId::generate));
        outcomes.last().unwrap().processed.unwrap().has_objects
    };
    assert!(says(&|| Box::new(Statue(info("person", false)))));
    assert!(!says(&|| {
        Box::<watchkeeper_detect::motion::MotionDetector>::default()
    }));
}

#[test]
fn closed_filter_keeps_tracks_but_triggers_no_rule() {
    // The filter stays open for a second and refreshes after a minute; the picture never changes.
    let mut run = run(json!({"mode": "on_motion", "refresh_s": 60.0}));
    let first = show(&mut run, (0..500u64).map(|n| live(n + 1, n * 100)));
    assert_eq!(
        first.reported,
        [],
        "the detector did not run for long enough"
    );
    assert_eq!(first.results.zones["zone"].present, 1);
    assert!(
        visits(&first.results)[0].1 <= 1.5,
        "{:?}",
        visits(&first.results)
    );
    let second = show(&mut run, (500..640u64).map(|n| live(n + 1, n * 100)));
    assert_eq!(second.reported.first().map(|t| t.0), Some(Phase::New));
    assert_eq!(
        (second.results.tracks, second.results.zones["zone"].count),
        (1, 1)
    );
    assert!(visits(&second.results)[0].1 >= 59.0);
}

#[test]
fn camera_without_rate_keeps_briefly_lost_tracks() {
    let mut run = run(always());
    let frames = (0..40u64).map(|n| {
        let mut frame = live(n + 1, n * 100);
        frame.fps = None;
        if (20..25).contains(&n) {
            frame.picture = rgb_frame(64, 64, [0; 3]).picture;
        }
        frame
    });
    assert_eq!(show(&mut run, frames).results.tracks, 1);
}

#[test]
fn person_seen_at_every_period_is_one_visit_and_event() {
    let mut run = run(json!({"mode": "periodic", "every_s": 5.0}));
    let seen = show(&mut run, (0..1000u64).map(|n| live(n + 1, n * 100)));
    let reported = seen.reported.iter().filter(|t| t.0 != Phase::Update);
    assert_eq!(reported.collect::<Vec<_>>(), [&(Phase::New, 5000)]);
    assert_eq!(visits(&seen.results), [(1, 95.0)]);
    assert_eq!(seen.results.zones["zone"].present, 1);
}

#[test]
fn class_filter_is_ignored_by_detector_without_classes() {
    let mut step = looks_for("model", "$inputs.image");
    step["class_filter"] = json!(["person"]);
    let spec = spec(
        &[step, tracker("tracker", "model")],
        &[("tracker", "tracked_detections")],
        json!({}),
    );
    let mut run = run_of(&spec, &|| Box::new(Statue(info("motion", true))));
    let results = show(&mut run, (0..5u64).map(|n| live(n + 1, n * 100))).results;
    assert_eq!(results.tracks, 1);
    let warnings = run.warnings();
    assert!(
        warnings.len() == 1 && warnings[0].message.contains("has no effect"),
        "{warnings:?}"
    );
}

#[test]
fn each_tracker_counts_its_own_tracks() {
    let spec = spec(
        &[
            looks_for("model", "$inputs.image"),
            tracker("one", "model"),
            tracker("two", "model"),
        ],
        &[],
        json!({}),
    );
    let mut run = run_of(&spec, &|| Box::new(Statue(info("person", false))));
    let results = show(&mut run, (0..5u64).map(|n| live(n + 1, n * 100))).results;
    assert_eq!(results.tracks, 2);
}

/// Detects a tall and a flat person in the whole picture, and the upper left quarter of any crop.
struct TwoPeople(DetectorInfo);

impl Detector for TwoPeople {
    fn info(&self) -> &DetectorInfo {
        &self.0
    }

    fn detect(
        &mut self,
        frame: &Frame,
        _: &DetectParams,
        out: &mut Vec<RawDetection>,
    ) -> Result<DetectTimes, DetectError> {
        out.clear();
        let size = [frame.picture.width, frame.picture.height];
        let [width, height] = size.map(f64::from);
        let boxes = match size {
            [64, 64] => vec![
                BBox::new(10.0, 10.0, 30.0, 50.0),
                BBox::new(40.0, 10.0, 60.0, 30.0),
            ],
            _ => vec![BBox::new(0.0, 0.0, width / 2.0, height / 2.0)],
        };
        out.extend(boxes.into_iter().map(|bbox| RawDetection {
            bbox,
            score: 0.9,
            class_id: 0,
            column: 0,
        }));
        Ok(DetectTimes::default())
    }
}

#[test]
fn closed_filter_keeps_the_detections_of_each_crop() {
    let crop = json!({"type": "roboflow_core/dynamic_crop@v1", "name": "crop", "images": "$inputs.image",
        "predictions": "$steps.people.predictions"});
    let spec = spec(
        &[
            looks_for("people", "$inputs.image"),
            crop,
            looks_for("heads", "$steps.crop.crops"),
        ],
        &[("heads", "predictions")],
        json!({"detect": {"mode": "on_motion", "refresh_s": 60.0}}),
    );
    let mut run = run_of(&spec, &|| Box::new(TwoPeople(info("person", false))));
    let heights = |results: &PipelineResults| -> Vec<f64> {
        let crops = results.outputs["heads"].as_array().unwrap().iter();
        crops
            .map(|crop| crop["predictions"][0]["height"].as_f64().unwrap())
            .collect()
    };
    let open = show(&mut run, [live(1, 0)]).results;
    assert_eq!(heights(&open), [20.0, 10.0]);
    // The filter stays open for a second; nothing moves.
    let closed = show(&mut run, (1..40u64).map(|n| live(n + 1, n * 100))).results;
    assert_eq!(heights(&closed), [20.0, 10.0]);
}

/// Detects an object while the picture is as large as the one before.
struct Follower(DetectorInfo, Option<u32>);

impl Detector for Follower {
    fn info(&self) -> &DetectorInfo {
        &self.0
    }

    fn detect(
        &mut self,
        frame: &Frame,
        _: &DetectParams,
        out: &mut Vec<RawDetection>,
    ) -> Result<DetectTimes, DetectError> {
        out.clear();
        if self.1.replace(frame.picture.width) == Some(frame.picture.width) {
            out.push(RawDetection {
                bbox: BBox::new(1.0, 1.0, 9.0, 9.0),
                score: 0.9,
                class_id: 0,
                column: 0,
            });
        }
        Ok(DetectTimes::default())
    }
}

#[test]
fn follower_detector_serves_one_step() {
    let crop = json!({"type": "roboflow_core/absolute_static_crop@v1", "name": "crop", "images": "$inputs.image",
        "x_center": 32, "y_center": 32, "width": 20, "height": 20});
    let spec = spec(
        &[
            looks_for("whole", "$inputs.image"),
            crop,
            looks_for("part", "$steps.crop.crops"),
        ],
        &[("whole", "predictions"), ("part", "predictions")],
        json!({}),
    );
    let mut run = run_of(&spec, &|| Box::new(Follower(info("motion", true), None)));
    let outputs = show(&mut run, (0..3u64).map(|n| live(n + 1, n * 100)))
        .results
        .outputs;
    for step in ["whole", "part"] {
        let found = outputs[step]["predictions"].as_array().unwrap();
        assert_eq!(found.len(), 1, "{step}: {outputs}");
    }
}

#[test]
fn frame_at_the_end_of_the_duration_is_the_last() {
    assert_eq!(stop_position(2.96, 3.0), StopPosition::Within);
    assert_eq!(stop_position(3.0, 3.0), StopPosition::Last);
    assert_eq!(stop_position(3.000_1, 3.0), StopPosition::Last);
    assert_eq!(stop_position(3.04, 3.0), StopPosition::Beyond);
}

#[test]
fn requested_duration_continues_over_replaced_source() {
    let spec = spec(
        &[looks_for("model", "$inputs.image")],
        &[],
        json!({"stop_after_s": 10.0}),
    );
    let mut run = run_of(&spec, &|| Box::new(Statue(info("person", false))));
    let mut frames: Vec<Frame> = (0..70u64).map(|n| live(n + 1, 5000 + n * 100)).collect();
    let replaced = frames[69].arrived + Duration::from_millis(1100);
    frames.extend((0..100u64).map(|n| {
        let mut frame = live(n + 1, n * 100);
        frame.arrived = replaced + Duration::from_millis(n * 100);
        frame
    }));
    let local = Some(LocalTime {
        weekday: Weekday::Mon,
        minute_of_day: 600,
    });
    let mut new_id = || EventId(ulid::Ulid(1));
    assert_eq!(run.results().left_s, Some(10.0));
    let (some, frames) = frames.split_at(31);
    for frame in some {
        run.process(frame, local, &mut new_id);
    }
    let left = run.results().left_s.unwrap();
    assert!((left - 7.0).abs() < 1e-6, "{left}");
    let taken = frames
        .iter()
        .take_while(|frame| !run.process(frame, local, &mut new_id).is_last);
    // 6.9 s of the first source, 1.1 s until the second one, 2 s of that. The run counts the frame
    // at the end.
    assert_eq!(taken.count(), 70 + 20 - 31);
    assert_eq!(run.results().frames, 70 + 21);
    assert!((run.results().source_s - 10.0).abs() < 1e-6);
    assert!(run.results().left_s.unwrap() < 1e-6);
}

/// Counts the walker at a line for a moment beyond which it is in frame 15. Also at one of
/// Roboflow's, which it crosses in that frame.
fn counting_walker() -> Run {
    counting_walker_behind(None)
}

/// The lines of [`counting_walker`], which look only at frames before `until`.
fn counting_walker_behind(until: Option<u64>) -> Run {
    let line = |name: &str, of: &str, y: f64| {
        json!({"type": of, "name": name, "image": "$inputs.image",
            "detections": "$steps.tracker.tracked_detections",
            "line_segment": [[0, y], [64, y]], "triggering_anchor": "BOTTOM_CENTER"})
    };
    let mut steps = vec![
        looks_for("model", "$inputs.image"),
        tracker("tracker", "model"),
        line("ours", "watchkeeper/line_counter@v1", 28.0),
        line("theirs", "roboflow_core/line_counter@v2", 30.5),
    ];
    steps.extend(until.map(|until| {
        let number = json!({"type": "ExtractFrameMetadata", "property_name": "frame_number"});
        let is_before = json!({"type": "BinaryStatement", "comparator": {"type": "(Number) <"},
            "left_operand": {"type": "DynamicOperand", "operand_name": "image", "operations": [number]},
            "right_operand": {"type": "StaticOperand", "value": until}});
        json!({"type": "roboflow_core/continue_if@v1", "name": "gate",
            "condition_statement": {"type": "StatementGroup", "statements": [is_before]},
            "evaluation_parameters": {"image": "$inputs.image"},
            "next_steps": ["$steps.ours", "$steps.theirs"]})
    }));
    let rule = |line: &str| json!({"name": line, "when": {"kind": "crosses", "line": line}});
    let rules = json!({"rules": [rule("ours"), rule("theirs")]});
    let spec = spec(&steps, &[("ours", "count_out")], rules);
    run_of(&spec, &|| Box::new(Walker(info("person", false))))
}

/// The counts of both lines.
fn counts(run: &Run) -> [u64; 2] {
    ["ours", "theirs"].map(|line| run.results().lines[line].out)
}

#[test]
fn lines_count_undecided_objects_at_end_of_source() {
    let mut run = counting_walker();
    let seen = show(&mut run, (1..=15).map(|n| live(n, n * 100)));
    assert_eq!(seen.reported, [(Phase::New, 1500), (Phase::End, 1500)]);
    assert_eq!(counts(&run), [0, 1]);
    let changes = run.finish(FinishReason::SourceEnded, &mut EventId::generate);
    let ended = changes
        .iter()
        .map(|c| (c.phase, c.event.rule.as_str(), c.event.frame));
    let ended: Vec<_> = ended.collect();
    assert_eq!(ended, [(Phase::New, "ours", 15), (Phase::End, "ours", 15)]);
    assert_eq!(counts(&run), [1, 1]);
}

#[test]
fn crossings_decided_at_the_end_of_damage_are_in_doubt() {
    let mut run = counting_walker();
    let frames = (1..=15).map(|n| Frame {
        is_damaged: n == 15,
        ..live(n, n * 100)
    });
    show(&mut run, frames);
    assert_eq!(run.results().damaged.crossings, 1);
    run.finish(FinishReason::SourceEnded, &mut EventId::generate);
    let damaged = run.results().damaged;
    assert_eq!((damaged.frames, damaged.crossings), (1, 2));
}

#[test]
fn line_after_condition_counts_at_end_if_it_saw_last_frame() {
    for (until, counted) in [(16, [1, 1]), (15, [0, 0])] {
        let mut run = counting_walker_behind(Some(until));
        show(&mut run, (1..=15).map(|n| live(n, n * 100)));
        run.finish(FinishReason::SourceEnded, &mut EventId::generate);
        assert_eq!(counts(&run), counted, "until {until}");
    }
}

#[test]
fn another_process_counts_what_lines_left_undecided() {
    let mut run = counting_walker();
    show(&mut run, (1..=15).map(|n| live(n, n * 100)));
    let state = run.save().unwrap();
    assert!(
        run.interrupt(FinishReason::Stopped, &mut EventId::generate)
            .is_empty()
    );
    assert_eq!(counts(&run), [0, 1]);
    let mut next = counting_walker();
    next.restore(state, Some(Duration::ZERO)).unwrap();
    show(&mut next, (16..=20).map(|n| live(n, n * 100)));
    assert_eq!(counts(&next), [1, 1]);
}
