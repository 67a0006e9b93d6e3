//! What is said to a proposal that waits.

use watchkeeper_contract::rule::{ClipSpec, Condition, CountBound, RuleSpec, Severity};
use watchkeeper_plain::Scene;
use watchkeeper_plain::answer::{Answer, Change};

use crate::support::{PLAIN, scene, specs, with_pipelines};

fn corrected(text: &str, corrections: &[&str], scene: &Scene) -> Answer {
    let corrections: Vec<String> = corrections.iter().map(|c| (*c).to_owned()).collect();
    for correction in &corrections {
        assert!(PLAIN.is_correction(correction, scene), "{correction}");
    }
    PLAIN.corrected(text, &corrections, scene).unwrap()
}

fn proposed(text: &str, corrections: &[&str]) -> watchkeeper_plain::Proposal {
    match corrected(text, corrections, &scene()) {
        Answer::Propose(proposal) => *proposal,
        other => panic!("{text} {corrections:?}: {other:#?}"),
    }
}

fn rule(text: &str, corrections: &[&str]) -> RuleSpec {
    let rules = specs(&proposed(text, corrections)).remove(0).rules;
    rules.unwrap().remove(0)
}

const WAITS: &str = "Tell me when somebody waits in the left half on camera gate for 2 minutes";

#[test]
fn a_time_takes_the_place_of_the_time_that_was_proposed() {
    for correction in [
        "make it 30 seconds",
        "no, 30 seconds",
        "30 seconds please",
        "set it to 30 s",
    ] {
        let Condition::Stays { for_s, .. } = rule(WAITS, &[correction]).when else {
            panic!("{correction}");
        };
        assert_eq!(for_s, 30.0, "{correction}");
    }
}

#[test]
fn corrected_classes_replace_the_proposed_ones_or_are_added() {
    let classes = |correction: &str| {
        specs(&proposed(WAITS, &[correction])).remove(0).workflow["steps"][0]["class_filter"]
            .clone()
    };
    assert_eq!(classes("no, for cars"), serde_json::json!(["car"]));
    assert_eq!(classes("only dogs"), serde_json::json!(["dog"]));
    assert_eq!(classes("dogs too"), serde_json::json!(["person", "dog"]));
}

#[test]
fn corrections_add_up_and_keep_the_rest_of_the_request() {
    let text =
        "Warn me when there are more than 3 people on camera gate at night, at most once an hour";
    let corrections = ["only on weekdays", "and keep a clip of 10 seconds"];
    let rule = rule(text, &corrections);
    assert!(
        matches!(
            rule.when,
            Condition::Count {
                bound: CountBound::Over(3),
                ..
            }
        ),
        "{:?}",
        rule.when
    );
    assert_eq!(rule.schedule.unwrap().days.len(), 5);
    assert_eq!((rule.cooldown_s, rule.shared_cooldown), (3600.0, true));
    let clip = ClipSpec {
        before_s: 5.0,
        after_s: 5.0,
        ..ClipSpec::default()
    };
    assert_eq!(rule.clip, Some(clip));
}

#[test]
fn a_correction_that_contradicts_no_notifications_is_refused() {
    const QUIET: &str = "tell me when a person is seen on camera gate, no notifications";
    for (text, correction) in [
        (QUIET, "make it urgent"),
        (QUIET, "tell #security"),
        (
            "tell #security when a person is seen on camera gate",
            "no notifications",
        ),
        (
            "tell me when a person is seen on camera gate, urgent",
            "no notifications",
        ),
    ] {
        let answer = corrected(text, &[correction], &scene());
        let Answer::Ask(asked) = answer else {
            panic!("{text}, {correction}: {answer:#?}");
        };
        assert!(asked.text.contains("without one of the two"), "{asked:?}");
    }
}

#[test]
fn a_proposal_is_made_quiet_by_a_correction() {
    let text = "alert me when a person is seen on camera gate";
    assert_eq!(rule(text, &[]).severity, Severity::Warning);
    let said = proposed(text, &["no notifications"]);
    let quiet = specs(&said).remove(0).rules.unwrap().remove(0);
    assert_eq!(quiet.severity, Severity::Info);
    let notifies = |s: &String| s.starts_with("No channel notifies");
    assert!(said.assumed.iter().any(notifies), "{said:#?}");
}

