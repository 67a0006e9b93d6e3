//! Rules on small scenes: which events they make, and what these report.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;

use proptest::prelude::*;
use watchkeeper_contract::event::{Asks, Phase, ReadingKind, Verdict};
use watchkeeper_contract::id::{ChannelId, EventId, TrackId};
use watchkeeper_contract::pipeline::{Visit, ZoneVisits};
use watchkeeper_contract::review::Calibration;
use watchkeeper_contract::rule::{
    Band, BelowGates, ClipSpec, Condition, CountBound, CrossDirection, DecideSpec, Gates, RuleSpec,
    Schedule, Severity, StopAt, ValueTest, Weekday,
};
use watchkeeper_engine::rules::calibration::apply;
use watchkeeper_engine::rules::check::{MAX_CHANNELS, MAX_CLASSES, MAX_RULES, unknown_channels};
use watchkeeper_engine::rules::{
    Change, FinishReason, LocalTime, Moment, NeedKind, NeedValue, RuleError, RuleSet, SelectorKind,
    StepFacts, WorkflowFacts,
};
use watchkeeper_vision::detections::{Detection, DetectionId, Detections};
use watchkeeper_vision::frame::Picture;
use watchkeeper_vision::geometry::BBox;

const TRACKED: &str = "$steps.tracker.tracked_detections";
const VALUE: &str = "$steps.expression.output";
const READ: &str = "$steps.ocr.result";
/// Text that the step of [`READ`] reads.
const PLATE: &str = " AB\n123 ";
const FPS: f64 = 10.0;

fn kind_of(selector: &str) -> Option<SelectorKind> {
    match selector {
        TRACKED | "$steps.model.predictions" | "$steps.dock.timed_detections" => {
            Some(SelectorKind::Detections)
        }
        VALUE => Some(SelectorKind::Any),
        "$steps.gate.count_in" => Some(SelectorKind::Number),
        "$steps.note.text" => Some(SelectorKind::Other),
        READ => Some(SelectorKind::Text),
        _ => None,
    }
}

fn facts() -> WorkflowFacts<'static> {
    let step = |name: &str| StepFacts {
        name: name.into(),
        detections: Some(TRACKED.into()),
    };
    WorkflowFacts {
        lines: vec![step("gate")],
        zones: vec![step("dock")],
        selectors: [TRACKED, VALUE].map(String::from).to_vec(),
        kind_of: &kind_of,
        is_read: &|_| false,
    }
}

fn rule(when: Condition) -> RuleSpec {
    RuleSpec::new("rule".into(), when)
}

/// A rule whose gates admit everything.
fn admitting(when: Condition) -> RuleSpec {
    RuleSpec {
        gates: Gates {
            act: 0.9,
            record: 0.0,
            review: 0.0,
            escalate: 0.0,
        },
        ..rule(when)
    }
}

fn appears() -> Condition {
    Condition::Appears {
        detections: TRACKED.into(),
    }
}
fn enters() -> Condition {
    Condition::Enters {
        zone: "dock".into(),
    }
}
fn leaves() -> Condition {
    Condition::Leaves {
        zone: "dock".into(),
    }
}
fn stays(for_s: f64) -> Condition {
    Condition::Stays {
        zone: "dock".into(),
        for_s,
    }
}
fn crosses(direction: CrossDirection) -> Condition {
    Condition::Crosses {
        line: "gate".into(),
        direction,
    }
}
fn count(bound: CountBound, for_s: f64) -> Condition {
    Condition::Count {
        detections: TRACKED.into(),
        bound,
        for_s,
    }
}
fn value(test: ValueTest, for_s: f64) -> Condition {
    Condition::Value {
        value: VALUE.into(),
        test,
        for_s,
    }
}

#[derive(Debug, Clone, Default)]
struct Shot {
    boxes: Vec<Detection>,
    in_zone: Vec<i64>,
    crossed_in: Vec<i64>,
    crossed_out: Vec<i64>,
    value: Option<f64>,
}

fn person(track: i64, x: f64) -> Detection {
    Detection {
        track: Some(TrackId(track)),
        ..Detection::new(
            BBox::new(x, 100.0, x + 40.0, 200.0),
            0.8,
            0,
            "person",
            DetectionId::Local {
                stream: 0,
                number: 0,
            },
        )
    }
}

/// A camera in front of a rule set.
struct Bench {
    rules: RuleSet,
    frame: u64,
    ids: u128,
    is_damaged: bool,
    local: Option<LocalTime>,
    picture: Option<Picture>,
    changes: Vec<Change>,
}

impl Bench {
    fn new(specs: &[RuleSpec]) -> Self {
        Self::with(specs, &facts())
    }

    fn with(specs: &[RuleSpec], facts: &WorkflowFacts<'_>) -> Self {
        Self {
            rules: RuleSet::new(specs, facts).unwrap(),
            frame: 0,
            ids: 0,
            is_damaged: false,
            local: Some(LocalTime {
                weekday: Weekday::Tue,
                minute_of_day: 12 * 60,
            }),
            picture: None,
            changes: vec![],
        }
    }

    fn moment(&self) -> Moment {
        Moment {
            time_s: self.frame as f64 / FPS,
            frame: self.frame,
            size: [640, 480],
            is_damaged: self.is_damaged,
            local: self.local,
        }
    }

    fn show(&mut self, shot: &Shot) {
        self.frame += 1;
        let at = self.moment();
        self.show_at(&at, shot);
    }

    fn show_at(&mut self, at: &Moment, shot: &Shot) {
        let pick = |ids: &[i64]| Detections {
            boxes: shot
                .boxes
                .iter()
                .filter(|b| b.track.is_some_and(|t| ids.contains(&t.0)))
                .cloned()
                .collect(),
            size: [640, 480],
        };
        let all = Detections {
            boxes: shot.boxes.clone(),
            size: [640, 480],
        };
        let (zone, ins, outs) = (
            pick(&shot.in_zone),
            pick(&shot.crossed_in),
            pick(&shot.crossed_out),
        );
        let needs = self.rules.needs().to_vec();
        let inputs: Vec<NeedValue<'_>> = needs
            .iter()
            .map(|n| match n.selector.as_str() {
                TRACKED => NeedValue::Detections(&all),
                "$steps.dock.timed_detections" => NeedValue::Detections(&zone),
                "$steps.gate.detections_in" => NeedValue::Detections(&ins),
                "$steps.gate.detections_out" => NeedValue::Detections(&outs),
                VALUE => match shot.value {
                    Some(v) if n.kind == NeedKind::Boolean => NeedValue::Boolean(v > 0.0),
                    Some(v) => NeedValue::Number(v),
                    None => NeedValue::Missing,
                },
                READ => NeedValue::Text(PLATE),
                other => panic!("unexpected need {other}"),
            })
            .collect();
        let ids = &mut self.ids;
        let mut new_id = || {
            *ids += 1;
            EventId(format!("{:026}", *ids).parse().unwrap())
        };
        self.changes.extend(self.rules.observe(
            at,
            self.picture.as_ref(),
            |need| inputs[need],
            &mut new_id,
        ));
    }

    /// Shows one scene for some seconds.
    fn hold(&mut self, seconds: f64, shot: &Shot) {
        for _ in 0..(seconds * FPS).round() as u32 {
            self.show(shot);
        }
    }

    /// Shows one scene at each of these seconds of source time.
    fn show_when(&mut self, times: impl IntoIterator<Item = u32>, shot: &Shot) {
        for time in times {
            self.frame += 1;
            let at = Moment {
                time_s: f64::from(time),
                ..self.moment()
            };
            self.show_at(&at, shot);
        }
    }

    /// A frame in which no step ran.
    fn skip(&mut self) {
        self.frame += 1;
        let at = self.moment();
        let ids = &mut self.ids;
        let mut new_id = || {
            *ids += 1;
            EventId(format!("{:026}", *ids).parse().unwrap())
        };
        let missing = |_| NeedValue::Missing;
        self.changes
            .extend(self.rules.observe(&at, None, missing, &mut new_id));
    }

