//! What is looked up besides events: what is paused, notes, costs and coverage.

use jiff::ToSpan as _;
use watchkeeper_plain::answer::{Answer, Look, Looked};
use watchkeeper_plain::{Change, Scene};

use crate::support::{PLAIN, ask, evening, proposal_in, question_in, scene, with_pipelines};

/// A box whose gate watch is paused until eleven tonight, and whose dock watch runs.
fn box_with_a_pause() -> Scene {
    let mut scene = with_pipelines(&["gate", "dock"]);
    scene.pipelines[0].paused = true;
    scene.pipelines[0].paused_until = Some(evening().saturating_add(110.minutes()));
    scene
}

fn looked(text: &str, scene: &Scene) -> Looked {
    match ask(text, scene) {
        Answer::Look(looked) => looked,
        other => panic!("{text}: {other:#?}"),
    }
}

#[test]
fn short_question_goes_on_from_the_one_before() {
    let of = |question, text| {
        let found = PLAIN.follow_up(question, text, &scene());
        found.map(|(whole, _)| whole)
    };
    for (question, text, whole) in [
        (
            "was anybody on camera gate today?",
            "and the yard?",
            "was anybody on camera yard today",
        ),
        (
            "how many cars came yesterday",
            "and people?",
            "how many people came yesterday",
        ),
        (
            "how many cars came today?",
            "what about yesterday",
            "how many cars came yesterday",
        ),
        (
            "did a car come to the yard",
            "and last night?",
            "did a car come to the yard last night",
        ),
    ] {
        assert_eq!(of(question, text).as_deref(), Some(whole), "{text}");
    }
    for text in [
        "and people in the yard",
        "yesterday",
        "and pause it",
        "and purple dogs",
    ] {
        assert_eq!(of("how many cars came today", text), None, "{text}");
    }
    let compared = "how many cars came yesterday and today?";
    assert_eq!(of(compared, "and on monday?"), None, "which of the two");
}

#[test]
fn what_is_paused_lists_nothing_that_runs() {
    for (text, shown) in [
        ("what is paused right now", Some(1)),
        ("is anything paused?", Some(1)),
        ("which watches are running", None),
        ("which watches are there", None),
        ("is the gate alarm paused?", Some(1)),
    ] {
        let Look::Pipelines(only) = looked(text, &box_with_a_pause()).look else {
            panic!("{text}");
        };
        assert_eq!(only.map(|only| only.len()), shown, "{text}");
    }
}

#[test]
fn what_was_done_to_a_watch_is_in_the_audit_log() {
    for text in [
        "was the gate alarm paused yesterday",
        "what did you change last",
        "what was changed yesterday",
        "what was paused",
        "when was everything paused",
        "when was the gate camera paused?",
        "what was deleted yesterday",
        "since when is the gate camera paused",
    ] {
        let Answer::Unknown(refused) = ask(text, &box_with_a_pause()) else {
            panic!("{text}");
        };
        assert!(
            refused.text.contains("watchkeeper audit"),
            "{text}: {refused:?}"
        );
    }
}

#[test]
fn notes_are_asked_for_by_what_they_are_about() {
    for text in [
        "what did I tell you about the gate?",
        "did I say anything about the gate",
        "what do you know about the gate",
        "show my notes about the gate",
    ] {
        let Look::Notes(words) = looked(text, &box_with_a_pause()).look else {
            panic!("{text}");
        };
        assert_eq!(words, "the gate", "{text}");
    }
}

#[test]
fn costs_are_looked_up() {
    for text in [
        "how much does it cost",
        "what does it cost?",
        "how much have you spent so far",
        "what is the budget",
    ] {
        assert_eq!(looked(text, &box_with_a_pause()).look, Look::Cost, "{text}");
    }
    let time = ask("how many people spent time here today", &box_with_a_pause());
    assert!(!matches!(&time, Answer::Look(l) if l.look == Look::Cost));
}