#[test]
fn a_number_without_a_unit_corrects_nothing() {
    for text in [
        "Tell me when fewer than 4 people are on camera gate",
        "Tell me when nobody is on camera gate for 20 seconds",
        "Tell me when more than 3 people are on camera gate for 20 seconds",
    ] {
        for correction in ["make it 30", "make it at least 2", "no, more than 2"] {
            let answer = corrected(text, &[correction], &scene());
            assert!(!matches!(answer, Answer::Propose(_)), "{text}: {answer:#?}");
        }
    }
}

#[test]
fn other_classes_of_none_are_none_of_them() {
    let text = "Tell me when nobody is on camera gate for 10 minutes";
    let when = rule(text, &["no, for dogs"]).when;
    let Condition::Count { bound, for_s, .. } = when else {
        panic!("{when:?}");
    };
    assert_eq!((bound, for_s), (CountBound::Under(1), 600.0));
}

#[test]
fn a_time_of_an_empty_place_is_how_long_it_is_empty() {
    let text = "Tell me when the left half on camera gate is empty, at most once an hour";
    let rule = rule(text, &["make it 10 minutes"]);
    let Condition::Count { for_s, .. } = rule.when else {
        panic!("{:?}", rule.when);
    };
    assert_eq!((for_s, rule.cooldown_s), (600.0, 3600.0));
}

#[test]
fn limit_is_added_once() {
    let once = "and at most once an hour";
    assert_eq!(rule(WAITS, &[once]).cooldown_s, 3600.0);
    let again = corrected(WAITS, &[once, "and at most once a day"], &scene());
    assert!(matches!(again, Answer::Unknown(_)), "{again:#?}");
}

#[test]
fn a_time_for_what_only_counts_is_not_taken() {
    let text = "Count the cars on camera gate";
    let answer = corrected(text, &["make it 10 seconds"], &scene());
    assert!(!matches!(answer, Answer::Propose(_)), "{answer:#?}");
}

#[test]
fn another_place_leaves_the_camera_that_followed_from_the_place() {
    let text = "Tell me when a person is in the left parking bay";
    let spec = specs(&proposed(text, &["make it the left half"])).remove(0);
    assert_eq!(spec.source.as_str(), "yard");
}

#[test]
fn a_place_is_corrected_where_a_watch_has_its_name() {
    let mut scene = with_pipelines(&["yard"]);
    scene.pipelines[0].name = "left parking bay".to_owned();
    let text = "Tell me when a person is in the left half on camera yard";
    let answer = corrected(text, &["make it the left parking bay"], &scene);
    let Answer::Propose(proposal) = answer else {
        panic!("{answer:#?}");
    };
    assert!(matches!(proposal.changes[0], Change::Deploy(_)));
}

#[test]
fn another_camera_takes_the_place_of_the_camera() {
    let text = "Tell me when a person is seen on camera gate";
    let on = specs(&proposed(text, &["no, on the yard camera"]))
        .remove(0)
        .source;
    assert_eq!(on.as_str(), "yard");
}

#[test]
fn a_correction_that_is_not_understood_in_full_corrects_nothing() {
    for correction in [
        "make it faster",
        "no more than 5",
        "only cars that are red",
        "not unless it rains",
        "30 seconds and a cup of tea",
    ] {
        let answer = corrected(WAITS, &[correction], &scene());
        assert!(
            !matches!(answer, Answer::Propose(_)),
            "{correction}: {answer:#?}"
        );
    }
}

#[test]
fn a_request_of_its_own_and_one_about_what_runs_correct_nothing() {
    let scene = with_pipelines(&["gate"]);
    for text in [
        "change the gate to only dogs",
        "tell me about dogs at the dock",
        "stop the gate alarm",
        "change the gate alarm to only dogs",
        "what is running?",
        "pause everything",
    ] {
        assert!(!PLAIN.is_correction(text, &scene), "{text}");
    }
}

const CROSSES: &str = "Tell me when somebody crosses the vertical line at 50% on camera gate";

#[test]
fn a_share_is_a_confidence_only_by_its_name() {
    let before = specs(&proposed(CROSSES, &[])).remove(0).workflow;
    for correction in [
        "confidence 0.3",
        "make it at least 30% sure",
        "a confidence of 30%",
    ] {
        let after = specs(&proposed(CROSSES, &[correction])).remove(0).workflow;
        assert_eq!(after["steps"][0]["confidence"], 0.3, "{correction}");
        assert_eq!(
            after.to_string().matches("0.5").count(),
            before.to_string().matches("0.5").count(),
            "{correction}"
        );
    }
}