    /// Tracks 1.. stand in the zone for some seconds.
    fn stand(&mut self, seconds: f64, tracks: i64) {
        self.hold(seconds, &standing(tracks));
    }

    fn finish(&mut self) {
        self.finish_because(FinishReason::SourceEnded);
    }

    fn finish_because(&mut self, reason: FinishReason) {
        let at = self.moment();
        let ids = &mut self.ids;
        let mut new_id = || {
            *ids += 1;
            EventId(format!("{:026}", *ids).parse().unwrap())
        };
        let missing = |_| NeedValue::Missing;
        self.changes
            .extend(self.rules.finish(reason, &at, missing, &mut new_id));
    }

    fn dock(&self) -> ZoneVisits {
        let mut zones = self.rules.zones();
        zones.find(|(name, _)| *name == "dock").unwrap().1
    }

    fn visits(&self) -> Vec<Visit> {
        self.dock().visits
    }

    fn phases(&self) -> Vec<Phase> {
        self.changes
            .iter()
            .map(|c| c.phase)
            .filter(|p| *p != Phase::Update)
            .collect()
    }
}

fn standing(tracks: i64) -> Shot {
    Shot {
        boxes: (1..=tracks).map(|t| person(t, t as f64 * 60.0)).collect(),
        in_zone: (1..=tracks).collect(),
        ..Shot::default()
    }
}

/// A picture of stripes of these grey levels.
fn stripes(levels: [u8; 2]) -> Picture {
    let pixels = (0..640 * 480).flat_map(|n| [levels[n % 640 / 8 % 2]; 3]);
    Picture::rgb(640, 480, pixels.collect())
}

const NEW_END: [Phase; 2] = [Phase::New, Phase::End];

#[test]
fn event_that_a_stop_ends_says_so() {
    let rules = [
        RuleSpec::new("a".into(), appears()),
        RuleSpec::new("b".into(), count(CountBound::Over(0), 0.0)),
    ];
    for (reason, wanted) in [
        (FinishReason::Stopped, "the pipeline stopped"),
        (FinishReason::SourceEnded, "the source ended"),
    ] {
        let mut b = Bench::new(&rules);
        b.stand(5.0, 1);
        b.finish_because(reason);
        let ended = b.changes.iter().filter(|c| c.phase == Phase::End);
        let reasons: Vec<&str> = ended.map(|c| c.event.reason.as_str()).collect();
        assert_eq!(reasons.len(), 2);
        assert!(
            reasons.iter().all(|said| said.contains(wanted)),
            "{reasons:?}"
        );
    }
}

#[test]
fn frame_in_which_the_tracker_did_not_run_is_no_gap() {
    let continuity = |is_skipped: bool| {
        let mut b = Bench::new(&[rule(stays(3.0))]);
        for n in 0..60 {
            match n % 3 {
                0 => b.show(&standing(1)),
                _ if is_skipped => b.skip(),
                _ => b.show(&standing(0)),
            }
        }
        let begun = b.changes.first().unwrap();
        let found = begun.evidence.iter().find(|e| e.source == "continuity");
        found.unwrap().confidence
    };
    assert_eq!(continuity(true), 1.0);
    assert!(continuity(false) < 0.5);
}

#[test]
fn selector_read_as_two_kinds_is_refused() {
    let rules = |first: Condition, second: Condition| {
        let specs = [
            RuleSpec::new("a".into(), first),
            RuleSpec::new("b".into(), second),
        ];
        RuleSet::new(&specs, &facts()).map(drop)
    };
    let number = || value(ValueTest::Over(1.0), 0.0);
    let boolean = || value(ValueTest::Is(true), 0.0);
    let boxes = || Condition::Appears {
        detections: VALUE.into(),
    };
    assert_eq!(rules(number(), boolean()), Ok(()));
    let errors = rules(number(), boxes()).unwrap_err();
    assert_eq!(errors[0].field, "rules[1].when.detections");
    assert!(
        errors[0].message.contains("read both as a number and as"),
        "{errors:?}"
    );
    assert!(rules(boxes(), boolean()).is_err());
}

#[test]
fn appears_makes_one_event_that_ends_with_the_track() {
    let mut b = Bench::new(&[rule(appears())]);
    b.stand(5.0, 1);
    assert_eq!(b.phases(), [Phase::New]);
    b.stand(5.0, 0);
    assert_eq!(b.phases(), NEW_END);
    let first = &b.changes[0];
    assert_eq!(first.event.label.as_deref(), Some("person"));
    assert_eq!(first.event.tracks, [TrackId(1)]);
    assert_eq!(
        first.event.bbox,
        Some([60.0 / 640.0, 100.0 / 480.0, 100.0 / 640.0, 200.0 / 480.0])
    );
    assert!(
        first.decision.verdict >= Verdict::Record,
        "{:?}",
        first.decision
    );
    assert!(
        first
            .event
            .reason
            .starts_with("person #1 was seen for the first time")
    );
    // A track that returns later is not new.
    b.stand(3.0, 1);
    b.stand(3.0, 0);
    assert_eq!(b.phases(), NEW_END);
}

#[test]
fn flickering_track_keeps_its_event() {
    let mut b = Bench::new(&[rule(stays(2.0))]);
    b.stand(3.0, 1);
    for _ in 0..5 {
        b.stand(1.9, 0);
        b.stand(0.3, 1);
    }
    assert_eq!(b.phases(), [Phase::New]);
    b.stand(2.3, 0);
    assert_eq!(b.phases(), NEW_END);
}

#[test]
fn enters_event_is_momentary_and_repeats_after_leaving() {
    let mut b = Bench::new(&[rule(enters())]);
    b.stand(6.0, 1);
    assert_eq!(b.phases(), NEW_END);
    assert_eq!(b.changes[0].event.zone.as_deref(), Some("dock"));
    b.stand(3.0, 0);
    b.stand(3.0, 1);
    assert_eq!(b.phases(), [NEW_END, NEW_END].concat());
}

#[test]
fn leaves_event_has_dwell_time_and_needs_a_live_source() {
    let mut b = Bench::new(&[rule(leaves())]);
    b.stand(4.1, 1);
    assert!(b.changes.is_empty());
    b.stand(3.0, 0);
    assert_eq!(b.phases(), NEW_END);
    assert!((b.changes[0].event.dwell_s.unwrap() - 4.0).abs() < 1e-6);
    b.stand(4.0, 1);
    b.finish();
    assert_eq!(b.phases(), NEW_END);
}

#[test]
fn stays_event_begins_after_the_bound_and_names_it() {
    let mut b = Bench::new(&[rule(stays(3.0))]);
    b.stand(2.9, 1);
    assert!(b.changes.is_empty());
    b.stand(1.0, 1);
    assert_eq!(b.phases(), [Phase::New]);
    let e = &b.changes[0].event;
    assert!((e.dwell_s.unwrap() - 3.0).abs() < 1e-6, "{e:?}");
    assert_eq!(e.reason, "person #1 in zone dock for 3.0 s (limit 3 s)");
    b.finish();
    assert_eq!(b.phases(), NEW_END);
    assert!(
        b.changes
            .last()
            .unwrap()
            .event
            .reason
            .starts_with("the source ended")
    );
}

#[test]
fn stay_continues_under_a_new_track() {
    let mut b = Bench::new(&[
        rule(enters()),
        RuleSpec {
            name: "leaves".into(),
            ..rule(leaves())
        },
    ]);
    b.stand(3.0, 1);
    b.stand(1.0, 0);
    let renamed = Shot {
        boxes: vec![person(9, 62.0)],
        in_zone: vec![9],
        ..Shot::default()
    };
    b.hold(3.0, &renamed);
    b.stand(3.0, 0);
    assert_eq!(b.phases(), [NEW_END, NEW_END].concat());
    let left = &b.changes[2].event;
    assert_eq!(left.tracks, [TrackId(1), TrackId(9)]);
    assert_eq!(left.dwell_s, Some(b.visits()[0].dwell_s));
    assert!(
        left.reason
            .starts_with("person #1 left zone dock after 6.9 s"),
        "{}",
        left.reason
    );
}

