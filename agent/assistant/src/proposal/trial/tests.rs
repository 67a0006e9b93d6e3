//! Verdicts and remarks of trials.

use serde_json::{Value, json};

use super::*;

fn rule(when: Value) -> RuleSpec {
    serde_json::from_value(json!({"name": "told", "when": when})).unwrap()
}

fn free() -> RuleSpec {
    rule(json!({
        "kind": "count", "detections": "$steps.bay.timed_detections", "bound": {"under": 1}, "for_s": 3.0,
    }))
}

/// Four seconds with `present` objects in a zone.
fn glance(present: u32, events: u64) -> TrialStats {
    let zone = ZoneStats {
        visits: u64::from(present),
        present,
    };
    TrialStats {
        seconds: 4.0,
        frames: 20,
        tracks: Some(2),
        zones: [("bay".to_owned(), zone)].into(),
        events: [("told".to_owned(), events)].into(),
        ..TrialStats::default()
    }
}

fn spec(rule: RuleSpec) -> PipelineSpec {
    let spec = json!({"id": "bay", "source": "park", "workflow": {}, "rules": [rule]});
    serde_json::from_value(spec).unwrap()
}

fn word(seen: &TrialStats, rule: RuleSpec) -> Option<String> {
    seen.remark(&spec(rule))
}

#[test]
fn failed_step_makes_the_trial_inconclusive() {
    let mut blind = glance(0, 0);
    let fault = StepError {
        count: 20,
        message: "no memory".to_owned(),
    };
    blind.failures.insert("detect".to_owned(), fault);
    let enters = rule(json!({"kind": "enters", "zone": "bay"}));
    for rule in [free(), enters] {
        let said = "the trial is inconclusive: step detect failed 20 times";
        assert_eq!(word(&blind, rule).as_deref(), Some(said));
    }
}

#[test]
fn early_end_makes_the_trial_inconclusive() {
    for present in [0, 2] {
        let seen = TrialStats {
            seconds: 1.0,
            ended: Some("the recording ended".to_owned()),
            ..glance(present, 0)
        };
        let Some(said) = word(&seen, free()) else {
            panic!("{:?}", word(&seen, free()));
        };
        assert!(
            said.contains("inconclusive") && said.contains("the recording ended"),
            "{said}"
        );
    }
}

#[test]
fn unlisted_events_count() {
    let seen = TrialStats {
        more_events: 40,
        ..glance(1, 200)
    };
    assert!(
        seen.sentence().ends_with("240 events (told at least 200)"),
        "{}",
        seen.sentence()
    );
    let enters = rule(json!({"kind": "enters", "zone": "bay"}));
    let said = word(&seen, enters).unwrap();
    assert!(said.contains("at least 200 events"), "{said:?}");
    // They may be of the rule that waits for an empty zone.
    let others = TrialStats {
        more_events: 40,
        ..glance(2, 0)
    };
    assert_eq!(word(&others, free()), None);
}

#[test]
fn never_empty_zone_contradicts_the_request() {
    let said = word(&glance(2, 0), free()).unwrap();
    assert!(
        said.contains("bay was never empty") && said.contains("2 inside"),
        "{said}"
    );
    // A person came back after the event.
    assert_eq!(word(&glance(2, 1), free()), None);
    assert!(glance(2, 0).contradicts(&spec(free())));
    assert!(
        !glance(2, 1).contradicts(&spec(free())),
        "it was empty for a while"
    );
    assert!(!glance(0, 0).contradicts(&spec(free())));
}

#[test]
fn empty_zone_is_remarked_with_its_hold_time() {
    let said = |events| word(&glance(0, events), free()).unwrap();
    assert_eq!(said(1), "bay is empty now, so the event comes at once");
    assert_eq!(said(0), "bay is empty now, so the event comes after 3 s");
    let at_night = RuleSpec {
        schedule: serde_json::from_value(json!({"from": "22:00", "to": "06:00"})).unwrap(),
        ..free()
    };
    assert_eq!(word(&glance(0, 0), at_night), None);
}

#[test]
fn crowd_above_the_bound_is_remarked() {
    let crowd = |bound: u32| {
        let when = json!({"kind": "count", "detections": "$steps.bay.timed_detections", "bound": {"over": bound}});
        word(&glance(4, 1), rule(when))
    };
    let said = crowd(3).unwrap();
    assert!(said.contains("more than 3 in bay now (4)"), "{said:?}");
    assert_eq!(crowd(4), None);
}