#[test]
fn a_share_that_has_no_one_meaning_corrects_nothing() {
    for (text, correction) in [
        (WAITS, "make it at 30%"),
        (CROSSES, "make it at 30%"),
        (CROSSES, "move the line to 30%"),
    ] {
        let answer = corrected(text, &[correction], &scene());
        assert!(
            !matches!(answer, Answer::Propose(_)),
            "{correction}: {answer:#?}"
        );
    }
}

#[test]
fn a_number_before_a_time_is_no_number_of_objects() {
    let text = "Tell me when more than 3 people are on camera gate";
    for correction in [
        "make it two and a half minutes",
        "make it 2 to 3 minutes",
        "make it 2 or 3 minutes",
    ] {
        let answer = corrected(text, &[correction], &scene());
        assert!(
            !matches!(answer, Answer::Propose(_)),
            "{correction}: {answer:#?}"
        );
    }
}

#[test]
fn a_direction_that_was_said_is_that_of_the_corrected_line() {
    let text = format!("{CROSSES} from left to right");
    let way = |text: &str, corrections: &[&str]| rule(text, corrections).when;
    let moved = way(&text, &["the vertical line at 30%"]);
    assert_eq!(moved, way(&text.replace("50%", "30%"), &[]));
    // From its other end the same way is out, and no longer in.
    let turned = "line from 50%,100% to 50%,0%";
    let whole = text.replace("vertical line at 50%", turned);
    assert_eq!(way(&text, &[turned]), way(&whole, &[]));
    // Nothing crosses a level line from left to right.
    let level = "line from 0%,50% to 100%,50%";
    let answer = corrected(&text, &[level], &scene());
    assert!(
        matches!(&answer, Answer::Ask(question) if question.text.contains("one that crosses it")),
        "{answer:#?}"
    );
    assert!(matches!(
        corrected(CROSSES, &[level], &scene()),
        Answer::Propose(_)
    ));
}

#[test]
fn the_direction_of_a_crossing_is_corrected() {
    let text = format!("{CROSSES} from left to right");
    let other = rule(&text.replace("left to right", "right to left"), &[]).when;
    for correction in ["from right to left", "I meant to the left"] {
        let proposal = proposed(&text, &[correction]);
        let rules = specs(&proposal).remove(0).rules.unwrap();
        assert_eq!(rules[0].when, other, "{correction}");
        let said = proposal.understood;
        assert!(said.contains("from right to left"), "{correction}: {said}");
    }
    for correction in [
        "no, the other way",
        "the other way round",
        "the opposite direction",
    ] {
        let Answer::Unknown(refused) = corrected(&text, &[correction], &scene()) else {
            panic!("{correction}");
        };
        assert!(refused.text.contains("as it is seen"), "{}", refused.text);
    }
}

#[test]
fn the_camera_is_corrected_where_a_place_was_said() {
    let text = "Tell me when a person enters the left half on camera gate";
    for correction in [
        "no, I meant the yard camera",
        "no, on the yard camera",
        "make it the yard camera",
        "change it to the yard camera",
    ] {
        let spec = specs(&proposed(text, &[correction])).remove(0);
        let whole = specs(&proposed(&text.replace("gate", "yard"), &[])).remove(0);
        assert_eq!((spec.source, spec.workflow), (whole.source, whole.workflow));
    }
    // A place that was drawn on one camera lies nowhere on another.
    let drawn = "Tell me when a person is in the left parking bay";
    let answer = corrected(drawn, &["no, on the gate camera"], &scene());
    assert!(
        matches!(&answer, Answer::Ask(question) if question.text.contains("not drawn on gate")),
        "{answer:#?}"
    );
}

#[test]
fn replaced_watch_is_looked_up_after_the_corrections() {
    let scene = with_pipelines(&["gate", "yard"]);
    let paused = |corrections: &[&str]| {
        let text = "only tell me about cars on camera gate";
        let Answer::Propose(proposal) = corrected(text, corrections, &scene) else {
            panic!("{corrections:?}");
        };
        let of = |change: &Change| match change {
            Change::Pause { pipeline, .. } => Some(pipeline.to_string()),
            _ => None,
        };
        let paused: Vec<String> = proposal.changes.iter().filter_map(of).collect();
        (paused, proposal.assumed.join(" "))
    };
    let id = |nth: usize| scene.pipelines[nth].spec.id.to_string();
    assert_eq!(paused(&[]).0, [id(0)]);
    assert_eq!(paused(&["no, for dogs"]).0, [id(0)]);
    let (moved, said) = paused(&["no, on the yard camera"]);
    assert_eq!(moved, [id(1)]);
    assert!(said.contains(&id(1)) && !said.contains(&id(0)), "{said}");
}