#[test]
fn stray_box_makes_no_event_in_a_zone() {
    let mut b = Bench::new(&[
        admitting(enters()),
        RuleSpec {
            name: "b".into(),
            ..admitting(leaves())
        },
    ]);
    b.stand(0.5, 1);
    b.stand(3.0, 0);
    assert!(b.changes.is_empty(), "{:?}", b.changes);
    assert_eq!((b.rules.discarded(), b.visits()), (0, vec![]));
}

#[test]
fn resumed_stay_makes_no_second_enters_event() {
    let mut b = Bench::new(&[admitting(enters())]);
    b.stand(3.0, 1);
    let saved = b.rules.zone_stays().next().unwrap().1.clone();
    let mut next = Bench::new(&[admitting(enters())]);
    next.rules.resume_stays("dock", saved);
    next.frame = b.frame;
    next.stand(3.0, 1);
    assert!(next.changes.is_empty(), "{:?}", next.changes);
    next.stand(3.0, 2);
    assert_eq!((next.phases().len(), next.visits().len()), (2, 2));
}

#[test]
fn only_stays_reports_a_still_object_and_asks_a_person() {
    let named = |name: &str, when| RuleSpec::new(name.into(), when);
    let rules = [
        named("appears", appears()),
        named("enters", enters()),
        named("leaves", leaves()),
        named("stays", stays(5.0)),
    ];
    let mut b = Bench::new(&rules);
    b.picture = Some(stripes([40, 120]));
    b.stand(6.0, 1);
    assert_eq!((b.dock().count, b.dock().still), (0, 1));
    b.hold(4.0, &Shot::default());
    let told = b.changes.iter();
    let told: Vec<_> = told
        .map(|c| (&*c.event.rule, c.phase, c.decision.verdict))
        .collect();
    let asked = |phase| ("stays", phase, Verdict::Review);
    assert_eq!(told, NEW_END.map(asked));
    assert_eq!((b.dock().count, b.dock().still), (0, 1));
}

#[test]
fn object_that_changes_after_a_while_enters_then() {
    let mut b = Bench::new(&[rule(enters())]);
    b.picture = Some(stripes([40, 120]));
    b.stand(3.0, 1);
    assert_eq!(b.phases(), []);
    b.picture = Some(stripes([120, 40]));
    b.stand(1.0, 1);
    assert_eq!(b.phases(), NEW_END);
    assert_eq!((b.dock().count, b.dock().still), (1, 0));
}

#[test]
fn crossing_reports_only_the_wanted_direction() {
    for (wanted, expected) in [
        (CrossDirection::In, vec!["in"]),
        (CrossDirection::Out, vec!["out"]),
        (CrossDirection::Any, vec!["in", "out"]),
    ] {
        let mut b = Bench::new(&[rule(crosses(wanted))]);
        b.stand(2.0, 1);
        b.show(&Shot {
            crossed_in: vec![1],
            ..standing(1)
        });
        b.stand(2.0, 1);
        b.show(&Shot {
            crossed_out: vec![1],
            ..standing(1)
        });
        let new = b.changes.iter().filter(|c| c.phase == Phase::New);
        let told: Vec<_> = new.map(|c| c.event.direction.clone().unwrap()).collect();
        assert_eq!(told, expected);
        assert_eq!(b.changes[0].event.line.as_deref(), Some("gate"));
        assert_eq!(b.phases().len(), 2 * expected.len());
    }
}

#[test]
fn crossing_in_damaged_pictures_is_for_review() {
    /// Whether pictures of this second are damaged, and the verdict of a crossing after six.
    type Case = (fn(u32) -> bool, Verdict);
    let cases: [Case; 4] = [
        (|_| false, Verdict::Act),
        (|second| second == 1, Verdict::Act),
        (|second| second < 4, Verdict::Review),
        (|second| second == 5, Verdict::Review),
    ];
    for (is_damaged, verdict) in cases {
        let mut b = Bench::new(&[rule(crosses(CrossDirection::Any))]);
        for second in 0..6 {
            b.is_damaged = is_damaged(second);
            b.stand(1.0, 1);
        }
        b.show(&Shot {
            crossed_in: vec![1],
            ..standing(1)
        });
        let new = &b.changes[0];
        assert_eq!(new.decision.verdict, verdict);
        let says_so = new.evidence.iter().any(|link| link.source == "damage");
        assert_eq!(says_so, verdict == Verdict::Review);
    }
}

#[test]
fn count_begins_without_a_break_and_survives_a_flicker() {
    let mut b = Bench::new(&[rule(count(CountBound::Over(2), 2.0))]);
    b.stand(1.5, 3);
    b.show(&standing(2));
    b.stand(1.5, 3);
    assert!(b.changes.is_empty());
    b.stand(1.0, 3);
    assert_eq!(b.phases(), [Phase::New]);
    assert_eq!(b.changes[0].event.number, Some(3.0));
    let reason = &b.changes[0].event.reason;
    assert!(
        reason.contains("over the limit of 2") && reason.contains("(limit 2 s)"),
        "{reason}"
    );
    b.show(&standing(2));
    b.stand(1.0, 3);
    assert_eq!(b.phases(), [Phase::New]);
    b.stand(3.0, 2);
    assert_eq!(b.phases(), NEW_END);
}

#[test]
fn count_ends_in_an_outage() {
    let mut b = Bench::new(&[rule(count(CountBound::Over(0), 60.0))]);
    b.show_when([0, 1, 120], &standing(1));
    assert!(b.changes.is_empty(), "{:?}", b.changes);
    // From here on it has held for a minute.
    b.show_when(121..=180, &standing(1));
    assert_eq!(b.phases(), [Phase::New]);
    // The event ends at the last sighting before the next outage; what follows is another event.
    b.show_when(800..=861, &standing(1));
    assert_eq!(b.phases(), [Phase::New, Phase::End, Phase::New]);
    let end = &b.changes.iter().find(|c| c.phase == Phase::End).unwrap();
    let reason = &end.event.reason;
    assert!(reason.contains("held for 60.0 s; no data"), "{reason}");
}

#[test]
fn periodic_detection_makes_one_event_each() {
    let looks = |from: u32, to: u32| (from..to).map(|look| look * 5);
    for (when, told) in [
        (appears(), 1),
        (enters(), 2),
        (leaves(), 0),
        (stays(20.0), 1),
        (count(CountBound::Over(0), 20.0), 1),
    ] {
        let mut b = Bench::new(&[rule(when.clone())]);
        b.show_when(looks(0, 20), &standing(1));
        // Two detections in a row miss it.
        b.show_when(looks(20, 22), &standing(0));
        b.show_when(looks(22, 30), &standing(1));
        assert_eq!(b.phases().len(), told, "{when:?} {:?}", b.phases());
        b.show_when(looks(30, 40), &standing(0));
        assert_eq!(b.phases(), NEW_END, "{when:?}");
    }
}

#[test]
fn count_under_a_bound_holds_in_an_empty_scene() {
    let mut b = Bench::new(&[rule(count(CountBound::Under(1), 3.0))]);
    b.stand(2.0, 1);
    b.stand(4.0, 0);
    assert_eq!(b.phases(), [Phase::New]);
    assert_eq!(b.changes[0].event.number, Some(0.0));
    // A box of one frame may be wrong; an object that stays for a second is there.
    b.show(&standing(1));
    b.stand(2.0, 0);
    assert_eq!(b.phases(), [Phase::New]);
    b.stand(1.0, 1);
    b.stand(4.0, 0);
    assert_eq!(b.phases(), [Phase::New, Phase::End, Phase::New]);
    let end = &b.changes[1].event.reason;
    assert!(end.contains("the condition ended"), "{end}");
}

#[test]
fn growing_count_is_updated_at_intervals() {
    let mut b = Bench::new(&[rule(count(CountBound::Over(1), 1.0))]);
    b.stand(3.0, 2);
    for n in 3..9 {
        b.stand(1.0, n);
    }
    let updates = b
        .changes
        .iter()
        .filter(|c| c.phase == Phase::Update)
        .count();
    assert!((1..=3).contains(&updates), "{updates}");
}

