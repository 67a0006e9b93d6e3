//! What is said of watches and of the box themselves, and orders that name something new.

use watchkeeper_contract::rule::Weekday;
use watchkeeper_plain::Scene;
use watchkeeper_plain::answer::{Answer, Change, Look, Unknown};
use watchkeeper_plain::scene::Deployed;

use crate::support::{PLAIN, ask, deployed, proposal_in, scene, specs, with_pipelines};

fn box_with_watches() -> Scene {
    with_pipelines(&["gate", "dock"])
}

fn refusal(text: &str, scene: &Scene) -> Unknown {
    match ask(text, scene) {
        Answer::Unknown(unknown) => unknown,
        other => panic!("{text}: {other:#?}"),
    }
}

#[test]
fn an_order_for_something_new_changes_no_watch() {
    for text in [
        "make me a sandwich",
        "make a video of the gate",
        "make a plan of the yard",
        "set a table",
    ] {
        refusal(text, &box_with_watches());
    }
    for text in [
        "set an alarm when a car is on camera gate",
        "make an alert for cars on camera gate",
    ] {
        let proposal = proposal_in(text, &box_with_watches());
        assert!(
            matches!(&proposal.changes[..], [Change::Deploy(_)]),
            "{text}: {proposal:#?}"
        );
    }
    for text in [
        "set a cool-down of 5 minutes on the gate alarm",
        "set a confidence of 0.6 on the gate alarm",
    ] {
        let proposal = proposal_in(text, &box_with_watches());
        assert!(
            matches!(&proposal.changes[..], [Change::Replace(_)]),
            "{text}: {proposal:#?}"
        );
    }
}

#[test]
fn the_state_of_a_watch_is_looked_up() {
    for text in [
        "is the gate alarm down",
        "is the gate alarm on",
        "is the gate alarm paused?",
    ] {
        let Answer::Look(looked) = ask(text, &box_with_watches()) else {
            panic!("{text}");
        };
        let scene = box_with_watches();
        let gate = vec![scene.pipelines[0].spec.id.clone()];
        assert_eq!(looked.look, Look::Pipelines(Some(gate)), "{text}");
    }
}

#[test]
fn a_question_about_two_watches_or_of_another_camera_is_refused() {
    let scene = with_pipelines(&["gate", "dock"]);
    for (text, why) in [
        (
            "is the gate alarm or the dock alarm paused?",
            "one watch or one camera",
        ),
        (
            "is the gate alarm on the dock camera paused?",
            "one watch or one camera",
        ),
    ] {
        let refused = refusal(text, &scene);
        assert!(refused.text.contains(why), "{text}: {}", refused.text);
    }
}

#[test]
fn what_was_done_to_a_watch_is_in_the_audit() {
    for text in [
        "when was the gate alarm paused",
        "who paused the gate alarm",
        "who deleted the gate alarm?",
        "who changed the gate alarm yesterday",
        "why has the gate alarm stopped",
        "how many times was the gate alarm paused",
        "how often did the gate alarm stop today",
        "was the gate alarm on",
        "was the gate alarm on last night",
        "was the gate alarm off yesterday between 8 and 10?",
        "has the gate alarm been paused this week",
        "which watches were running last night",
    ] {
        let refused = refusal(text, &box_with_watches());
        assert!(refused.text.contains("watchkeeper audit"), "{refused:?}");
    }
    for text in [
        "did the gate alarm see a car today",
        "was anybody at the gate today",
        "did the gate alarm on the gate camera see anyone yesterday",
        "when did the gate alarm last see a car",
        "how many alarms on monday",
        "list the alarms on friday",
        "how many alarms started after 10 pm yesterday",
    ] {
        let answer = ask(text, &box_with_watches());
        assert!(
            matches!(&answer, Answer::Look(looked) if matches!(looked.look, Look::Events(_))),
            "{text}: {answer:#?}"
        );
    }
}

#[test]
fn a_watch_is_started_by_its_name_and_not_renamed() {
    let started = proposal_in("start the gate alarm again", &box_with_watches());
    assert!(
        matches!(&started.changes[..], [Change::Resume(_)]),
        "{started:#?}"
    );
    let refused = refusal("rename the gate alarm to front door", &box_with_watches());
    assert!(refused.text.contains("rename\""), "{}", refused.text);
    assert!(refused.unseen.is_empty(), "{refused:?}");
}