#[test]
fn a_cool_down_that_was_said_is_corrected_whatever_its_length() {
    for often in ["minute", "hour"] {
        let text =
            format!("Tell me about people in the left half on camera gate, at most once a {often}");
        let before = rule(&text, &[]);
        let after = rule(&text, &["make it 30 seconds"]);
        assert_eq!(after.cooldown_s, 30.0, "{often}");
        assert_eq!(after.when, before.when, "{often}");
    }
}

#[test]
fn default_cool_down_is_noted_only_while_it_stands() {
    let is_noted = |corrections: &[&str]| {
        let assumed = proposed(WAITS, corrections).assumed;
        assumed.iter().any(|note| note.starts_with("How often"))
    };
    assert!(is_noted(&[]) && is_noted(&["make it 30 seconds"]));
    assert!(!is_noted(&["no cool-down"]) && !is_noted(&["at most once an hour"]));
}

#[test]
fn hours_keep_the_days_that_were_said_and_days_the_hours() {
    let text = "Tell me when a person is seen on camera gate";
    let schedule = |corrections: &[&str]| rule(text, corrections).schedule.unwrap();
    let weekend = [
        ["only on weekends", "between 8 and 10 pm"],
        ["between 8 and 10 pm", "only on weekends"],
    ];
    for corrections in weekend {
        let kept = schedule(&corrections);
        assert_eq!(kept.days.len(), 2, "{corrections:?}: {kept:?}");
        assert_eq!((&*kept.from, &*kept.to), ("20:00", "22:00"), "{kept:?}");
    }
    let daily = schedule(&["only on weekends", "every day between 8 and 10 pm"]);
    assert!(daily.days.is_empty(), "{daily:?}");
    let said = proposed(text, &["only on weekends"]).understood;
    assert!(said.contains("only Sat, Sun"), "{said}");
    assert!(!said.contains("all day"), "{said}");
}

#[test]
fn another_line_takes_the_place_of_the_line() {
    let text = "Tell me when a person crosses the vertical line at 50% on camera gate";
    for (correction, part) in [
        ("no, the vertical line at 30%", "vertical line at 30 %"),
        ("the vertical line at 30%", "vertical line at 30 %"),
        ("no, the horizontal line at 40%", "horizontal line at 40 %"),
        (
            "make it a horizontal line at 40%",
            "horizontal line at 40 %",
        ),
    ] {
        let said = proposed(text, &[correction]).understood;
        assert!(said.contains(part), "{correction}: {said}");
    }
}

#[test]
fn hours_that_are_corrected_leave_no_note_of_the_hours_before() {
    let text = "Tell me when a person is seen on camera gate at night";
    for correction in ["all day", "between 8:00 and 10:00"] {
        let assumed = proposed(text, &[correction]).assumed;
        assert!(
            !assumed.iter().any(|note| note.contains("Night")),
            "{correction}: {assumed:?}"
        );
    }
    assert_eq!(rule(text, &["all day"]).schedule, None);
    let weekends = format!("{text} on weekends");
    let daily = rule(&weekends, &["every day"]).schedule.unwrap();
    assert!(daily.days.is_empty() && daily.from == "22:00", "{daily:?}");
}

#[test]
fn severity_and_end_are_corrected() {
    let text = "Tell me when a person is seen on camera gate";
    assert_eq!(rule(text, &["make it urgent"]).severity, Severity::Critical);
    let ends = specs(&proposed(text, &["for the next hour"])).remove(0);
    assert_eq!(ends.stop_after_s, Some(3600.0));
}

#[test]
fn no_before_other_classes_rejects_the_proposed_ones() {
    let text = "tell me about people on camera gate";
    for correction in ["no for cars", "no the cars", "no, for cars"] {
        let proposal = proposed(text, &[correction]);
        let spec = specs(&proposal).remove(0);
        let classes = &spec.workflow["steps"][0]["class_filter"];
        assert_eq!(*classes, serde_json::json!(["car"]), "{correction}");
        assert!(
            !proposal.understood.contains("no cars"),
            "{}",
            proposal.understood
        );
    }
}

#[test]
fn a_channel_that_is_added_leaves_the_one_before() {
    let text = "tell #security when a person is seen on camera gate";
    let told = |correction: &str| -> Vec<String> {
        let notify = rule(text, &[correction]).notify;
        notify.iter().map(ToString::to_string).collect()
    };
    assert_eq!(told("also tell #front-desk"), ["security", "front-desk"]);
    assert_eq!(told("tell #front-desk too"), ["security", "front-desk"]);
    assert_eq!(told("also tell #security"), ["security"]);
    assert_eq!(told("tell #front-desk"), ["front-desk"]);
}