#[test]
fn value_rule_reads_number_or_boolean() {
    for (test, low, high) in [
        (ValueTest::Over(5.0), 5.0, 6.0),
        (ValueTest::Under(1.0), 1.0, 0.0),
        (ValueTest::Is(true), 0.0, 1.0),
    ] {
        let mut b = Bench::new(&[rule(value(test, 1.0))]);
        let shot = |v| Shot {
            value: Some(v),
            ..Shot::default()
        };
        b.hold(2.0, &shot(low));
        assert!(b.changes.is_empty());
        b.hold(2.5, &shot(high));
        assert_eq!(b.phases(), [Phase::New], "{test:?}");
        b.hold(2.5, &shot(low));
        assert_eq!(b.phases(), NEW_END);
    }
}

#[test]
fn skipped_step_is_unknown_until_the_grace_is_over() {
    let mut b = Bench::new(&[rule(value(ValueTest::Is(true), 0.0))]);
    b.hold(
        2.0,
        &Shot {
            value: Some(1.0),
            ..Shot::default()
        },
    );
    b.hold(1.9, &Shot::default());
    assert_eq!(b.phases(), [Phase::New]);
    b.hold(0.5, &Shot::default());
    assert_eq!(b.phases(), NEW_END);
}

#[test]
fn only_the_rule_s_classes_and_confidences_count() {
    let band = Some(Band { min: 0.7, max: 0.9 });
    for (class, score, expected) in [
        ("person", 0.8, 1),
        ("car", 0.8, 0),
        ("person", 0.6, 0),
        ("person", 0.95, 0),
    ] {
        let spec = RuleSpec {
            classes: vec!["person".into()],
            confidence: band,
            ..rule(enters())
        };
        let mut b = Bench::new(&[spec]);
        let mut shot = standing(1);
        shot.boxes[0].class = class.into();
        shot.boxes[0].confidence = score;
        b.hold(3.0, &shot);
        b.finish();
        assert_eq!(b.phases().len(), 2 * expected, "{class} {score}");
    }
}

#[test]
fn event_after_a_cool_down_counts_suppressed_ones() {
    let mut b = Bench::new(&[RuleSpec {
        cooldown_s: 15.0,
        ..rule(enters())
    }]);
    for _ in 0..4 {
        b.stand(2.0, 1);
        b.stand(3.0, 0);
    }
    let held: Vec<u32> = b
        .changes
        .iter()
        .filter(|c| c.phase == Phase::New)
        .map(|c| c.event.held_back)
        .collect();
    assert_eq!(held, [0, 2]);
}

#[test]
fn cool_down_of_one_track_leaves_others_alone() {
    let mut b = Bench::new(&[RuleSpec {
        cooldown_s: 100.0,
        ..rule(enters())
    }]);
    b.stand(3.0, 1);
    b.stand(3.0, 2);
    assert_eq!(b.phases().len(), 4);
}

#[test]
fn shared_cool_down_suppresses_other_tracks() {
    let mut b = Bench::new(&[RuleSpec {
        cooldown_s: 100.0,
        shared_cooldown: true,
        ..rule(enters())
    }]);
    b.stand(3.0, 1);
    b.stand(3.0, 2);
    b.stand(3.0, 3);
    assert_eq!(b.phases(), [Phase::New, Phase::End]);
}

#[test]
fn track_present_after_a_shared_cool_down_makes_an_event() {
    let mut b = Bench::new(&[RuleSpec {
        cooldown_s: 10.0,
        shared_cooldown: true,
        ..rule(appears())
    }]);
    b.stand(3.0, 1);
    b.stand(12.0, 2);
    let new = b.changes.iter().filter(|c| c.phase == Phase::New);
    let new: Vec<_> = new.map(|c| &c.event).collect();
    assert_eq!(new.iter().map(|e| e.held_back).sum::<u32>(), 0);
    let reason = &new[1].reason;
    assert!(reason.starts_with("person #2 was first seen "), "{reason}");
    assert!(new[1].dwell_s.is_some_and(|s| s > 6.0), "{:?}", new[1]);
}

#[test]
fn condition_that_outlasts_the_cool_down_makes_a_late_event() {
    let mut b = Bench::new(&[RuleSpec {
        cooldown_s: 8.0,
        ..rule(count(CountBound::Over(0), 0.0))
    }]);
    b.stand(2.0, 1);
    b.stand(3.0, 0);
    b.stand(6.0, 1);
    assert_eq!(b.phases(), [Phase::New, Phase::End, Phase::New]);
    let reason = &b.changes[0].event.reason;
    assert!(
        reason.starts_with("1 object, over the limit of 0, for ") && reason.ends_with(" s"),
        "{reason}"
    );
}

#[test]
fn critical_rule_has_no_cool_down() {
    let spec = RuleSpec {
        cooldown_s: 1000.0,
        severity: Severity::Critical,
        ..rule(enters())
    };
    let mut b = Bench::new(&[spec]);
    for _ in 0..3 {
        b.stand(2.0, 1);
        b.stand(3.0, 0);
    }
    assert_eq!(b.phases().len(), 6);
}

#[test]
fn objects_in_an_ignored_area_make_no_event() {
    // The middle of the lower edge of the first person is at 80, 200 of 640 x 480.
    let ignoring = |area: [f64; 4], when| RuleSpec {
        ignore: vec![[0.9, 0.9, 1.0, 1.0], area],
        ..rule(when)
    };
    let on_it = [0.1, 0.4, 0.15, 0.45];
    let above_it = [0.1, 0.3, 0.15, 0.41];
    for (area, when, events) in [
        (on_it, enters(), 0),
        (above_it, enters(), 1),
        (on_it, count(CountBound::Over(0), 0.0), 0),
        (above_it, count(CountBound::Over(0), 0.0), 1),
    ] {
        let is_about_tracks = matches!(when, Condition::Enters { .. });
        let mut b = Bench::new(&[ignoring(area, when)]);
        b.stand(3.0, 1);
        b.finish();
        let began = b.changes.iter().filter(|c| c.phase == Phase::New);
        assert_eq!(began.count(), events, "{area:?}");
        let ignored = b.rules.suppressed().in_ignored_area;
        assert_eq!(
            ignored,
            u64::from(is_about_tracks && events == 0),
            "{area:?}"
        );
    }
}

#[test]
fn object_that_leaves_an_ignored_area_makes_its_event() {
    let mut b = Bench::new(&[RuleSpec {
        ignore: vec![[0.0, 0.0, 0.2, 1.0]],
        ..rule(appears())
    }]);
    b.stand(3.0, 1);
    assert_eq!(b.phases(), []);
    let mut outside = standing(1);
    outside.boxes[0] = person(1, 300.0);
    b.hold(1.0, &outside);
    b.finish();
    assert_eq!(b.phases(), NEW_END);
    assert_eq!(b.rules.suppressed().in_ignored_area, 0);
}

#[test]
fn calibrated_event_has_both_confidences() {
    let specs = [true, false].map(|calibrate| RuleSpec {
        name: format!("calibrated {calibrate}"),
        calibrate,
        ..rule(enters())
    });
    let mut b = Bench::new(&specs);
    let calibration = Calibration {
        approved: 5,
        rejected: 20,
        slope: 1.0,
        offset: -2.0,
    };
    let by_rule = specs.iter().map(|spec| (spec.name.clone(), calibration));
    b.rules.set_calibrations(&by_rule.collect());
    b.stand(3.0, 1);
    let new_of = |spec: &RuleSpec| {
        let mut changes = b.changes.iter();
        let found = changes.find(|c| c.phase == Phase::New && c.event.rule == spec.name);
        found.unwrap()
    };
    let [calibrated, plain] = specs.each_ref().map(new_of);
    assert_eq!(plain.decision.raw_confidence, None);
    // It waits for more evidence, because its verdict is lower.
    let raw = calibrated.decision.raw_confidence.unwrap();
    assert!(raw >= plain.decision.confidence, "{raw}");
    assert_eq!(calibrated.decision.confidence, apply(&calibration, raw));
    assert!(calibrated.decision.verdict < plain.decision.verdict);
}

