//! Questions about the past over scripted days with outages and changes of models and rules.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod random;

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use serde_json::json;
use watchkeeper_client::JournalRecord;
use watchkeeper_contract::coverage::{
    CoverageReport, CoverageSpan, SpanEnd, Watched, WatchedDetector, WatchedRule,
};
use watchkeeper_contract::event::Event;
use watchkeeper_contract::id::{EventSeq, SourceId};
use watchkeeper_contract::rule::Schedule;
use watchkeeper_contract::source::Blindness;
use watchkeeper_contract::time::{TimeQuality, Wall};
use watchkeeper_plain::intent::{EventsWanted, Look};
use watchkeeper_plain::scene::{Camera, Model, Place, Shape};
use watchkeeper_plain::{Answer, Plain, Scene};

use super::event_search::EventSearch;
use super::*;

fn zone() -> TimeZone {
    TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap()
}

/// A moment of the scripted days, such as `Wed 14:05`: 25 and 26 November 2026.
fn at(text: &str) -> Timestamp {
    let (day, clock) = text.split_once(' ').unwrap();
    let date = match day {
        "Tue" => "2026-11-24",
        "Wed" => "2026-11-25",
        "Thu" => "2026-11-26",
        other => panic!("{other} is no scripted day"),
    };
    let local: jiff::civil::DateTime = format!("{date}T{clock}").parse().unwrap();
    local.to_zoned(zone()).unwrap().timestamp()
}

fn wall(at: Timestamp) -> Wall {
    Wall {
        unix_ms: at.as_millisecond(),
        quality: TimeQuality::Synced,
    }
}

fn rule(condition: &str, place: Option<&str>) -> WatchedRule {
    WatchedRule {
        name: condition.to_owned(),
        condition: condition.to_owned(),
        place: place.map(str::to_owned),
        classes: Vec::new(),
        schedule: None,
    }
}

fn span(
    (camera, pipeline): (&str, &str),
    (from, to): (&str, &str),
    end: SpanEnd,
    (model, classes): (&str, &[&str]),
    rule: WatchedRule,
) -> CoverageSpan {
    let (from, to) = (at(from), at(to));
    CoverageSpan {
        from: wall(from),
        to: wall(to),
        frames: ((to.as_second() - from.as_second()) * 5) as u64,
        end,
        watch: Watched {
            source: SourceId::new(camera).unwrap(),
            pipeline: pipeline.parse().unwrap(),
            detectors: vec![WatchedDetector {
                model: model.to_owned(),
                classes: classes.iter().map(|c| (*c).to_owned()).collect(),
            }],
            renames_classes: false,
            rules: vec![rule],
        },
    }
}

/// It is Thursday, noon. The yard was watched for people, then for cars; the gate by the motion
/// detector; the door at night; the bench through a black picture; the dock never.
fn coverage() -> CoverageReport {
    let yard = ("yard", "yard-people");
    let people = ("yolox-nano", ["person"].as_slice());
    let night = Schedule {
        days: Vec::new(),
        from: "22:00".to_owned(),
        to: "06:00".to_owned(),
    };
    let crosses = WatchedRule {
        schedule: Some(night),
        ..rule("crosses", Some("doorstep"))
    };
    let black = SpanEnd::Blind {
        kind: Blindness::Black,
    };
    let appears = || rule("appears", None);
    CoverageReport {
        from_ms: 0,
        to_ms: at("Thu 12:00").as_millisecond(),
        at: wall(at("Thu 12:00")),
        spans: vec![
            span(
                ("gate", "gate-motion"),
                ("Wed 00:00", "Thu 12:00"),
                SpanEnd::Open,
                ("motion", &[]),
                appears(),
            ),
            span(
                ("door", "door-night"),
                ("Wed 00:00", "Thu 12:00"),
                SpanEnd::Open,
                people,
                crosses,
            ),
            span(
                yard,
                ("Wed 06:00", "Thu 02:10"),
                SpanEnd::NoFrames,
                people,
                appears(),
            ),
            span(
                yard,
                ("Thu 02:14", "Thu 07:00"),
                SpanEnd::Killed,
                people,
                appears(),
            ),
            span(
                ("yard", "yard-cars"),
                ("Thu 07:30", "Thu 12:00"),
                SpanEnd::Open,
                ("yolox-nano", &["car", "truck"]),
                appears(),
            ),
            span(
                ("bench", "bench-stays"),
                ("Thu 09:00", "Thu 10:00"),
                black,
                people,
                rule("stays", Some("bench-zone")),
            ),
            span(
                ("bench", "bench-stays"),
                ("Thu 10:20", "Thu 12:00"),
                SpanEnd::Open,
                people,
                rule("stays", Some("bench-zone")),
            ),
        ],
        spans_since_ms: None,
        events_since_ms: None,
        head: None,
    }
}