#[test]
fn correction_that_is_not_read_is_refused_with_its_remedy() {
    let pause = "pause the gate watch for 10 minutes";
    for (text, correction, remedy) in [
        (WAITS, "twice that long", "20 minutes"),
        (WAITS, "half as often", "20 minutes"),
        (WAITS, "at 30%", "confidence 30%"),
        (WAITS, "the other direction", "from left to right"),
        (WAITS, "no, when they leave", "whole request again"),
        (WAITS, "no weekends", "mon-fri"),
        (WAITS, "but not on sundays", "mon-fri"),
        (WAITS, "not office", "takes nothing away"),
        (pause, "no, two hours", "until 8 tomorrow"),
    ] {
        let scene = with_pipelines(&["gate"]);
        let answer = PLAIN.corrected(text, &[correction.to_owned()], &scene);
        let Ok(Answer::Unknown(refused)) = answer else {
            panic!("{correction}: {answer:#?}");
        };
        assert!(
            refused.text.contains(remedy),
            "{correction}: {}",
            refused.text
        );
        assert_eq!(refused.not_understood, [correction]);
    }
    assert!(rule(WAITS, &["with a video please"]).clip.is_some());
    assert!(rule(WAITS, &["only mon-fri"]).schedule.is_some());
}

#[test]
fn what_is_said_besides_is_added_or_refused() {
    const ENTERS: &str = "Tell me when a person enters the left half on camera gate";
    const HOURS: &str =
        "Tell me when a person enters the left half on camera gate, on weekdays from 8 am to 6 pm";
    let said = |text: &str, correction: &str| {
        let answer = PLAIN.corrected(text, &[correction.to_owned()], &scene());
        match answer {
            Ok(Answer::Propose(proposal)) => proposal.understood.clone(),
            Ok(Answer::Unknown(_)) => "refused".to_owned(),
            other => panic!("{correction}: {other:#?}"),
        }
    };
    for correction in [
        "and cars",
        "and when it is a car",
        "plus cars",
        "cars too",
        "also cars",
        "cars as well",
    ] {
        let understood = said(ENTERS, correction);
        assert!(
            understood.contains("a person or"),
            "{correction}: {understood}"
        );
        assert!(understood.contains("car"), "{correction}: {understood}");
    }
    for correction in [
        "and on the yard camera",
        "also on the yard camera",
        "for the yard camera as well",
    ] {
        let understood = said(ENTERS, correction);
        assert!(
            understood.contains("gate") && understood.contains("yard"),
            "{correction}: {understood}"
        );
    }
    let understood = said(ENTERS, "and only cars");
    assert!(!understood.contains("person"), "{understood}");
    let understood = said(ENTERS, "and only at night");
    assert!(understood.contains("from 22:00 to 06:00"), "{understood}");
    for correction in [
        "and at night",
        "also in the right half",
        "and in the right half",
        "the right half too",
    ] {
        assert_eq!(said(ENTERS, correction), "refused", "{correction}");
    }
    for correction in [
        "and also from 8 pm to 10 pm",
        "and from 8 pm to 10 pm",
        "on saturdays as well",
        "and on sundays",
        "at night too",
    ] {
        assert_eq!(said(HOURS, correction), "refused", "{correction}");
    }
}

#[test]
fn class_is_not_taken_away_by_a_correction() {
    let text = "Tell me when a person or a car enters the left half on camera gate";
    for correction in [
        "without cars",
        "without a helmet",
        "ignore cars",
        "no, except cars",
    ] {
        let answer = PLAIN.corrected(text, &[correction.to_owned()], &scene());
        let Ok(Answer::Unknown(refused)) = answer else {
            panic!("{correction}: {answer:#?}");
        };
        assert!(refused.text.contains("takes nothing away"), "{refused:?}");
    }
}

#[test]
fn both_cameras_are_the_two_of_the_box() {
    let text = "tell me when a person is seen on both cameras";
    let mut scene = scene();
    let answer = PLAIN.understand(text, &scene).unwrap();
    assert!(matches!(answer, Answer::Unknown(_)), "{answer:#?}");
    scene.cameras.truncate(2);
    let answer = PLAIN.understand(text, &scene).unwrap();
    assert!(matches!(answer, Answer::Propose(_)), "{answer:#?}");
}