#[test]
fn hourly_limit_counts_what_it_suppresses_and_moves_on() {
    let limited = |severity| RuleSpec {
        max_per_hour: Some(2),
        severity,
        ..rule(enters())
    };
    let mut b = Bench::new(&[limited(Severity::Info)]);
    for _ in 0..4 {
        b.stand(2.0, 1);
        b.stand(3.0, 0);
    }
    assert_eq!(b.phases().len(), 4, "two events");
    assert_eq!(b.rules.suppressed().over_hourly_limit, 2);
    // An hour after the first event.
    b.frame += (3600.0 * FPS) as u64;
    b.stand(2.0, 1);
    let held = b.changes.iter().filter(|c| c.phase == Phase::New);
    assert_eq!(
        held.map(|c| c.event.held_back).collect::<Vec<_>>(),
        [0, 0, 2]
    );

    let mut b = Bench::new(&[limited(Severity::Critical)]);
    for _ in 0..4 {
        b.stand(2.0, 1);
        b.stand(3.0, 0);
    }
    assert_eq!(b.phases().len(), 8);
}

#[test]
fn wrong_areas_and_limits_are_refused() {
    let ignoring = |ignore, when| RuleSpec {
        ignore,
        ..rule(when)
    };
    let limited = |most| RuleSpec {
        max_per_hour: Some(most),
        ..rule(enters())
    };
    let value = Condition::Value {
        value: VALUE.into(),
        test: ValueTest::Over(1.0),
        for_s: 0.0,
    };
    let all = [0.0, 0.0, 1.0, 1.0];
    for (spec, field) in [
        (ignoring(vec![all; 17], enters()), "rules[0].ignore"),
        (ignoring(vec![all], value), "rules[0].ignore"),
        (
            ignoring(vec![all, [0.5, 0.0, 0.5, 1.0]], enters()),
            "rules[0].ignore[1]",
        ),
        (
            ignoring(vec![[0.0, 0.0, 1.1, 1.0]], enters()),
            "rules[0].ignore[0]",
        ),
        (
            ignoring(vec![[f64::NAN, 0.0, 1.0, 1.0]], enters()),
            "rules[0].ignore[0]",
        ),
        (limited(0), "rules[0].max_per_hour"),
        (limited(3601), "rules[0].max_per_hour"),
    ] {
        assert_eq!(errors(spec)[0].field, field);
    }
    assert!(RuleSet::new(&[ignoring(vec![all; 16], enters())], &facts()).is_ok());
}

#[test]
fn inactive_rule_makes_no_event_and_ends_the_open_one() {
    let schedule = Some(Schedule {
        days: vec![Weekday::Tue],
        from: "22:00".into(),
        to: "06:00".into(),
    });
    let mut b = Bench::new(&[
        RuleSpec {
            schedule: schedule.clone(),
            ..rule(count(CountBound::Over(0), 1.0))
        },
        RuleSpec {
            name: "second".into(),
            schedule,
            ..rule(enters())
        },
    ]);
    b.stand(4.0, 1);
    assert!(b.changes.is_empty());
    let at_hour = |hour: u16| {
        Some(LocalTime {
            weekday: Weekday::Wed,
            minute_of_day: hour * 60,
        })
    };
    b.local = at_hour(1);
    b.stand(1.0, 1);
    assert_eq!(
        b.phases(),
        [Phase::New],
        "the count holds; entering was before"
    );
    b.local = at_hour(6);
    b.stand(1.0, 1);
    assert_eq!(b.phases(), NEW_END);
}

#[test]
fn wrong_clock_keeps_no_scheduled_rule_from_firing() {
    let night = Schedule {
        days: vec![],
        from: "22:00".into(),
        to: "06:00".into(),
    };
    let rule = RuleSpec {
        schedule: Some(night),
        ..rule(count(CountBound::Over(0), 1.0))
    };
    let mut b = Bench::new(&[rule]);
    b.stand(4.0, 1);
    assert!(b.changes.is_empty(), "noon");
    b.local = None;
    b.stand(1.0, 1);
    assert_eq!(b.phases(), [Phase::New]);
}

#[test]
fn weak_evidence_is_counted_without_event() {
    let mut b = Bench::new(&[RuleSpec {
        gates: Gates {
            act: 0.99,
            record: 0.99,
            review: 0.99,
            escalate: 0.99,
        },
        ..rule(enters())
    }]);
    let mut shot = standing(1);
    shot.boxes[0].confidence = 0.15;
    b.hold(2.0, &shot);
    b.stand(4.0, 0);
    assert!(b.changes.is_empty());
    assert_eq!(b.rules.discarded(), 1);
    let listed = b.rules.too_weak();
    assert_eq!(listed.len(), 1);
    assert!(listed[0].reason.contains("entered zone dock"), "{listed:?}");
}

#[test]
fn gates_of_zero_admit_everything() {
    let mut b = Bench::new(&[admitting(enters())]);
    b.stand(0.6, 1);
    assert_eq!(b.phases(), NEW_END);
    assert_eq!(b.changes[0].decision.verdict, Verdict::Record);
}

#[test]
fn only_an_escalated_event_has_terms_for_a_second_opinion() {
    let gates = Gates {
        act: 1.0,
        record: 1.0,
        review: 1.0,
        escalate: 0.0,
    };
    for (gates, asks) in [
        (Gates::default(), None),
        (
            gates,
            Some(Asks {
                gates,
                may_lower: true,
                below_gates: BelowGates::Discard,
            }),
        ),
    ] {
        let mut b = Bench::new(&[RuleSpec {
            gates,
            second_opinion_may_lower: true,
            ..rule(enters())
        }]);
        b.stand(4.0, 1);
        let decisions: Vec<_> = b.changes.iter().map(|c| &c.decision).collect();
        assert!(!decisions.is_empty());
        for decision in decisions {
            assert_eq!(decision.asks, asks, "{}", decision.reason);
        }
    }
}

#[test]
fn critical_rule_refuses_second_opinion_may_lower() {
    let spec = RuleSpec {
        severity: Severity::Critical,
        second_opinion_may_lower: true,
        ..rule(enters())
    };
    assert_eq!(errors(spec)[0].field, "rules[0].second_opinion_may_lower");
}

#[test]
fn every_record_names_the_channels_of_its_rule() {
    let channel = |name: &str| ChannelId::new(name).unwrap();
    let notify = vec![channel("security"), channel("yard")];
    let on_act = vec![channel("siren")];
    let mut b = Bench::new(&[RuleSpec {
        notify: notify.clone(),
        on_act: on_act.clone(),
        ..rule(stays(1.0))
    }]);
    b.stand(3.0, 1);
    b.finish();
    assert_eq!(b.phases(), [Phase::New, Phase::End]);
    assert!(b.changes.iter().all(|c| c.event.notify == notify));
    assert!(b.changes.iter().all(|c| c.event.on_act == on_act));
}

#[test]
fn below_the_last_gate_a_person_decides_where_the_rule_says_so() {
    let strict = Gates {
        act: 1.0,
        record: 1.0,
        review: 1.0,
        escalate: 1.0,
    };
    for below_gates in [BelowGates::Discard, BelowGates::Review] {
        let mut b = Bench::new(&[RuleSpec {
            gates: strict,
            below_gates,
            ..rule(enters())
        }]);
        b.stand(4.0, 1);
        let verdicts: Vec<_> = b.changes.iter().map(|c| c.decision.verdict).collect();
        match below_gates {
            BelowGates::Discard => assert_eq!(verdicts, []),
            BelowGates::Review => {
                assert_eq!(verdicts.first(), Some(&Verdict::Review));
                let reason = &b.changes[0].decision.reason;
                assert!(reason.contains("lets a person decide"), "{reason}");
            }
        }
    }
}