#[test]
fn no_watch_tells_of_a_watch_or_of_the_box() {
    let mut scene = box_with_watches();
    // Some model knows a camera as a class.
    scene.classes = vec!["camera".to_owned()];
    for (text, remedy) in [
        ("tell me when the gate alarm stops", "watchkeeper status"),
        ("warn me if the gate alarm is paused", "watchkeeper status"),
        ("tell me when the camera is covered", "covered"),
        ("tell me when the gate camera goes dark", "dark"),
    ] {
        let refused = refusal(text, &scene);
        assert!(refused.text.contains(remedy), "{text}: {}", refused.text);
        assert!(
            !refused.text.contains("--class"),
            "{text}: {}",
            refused.text
        );
        assert!(refused.unseen.is_empty(), "{text}: {refused:?}");
    }
    proposal_in("critical alarm when a person is at the gate", &scene);
    for (text, thing) in [
        ("tell me when the yard is on fire", "fire"),
        ("tell me when a fox is in the yard", "fox"),
        ("tell me when a box is at the gate", "box"),
    ] {
        let refused = refusal(text, &scene);
        assert!(refused.text.contains(thing), "{text}: {refused:?}");
        assert!(
            !refused.text.contains("--class"),
            "{text}: {}",
            refused.text
        );
    }
    let between = refusal(
        "tell me when a person is on camera gate for between 5 and 10 seconds",
        &scene,
    );
    assert!(between.unseen.is_empty(), "{between:?}");
}

#[test]
fn a_verb_behind_a_place_that_a_watch_is_named_like_is_no_watch() {
    let mut scene = box_with_watches();
    scene.pipelines[0].name = "gate".to_owned();
    let proposal = proposal_in("when a car is at the gate alarm me", &scene);
    assert!(
        matches!(&proposal.changes[..], [Change::Deploy(_)]),
        "{proposal:#?}"
    );
}

#[test]
fn days_that_are_left_out_add_none() {
    const WEEK: [Weekday; 7] = Weekday::ALL;
    let days = |text: &str, corrections: &[&str], scene: &Scene| {
        let corrections: Vec<String> = corrections.iter().map(|c| (*c).to_owned()).collect();
        match PLAIN.corrected(text, &corrections, scene).unwrap() {
            Answer::Propose(proposal) => {
                let rule = specs(&proposal).remove(0).rules.unwrap().remove(0);
                Some(rule.schedule.unwrap().days)
            }
            Answer::Unknown(_) => None,
            other => panic!("{text}: {other:#?}"),
        }
    };
    let text = "tell me when a person is on camera gate";
    for (said, corrections, wanted) in [
        (" on weekdays", &["not on mondays"][..], None),
        (" on weekdays", &["on weekends"][..], Some(&WEEK[5..])),
    ] {
        let text = format!("{text}{said}");
        assert_eq!(
            days(&text, corrections, &scene()).as_deref(),
            wanted,
            "{text} {corrections:?}"
        );
    }
    let mut scene = box_with_watches();
    let of = "tell me when a person is on camera gate on weekdays between 8:00 and 17:00";
    scene.pipelines[0].spec.rules = deployed(of).rules;
    let change = "change the gate alarm to not on mondays";
    assert_eq!(days(change, &[], &scene), None);
}

#[test]
fn a_channel_is_named_as_the_one_who_is_told() {
    let text = "tell me when a car is on camera gate";
    let correction = ["send it to security too".to_owned()];
    let Answer::Propose(corrected) = PLAIN.corrected(text, &correction, &scene()).unwrap() else {
        panic!("not corrected");
    };
    assert!(PLAIN.is_correction(&correction[0], &scene()));
    assert!(corrected.understood.contains("notifies #security"));
    for text in [
        "notify security when a car is on camera gate",
        "tell the front desk when a car is on camera gate",
        "send it to security when a car is on camera gate",
        "tell security about every car on camera gate",
        "tell me when a car is on camera gate and notify security",
    ] {
        let rule = deployed(text).rules.unwrap().remove(0);
        assert_eq!(rule.notify.len(), 1, "{text}");
        assert_eq!(rule.classes.len(), 0, "{text}: {:?}", rule.classes);
    }
    for text in [
        "tell me when security is on camera gate",
        "tell me when a person goes to the front desk on camera gate",
    ] {
        if let Answer::Propose(proposal) = ask(text, &scene()) {
            let told = specs(&proposal).remove(0).rules.unwrap().remove(0).notify;
            assert!(told.is_empty(), "{text}: {told:?}");
        }
    }
}

#[test]
fn what_is_understood_is_said_as_a_person_would() {
    for (text, said) in [
        (
            "tell me when cars, not people, are on camera gate",
            "cars but not people are seen",
        ),
        (
            "tell me when a person crosses the line from (10%, 50%) to (90%, 50%) on camera gate",
            "crosses the line from (10%, 50%) to (90%, 50%) in either direction",
        ),
        (
            "tell me when a person is on camera gate every day from 8:00 to 17:00",
            "for the first time, every day from 08:00 to 17:00",
        ),
        (
            "tell me when a person is on camera gate, urgent",
            "with severity critical",
        ),
        (
            "tell me when a person is on camera gate between 9 and 17 on weekends",
            "Sun from 09:00 to 17:00",
        ),
    ] {
        let understood = proposal_in(text, &scene()).understood;
        assert!(understood.contains(said), "{text}: {understood}");
    }
    // A number of things is not a span of hours.
    let refused = refusal(
        "tell me when the number of people on camera gate is between 2 and 5, and keep a clip",
        &scene(),
    );
    assert!(!refused.not_understood.is_empty(), "{refused:?}");
}

