//! What owners said to a box that answered or proposed something else.

use serde_json::json;
use watchkeeper_plain::answer::{Answer, Look, Missing};

use crate::support::{PLAIN, ask, proposal, scene, specs, with_pipelines};

const WAITS: &str = "tell me when somebody is in the left half on camera gate for 30 seconds";
const MANY: &str = "tell me when at least 4 people are on camera gate";
const WEEKENDS: &str =
    "tell me when a person is seen on camera gate on saturdays and sundays from 22:00 to 6:00";

const COOLS: &str =
    "tell me when a person enters the left half on camera gate, at most once every 10 minutes";
const ENDS: &str = "tell me when a person is seen on camera gate for the next 3 hours";
const OFFICE: &str = "tell me when a person is seen on camera gate from 8:00 to 18:00";

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
        (WAITS, "add 30 seconds"),
        (WAITS, "plus 10 seconds"),
        (WAITS, "ok, and make it 10 seconds"),
        (MANY, "with dogs"),
        (COOLS, "for 10 minutes"),
        (COOLS, "for one hour only"),
        (OFFICE, "until 19:30"),
        (OFFICE, "before 20:00"),
        (OFFICE, "after 8 pm"),
        (OFFICE, "ok and from 8 pm to 10 pm"),
        (WAITS, "also the other way"),
        (MANY, "instead of people, cars"),
        (ENDS, "for 5 hours"),
        (OFFICE, "forget the times"),
        (OFFICE, "no end"),
    ] {
        assert!(PLAIN.is_correction(correction, &scene()), "{correction}");
        let answer = corrected(text, correction);
        assert!(
            !matches!(answer, Answer::Propose(_)),
            "{correction}: {answer:#?}"
        );
    }
}

#[test]
fn both_ends_of_hours_are_corrected_however_they_are_said() {
    for correction in ["from 8:00 to 19:30", "after 8:00 and before 19:30"] {
        let Answer::Propose(proposal) = corrected(OFFICE, correction) else {
            panic!("{correction}");
        };
        let said = &proposal.understood;
        assert!(said.contains("from 08:00 to 19:30"), "{correction}: {said}");
    }
}

#[test]
fn what_is_said_behind_an_opening_word_is_added() {
    let told = "tell me when a person is seen on camera gate and tell #security";
    for (text, correction, kept, added) in [
        (told, "ok and tell #front-desk", "#security", "#front-desk"),
        (
            told,
            "yes please, and tell #front-desk",
            "#security",
            "#front-desk",
        ),
        (told, "yes, and cars", "a person or", "car"),
        (told, "oh and dogs", "a person or", "dog"),
    ] {
        let Answer::Propose(proposal) = corrected(text, correction) else {
            panic!("{correction}");
        };
        for part in [kept, added] {
            assert!(proposal.understood.contains(part), "{proposal:?}");
        }
    }
}

#[test]
fn direction_is_neither_turned_nor_added() {
    let up = "tell me when a person crosses the horizontal line at 50% upwards on camera gate";
    for correction in [
        "the other way",
        "also the other way",
        "ok and the other direction too",
    ] {
        let answer = corrected(up, correction);
        assert!(matches!(answer, Answer::Unknown(_)), "{answer:#?}");
    }
}

#[test]
fn count_has_no_hours_and_times() {
    for text in [
        "count people on camera gate at night",
        "count cars on camera gate, at most once an hour",
        "count cars that cross the vertical line at 50% on camera gate for two hours",
        "tell me when there is no movement on camera gate for 10 minutes",
    ] {
        let answer = ask(text, &scene());
        assert!(matches!(answer, Answer::Ask(_)), "{text}: {answer:#?}");
    }
}

#[test]
fn events_of_motion_are_not_all_events() {
    for text in [
        "how many motion events today",
        "when did the last motion event happen",
    ] {
        let answer = ask(text, &with_pipelines(&["gate"]));
        assert!(matches!(answer, Answer::Unknown(_)), "{text}: {answer:#?}");
    }
}

#[test]
fn watch_that_is_named_by_its_camera_is_on_or_not() {
    let mut scene = with_pipelines(&["gate"]);
    scene.pipelines[0].name = "gate-people".to_owned();
    let Answer::Look(looked) = ask("is the gate watch on?", &scene) else {
        panic!("not looked up");
    };
    assert!(looked.text.starts_with("Yes: running."), "{}", looked.text);
}

#[test]
fn any_class_is_a_correction_and_no_question() {
    let Answer::Propose(any) = corrected(MANY, "any vehicle") else {
        panic!("not corrected");
    };
    assert!(PLAIN.is_correction("any vehicle", &scene()));
    assert!(!PLAIN.is_correction("any vehicle?", &scene()));
    assert!(any.understood.contains("vehicles"), "{any:?}");
}