#[test]
fn unknown_channel_is_refused_with_the_nearest() {
    let channel = |name: &str| ChannelId::new(name).unwrap();
    let known = [channel("security"), channel("yard")];
    let specs = [
        rule(enters()),
        RuleSpec {
            notify: vec![channel("yard"), channel("securty")],
            ..rule(enters())
        },
    ];
    let found = unknown_channels(&specs, &known);
    let [error] = found.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!(error.field, "rules[1].notify[1]");
    assert_eq!(error.nearest.as_deref(), Some("security"));
    assert_eq!(error.allowed, ["security", "yard"]);

    let many = (0..=MAX_CHANNELS).map(|n| channel(&format!("c{n}")));
    let spec = RuleSpec {
        notify: many.collect(),
        ..rule(enters())
    };
    assert_eq!(errors(spec)[0].field, "rules[0].notify");
}

#[test]
fn only_the_new_record_requests_a_clip() {
    let clip = ClipSpec {
        before_s: 8.0,
        after_s: 4.0,
        ..ClipSpec::default()
    };
    let specs = [
        rule(appears()),
        RuleSpec {
            name: "filmed".into(),
            clip: Some(clip),
            ..rule(stays(2.0))
        },
    ];
    let mut b = Bench::new(&specs);
    assert_eq!(b.rules.pre_roll_s(), Some(8.0));
    b.stand(3.0, 1);
    b.finish();
    let asked = b.changes.iter().map(|c| (&*c.event.rule, c.phase, c.clip));
    let asked = asked.filter(|(.., clip)| clip.is_some());
    assert_eq!(
        asked.collect::<Vec<_>>(),
        [("filmed", Phase::New, Some(clip))]
    );
    assert_eq!(Bench::new(&specs[..1]).rules.pre_roll_s(), None);
}

#[test]
fn clip_out_of_bounds_is_refused_with_the_bounds() {
    let asked = |before_s, after_s| RuleSpec {
        clip: Some(ClipSpec {
            before_s,
            after_s,
            ..ClipSpec::default()
        }),
        ..rule(enters())
    };
    for (before_s, after_s) in [(0.0, 1.0), (5.0, 10.0), (30.0, 90.0), (1.0, 0.0)] {
        assert!(RuleSet::new(&[asked(before_s, after_s)], &facts()).is_ok());
    }
    for (before_s, after_s, field, says) in [
        (31.0, 5.0, "rules[0].clip.before_s", "0 to 30 seconds"),
        (-1.0, 5.0, "rules[0].clip.before_s", "0 to 30 seconds"),
        (f64::NAN, 5.0, "rules[0].clip.before_s", "0 to 30 seconds"),
        (5.0, -1.0, "rules[0].clip.after_s", "0 or more"),
        (5.0, f64::INFINITY, "rules[0].clip.after_s", "0 or more"),
        (
            30.0,
            90.5,
            "rules[0].clip.after_s",
            "1 to 120 seconds; they are 120.5",
        ),
        (
            0.0,
            0.5,
            "rules[0].clip.after_s",
            "1 to 120 seconds; they are 0.5",
        ),
    ] {
        let errors = errors(asked(before_s, after_s));
        assert_eq!(errors[0].field, field, "{before_s} {after_s}");
        assert!(errors[0].message.contains(says), "{}", errors[0]);
    }
}

#[test]
fn looping_source_does_not_freeze_the_clock() {
    let mut b = Bench::new(&[rule(stays(2.0))]);
    b.stand(1.5, 1);
    b.frame = 0;
    b.stand(1.5, 1);
    assert_eq!(b.phases(), [Phase::New]);
}

fn errors(spec: RuleSpec) -> Vec<RuleError> {
    RuleSet::new(&[spec], &facts()).unwrap_err()
}

#[test]
fn rules_beyond_their_bounds_are_refused() {
    let appears = || {
        rule(Condition::Appears {
            detections: TRACKED.into(),
        })
    };
    let with_classes = |count: usize| {
        let classes = (0..count).map(|n| format!("class-{n}")).collect();
        RuleSpec {
            classes,
            ..appears()
        }
    };
    assert!(RuleSet::new(&[with_classes(MAX_CLASSES)], &facts()).is_ok());
    let refused = &errors(with_classes(MAX_CLASSES + 1))[0];
    assert_eq!(refused.field, "rules[0].classes");
    assert!(refused.message.contains("use at most 2000"), "{refused}");
    let many: Vec<RuleSpec> = (0..=MAX_RULES)
        .map(|n| RuleSpec {
            name: format!("rule {n}"),
            ..appears()
        })
        .collect();
    assert!(RuleSet::new(&many[1..], &facts()).is_ok());
    let refused = &RuleSet::new(&many, &facts()).unwrap_err()[0];
    assert_eq!(
        (refused.field.as_str(), refused.value.as_str()),
        ("rules", "201")
    );
    let mut every_day = appears();
    every_day.schedule = serde_json::from_value(serde_json::json!(
        {"from": "07:00", "to": "08:00", "days": vec!["mon"; 8]}
    ))
    .ok();
    assert_eq!(errors(every_day)[0].field, "rules[0].schedule.days");
}

#[test]
fn misspelt_name_is_refused_with_the_nearest() {
    for (spec, field, nearest) in [
        (
            rule(Condition::Enters { zone: "dok".into() }),
            "rules[0].when.zone",
            "dock",
        ),
        (
            rule(Condition::Crosses {
                line: "gates".into(),
                direction: CrossDirection::Any,
            }),
            "rules[0].when.line",
            "gate",
        ),
        (
            rule(Condition::Appears {
                detections: "$steps.traker.tracked_detections".into(),
            }),
            "rules[0].when.detections",
            TRACKED,
        ),
    ] {
        let e = errors(spec);
        assert_eq!(e.len(), 1, "{e:?}");
        assert_eq!(
            (e[0].field.as_str(), e[0].nearest.as_deref()),
            (field, Some(nearest))
        );
    }
}

#[test]
fn invalid_numbers_are_all_reported_at_once() {
    let spec = RuleSpec {
        name: String::new(),
        cooldown_s: f64::NAN,
        confidence: Some(Band { min: 0.9, max: 0.1 }),
        gates: Gates {
            act: 0.1,
            ..Gates::default()
        },
        schedule: Some(Schedule {
            days: vec![],
            from: "25:00".into(),
            to: "06:00".into(),
        }),
        ..rule(count(CountBound::Under(0), -1.0))
    };
    let fields: Vec<String> = errors(spec).into_iter().map(|e| e.field).collect();
    for field in [
        "name",
        "cooldown_s",
        "confidence",
        "gates",
        "schedule.from",
        "when.for_s",
        "when.bound",
    ] {
        assert!(
            fields.contains(&format!("rules[0].{field}")),
            "{field} {fields:?}"
        );
    }
}

#[test]
fn wrong_kind_and_duplicate_name_are_refused() {
    let text = Condition::Value {
        value: "$steps.note.text".into(),
        test: ValueTest::Over(1.0),
        for_s: 0.0,
    };
    assert_eq!(errors(rule(text))[0].message, "is not a number");
    let e = RuleSet::new(&[rule(appears()), rule(enters())], &facts()).unwrap_err();
    assert_eq!(e[0].field, "rules[1].name");
}

#[test]
fn two_rules_on_one_value_share_a_need() {
    let no_zones = WorkflowFacts {
        zones: vec![],
        ..facts()
    };
    let specs = [
        rule(value(ValueTest::Over(1.0), 0.0)),
        RuleSpec {
            name: "b".into(),
            ..rule(value(ValueTest::Is(true), 0.0))
        },
    ];
    let b = Bench::with(&specs, &no_zones);
    assert_eq!(b.rules.needs().len(), 1);
    assert_eq!(b.rules.needs()[0].kind, NeedKind::NumberOrBoolean);
}

fn all_rules(cooldown_s: f64) -> Vec<RuleSpec> {
    let conditions = [
        appears(),
        enters(),
        leaves(),
        stays(1.0),
        crosses(CrossDirection::Any),
        count(CountBound::Over(1), 0.5),
        value(ValueTest::Over(0.5), 0.2),
    ];
    let named = |(i, when)| RuleSpec {
        name: format!("r{i}"),
        cooldown_s,
        ..rule(when)
    };
    conditions.into_iter().enumerate().map(named).collect()
}