#[test]
fn a_longer_pause_is_not_shortened() {
    let scene = box_with_a_pause();
    for only in ["", "only "] {
        let text = format!("pause the gate alarm {only}for 10 minutes");
        let kept = question_in(&text, &scene);
        assert!(kept.text.contains("23:00"), "{}", kept.text);
    }
    let proposal = proposal_in("pause the gate alarm for 5 hours", &scene);
    let [Change::Pause { until, .. }] = &proposal.changes[..] else {
        panic!("{proposal:#?}");
    };
    assert_eq!(until.as_ref(), Some(&evening().saturating_add(5.hours())));
    assert!(proposal.assumed.concat().contains("23:00"), "{proposal:#?}");
    for (text, paused) in [
        ("pause everything for 30 minutes", 1),
        ("pause everything for 5 hours", 2),
        ("pause everything only for 30 minutes", 1),
    ] {
        let proposal = proposal_in(text, &scene);
        assert_eq!(proposal.changes.len(), paused, "{proposal:#?}");
        let stays = proposal.assumed.concat().contains("stays so");
        assert_eq!(stays, paused == 1, "{proposal:#?}");
    }
    let both = proposal_in("pause everything for 10 minutes", &scene);
    assert_eq!(both.changes.len(), 1, "{both:#?}");
    assert!(both.assumed.concat().contains("gate-"), "{both:#?}");
}

#[test]
fn a_pause_without_an_end_is_longer_than_any() {
    let mut scene = box_with_a_pause();
    scene.pipelines[0].paused_until = None;
    let kept = question_in("pause the gate alarm for 5 hours", &scene);
    assert!(kept.text.contains("until somebody resumes it"), "{kept:?}");
}

#[test]
fn a_list_of_what_is_paused_names_nothing_else() {
    let said = looked("what is paused", &box_with_a_pause()).text;
    assert!(said.contains("gate-") && !said.contains("dock-"), "{said}");
    assert!(
        said.contains("paused until") && said.contains("23:00"),
        "{said}"
    );
    let said = looked("what is paused", &with_pipelines(&["gate"])).text;
    assert_eq!(said, "Nothing is paused there.");
}

#[test]
fn whether_one_watch_is_on_is_answered_by_yes_or_no() {
    for (text, answer) in [
        ("is the gate alarm on", "No: paused."),
        ("is the gate alarm paused?", "Yes: paused."),
        ("is the dock alarm running", "Yes: running."),
        ("is the dock alarm paused", "No: "),
    ] {
        let said = looked(text, &box_with_a_pause()).text;
        assert!(said.starts_with(answer), "{text}: {said}");
    }
    let mut failed = box_with_a_pause();
    failed.pipelines[1].not_running = Some("failed: no such model".to_owned());
    for (text, answer) in [
        ("is the dock alarm running", "No: failed"),
        ("is the dock alarm off", "Yes: failed"),
        ("is the dock alarm paused", "No: "),
    ] {
        let said = looked(text, &failed).text;
        assert!(said.starts_with(answer), "{text}: {said}");
        assert!(said.contains("failed: no such model"), "{said}");
    }
    let elsewhere = ask("is the gate alarm on the dock camera", &box_with_a_pause());
    assert!(!format!("{elsewhere:?}").contains("Yes"), "{elsewhere:?}");
}

#[test]
fn end_of_a_pause_is_asked_for() {
    for text in [
        "until when is the gate alarm paused",
        "how long is the gate alarm paused?",
    ] {
        let said = looked(text, &box_with_a_pause()).text;
        assert!(
            said.contains("paused until 2026-03-28 23:00"),
            "{text}: {said}"
        );
        assert!(!said.contains("yard"), "{text}: {said}");
    }
}