#[test]
fn a_verb_behind_a_camera_is_no_watch_that_runs() {
    let scene = with_pipelines(&["gate"]);
    for text in [
        "On the gate camera watch for cars at night",
        "At the gate watch the left half for people",
    ] {
        let proposal = proposal_in(text, &scene);
        assert!(
            matches!(&proposal.changes[..], [Change::Deploy(_)]),
            "{text}: {proposal:#?}"
        );
    }
    let answer = ask("On the gate camera watch at night", &scene);
    let changes =
        matches!(&answer, Answer::Propose(p) if matches!(p.changes[..], [Change::Replace(_)]));
    assert!(!changes, "{answer:#?}");
}

#[test]
fn a_request_to_watch_with_the_word_of_a_state_is_no_question() {
    for text in [
        "watch down the lane for cars",
        "watch parked and stopped cars",
        "watch broken windows",
    ] {
        for scene in [scene(), box_with_watches()] {
            let answer = ask(text, &scene);
            assert!(!matches!(answer, Answer::Look(_)), "{text}: {answer:#?}");
        }
    }
}

#[test]
fn an_owner_makes_no_class_narrower_in_the_name_of_a_watch() {
    let mut scene = scene();
    for (id, text) in [
        (
            "gate-car-appears",
            "tell me when a car is seen on camera gate",
        ),
        (
            "yard-vehicle-appears",
            "tell me when a vehicle is seen on camera yard",
        ),
    ] {
        let mut spec = deployed(text);
        spec.id = id.parse().unwrap();
        scene.pipelines.push(Deployed {
            name: id.to_owned(),
            spec,
            paused: false,
            paused_until: None,
            not_running: None,
        });
    }
    for text in ["delete the car watch", "delete my car watch"] {
        let answer = ask(text, &scene);
        assert!(!matches!(answer, Answer::Propose(_)), "{text}: {answer:#?}");
    }
}

/// The box with a second watch of the gate, whose name begins with that of the first.
fn box_with_long_names() -> Scene {
    let mut scene = with_pipelines(&["gate"]);
    let mut cars = scene.pipelines[0].clone();
    cars.spec.id = "gate-cars".parse().unwrap();
    cars.name = "gate cars".to_owned();
    scene.pipelines[0].name = "gate".to_owned();
    scene.pipelines.push(cars);
    scene
}

#[test]
fn the_longest_name_of_a_watch_is_meant() {
    let text = "set the gate cars watch to a confidence of 60%";
    let proposal = proposal_in(text, &box_with_long_names());
    let changed: Vec<&str> = (proposal.changes.iter())
        .map(|change| change.pipeline().as_str())
        .collect();
    assert_eq!(changed, ["gate-cars"]);
}

#[test]
fn day_joined_to_an_excluded_day_is_excluded_too() {
    for text in [
        "the gate alarm should not run on weekends and mondays",
        "the gate alarm should not run on mondays and weekends",
    ] {
        refusal(text, &box_with_watches());
    }
}

#[test]
fn calmer_watch_has_no_lower_confidence() {
    for text in [
        "make the gate alarm less sensitive, confidence 1%",
        "make the gate alarm more sensitive, confidence 99%",
        "lower the confidence of the gate alarm to 99%",
    ] {
        let answer = ask(text, &box_with_watches());
        assert!(!matches!(answer, Answer::Propose(_)), "{text}: {answer:#?}");
    }
}

#[test]
fn all_but_the_only_watch_is_nothing_else() {
    let said = format!(
        "{:?}",
        ask(
            "delete all watches except the gate one",
            &with_pipelines(&["gate"])
        )
    );
    assert!(said.contains("nothing to delete"), "{said}");
}

#[test]
fn a_camera_that_is_asked_about_is_not_counted() {
    let answer = ask("is the gate camera ok", &box_with_watches());
    let Answer::Look(looked) = answer else {
        panic!("{answer:#?}");
    };
    assert!(matches!(looked.look, Look::Status(_)), "{looked:?}");
}

#[test]
fn the_last_alarm_is_looked_up() {
    for text in [
        "show me the last alarm",
        "show me the latest warning at the gate",
    ] {
        let answer = ask(text, &box_with_watches());
        assert!(matches!(answer, Answer::Look(_)), "{text}: {answer:#?}");
    }
}