#[test]
fn one_scene_triggers_every_kind_of_rule() {
    let mut b = Bench::new(&all_rules(0.0));
    b.hold(
        3.0,
        &Shot {
            value: Some(1.0),
            ..standing(3)
        },
    );
    b.show(&Shot {
        crossed_in: vec![2],
        ..standing(3)
    });
    b.stand(3.0, 0);
    b.finish();
    let ended = b.changes.iter().filter(|c| c.phase == Phase::End);
    let mut told: Vec<&str> = ended.map(|c| c.event.condition.as_str()).collect();
    told.sort_unstable();
    told.dedup();
    assert_eq!(
        told,
        [
            "appears", "count", "crosses", "enters", "leaves", "stays", "value"
        ]
    );
}

#[test]
fn boxes_that_a_zone_keeps_outside_are_not_in_it() {
    let counted = count(CountBound::Over(0), 0.0);
    let Condition::Count { bound, for_s, .. } = counted else {
        unreachable!()
    };
    let detections = "$steps.dock.timed_detections".into();
    let inside = Condition::Count {
        detections,
        bound,
        for_s,
    };
    let mut b = Bench::new(&[rule(leaves()), RuleSpec::new("inside".into(), inside)]);
    let shot = |outside_zone: bool| {
        let mut shot = standing(1);
        shot.boxes[0].time_in_zone = Some(0.0);
        shot.boxes[0].outside_zone = outside_zone;
        shot
    };
    b.hold(3.0, &shot(true));
    assert!(b.changes.is_empty());
    b.hold(3.0, &shot(false));
    assert!(!b.changes.is_empty() && b.changes.iter().all(|c| c.event.rule == "inside"));
    b.hold(3.0, &shot(true));
    let ended = b.changes.iter().filter(|c| c.phase == Phase::End);
    assert_eq!(ended.count(), 2);
}

#[test]
fn zone_without_known_tracker_makes_events() {
    let mut facts = facts();
    facts.zones[0].detections = None;
    let mut b = Bench::with(&[rule(stays(2.0))], &facts);
    assert_eq!(b.rules.needs().len(), 1);
    b.stand(3.0, 1);
    assert_eq!(b.phases(), [Phase::New]);
    assert!(b.changes[0].decision.verdict >= Verdict::Record);
}

#[test]
fn doubtful_event_is_updated_with_more_evidence() {
    let mut b = Bench::new(&[rule(appears())]);
    let mut shot = standing(1);
    shot.boxes[0].confidence = 0.36;
    b.hold(1.2, &shot);
    assert_eq!(b.phases(), [Phase::New]);
    let first = b.changes[0].decision.verdict;
    assert!(first < Verdict::Record, "{first:?}");
    shot.boxes[0].confidence = 0.9;
    b.hold(4.0, &shot);
    let last = b.changes.last().unwrap();
    assert_eq!(last.phase, Phase::Update);
    assert!(last.decision.verdict > first);
}

fn shot_strategy() -> impl Strategy<Value = Shot> {
    let object = (
        0i64..5,
        0.0f64..500.0,
        0.0f64..1.0,
        any::<[bool; 3]>(),
        proptest::num::f64::ANY,
        0u8..20,
    );
    (
        proptest::collection::vec(object, 0..5),
        proptest::option::of(-1.0f64..2.0),
    )
        .prop_map(|(objects, value)| {
            let mut shot = Shot {
                value,
                ..Shot::default()
            };
            for (track, x, score, [zone, ins, outs], odd, dice) in objects {
                let mut d = person(track, x);
                d.confidence = score;
                match dice {
                    0 => d.bbox.x2 = odd,
                    1 => d.confidence = odd,
                    2 => d.track = None,
                    3 => d.class = "car".into(),
                    _ => {}
                }
                shot.boxes.push(d);
                for (on, list) in [
                    (zone, &mut shot.in_zone),
                    (ins && dice > 15, &mut shot.crossed_in),
                    (outs && dice > 15, &mut shot.crossed_out),
                ] {
                    if on {
                        list.push(track);
                    }
                }
            }
            shot
        })
}

/// Shots, each for a random span of time.
fn film() -> impl Strategy<Value = Vec<(Shot, u8)>> {
    proptest::collection::vec((shot_strategy(), 1u8..40), 1..20)
}

fn play(film: &[(Shot, u8)], cooldown_s: f64, backwards: bool) -> Vec<Change> {
    let mut b = Bench::new(&all_rules(cooldown_s));
    for (shot, frames) in film {
        let mut shot = shot.clone();
        if backwards {
            shot.boxes.reverse();
        }
        for _ in 0..*frames {
            b.show(&shot);
        }
    }
    b.finish();
    b.changes
}

/// Somebody at a place: how long in frames, whether in sight, and whether under a new track after.
type Scene = (u8, bool, bool);

