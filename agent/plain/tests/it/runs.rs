//! What is proposed compiles in the engine, and does on moving boxes what its sentence says.

use std::sync::Arc;
use std::time::Duration;

use watchkeeper_contract::event::Phase;
use watchkeeper_contract::id::EventId;
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::rule::Weekday;
use watchkeeper_engine::deploy::plan;
use watchkeeper_engine::rules::{LocalTime, Moment, NeedKind, NeedValue};
use watchkeeper_engine::workflow::{DetectRequest, Host, ImageValue, Packed, RgbPixels, VideoMeta};
use watchkeeper_plain::{Plain, Scene};
use watchkeeper_vision::detections::{Detection, DetectionId, Detections};
use watchkeeper_vision::geometry::BBox;

use crate::support::{deployed, proposal, proposal_in, scene, specs};

const SIZE: [u32; 2] = [1280, 720];
const FPS: f64 = 5.0;

/// A box that moves in a straight line, in shares of the picture.
#[derive(Debug, Clone)]
pub(crate) struct Actor {
    pub(crate) class: String,
    pub(crate) t: [f64; 2],
    pub(crate) from: [f64; 2],
    pub(crate) to: [f64; 2],
    pub(crate) size: [f64; 2],
}

struct Scripted(Detections);

impl Host for Scripted {
    fn detect(&mut self, request: &DetectRequest<'_>) -> Result<Detections, String> {
        let keep = |d: &Detection| {
            let classes = request
                .class_filter
                .is_none_or(|names| names.contains(&d.class));
            classes && request.confidence.is_none_or(|c| d.confidence >= c)
        };
        let boxes = self.0.boxes.iter().filter(|d| keep(d)).cloned().collect();
        Ok(self.0.with_boxes(boxes))
    }
}

fn boxes(actors: &[Actor], t: f64) -> Detections {
    let [w, h] = SIZE.map(f64::from);
    let there = actors
        .iter()
        .enumerate()
        .filter(|(_, a)| (a.t[0]..=a.t[1]).contains(&t));
    let boxes = there.map(|(i, a)| {
        let share = ((t - a.t[0]) / (a.t[1] - a.t[0]).max(1e-9)).clamp(0.0, 1.0);
        let at = [0, 1].map(|k| a.from[k] + (a.to[k] - a.from[k]) * share);
        let half = a.size.map(|s| s / 2.0);
        Detection::new(
            BBox::new(
                (at[0] - half[0]) * w,
                (at[1] - half[1]) * h,
                (at[0] + half[0]) * w,
                (at[1] + half[1]) * h,
            ),
            0.9,
            i64::try_from(i).unwrap(),
            a.class.as_str(),
            DetectionId::Given(Arc::from(format!("{i}"))),
        )
    });
    Detections {
        boxes: boxes.collect(),
        size: SIZE,
    }
}

/// Seconds at which events began, and the outputs of the last frame.
pub(crate) fn run(
    spec: &PipelineSpec,
    actors: &[Actor],
    seconds: f64,
) -> (Vec<f64>, serde_json::Value) {
    let mut plan = plan(spec).unwrap_or_else(|e| panic!("{e:?}"));
    let mut execution = plan.compiled.instantiate();
    let pixels = Arc::new(RgbPixels {
        width: SIZE[0],
        height: SIZE[1],
        data: vec![0; 1280 * 720 * 3],
    });
    let mut began = Vec::new();
    let (mut frame, mut ids) = (0_u64, 0_u128);
    loop {
        let t = frame as f64 / FPS;
        frame += 1;
        if t > seconds {
            break;
        }
        let meta = VideoMeta {
            video_identifier: Arc::from("scripted"),
            frame_number: frame,
            frame_timestamp: t,
            source_s: Some(t),
            fps: Some(FPS),
            comes_from_video_file: false,
        };
        let image = ImageValue::new(Arc::new(Packed(Arc::clone(&pixels))), meta);
        let report = execution.run(
            image,
            &[],
            Duration::from_secs_f64(t),
            &mut Scripted(boxes(actors, t)),
        );
        assert!(report.errors.is_empty(), "{:?}", report.errors);
        let inputs: Vec<NeedValue<'_>> = plan
            .needs
            .iter()
            .map(|(slot, kind)| match kind {
                NeedKind::Detections => execution
                    .detections(*slot)
                    .map_or(NeedValue::Missing, NeedValue::Detections),
                _ => execution
                    .number(*slot)
                    .map_or(NeedValue::Missing, NeedValue::Number),
            })
            .collect();
        let at = Moment {
            time_s: t,
            frame,
            size: SIZE,
            is_damaged: false,
            local: Some(LocalTime {
                weekday: Weekday::Tue,
                minute_of_day: 720,
            }),
        };
        let changes = plan.rules.observe(&at, None, |need| inputs[need], &mut || {
            ids += 1;
            EventId(ids.into())
        });
        began.extend(changes.iter().filter(|c| c.phase == Phase::New).map(|_| t));
    }
    (began, execution.outputs_json())
}