#[test]
fn when_a_camera_was_watched_is_looked_up_with_its_time() {
    for (text, on, time) in [
        (
            "was the gate camera watched last night",
            Some("gate"),
            "22:00",
        ),
        (
            "was the gate camera offline yesterday",
            Some("gate"),
            "00:00",
        ),
        ("were you off today", None, "until now"),
        ("was the box blind today", None, "until now"),
    ] {
        let answer = looked(text, &box_with_a_pause());
        let Look::Coverage(wanted) = answer.look else {
            panic!("{text}: {answer:?}");
        };
        let camera = wanted.camera.as_ref().map(|id| id.as_str());
        assert_eq!(camera, on, "{text}");
        assert!(answer.text.contains(time), "{text}: {}", answer.text);
    }
}

#[test]
fn what_talking_does_not_do_is_refused_with_the_way_to_it() {
    for (text, way) in [
        ("list my notes", "memory list"),
        ("what notes do you have", "memory list"),
        ("forget about the red van", "memory forget"),
        ("forget the note about the red van", "memory forget"),
        ("take a picture", "frame save"),
        ("take a photo of the gate now", "frame save"),
        ("ok, take a picture", "frame save"),
        ("what did it cost since last year", "today and this month"),
        (
            "how much does this box cost me per day",
            "how much does it cost",
        ),
        ("do that for the yard too", "also on the yard camera"),
        ("do the same for the yard", "also on the yard camera"),
        ("which cameras were not watched", "watchkeeper coverage"),
        ("since when are you watching", "watchkeeper coverage"),
        ("undo that", "watchkeeper audit"),
        ("show me the last one", "the last event"),
        ("until when", "what is paused"),
        ("list jobs", "watchkeeper job list"),
        ("which jobs are running", "watchkeeper job list"),
        ("which camera had the most events", "on all cameras today"),
        ("what does the gate alarm cost", "in its proposal"),
    ] {
        let Answer::Unknown(unknown) = ask(text, &box_with_a_pause()) else {
            panic!("{text}");
        };
        assert!(unknown.text.contains(way), "{text}: {}", unknown.text);
    }
}

#[test]
fn picture_of_what_comes_is_a_watch() {
    for text in [
        "take a picture when a car is at the yard",
        "tell me when a car enters the left parking bay and take a picture",
        "when a car enters the left parking bay, take a picture",
        "take a photo as soon as a car enters the left parking bay",
        "take a picture of anyone who enters the left parking bay",
    ] {
        let proposal = proposal_in(text, &box_with_a_pause());
        assert!(
            matches!(proposal.changes[..], [Change::Deploy(_)]),
            "{text}"
        );
    }
}

#[test]
fn that_is_all_means_no_watch() {
    let scene = with_pipelines(&["gate", "dock"]);
    for text in ["pause it for an hour, that's all", "pause it, that is all"] {
        assert_eq!(question_in(text, &scene).choices.len(), 3, "{text}");
    }
}

#[test]
fn several_watches_of_one_camera_may_all_be_meant() {
    let mut scene = with_pipelines(&["gate", "dock"]);
    let mut second = scene.pipelines[0].clone();
    second.spec.id = "gate-second".parse().unwrap();
    second.name = "Second".to_owned();
    scene.pipelines.push(second);
    for (text, all) in [("pause the gate camera", 2), ("pause the camera", 3)] {
        let question = question_in(text, &scene);
        assert!(question.choices.contains(&"all".to_owned()), "{text}");
        let proposal = proposal_in(&question.answered("all"), &scene);
        assert_eq!(proposal.changes.len(), all, "{text}");
    }
    for (text, said) in [
        ("resume the gate camera", "Nothing is paused there."),
        (
            "turn off the yard camera",
            "There is nothing to stop there.",
        ),
    ] {
        let refused = question_in(text, &scene).text;
        assert!(refused.starts_with(said), "{text}: {refused}");
    }
}

#[test]
fn start_it_again_resumes_what_is_paused() {
    let scene = box_with_a_pause();
    let changes = proposal_in("start it again", &scene).changes;
    let paused = scene.pipelines[0].spec.id.clone();
    assert_eq!(changes, [Change::Resume(paused)]);
}