fn event(
    seq: u64,
    when: &str,
    (camera, pipeline): (&str, &str),
    condition: &str,
    label: &str,
) -> JournalRecord {
    let event: Event = serde_json::from_value(json!({
        "schema": 1, "id": "01JABCDEFGHJKMNPQRSTVWXYZ0", "seq": seq, "boot_id": "b", "mono_ms": 0,
        "at": {"unix_ms": at(when).as_millisecond(), "quality": "synced"}, "phase": "new",
        "source": camera, "pipeline": pipeline, "severity": "info",
        "body": {"kind": "rule", "rule": condition, "condition": condition, "reason": "r", "label": label,
            "tracks": [4], "frame": 120, "pts_s": 4.04},
        "decision": {"verdict": "record", "confidence": 0.8, "reason": "r"}, "evidence": [], "hash": "",
    }))
    .unwrap();
    JournalRecord::Known(Box::new(event))
}

fn journal() -> Vec<JournalRecord> {
    let yard = ("yard", "yard-people");
    let mut events = vec![
        event(1, "Wed 14:00", yard, "appears", "person"),
        event(2, "Wed 14:05", yard, "appears", "person"),
        event(3, "Thu 01:00", yard, "appears", "person"),
        event(4, "Thu 03:00", ("door", "door-night"), "crosses", "person"),
        event(5, "Thu 08:00", ("yard", "yard-cars"), "appears", "car"),
        event(6, "Thu 11:00", ("bench", "bench-stays"), "stays", "person"),
    ];
    events.extend((7..122).map(|seq| {
        event(
            seq,
            "Thu 11:55",
            ("gate", "gate-motion"),
            "appears",
            "motion",
        )
    }));
    events
}

fn scene() -> Scene {
    let camera = |id: &str| Camera {
        id: SourceId::new(id).unwrap(),
        name: id.to_owned(),
        size: Some([640, 480]),
        places: match id {
            "bench" => vec![Place {
                name: "bench zone".to_owned(),
                shape: Shape::Zone(vec![[0.1, 0.1], [0.5, 0.1], [0.5, 0.5]]),
            }],
            _ => Vec::new(),
        },
    };
    let model = |name: &str, labels: &[&str]| Model {
        name: name.to_owned(),
        labels: labels.iter().map(|l| (*l).to_owned()).collect(),
    };
    Scene {
        cameras: ["bench", "dock", "door", "gate", "yard"]
            .map(camera)
            .to_vec(),
        pipelines: Vec::new(),
        models: vec![
            model("yolox-nano", &["person", "car", "truck", "dog"]),
            model("motion", &[]),
        ],
        classes: vec!["bicycle".to_owned()],
        channels: Vec::new(),
        now: now(),
    }
}

fn now() -> Zoned {
    at("Thu 12:00").to_zoned(zone())
}

/// Answers what the rules understood.
fn answer_to(
    wanted: &EventsWanted,
    report: &CoverageReport,
    records: Vec<JournalRecord>,
) -> PastAnswer {
    let last = EventSeq(records.len() as u64);
    let mut search = EventSearch::new(wanted.clone(), EventSeq(1), last);
    let mut records = Some(records);
    while search.next().is_some() {
        search.take(records.take().unwrap_or_default());
    }
    let cameras: Vec<SourceId> = scene()
        .cameras
        .into_iter()
        .map(|camera| camera.id)
        .collect();
    let question = PastQuestion::new(wanted, &cameras, report);
    PastAnswer {
        found: search.done(),
        knowledge: Knowledge::of(&question, report, &zone()),
    }
}

/// The answer to a question in words.
fn ask(text: &str) -> String {
    let understood = Plain::new().unwrap().understand(text, &scene()).unwrap();
    let wanted = match understood {
        Answer::Look(looked) => match looked.look {
            Look::Events(wanted) => wanted,
            other => return format!("[{other:?}]"),
        },
        other => return format!("[{other:?}]"),
    };
    let answer = answer_to(&wanted, &coverage(), journal());
    answer.sentence(&zone())
}

/// Forty questions; the snapshot is read by people, line by line.
#[test]
fn answers_say_what_is_known_and_why_the_rest_is_not() {
    let questions = include_str!("tests/questions.txt");
    let answers: Vec<String> = questions
        .lines()
        .map(|question| format!("> {question}\n{}\n", ask(question)))
        .collect();
    assert_eq!(answers.len(), 40);
    insta::assert_snapshot!("answers", answers.join("\n"));
}