fn walker(from: [f64; 2], to: [f64; 2], t: [f64; 2]) -> Actor {
    Actor {
        class: "person".to_owned(),
        t,
        from,
        to,
        size: [0.06, 0.2],
    }
}

#[test]
fn crossing_is_reported_only_in_the_requested_direction() {
    for (line, way, back) in [
        (
            "vertical line at 50%",
            "from left to right",
            "from right to left",
        ),
        ("horizontal line at 50%", "downwards", "upwards"),
        ("line from 80%,50% to 20%,50%", "downwards", "upwards"),
    ] {
        let (a, b) = if line.contains("vertical") {
            ([0.2, 0.5], [0.8, 0.5])
        } else {
            ([0.5, 0.15], [0.5, 0.85])
        };
        let there = [walker(a, b, [1.0, 9.0])];
        let said = |way: &str| {
            deployed(&format!(
                "tell me when a person crosses the {line} {way} on camera gate"
            ))
        };
        assert_eq!(run(&said(way), &there, 10.0).0.len(), 1, "{line} {way}");
        assert_eq!(run(&said(back), &there, 10.0).0.len(), 0, "{line} {back}");
    }
}

#[test]
fn a_stay_begins_when_the_time_is_over_and_only_in_the_place() {
    let spec = deployed(
        "Alert me when a person stays in the right half for more than 4 seconds on camera gate",
    );
    let inside = [walker([0.8, 0.5], [0.8, 0.5], [2.0, 15.0])];
    let (events, _) = run(&spec, &inside, 16.0);
    assert_eq!(events.len(), 1);
    assert!((5.5..8.0).contains(&events[0]), "{events:?}");
    let outside = [walker([0.2, 0.5], [0.2, 0.5], [2.0, 15.0])];
    assert_eq!(run(&spec, &outside, 16.0).0, [0.0; 0]);
}

#[test]
fn a_place_that_becomes_free_is_told_once() {
    let spec = deployed("Watch the left parking bay and tell me when it is free for 2 seconds.");
    let car = Actor {
        class: "car".to_owned(),
        size: [0.12, 0.2],
        ..walker([0.2, 0.7], [0.2, 0.7], [0.0, 20.0])
    };
    let (events, _) = run(&spec, &[car], 40.0);
    assert_eq!(events.len(), 1, "{events:?}");
    assert!((20.0..27.0).contains(&events[0]), "{events:?}");
}

#[test]
fn a_count_is_the_number_that_is_there() {
    let spec = deployed("Count people on the gate camera");
    let row: Vec<Actor> = [0.2, 0.4, 0.6]
        .map(|x| walker([x, 0.5], [x, 0.5], [0.0, 9.0]))
        .to_vec();
    let (events, outputs) = run(&spec, &row, 5.0);
    assert_eq!(outputs["people"], 3, "{outputs}");
    assert_eq!(events, [0.0; 0]);
}

#[test]
fn whatever_is_proposed_compiles() {
    for text in [
        "Tell me when somebody waits at the loading dock for more than two minutes.",
        "Alert me when a vehicle enters the bottom third on camera gate at night",
        "Notify me when a person enters or leaves polygon 0%,0% 50%,0% 50%,50% on camera dock",
        "Count vehicles crossing the horizontal line at 40% on camera gate",
        "Warn me when there are more than 5 people in the top left corner for 30 s on all cameras",
        "Tell me when anything moves at the gate on sundays",
        "Watch the left parking bay and tell me when it is free.",
        "Count people in the left half on camera gate and warn me when there are more than 3",
        "alert me if a person or a car is in the zone 0.1,0.1 to 0.5,0.5 on camera gate for the next 2 hours",
    ] {
        let proposal = proposal(text);
        for spec in specs(&proposal) {
            let planned = plan(&spec).unwrap_or_else(|e| panic!("{text}: {e:?}"));
            assert_eq!(
                planned.rules.needs().is_empty(),
                spec.rules.as_deref() == Some(&[]),
                "{text}"
            );
        }
    }
}

#[test]
fn every_template_makes_a_proposal_that_compiles() {
    let plain = Plain::new().unwrap();
    let scene: Scene = scene();
    for template in plain.templates() {
        let value = |name: &String| match name.as_str() {
            "camera" => "gate".to_owned(),
            _ => "the left half".to_owned(),
        };
        let values = template
            .needs
            .iter()
            .map(|name| (name.clone(), value(name)));
        let text = template.fill(&values.collect()).unwrap();
        let proposal = proposal_in(&text, &scene);
        let specs = specs(&proposal);
        assert_eq!(specs.len(), 1, "{text}");
        assert!(
            plan(&specs[0]).is_ok(),
            "{text}: {:?}",
            plan(&specs[0]).err()
        );
    }
}