#[test]
fn one_of_two_is_not_paused_with_the_other() {
    let scene = with_pipelines(&["gate", "yard"]);
    let answer = ask("pause the yard or the gate", &scene);
    assert!(matches!(answer, Answer::Unknown(_)), "{answer:#?}");
}

#[test]
fn place_called_till_is_no_end_of_a_pause() {
    let mut scene = with_pipelines(&["gate", "yard"]);
    scene.cameras[1]
        .places
        .push(watchkeeper_plain::scene::Place {
            name: "till".to_owned(),
            shape: watchkeeper_plain::scene::Shape::Line([0.1, 0.1], [0.9, 0.9]),
        });
    let answer = ask("pause the till on sundays", &scene);
    assert!(matches!(answer, Answer::Unknown(_)), "{answer:#?}");
}

#[test]
fn place_that_is_named_as_a_watch_changes_none() {
    let scene = with_pipelines(&["gate", "yard"]);
    let watch = scene.pipelines[1].spec.id.as_str();
    for text in [
        "make the left parking bay watch 10 seconds",
        "set the cooldown of the left parking bay to 5 minutes",
    ] {
        let Answer::Ask(asked) = ask(text, &scene) else {
            panic!("{text}");
        };
        assert!(asked.text.contains(watch), "{}", asked.text);
        assert_eq!(asked.about, Missing::Pipeline);
    }
}

#[test]
fn what_changes_no_watch_asks_for_no_watch() {
    let scene = with_pipelines(&["gate", "yard"]);
    for (text, said) in [
        (
            "make sure nobody enters the yard at night",
            "What shall be told?",
        ),
        ("take care that nothing bad happens", "What shall be told?"),
        ("alert less about cars", "how much less?"),
        ("fewer alerts about cars, please", "how much less?"),
        ("when does the gate watch run", "I did not understand"),
    ] {
        let answer = match ask(text, &scene) {
            Answer::Ask(question) => question.text,
            Answer::Unknown(unknown) => unknown.text,
            other => panic!("{text}: {other:#?}"),
        };
        assert!(answer.contains(said), "{text}: {answer}");
    }
}

#[test]
fn reason_of_a_refused_correction_is_that_of_what_waits() {
    let scene = with_pipelines(&["gate"]);
    let text = |order: &str| {
        let Ok(Answer::Unknown(refused)) = PLAIN.corrected(order, &["and cats".to_owned()], &scene)
        else {
            panic!("{order}");
        };
        refused.text
    };
    let paused = ask("no, just pause the gate watch", &scene);
    assert!(matches!(paused, Answer::Propose(_)), "{paused:#?}");
    assert!(text("delete the gate watch").contains("whole request"));
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
            "tell me when someone climbs over the vertical line at 50% on camera gate",
            "climbs",
        ),
        (
            "tell me when a person is on camera gate from now until 11 pm",
            "from",
        ),
        (
            "tell me when a person is on camera gate this weekend",
            "weekend",
        ),
        (
            "tell me when a person is at the edge of the left parking bay",
            "edge",
        ),
        (
            "tell me when a person is around the left parking bay",
            "around",
        ),
        ("tell me when a person is by the left parking bay", "by"),
        (
            "tell me when a person is left of the left parking bay",
            "left",
        ),
        ("tell me when a moving car is on camera gate", "moving"),
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
    for who in ["somebody is lying", "somebody is sitting", "a bag is left"] {
        let text = format!("tell me when {who} in the left half on camera gate for 2 minutes");
        let assumed = proposal(&text).assumed.join(" ");
        assert!(assumed.contains("how they are there"), "{text}: {assumed}");
    }
}

#[test]
fn word_for_a_rider_is_said_to_stand_for_the_vehicle() {
    let said = proposal("tell me when a cyclist crosses the vertical line at 50% on camera gate");
    let assumed = said.assumed.join(" ");
    assert!(assumed.contains("I can't tell \"cyclist\""), "{assumed}");
}

#[test]
fn number_of_those_who_came_in_is_said_to_be_of_events() {
    let scene = with_pipelines(&["gate"]);
    let Answer::Look(looked) = ask("how many people came into the gate today", &scene) else {
        panic!("not looked up");
    };
    assert!(
        looked.text.contains("one that comes twice"),
        "{}",
        looked.text
    );
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

#[test]
fn hours_beside_a_channel_are_said_to_be_those_of_the_watch() {
    let assumed = |text: &str| {
        let Answer::Propose(proposal) = ask(text, &scene()) else {
            panic!("{text}");
        };
        proposal.assumed.concat()
    };
    let night = assumed("tell #security at night when a person is on camera gate");
    assert!(night.contains("hours are those of the watch"), "{night}");
    let always = assumed("tell #security when a person is on camera gate");
    assert!(!always.contains("hours"), "{always}");
    let nobody = "Nobody was named to be told";
    let silent = assumed("tell me when a person is on camera gate");
    assert!(
        silent.contains(nobody) && !always.contains(nobody),
        "{silent}"
    );
}