#[test]
fn only_a_noisy_rule_is_remarked() {
    let enters = || rule(json!({"kind": "enters", "zone": "bay"}));
    let said = word(&glance(1, MIN_NOISY_EVENTS), enters()).unwrap();
    assert!(said.contains("5 events in 4 s"), "{said:?}");
    assert_eq!(word(&glance(1, MIN_NOISY_EVENTS - 1), enters()), None);
}

#[test]
fn quiet_scene_is_said_and_is_no_remark() {
    let enters = || rule(json!({"kind": "enters", "zone": "bay"}));
    let quiet = |seen: &TrialStats| seen.quiet(&spec(enters()));
    let elsewhere = quiet(&glance(0, 0)).unwrap();
    assert_eq!(elsewhere, "2 tracks during the trial, none in bay");
    let empty = TrialStats {
        tracks: Some(0),
        ..glance(0, 0)
    };
    let nothing = quiet(&empty).unwrap();
    assert!(nothing.contains("nothing matching"), "{nothing:?}");
    assert_eq!(word(&empty, enters()), None);
    let untracked = TrialStats {
        tracks: None,
        ..empty.clone()
    };
    assert_eq!(quiet(&untracked), None, "what was seen is not known");
    assert_eq!(quiet(&glance(1, 0)), None);
    // One note is enough: the remark.
    let is_empty = spec(free());
    assert!(empty.remark(&is_empty).is_some());
    assert_eq!(empty.quiet(&is_empty), None);
    let ended = Some("the recording ended".to_owned());
    assert_eq!(quiet(&TrialStats { ended, ..empty }), None);
}

#[test]
fn sentence_lists_lines_zones_events_and_failures() {
    let mut seen = glance(1, 2);
    seen.lines
        .insert("door".to_owned(), LineCount { r#in: 3, out: 1 });
    let fault = StepError {
        count: 1,
        message: "no such crop".to_owned(),
    };
    seen.failures.insert("crop".to_owned(), fault);
    assert_eq!(
        seen.sentence(),
        "4 s: 20 frames, 2 tracks; door 3 in, 1 out; bay 1 visit, 1 inside at the end; 2 events (told 2); step crop failed 1 time: no such crop"
    );
    assert!(glance(0, 0).sentence().ends_with("0 events"));
}

#[test]
fn trial_result_is_printed_and_restored() {
    let spec = serde_json::from_value(json!({"id": "bay", "source": "park", "workflow": {}}));
    let tried = TrialResult {
        picture: Some("/p.jpg".to_owned()),
        stats: Some(glance(0, 0)),
        remarks: vec!["small".to_owned()],
        quiet: Some("2 tracks during the trial, none in bay".to_owned()),
        ..TrialResult::new(&spec.unwrap())
    };
    let lines = tried.lines();
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert_eq!(lines[3], "note: 2 tracks during the trial, none in bay");
    assert_eq!(lines[0], "preview of park: /p.jpg");
    assert!(lines[1].starts_with("tried on park for 4 s"), "{lines:?}");
    let written = serde_json::to_string(&tried).unwrap();
    assert_eq!(
        serde_json::from_str::<TrialResult>(&written).unwrap(),
        tried
    );
}

#[test]
fn one_cause_is_one_line_without_a_price_of_unknowns() {
    let why = || Some("the detector is not installed".to_owned());
    let mut trial: TrialResult =
        serde_json::from_value(json!({"pipeline": "p", "camera": "gate"})).unwrap();
    trial.not_tried = why();
    trial.not_replayed = why();
    trial.price = Some(serde_json::from_value(json!({})).unwrap());
    assert_eq!(
        trial.lines(),
        ["neither tried nor replayed on gate: the detector is not installed"]
    );
    trial.not_replayed = Some("there is no history".to_owned());
    let lines = trial.lines().join("\n");
    assert!(lines.contains("not tried on gate: the detector"), "{lines}");
    assert!(
        lines.contains("hours of gate: there is no history"),
        "{lines}"
    );
    trial.stats = Some(TrialStats::default());
    assert!(
        trial
            .lines()
            .iter()
            .any(|line| line.starts_with("price on gate"))
    );
}

#[test]
fn workflow_without_a_tracker_reports_no_number_of_tracks() {
    let said = |block: &str| {
        let workflow = json!({"steps": [{"type": block, "name": "a"}]});
        TrialStats::from_report(&DryRunReport::default(), &workflow).sentence()
    };
    assert!(said("watchkeeper/tracker@v1").contains("0 tracks"));
    let without = said("roboflow_core/expression@v1");
    assert!(without.contains("no tracker"), "{without}");
}