/// Plays people, each in their own place; returns the bench before the end of the source.
fn play_people(rules: &[RuleSpec], people: &[Vec<Scene>], step_ms: u8) -> Bench {
    let mut b = Bench::new(rules);
    let mut next_track = people.len() as i64;
    let mut now: Vec<(i64, usize, u8)> = (0..next_track).map(|track| (track, 0, 0)).collect();
    for frame in 0..400_u32 {
        let mut shot = Shot::default();
        for (place, (scenes, (track, scene, spent))) in people.iter().zip(&mut now).enumerate() {
            let Some(&(frames, in_sight, renamed)) = scenes.get(*scene) else {
                continue;
            };
            if in_sight {
                let sway = f64::from(frame % 7);
                shot.boxes.push(person(*track, place as f64 * 150.0 + sway));
                shot.in_zone.push(*track);
            }
            *spent += 1;
            if *spent >= frames {
                (*scene, *spent) = (*scene + 1, 0);
                if renamed {
                    *track = next_track;
                    next_track += 1;
                }
            }
        }
        b.frame += 1;
        let at = Moment {
            time_s: f64::from(frame) * f64::from(step_ms) / 1e3,
            ..b.moment()
        };
        b.show_at(&at, &shot);
    }
    b
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn events_and_visits_of_a_zone_are_equal(
        people in proptest::collection::vec(
            proptest::collection::vec((1u8..40, any::<bool>(), any::<bool>()), 1..20), 1..5,
        ),
        step_ms in 20u8..250,
    ) {
        let named = |name: &str, when| RuleSpec { name: name.into(), ..admitting(when) };
        let rules = [admitting(enters()), named("leaves", leaves()), named("stays", stays(2.0))];
        let mut b = play_people(&rules, &people, step_ms);
        let told = |b: &Bench, condition: &str| -> Vec<Change> {
            let those = b.changes.iter();
            let those = those.filter(|c| c.phase == Phase::New && c.event.condition == condition);
            those.cloned().collect()
        };
        let dock = b.dock();
        prop_assert_eq!(told(&b, "enters").len() as u64, dock.count);
        let left = told(&b, "leaves");
        prop_assert_eq!(left.len() as u64, dock.count - u64::from(dock.present));
        b.finish();
        let dock = b.dock();
        prop_assert_eq!((told(&b, "enters").len() as u64, dock.present), (dock.count, 0));
        prop_assert_eq!(told(&b, "leaves").len(), left.len());
        let long = dock.visits.iter().filter(|v| v.dwell_s >= 2.0).count();
        prop_assert_eq!(told(&b, "stays").len(), long);
        let mut visits = dock.visits;
        for event in left.iter().map(|c| &c.event) {
            let is_it = |v: &Visit| v.track == event.tracks[0] && Some(v.dwell_s) == event.dwell_s;
            let its = visits.iter().position(is_it);
            prop_assert!(its.is_some(), "{:?}", event);
            if let Some(its) = its {
                visits.swap_remove(its);
            }
        }
    }

    #[test]
    fn each_visit_makes_an_event_or_is_counted_by_its_reason(
        people in proptest::collection::vec(
            proptest::collection::vec((1u8..40, any::<bool>(), any::<bool>()), 1..20), 1..5,
        ),
        step_ms in 20u8..250,
        cooldown_s in 0.0f64..20.0,
        [shared_cooldown, is_active, is_accepted, is_ignored] in any::<[bool; 4]>(),
        max_per_hour in proptest::option::of(1u32..4),
    ) {
        let rule = RuleSpec {
            cooldown_s,
            shared_cooldown,
            max_per_hour,
            ignore: if is_ignored { vec![[0.0, 0.0, 1.0, 1.0]] } else { vec![] },
            classes: if is_accepted { vec![] } else { vec!["car".into()] },
            schedule: (!is_active).then(|| Schedule {
                days: vec![Weekday::Sun],
                from: "00:00".into(),
                to: "06:00".into(),
            }),
            ..rule(enters())
        };
        let mut b = play_people(&[rule], &people, step_ms);
        b.finish();
        let events = b.changes.iter().filter(|c| c.phase == Phase::New).count() as u64;
        let other = b.rules.suppressed();
        let reasons = [
            other.cooling_down,
            other.inactive,
            other.not_accepted,
            other.in_ignored_area,
            other.over_hourly_limit,
        ];
        let sum = events + b.rules.discarded() + reasons.iter().sum::<u64>();
        prop_assert_eq!(sum, b.dock().count, "{} {:?}", events, other);
        prop_assert!(is_accepted || other.not_accepted == b.dock().count, "{:?}", other);
        prop_assert!(is_active || events == 0);
        prop_assert!(!is_ignored || !is_accepted || other.in_ignored_area == b.dock().count);
        prop_assert!(max_per_hour.is_none_or(|most| events <= u64::from(most)));
    }

    #[test]
    fn each_event_begins_and_ends_once_under_its_own_id(
        film in film(), cooldown_s in 0.0f64..5.0,
    ) {
        let mut lives: BTreeMap<EventId, Vec<Phase>> = BTreeMap::new();
        for c in play(&film, cooldown_s, false) {
            prop_assert!(c.decision.verdict > Verdict::Discard);
            prop_assert!((0.0..=1.0).contains(&c.decision.confidence));
            prop_assert!(!c.event.reason.is_empty() && !c.evidence.is_empty());
            lives.entry(c.id).or_default().push(c.phase);
        }
        for (id, phases) in lives {
            prop_assert_eq!(phases.first(), Some(&Phase::New), "{}", id);
            prop_assert_eq!(phases.last(), Some(&Phase::End), "{}", id);
            let between = &phases[1..phases.len() - 1];
            prop_assert!(between.iter().all(|p| *p == Phase::Update), "{} {:?}", id, phases);
        }
    }

    #[test]
    fn order_of_boxes_makes_no_difference(film in film()) {
        let (a, b) = (play(&film, 1.0, false), play(&film, 1.0, true));
        // Compared as text, because a NaN is not equal to itself.
        prop_assert_eq!(format!("{a:?}"), format!("{b:?}"));
    }

    #[test]
    fn any_time_is_handled(
        times in proptest::collection::vec(proptest::num::f64::ANY, 1..40), shot in shot_strategy(),
    ) {
        let mut b = Bench::new(&all_rules(0.0));
        for time_s in times {
            b.show_at(&Moment { time_s, ..b.moment() }, &shot);
        }
        b.finish();
    }
}

fn chain(names: &[&str]) -> Option<Box<DecideSpec>> {
    Some(Box::new(DecideSpec {
        chain: names.iter().map(|name| (*name).to_owned()).collect(),
        stop_at: StopAt::Record,
        code: None,
        text: Some(READ.to_owned()),
        weights: BTreeMap::new(),
    }))
}

#[test]
fn event_with_chain_escalates_and_carries_readings() {
    let mut b = Bench::new(&[RuleSpec {
        decide: chain(&["text", "members"]),
        ..rule(enters())
    }]);
    b.stand(3.0, 1);
    let began = b.changes.iter().find(|c| c.phase == Phase::New).unwrap();
    assert_eq!(began.decision.verdict, Verdict::Escalate, "{began:?}");
    assert!(began.decision.asks.is_some());
    assert!(began.decision.reason.starts_with("its chain decides"));
    let [reading] = began.event.readings.as_slice() else {
        panic!("{began:?}");
    };
    assert_eq!(
        (reading.kind, &*reading.value),
        (ReadingKind::Text, "AB 123")
    );
    assert_eq!(began.event.decide, chain(&["text", "members"]));
    let ended = b.changes.iter().find(|c| c.phase == Phase::End).unwrap();
    assert!(ended.event.readings.is_empty() && ended.event.decide.is_none());
}

/// A number is an output too, and is refused as a reading.
#[test]
fn unknown_selector_names_only_outputs_that_fit() {
    let counted = "$steps.gate.count_in";
    let outputs = [TRACKED, VALUE, counted, READ, "$steps.note.text"];
    let facts = WorkflowFacts {
        selectors: outputs.map(String::from).to_vec(),
        ..facts()
    };
    let allowed = |spec: RuleSpec| {
        let errors = RuleSet::new(&[spec], &facts).err().unwrap_or_default();
        errors
            .into_iter()
            .flat_map(|e| e.allowed)
            .collect::<Vec<_>>()
    };
    let mut decide = chain(&["text", "members"]).unwrap();
    decide.text = Some("$steps.gone.text".to_owned());
    let read = allowed(RuleSpec {
        decide: Some(decide),
        ..rule(enters())
    });
    assert_eq!(read, [TRACKED, VALUE, READ]);
    let measured = allowed(rule(Condition::Value {
        value: "$steps.gone.output".into(),
        test: ValueTest::Over(1.0),
        for_s: 0.0,
    }));
    assert_eq!(measured, [VALUE, counted]);
}

#[test]
fn wrong_chain_is_refused_with_its_field() {
    let check = |change: &dyn Fn(&mut DecideSpec)| {
        let mut decide = chain(&["text", "members"]).unwrap();
        change(&mut decide);
        let spec = RuleSpec {
            decide: Some(decide),
            ..rule(enters())
        };
        let errors = RuleSet::new(&[spec], &facts()).err().unwrap_or_default();
        errors.into_iter().map(|e| e.field).collect::<Vec<_>>()
    };
    let field = |change: &dyn Fn(&mut DecideSpec), field: &str| {
        assert_eq!(check(change), [format!("rules[0].decide.{field}")]);
    };
    assert_eq!(check(&|_| {}), Vec::<String>::new());
    field(&|d| d.chain.clear(), "chain");
    let many = |d: &mut DecideSpec| d.chain.extend((0..12).map(|nth| format!("table{nth}")));
    field(&many, "chain");
    field(&|d| d.chain[1] = "Members!".to_owned(), "chain[1]");
    let sets = |names: &str| {
        let source = format!("reference {names}");
        move |d: &mut DecideSpec| d.chain[1].clone_from(&source)
    };
    assert_eq!(check(&sets("staff,suppliers")), Vec::<String>::new());
    field(&sets("staff,staff"), "chain[1]");
    field(&sets("a,b,c,d,e,f,g,h,i"), "chain[1]");
    // Three good names that are too long for one source.
    field(
        &sets(&["a", "b", "c"].map(|of| of.repeat(40)).join(",")),
        "chain[1]",
    );
    field(&|d| d.chain.push("text".to_owned()), "chain[2]");
    field(&|d| d.chain.insert(0, "person".to_owned()), "chain[0]");
    field(&|d| d.chain = vec!["box".to_owned()], "chain");
    field(&|d| d.text = None, "text");
    field(&|d| d.text = Some("$steps.note.text".to_owned()), "text");
    field(&|d| d.text = Some("$steps.gone.text".to_owned()), "text");
    field(&|d| d.chain.push("code".to_owned()), "code");
    field(
        &|d| d.weights.extend([("text".to_owned(), 0.0)]),
        "weights.text",
    );
    field(
        &|d| d.weights.extend([("other".to_owned(), 0.5)]),
        "weights.other",
    );
}
