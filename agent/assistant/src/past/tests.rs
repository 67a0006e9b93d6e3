//! Questions about the past over scripted days with outages and changes of models and rules.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod random;

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use serde_json::json;
use watchkeeper_client::JournalRecord;
use watchkeeper_contract::backtest::BacktestReport;
use watchkeeper_contract::coverage::{
    CoverageReport, CoverageSpan, SpanEnd, Watched, WatchedDetector, WatchedRule,
};
use watchkeeper_contract::event::{Event, Phase};
use watchkeeper_contract::id::{EventSeq, SourceId};
use watchkeeper_contract::rule::Schedule;
use watchkeeper_contract::source::Blindness;
use watchkeeper_contract::time::{TimeQuality, Wall};
use watchkeeper_plain::answer::{EventsWanted, Look};
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
        direction: None,
        detectors: Vec::new(),
        may_drop: false,
        quiet_ms: 0,
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
            renames_classes: false,
            rules: vec![WatchedRule {
                detectors: vec![WatchedDetector {
                    model: model.to_owned(),
                    classes: classes.iter().map(|c| (*c).to_owned()).collect(),
                }],
                ..rule
            }],
        },
    }
}

/// It is Thursday, noon. The yard was watched for people, then for cars, and the gate by the motion
/// detector. The door was watched at night, the bench through a black picture, the dock never. The
/// lobby got another model on Wednesday evening, and another rule on Thursday morning.
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
    let lobby = ("lobby", "lobby-all");
    let people_net = ("people-net", ["person"].as_slice());
    CoverageReport {
        from_ms: 0,
        to_ms: at("Thu 12:00").as_millisecond(),
        source: None,
        events_waiting: 0,
        events_waiting_since_ms: None,
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
            span(
                lobby,
                ("Wed 08:00", "Wed 20:00"),
                SpanEnd::Stopped,
                ("yolox-nano", &["person", "dog"]),
                appears(),
            ),
            span(
                lobby,
                ("Wed 20:00", "Thu 06:00"),
                SpanEnd::Stopped,
                people_net,
                appears(),
            ),
            span(
                lobby,
                ("Thu 06:00", "Thu 12:00"),
                SpanEnd::Open,
                people_net,
                rule("enters", Some("counter")),
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
    let direction = (condition == "crosses").then_some("out");
    let event: Event = serde_json::from_value(json!({
        "schema": 1, "id": format!("01JABCDEFGHJKMNPQRST{seq:06}"), "seq": seq, "boot_id": "b", "mono_ms": 0,
        "at": {"unix_ms": at(when).as_millisecond(), "quality": "synced"}, "phase": "new",
        "source": camera, "pipeline": pipeline, "severity": "info",
        "body": {"kind": "rule", "rule": condition, "condition": condition, "reason": "r", "label": label,
            "direction": direction, "tracks": [4], "frame": 120, "pts_s": 4.04},
        "decision": {"verdict": "record", "confidence": 0.8, "reason": "r"}, "evidence": [], "hash": "",
    }))
    .unwrap();
    JournalRecord::Known(Box::new(event))
}

fn journal() -> Vec<JournalRecord> {
    let (yard, lobby) = (("yard", "yard-people"), ("lobby", "lobby-all"));
    let mut events = vec![
        event(201, "Wed 10:00", lobby, "appears", "person"),
        event(202, "Wed 11:00", lobby, "appears", "dog"),
        event(1, "Wed 14:00", yard, "appears", "person"),
        event(2, "Wed 14:05", yard, "appears", "person"),
        event(3, "Thu 01:00", yard, "appears", "person"),
        event(203, "Thu 02:00", lobby, "appears", "person"),
        event(4, "Thu 03:00", ("door", "door-night"), "crosses", "person"),
        event(5, "Thu 08:00", ("yard", "yard-cars"), "appears", "car"),
        event(204, "Thu 08:30", lobby, "enters", "person"),
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
    with_ends(events)
}

/// Each event with its end right after it.
fn with_ends(events: Vec<JournalRecord>) -> Vec<JournalRecord> {
    let mut records = Vec::new();
    for record in events {
        let JournalRecord::Known(new) = record else {
            panic!("an event is known");
        };
        let mut end = new.clone();
        end.phase = Phase::End;
        records.extend([JournalRecord::Known(new), JournalRecord::Known(end)]);
    }
    for (seq, record) in (1..).zip(&mut records) {
        if let JournalRecord::Known(event) = record {
            event.seq = EventSeq(seq);
        }
    }
    records
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
        cameras: ["bench", "dock", "door", "gate", "lobby", "yard"]
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
    PastAnswer::new(wanted, search.done(), report.clone(), &cameras(), &zone())
}

/// The cameras of the scripted days; one has a name.
fn cameras() -> BTreeMap<SourceId, String> {
    let cameras = scene().cameras.into_iter();
    cameras
        .map(|camera| match camera.id.as_str() {
            "dock" => (camera.id, "Loading dock".to_owned()),
            id => (camera.id.clone(), id.to_owned()),
        })
        .collect()
}

/// The answer to a question, and in words with what the rules say to it.
fn ask(text: &str) -> (PastAnswer, String) {
    let understood = Plain::new().unwrap().understand(text, &scene()).unwrap();
    let Answer::Look(looked) = understood else {
        panic!("{text}: {understood:?}");
    };
    let Look::Events(wanted) = &looked.look else {
        panic!("{text}: {looked:?}");
    };
    let of_span = |wanted: &EventsWanted| answer_to(wanted, &coverage(), journal());
    let answer = match compare::spans(wanted, now().timestamp()) {
        Some((one, other)) => PastAnswer {
            compared_with: Some(Box::new(of_span(&other))),
            ..of_span(&one)
        },
        None => of_span(wanted),
    };
    let said = [looked.text.clone(), answer.sentence(&zone())].join("\n");
    (answer, said.trim_start().to_owned())
}

/// The claim of an answer, in the words of `questions.txt`.
fn claim(answer: &PastAnswer, text: &str) -> String {
    let words = |after: &str| {
        let rest = text.split_once(after)?.1;
        rest.split(' ').next().map(str::to_owned)
    };
    let (number, knowledge) = (answer.found.number, &answer.knowledge);
    if answer.compared_with.is_some() {
        return match words("The later span had ") {
            Some(number) if text.contains("more.") => format!("later +{number}"),
            Some(number) => format!("later -{number}"),
            None if text.contains("Both spans had as many.") => "equal".to_owned(),
            None => "unknown".to_owned(),
        };
    }
    if number > 0 {
        return format!("yes {number}");
    }
    let said = |start: &str| text.lines().any(|line| line.starts_with(start));
    if said("No event: ") {
        "no".to_owned()
    } else if said("No event was recorded: ") {
        "part".to_owned()
    } else {
        assert!(
            knowledge.is_none() && said("I could not have known"),
            "{text}"
        );
        "unknown".to_owned()
    }
}

/// Questions with the truth: `yes` and how often, `no`, `unknown`, and for comparisons how many
/// more the later span had. `part`: the watched part had none. `refused`: a word is in none of the
/// answers. The snapshot is read by people, line by line.
#[test]
fn answers_say_what_is_known_and_why_the_rest_is_not() {
    let questions = include_str!("tests/questions.txt").lines();
    let mut answers = Vec::new();
    let (mut false_no, mut false_yes, mut others) = (Vec::new(), Vec::new(), Vec::new());
    for line in questions {
        let (truth, question) = line.split_once(": ").unwrap();
        if truth == "refused" {
            let refused = Plain::new().unwrap().understand(question, &scene());
            let Ok(Answer::Unknown(unknown)) = refused else {
                panic!("{question}: {refused:?}");
            };
            answers.push(format!("> {question}\n{}\n", unknown.text));
            continue;
        }
        let (answer, text) = ask(question);
        let claimed = claim(&answer, &text);
        let is_yes = |claim: &str| claim.starts_with("yes") || claim.starts_with("later");
        if claimed != truth {
            let wrong = match claimed.as_str() {
                "no" | "equal" => &mut false_no,
                claimed if is_yes(claimed) => &mut false_yes,
                _ => &mut others,
            };
            wrong.push(format!("{question}: {claimed}, true is {truth}"));
        }
        assert!(!text.contains("0 events"), "{question}: {text}");
        answers.push(format!("> {question}\n{text}\n"));
    }
    assert!(answers.len() >= 40);
    assert_eq!(false_no, [""; 0], "false no");
    assert_eq!(false_yes, [""; 0], "false yes");
    assert_eq!(others, [""; 0], "other wrong answers");
    insta::assert_snapshot!("answers", answers.join("\n"));
}

#[test]
fn yes_names_no_unknown_time_and_the_last_event_those_after_it() {
    let (_, yes) = ask("was anybody in the yard last night");
    assert!(yes.contains("Yes: at least 1 event."), "{yes}");
    assert!(!yes.contains("Not known"), "{yes}");
    let (_, last) = ask("when was the last time someone was in the yard");
    assert!(last.starts_with("At Thu 01:00:00 CET."), "{last}");
    assert!(last.contains("02:10") && !last.contains("Wed"), "{last}");
}

/// A question for people in the yard between two times.
fn people(from: &str, to: &str) -> EventsWanted {
    EventsWanted {
        camera: Some(SourceId::new("yard").unwrap()),
        labels: vec!["person".to_owned()],
        from: Some(at(from)),
        to: Some(at(to)),
        ..EventsWanted::default()
    }
}

fn sentence(wanted: &EventsWanted, report: &CoverageReport, records: Vec<JournalRecord>) -> String {
    answer_to(wanted, report, records).sentence(&zone())
}

/// The coverage with another rule for people in the yard.
fn with_rule(change: impl Fn(&mut WatchedRule)) -> CoverageReport {
    let mut report = coverage();
    for span in &mut report.spans {
        let is_it = span.watch.pipeline.as_str() == "yard-people";
        span.watch
            .rules
            .iter_mut()
            .filter(|_| is_it)
            .for_each(&change);
    }
    report
}

#[test]
fn time_after_an_event_is_not_known_while_its_rule_cools_down() {
    let report = with_rule(|rule| rule.quiet_ms = 3_600_000);
    let (within, after) = (
        people("Wed 14:30", "Wed 15:00"),
        people("Wed 15:30", "Wed 16:00"),
    );
    let text = sentence(&within, &report, journal());
    assert_eq!(
        text,
        "I could not have known: yard, because the rule was cooling down after an event."
    );
    let text = sentence(&after, &report, journal());
    assert!(text.starts_with("No event:"), "{text}");
    let text = sentence(&people("Wed 14:30", "Wed 15:00"), &coverage(), journal());
    assert!(text.starts_with("No event:"), "{text}");
}

#[test]
fn cool_down_is_answered_from_the_detection_history() {
    let report = with_rule(|rule| rule.quiet_ms = 3_600_000);
    let mut answer = answer_to(&people("Wed 14:30", "Wed 15:00"), &report, journal());
    assert!(answer.is_limited());
    let found = |when: &str, label: &str| {
        json!({
            "at_ms": at(when).as_millisecond(), "severity": "info",
            "decision": {"verdict": "record", "confidence": 0.8, "reason": "r"},
            "event": {"rule": "appears", "condition": "appears", "reason": "r", "label": label,
                "tracks": [4], "frame": 120, "pts_s": 4.04},
        })
    };
    let mut replay: BacktestReport = serde_json::from_value(json!({
        "from_ms": at("Wed 14:30").as_millisecond(), "to_ms": at("Thu 12:00").as_millisecond(),
        "covered_s": 1.0, "results": BacktestReport::default().results, "more_events": 0,
        "rules": [{"name": "appears", "events": 900, "doubtful": 0, "by_hour": {},
            "by_class": {"person": 214, "car": 3}}],
        "events": [found("Wed 14:40", "person"), found("Wed 14:41", "car"),
            found("Wed 15:10", "person")],
    }))
    .unwrap();
    let id = "yard-people".parse().unwrap();
    let count = |answer: &PastAnswer, replay: &BacktestReport| {
        let names = ["appears"].into();
        ReplayedEvents::new(&id, replay, &answer.knowledge.question, &names)
    };
    answer.replayed.extend(count(&answer, &replay));
    let text = answer.sentence(&zone());
    assert!(
        text.starts_with(
            "I could not have known: yard, because the rule was cooling down after an event. Without \
             cool-downs and limits yard-people would have had 1 event, the last at Wed 14:40:00,"
        ),
        "{text}"
    );
    // Of the persons in all, one of the listed ones came later.
    replay.more_events = 211;
    assert_eq!(count(&answer, &replay).unwrap().number, 213);
    replay.events.drain(..2);
    assert_eq!(count(&answer, &replay), None, "none of that time is listed");
}

#[test]
fn coverage_counts_a_cool_down_as_watched() {
    let said = |from: &str, to: &str, report: &CoverageReport| {
        answer_to(&people(from, to), report, journal()).coverage_sentence(&zone())
    };
    let cooling = with_rule(|rule| rule.quiet_ms = 3_600_000);
    let text = said("Wed 14:00", "Wed 15:00", &cooling);
    assert_eq!(text, "Watched all that time: yard.");
    let lines = answer_to(&people("Wed 14:00", "Wed 16:00"), &cooling, journal());
    let lines = lines.knowledge.lines(&zone());
    assert!(
        lines[0].starts_with("yard: watched 2 h of 2 h"),
        "{lines:?}"
    );
    let rows: Vec<_> = lines.iter().filter(|line| line.contains(" – ")).collect();
    assert!(
        rows.len() == 1 && rows[0].contains("in cool-downs"),
        "{lines:?}"
    );
    assert_eq!(
        said("Thu 02:00", "Thu 03:00", &cooling),
        "Watched part of that time: yard. Not watched, or not known: yard from Thu 02:10 to Thu 02:14 CET, because no pictures came."
    );
    assert_eq!(
        said("Thu 02:11", "Thu 02:12", &cooling),
        "Not watched, or not known: yard, because no pictures came."
    );
}

#[test]
fn reason_names_the_place_of_the_question() {
    let mut report = coverage();
    for span in &mut report.spans {
        let Some(rule) = span.watch.rules.first().cloned() else {
            continue;
        };
        let at = |place: &str| WatchedRule {
            condition: "enters".to_owned(),
            place: Some(place.to_owned()),
            ..rule.clone()
        };
        span.watch.rules = vec![at("till"), at("back_door")];
    }
    let wanted = EventsWanted {
        place: Some("back door".to_owned()),
        conditions: vec!["leaves".to_owned()],
        ..people("Wed 14:30", "Wed 15:00")
    };
    let text = sentence(&wanted, &report, journal());
    assert!(text.contains("only entries into back_door"), "{text}");
}

#[test]
fn pause_of_the_watch_says_from_when_to_when() {
    let mut report = coverage();
    let is_paused = |span: &&mut CoverageSpan| span.watch.pipeline.as_str() == "yard-people";
    let paused = report.spans.iter_mut().filter(is_paused);
    paused.for_each(|span| span.end = SpanEnd::Paused);
    for (from, to, pause) in [
        ("Thu 10:00", "Thu 11:00", "since Thu 26 Nov 07:00 CET"),
        (
            "Thu 02:11",
            "Thu 02:13",
            "from Thu 26 Nov 02:10 to Thu 26 Nov 02:14 CET",
        ),
    ] {
        let text = sentence(&people(from, to), &report, journal());
        let reason = format!("yard, because the pipeline was paused {pause}");
        assert!(text.contains(&reason), "{text}");
    }
}

#[test]
fn who_came_before_and_stayed_is_an_event() {
    let yard = ("yard", "yard-people");
    let mut records = vec![event(1, "Wed 14:00", yard, "appears", "person")];
    let asked = people("Wed 15:00", "Wed 16:00");
    // Its end is not recorded yet.
    let text = sentence(&asked, &coverage(), records.clone());
    assert!(text.starts_with("1 event."), "{text}");
    for (end, is_there) in [("Wed 14:30", false), ("Wed 15:30", true)] {
        let JournalRecord::Known(mut known) = event(2, end, yard, "appears", "person") else {
            panic!("an event is known");
        };
        known.phase = Phase::End;
        if let JournalRecord::Known(new) = &records[0] {
            known.id = new.id;
        }
        records.truncate(1);
        records.push(JournalRecord::Known(known));
        let text = sentence(&asked, &coverage(), records.clone());
        assert_eq!(text.starts_with("1 event."), is_there, "{text}");
        assert_eq!(text.starts_with("No event:"), !is_there, "{text}");
    }
}

#[test]
fn class_that_nothing_watched_for_is_not_denied_with_another() {
    let mut asked = people("Wed 18:00", "Wed 19:00");
    asked.labels.push("cat".to_owned());
    let text = sentence(&asked, &coverage(), journal());
    assert_eq!(
        text,
        "No event was recorded: yard watched for person all that time. Not known: yard (cat), \
         because only the class person was looked for."
    );
    let known = answer_to(&asked, &coverage(), journal())
        .knowledge
        .to_json(8, &zone());
    assert_eq!(known["watched"], "part_of_the_time");
    assert_eq!(known["cameras"][1]["classes"], json!(["cat"]));
    // Two rules that report one class each leave nothing out.
    let mut both = coverage();
    for span in &mut both.spans {
        let rules = &mut span.watch.rules;
        let mut cats = rules[0].clone();
        cats.detectors[0].classes = vec!["cat".to_owned()];
        rules.push(cats);
    }
    let text = sentence(&asked, &both, journal());
    assert_eq!(
        text,
        "No event: yard watched for cat or person all that time."
    );
}

#[test]
fn rule_that_may_drop_objects_never_gives_a_plain_no() {
    let asked = people("Wed 18:00", "Wed 19:00");
    let filtered = with_rule(|rule| rule.may_drop = true);
    let text = sentence(&asked, &filtered, journal());
    assert!(text.starts_with("No event was recorded:"), "{text}");
    assert!(
        text.contains("as far as its filters let them through"),
        "{text}"
    );
    let both = EventsWanted {
        conditions: vec!["enters".to_owned(), "leaves".to_owned()],
        ..asked.clone()
    };
    let enters = with_rule(|rule| rule.condition = "enters".to_owned());
    let text = sentence(&both, &enters, journal());
    assert!(text.starts_with("No event was recorded:"), "{text}");
    let inwards = with_rule(|rule| {
        rule.condition = "crosses".to_owned();
        rule.direction = Some(watchkeeper_contract::rule::CrossDirection::In);
    });
    let crossed = EventsWanted {
        conditions: vec!["crosses".to_owned()],
        ..asked
    };
    let text = sentence(&crossed, &inwards, journal());
    assert!(
        text.contains("crossings of the place inwards of person"),
        "{text}"
    );
}

#[test]
fn waiting_events_and_wrong_clocks_leave_nothing_known() {
    let asked = people("Wed 18:00", "Wed 19:00");
    let mut report = coverage();
    report.events_waiting = 3;
    let text = sentence(&asked, &report, journal());
    assert_eq!(
        text,
        "I could not have known: yard, because events wait for the disk."
    );
    report.events_waiting_since_ms = Some(at("Wed 18:30").as_millisecond());
    let text = sentence(&asked, &report, journal());
    assert!(text.contains("from Wed 18:30 to Wed 19:00"), "{text}");
    let mut report = coverage();
    for span in &mut report.spans {
        (span.from.quality, span.end) = (TimeQuality::Estimated, SpanEnd::ClockSet);
    }
    let text = sentence(&asked, &report, journal());
    assert_eq!(
        text,
        "I could not have known: yard, because the clock of the box was wrong."
    );
}

#[test]
fn wrong_clock_and_moved_camera_explain_only_their_own_time() {
    let scripted = coverage();
    let [template, ..] = scripted.spans.as_slice() else {
        panic!("no span")
    };
    let span = |from: &str, to: &str, end: SpanEnd| CoverageSpan {
        from: wall(at(from)),
        to: wall(at(to)),
        end,
        ..template.clone()
    };
    let moved = SpanEnd::Blind {
        kind: Blindness::Moved,
    };
    let mut set = span("Wed 10:00", "Wed 11:00", SpanEnd::ClockSet);
    set.from.quality = TimeQuality::Estimated;
    let report = CoverageReport {
        spans: vec![
            set,
            span("Wed 11:00", "Wed 12:00", moved),
            span("Wed 13:00", "Wed 13:00", SpanEnd::Stopped),
            span("Wed 15:00", "Wed 16:00", SpanEnd::Open),
        ],
        at: wall(at("Wed 16:00")),
        ..coverage()
    };
    let asked = EventsWanted {
        camera: Some(SourceId::new("gate").unwrap()),
        from: Some(at("Wed 09:00")),
        to: Some(at("Wed 16:00")),
        ..EventsWanted::default()
    };
    let question = PastQuestion::new(&asked, &[], &report);
    let knowledge = Knowledge::of(&question, &report, &[], &zone());
    let [gate] = knowledge.cameras.as_slice() else {
        panic!("one camera")
    };
    let unknown = gate.unknown.iter();
    let unknown = unknown.map(|gap| (gap.from_ms, gap.to_ms, &gap.why));
    let unknown: Vec<_> = unknown.collect();
    let ms = |text: &str| at(text).as_millisecond();
    let wanted = [
        (ms("Wed 09:00"), ms("Wed 10:00"), &Why::NotWatched),
        (ms("Wed 10:00"), ms("Wed 11:00"), &Why::ClockWrong),
        (ms("Wed 12:00"), ms("Wed 13:00"), &Why::Interrupted(moved)),
        (ms("Wed 13:00"), ms("Wed 15:00"), &Why::NotWatched),
    ];
    assert_eq!(unknown, wanted);
}

#[test]
fn record_that_cannot_be_read_forbids_a_plain_no() {
    let mut records = journal();
    records[0] = JournalRecord::Unreadable {
        seq: EventSeq(1),
        cause: "damaged".to_owned(),
    };
    let asked = EventsWanted {
        from: None,
        labels: vec!["dog".to_owned()],
        ..people("Wed 14:00", "Wed 16:00")
    };
    let text = sentence(&asked, &coverage(), records);
    assert!(
        text.contains("1 record of the journal could not be read"),
        "{text}"
    );
}

#[test]
fn rate_below_one_picture_a_second_is_said() {
    let asked = people("Wed 18:00", "Wed 19:00");
    let mut report = coverage();
    for span in &mut report.spans {
        let seconds = (span.to.unix_ms - span.from.unix_ms) / 1000;
        span.frames = u64::try_from(seconds / 20).unwrap() + 1;
    }
    let text = sentence(&asked, &report, journal());
    assert_eq!(
        text,
        "No event: yard watched for person all that time, a picture every 20 s."
    );
    let with_events = EventsWanted {
        from: None,
        ..asked
    };
    let text = sentence(&with_events, &report, journal());
    assert!(
        text.contains("The box looked at a picture every 20 s"),
        "{text}"
    );
}

#[test]
fn rule_that_records_a_part_is_named_with_camera_and_time() {
    let today = |camera: &str| {
        let asked = EventsWanted {
            camera: Some(SourceId::new(camera).unwrap()),
            from: Some(at("Thu 00:00")),
            to: Some(at("Thu 12:00")),
            ..EventsWanted::default()
        };
        sentence(&asked, &coverage(), journal())
    };
    let bench = today("bench");
    assert!(
        bench.contains("Not all is recorded: on bench only stays in bench-zone."),
        "{bench}"
    );
    // Until six everything was recorded there.
    let lobby = today("lobby");
    assert!(
        lobby.contains("on lobby only entries into counter, part of that time."),
        "{lobby}"
    );
    assert!(!lobby.contains("Only "), "{lobby}");
}

#[test]
fn only_events_of_rules_are_activity() {
    let wanted = EventsWanted {
        only_number: true,
        by_hour: true,
        ..EventsWanted::default()
    };
    let mut records = journal();
    let number = answer_to(&wanted, &coverage(), records.clone())
        .found
        .number;
    let JournalRecord::Known(mut outage) = records[0].clone() else {
        panic!("an event is known");
    };
    outage.seq = EventSeq(records.len() as u64 + 1);
    outage.body = serde_json::from_value(json!({
        "kind": "source_outage", "message": "no pictures"
    }))
    .unwrap();
    outage.phase = Phase::New;
    records.push(JournalRecord::Known(outage));
    let counted = answer_to(&wanted, &coverage(), records.clone());
    assert_eq!(counted.found.number, number);
    assert_eq!(counted.found.by_camera.values().sum::<u64>(), number);
    let listed = EventsWanted::default();
    let listed = answer_to(&listed, &coverage(), records).found.number;
    assert_eq!(listed, number + 1, "what happened lists it");
}

#[test]
fn question_without_span_names_the_cameras_that_nothing_watched() {
    let mut report = coverage();
    report.spans.clear();
    let said = |camera: Option<&str>| {
        let wanted = EventsWanted {
            camera: camera.map(|id| SourceId::new(id).unwrap()),
            ..EventsWanted::default()
        };
        answer_to(&wanted, &report, Vec::new()).sentence(&zone())
    };
    assert_eq!(
        said(Some("gate")),
        "I could not have known: gate, because nothing watched."
    );
    assert!(said(None).contains("gate, lobby, yard, because nothing watched"));
}

#[test]
fn unknown_times_under_a_second_are_left_out() {
    let mut report = coverage();
    report
        .spans
        .retain(|span| span.watch.source.as_str() == "gate");
    report.spans[0].from.unix_ms += 400;
    let wanted = EventsWanted {
        camera: Some(SourceId::new("gate").unwrap()),
        from: Some(at("Wed 00:00")),
        to: Some(at("Wed 01:00")),
        ..EventsWanted::default()
    };
    let said = answer_to(&wanted, &report, Vec::new()).sentence(&zone());
    assert!(said.contains("almost all that time"), "{said}");
    assert!(!said.contains("Not known"), "{said}");
}
