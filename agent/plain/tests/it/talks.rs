//! What owners said to a box that answered or proposed something else.

use serde_json::json;
use watchkeeper_plain::answer::{Answer, Look};

use crate::support::{PLAIN, ask, proposal, scene, specs, with_pipelines};

const WAITS: &str = "tell me when somebody is in the left half on camera gate for 30 seconds";
const MANY: &str = "tell me when at least 4 people are on camera gate";
const WEEKENDS: &str =
    "tell me when a person is seen on camera gate on saturdays and sundays from 22:00 to 6:00";

fn corrected(text: &str, correction: &str) -> Answer {
    PLAIN
        .corrected(text, &[correction.to_owned()], &scene())
        .unwrap()
}

#[test]
fn correction_with_two_meanings_corrects_nothing() {
    for (text, correction) in [
        (WAITS, "no people, cars"),
        (WEEKENDS, "not after dark, always"),
        (WEEKENDS, "24 hours"),
    ] {
        let answer = corrected(text, correction);
        assert!(
            !matches!(answer, Answer::Propose(_)),
            "{correction}: {answer:#?}"
        );
    }
}

#[test]
fn class_behind_not_and_but_is_the_one_that_is_wanted() {
    let Answer::Propose(trucks) = corrected(MANY, "not cars but trucks") else {
        panic!("not corrected");
    };
    let workflow = &specs(&trucks)[0].workflow;
    assert_eq!(workflow["steps"][0]["class_filter"], json!(["truck"]));
}

#[test]
fn number_or_manner_that_no_rule_tells_is_not_proposed() {
    for (text, word) in [
        ("tell me when a lot of people are on camera gate", "lot"),
        ("tell me when it gets busy on camera gate", "busy"),
        ("tell me when the left parking bay is full", "full"),
        (
            "tell me when someone runs over the vertical line at 50% on camera gate",
            "runs",
        ),
        (
            "tell me when someone gets near the left parking bay",
            "near",
        ),
    ] {
        let Answer::Unknown(refused) = ask(text, &scene()) else {
            panic!("{text}");
        };
        let quoted = refused.not_understood.join(" ");
        assert!(quoted.contains(word), "{text}: {refused:#?}");
    }
}

#[test]
fn how_somebody_stays_is_said_not_to_be_told() {
    for who in [
        "somebody is lying",
        "somebody is sitting",
        "an unattended bag is",
        "a bag is left",
    ] {
        let text = format!("tell me when {who} in the left half on camera gate for 2 minutes");
        let assumed = proposal(&text).assumed.join(" ");
        assert!(assumed.contains("How they are there"), "{text}: {assumed}");
    }
}

#[test]
fn question_of_nobody_or_of_one_class_as_another_is_refused() {
    let scene = with_pipelines(&["gate"]);
    for text in [
        "was nobody at the gate today",
        "when did nobody come to the gate",
        "was the last car a truck",
    ] {
        let answer = ask(text, &scene);
        assert!(matches!(answer, Answer::Unknown(_)), "{text}: {answer:#?}");
    }
}

#[test]
fn number_of_those_who_came_is_of_those_who_entered_or_appeared() {
    let text = "did more people come to the gate today than yesterday";
    let Answer::Look(looked) = ask(text, &with_pipelines(&["gate"])) else {
        panic!("no look-up");
    };
    let Look::Events(wanted) = looked.look else {
        panic!("{:?}", looked.look);
    };
    assert_eq!(wanted.conditions, ["appears"]);
}

#[test]
fn known_class_is_not_said_to_be_unknown() {
    let Answer::Unknown(refused) = ask(
        "tell me when a person leaves camera gate without a dog",
        &scene(),
    ) else {
        panic!("not refused");
    };
    assert!(!refused.text.contains("no model here"), "{}", refused.text);
}
        (
            "tell me when someone climbs over the vertical line at 50% on camera gate",
            "climbs",
        ),
        (
            "tell me when a person is on camera gate from now until 11 pm",
            "from",
        ),
