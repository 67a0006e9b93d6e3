//! What a refusal says: what was not understood, what no model knows, and a command that works.

use watchkeeper_plain::Scene;
use watchkeeper_plain::answer::{Answer, Change, Unknown};
use watchkeeper_plain::scene::Model;

use crate::support::{ask, proposal_in, scene, with_pipelines};

fn refusal(text: &str, scene: &Scene) -> Unknown {
    match ask(text, scene) {
        Answer::Unknown(unknown) => unknown,
        other => panic!("{text}: {other:#?}"),
    }
}

/// A box whose only detector tells no classes apart.
fn motion_only() -> Scene {
    let mut scene = scene();
    scene.models = vec![Model {
        name: "motion".to_owned(),
        labels: Vec::new(),
    }];
    scene
}

#[test]
fn what_no_model_knows_is_refused_at_once_and_named() {
    for scene in [scene(), motion_only()] {
        for (text, thing) in [
            ("Tell me when a safe appears", "safe"),
            ("Tell me when the safe appears on camera gate", "safe"),
            ("Tell me when there is a safe on camera gate", "safe"),
            ("Tell me about a safe on camera gate", "safe"),
            ("Tell me when a safe is in the yard", "safe"),
            ("Tell me when a forklift appears", "forklift"),
            ("Tell me when a postman appears", "postman"),
        ] {
            let refused = refusal(text, &scene);
            let mut quoted = refused.not_understood.iter();
            assert!(
                quoted.any(|words| words.contains(thing)) && refused.text.contains("no model here"),
                "{text}: {refused:?}"
            );
        }
    }
    // A class that another model has is named by it.
    let mut few = scene();
    few.models[0].labels = vec!["person".to_owned()];
    few.classes = vec!["truck".to_owned()];
    assert_eq!(
        refusal("Tell me when a lorry appears", &few).unseen,
        ["truck"]
    );
    let red = refusal("Tell me when a red car is on camera gate", &scene());
    assert_eq!(red.unseen, [""; 0], "{}", red.text);
}

#[test]
fn a_place_that_nobody_drew_is_still_asked_for() {
    for text in [
        "Watch the left parking bay on camera gate and tell me when it is free",
        "Tell me when somebody is at the safe on camera gate",
        "Tell me when the hall is empty on camera gate",
        "Watch the door on camera gate",
        "Tell me when a person is at the fence of the gate",
    ] {
        assert!(matches!(ask(text, &scene()), Answer::Ask(_)), "{text}");
    }
}

#[test]
fn a_watch_that_is_sent_to_a_channel_tells_it_too() {
    let mut scene = with_pipelines(&["gate", "dock"]);
    scene.pipelines[0].spec.id = "bench".parse().unwrap();
    scene.pipelines[0].name = "bench".to_owned();
    for text in [
        "send the bench watch to #security",
        "send the gate watch to #security too",
        "post the bench watch to the security channel",
        "tell #security about the bench watch",
        "let #security know about the gate watch",
    ] {
        let proposal = proposal_in(text, &scene);
        let [Change::Replace(spec)] = &proposal.changes[..] else {
            panic!("{text}: {proposal:#?}");
        };
        let rules = spec.rules.as_deref().unwrap();
        assert_eq!(spec.id.as_str(), "bench", "{text}");
        assert!(
            rules.iter().all(|rule| rule.notify.len() == 1),
            "{text}: {rules:?}"
        );
    }
    let Answer::Ask(unknown) = ask("send the bench watch to #all", &scene) else {
        panic!("offered");
    };
    assert!(unknown.text.contains("no channel #all"), "{unknown:?}");
    let told = proposal_in("send an alarm to #security for cars on camera gate", &scene);
    assert!(
        matches!(&told.changes[..], [Change::Deploy(_)]),
        "{told:#?}"
    );
}

#[test]
fn what_is_not_read_of_a_watch_is_quoted_and_nothing_is_offered() {
    for (said, quoted) in [
        (
            "a person is seen on camera gate and stop after 10 minutes",
            "stop after 10 minutes",
        ),
        (
            "somebody stays on camera gate for an hour and a half",
            "half",
        ),
        ("a person is seen on all cameras except the dock", "except"),
        (
            "a person is seen on camera gate and tell the office",
            "office",
        ),
    ] {
        let refused = refusal(&format!("Tell me when {said}"), &with_pipelines(&["dock"]));
        assert!(
            refused
                .not_understood
                .iter()
                .any(|words| words.contains(quoted))
                && refused.text.contains(&format!("{quoted}\"")),
            "{said}: {refused:?}"
        );
    }
}

fn refused(text: &str) -> String {
    match ask(text, &scene()) {
        Answer::Unknown(unknown) => unknown.text,
        Answer::Ask(question) => question.text,
        other => panic!("{text}: {other:#?}"),
    }
}

#[test]
fn date_is_refused_and_quoted() {
    let date = refused("on the first of december tell me when a car comes at the gate");
    assert!(date.contains("first of december\""), "{date}");
}

#[test]
fn a_camera_that_there_is_not_is_named() {
    let scene = with_pipelines(&["gate"]);
    for text in [
        "tell me when a person is on the swimming camera",
        "tell me when a person is on camera pool",
        "how many people were on the pool camera today",
        "what happened on camera pool yesterday",
        "pause the pool camera",
        "how many people are on the pool camera",
    ] {
        let refused = refusal(text, &scene);
        assert!(
            refused.text.contains("no camera \"") && refused.text.contains("dock"),
            "{text}: {}",
            refused.text
        );
    }
}

#[test]
fn a_place_that_nobody_drew_is_no_class_that_is_counted() {
    refusal("who is on the bench now", &with_pipelines(&["gate"]));
}

#[test]
fn refusal_names_the_remedy_for_the_word_that_was_not_read() {
    let scene = with_pipelines(&["gate", "dock"]);
    for (text, remedy) in [
        (
            "tell me when exactly 3 people are on camera gate",
            "at least 3",
        ),
        (
            "tell me when there are fewer sheep than 12 on camera gate",
            "fewer than 3",
        ),
        (
            "tell me when a car comes on camera gate tonight",
            "every day",
        ),
        (
            "tell me when a car does not come on camera gate",
            "nobody is at the dock",
        ),
        (
            "no more alerts from the gate please",
            "pause the gate watch",
        ),
        ("remove buses from the gate watch", "ignore buses"),
        (
            "pause everything for an hour, but not the dock",
            "everything but the gate",
        ),
        (
            "stop all watches on the gate except the dock",
            "everything but the gate",
        ),
        (
            "don't send anything to security any more",
            "no notifications",
        ),
        ("cancel the last job", "watchkeeper job cancel"),
        ("cancel all jobs", "watchkeeper job cancel"),
        ("never mind the dock", "before you say yes"),
        ("don't pause the dock", "before you say yes"),
    ] {
        let text_of = match ask(text, &scene) {
            Answer::Unknown(unknown) => unknown.text,
            Answer::Ask(question) => question.text,
            other => panic!("{text}: {other:#?}"),
        };
        assert!(text_of.contains(remedy), "{text}: {text_of}");
    }
}

#[test]
fn words_written_in_a_hurry_are_read() {
    let said = proposal_in("tel me wen a person is on camera gate", &scene());
    assert!(said.understood.contains("a person is"), "{said:?}");
}
