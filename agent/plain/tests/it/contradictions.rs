//! What contradicts the rest of a request, or was said before it was corrected, is said or refused.

use watchkeeper_contract::rule::Schedule;
use watchkeeper_plain::Missing;
use watchkeeper_plain::answer::{Answer, EventsWanted, Look};

use crate::support::{PLAIN, ask, deployed, proposal_in, question, scene, specs, with_pipelines};

fn schedule(text: &str) -> Schedule {
    let rule = deployed(text).rules.unwrap().remove(0);
    rule.schedule.unwrap()
}

fn events(text: &str) -> EventsWanted {
    match ask(text, &with_pipelines(&["gate"])) {
        Answer::Look(looked) => match looked.look {
            Look::Events(wanted) => *wanted,
            other => panic!("{text}: {other:?}"),
        },
        other => panic!("{text}: {other:#?}"),
    }
}

#[test]
fn those_who_stay_are_not_counted_as_all() {
    for text in [
        "count people who stay in the left parking bay",
        "count the people who wait in the left half on camera gate",
    ] {
        let asked = question(text, Missing::Meaning);
        assert!(asked.text.contains("not only those who stay"), "{asked:?}");
    }
}

#[test]
fn a_direction_at_a_zone_asks_for_no_line_that_it_would_refuse() {
    let text = "tell me when a car goes from left to right in the left parking bay";
    let asked = question(text, Missing::Meaning);
    assert!(asked.text.contains("is a zone"), "{asked:?}");
}

#[test]
fn an_assumption_goes_with_what_is_corrected() {
    let text = "tell me when a person is in the top left corner on camera gate, save a clip";
    for (correction, gone) in [
        ("make it the right half", "corner"),
        (
            "a clip from 5 seconds before to 10 seconds after it",
            "How long the clip is",
        ),
    ] {
        let before = proposal_in(text, &scene()).assumed.concat();
        assert!(before.contains(gone), "{before}");
        let corrections = [correction.to_owned()];
        let Answer::Propose(after) = PLAIN.corrected(text, &corrections, &scene()).unwrap() else {
            panic!("{correction}");
        };
        let after = after.assumed.concat();
        assert!(!after.contains(gone), "{correction}: {after}");
    }
}

#[test]
fn a_correction_of_the_channel_takes_back_what_was_not_possible() {
    let text = "tell me when a person is on camera gate, tell #upstairs";
    let corrections = ["send it to #security".to_owned()];
    let Answer::Propose(after) = PLAIN.corrected(text, &corrections, &scene()).unwrap() else {
        panic!("not corrected");
    };
    assert_eq!(after.not_possible, [""; 0]);
}

#[test]
fn what_is_deleted_is_not_called_stopped() {
    let proposal = proposal_in("delete the gate alarm", &with_pipelines(&["gate"]));
    assert!(proposal.understood.starts_with("Delete "), "{proposal:?}");
}

#[test]
fn a_half_of_the_day_that_is_said_is_kept() {
    let text = "what happened last night before 11 am";
    let answer = ask(text, &with_pipelines(&["gate"]));
    assert!(!matches!(answer, Answer::Look(_)), "{answer:#?}");
    let until = events("what happened last night before 11").to.unwrap();
    assert_eq!(until.to_string(), "2026-03-27T22:00:00Z");
}

#[test]
fn a_part_of_the_day_beside_hours_is_refused_in_a_rule() {
    let afternoon = events("how many people came yesterday afternoon between 2 and 4");
    assert_eq!(afternoon.from.unwrap().to_string(), "2026-03-27T13:00:00Z");
    assert_eq!(afternoon.to.unwrap().to_string(), "2026-03-27T15:00:00Z");
    let text = "tell me when a person is on camera gate in the morning from 10:00 to 18:00";
    assert!(!matches!(ask(text, &scene()), Answer::Propose(_)));
    let text = "how many people came this morning from 14:00 to 16:00";
    assert!(!matches!(
        ask(text, &with_pipelines(&["gate"])),
        Answer::Look(_)
    ));
    let twice = "tell me when a person is on camera gate at night from 22:00 to 6:00";
    assert!(!matches!(ask(twice, &scene()), Answer::Propose(_)));
}

#[test]
fn hours_are_read_as_owners_say_them() {
    let text = "tell me when a person is on camera gate";
    for (said, from, to) in [
        ("outside office hours", "18:00", "08:00"),
        ("during office hours", "08:00", "18:00"),
        ("after hours", "18:00", "08:00"),
        ("but not at night", "06:00", "22:00"),
        ("between 7:30 and 8:45 pm", "19:30", "20:45"),
        ("after 7:30", "07:30", "00:00"),
        ("after 12:30 at night", "00:30", "06:00"),
    ] {
        let read = schedule(&format!("{text} {said}"));
        assert_eq!((&*read.from, &*read.to), (from, to), "{said}");
    }
}

#[test]
fn a_watch_that_looks_for_everything_has_all_classes() {
    let scene = with_pipelines(&["gate"]);
    let text = "the gate alarm should look for everything with a confidence of 60%";
    let proposal = proposal_in(text, &scene);
    let changed = specs(&proposal).remove(0).workflow.to_string();
    assert!(changed.contains("giraffe"), "{changed}");
    assert!(proposal.understood.contains("anything"), "{proposal:?}");
    let vague = "the gate alarm should save a clip of something";
    assert!(!matches!(ask(vague, &scene), Answer::Propose(_)));
}

#[test]
fn a_word_like_a_class_is_not_taken_for_it() {
    let text = "how many doors are marked in my plan";
    assert!(!format!("{:?}", ask(text, &scene())).contains("plant"));
}
