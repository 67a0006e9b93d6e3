//! Who is told: a channel by its bare name, and somebody who is none.

use watchkeeper_plain::answer::{Answer, Change};
use watchkeeper_plain::scene::Scene;

use crate::support::{ask, camera, proposal_in, question_in, scene, specs, with_pipelines};

/// A box with a hall and the channels security and front-desk.
fn site() -> Scene {
    let mut scene = scene();
    scene.cameras.push(camera("hall", "Hall"));
    scene
}

fn told(text: &str) -> Vec<String> {
    let proposal = proposal_in(text, &site());
    assert_eq!(proposal.not_understood, [""; 0], "{text}");
    assert_eq!(proposal.not_possible, [""; 0], "{text}");
    let spec = specs(&proposal).remove(0);
    let rule = spec.rules.unwrap().remove(0);
    rule.notify.iter().map(ToString::to_string).collect()
}

#[test]
fn a_bare_name_of_a_channel_that_is_told_is_that_channel() {
    for text in [
        "notify security when someone enters the left half of the hall",
        "tell security when someone enters the left half of the hall",
        "Tell the security if someone enters the left half of the hall",
        "message security when a car is seen in the hall",
        "call security as soon as a person is in the hall",
        "let security know when a car is seen in the hall",
        "alert security at night when a person is in the hall",
        "tell me when someone enters the left half of the hall and notify security",
        "send it to security when someone enters the left half of the hall",
        "when a person is seen in the hall, send a message to security",
        "when a person is seen in the hall, tell security",
        "tell security about people in the hall",
    ] {
        assert_eq!(told(text), ["security"], "{text}");
    }
    for text in [
        "notify the front desk and security when someone enters the left half of the hall",
        "tell security and the front-desk when a car is seen in the hall",
    ] {
        assert_eq!(told(text), ["security", "front-desk"], "{text}");
    }
}

#[test]
fn somebody_who_is_no_channel_is_not_understood() {
    for (text, name) in [
        (
            "notify the office when someone enters the left half of the hall",
            "office",
        ),
        ("tell marketing when a car is seen in the hall", "marketing"),
        (
            "alert the night guards when a car is seen in the hall",
            "guards",
        ),
        ("notify everyone when a car is seen in the hall", "everyone"),
    ] {
        let Answer::Unknown(unknown) = ask(text, &site()) else {
            panic!("{text}");
        };
        let words = unknown.not_understood.join(" ");
        assert!(words.contains(name), "{text}: {words}");
    }
}

#[test]
fn a_name_that_is_no_receiver_in_the_sentence_is_none() {
    let mut scene = site();
    scene.channels.push("gate".parse().unwrap());
    let spec = specs(&proposal_in(
        "alert me when a person is at the gate",
        &scene,
    ))
    .remove(0);
    assert_eq!(spec.source.as_str(), "gate");
    assert!(spec.rules.unwrap()[0].notify.is_empty());
    let text = "tell the gate when a person is seen in the hall";
    let spec = specs(&proposal_in(text, &scene)).remove(0);
    assert_eq!(spec.source.as_str(), "hall");
    assert_eq!(spec.rules.unwrap()[0].notify[0].as_str(), "gate");
    let spec = specs(&proposal_in("watch the gate camera for people", &scene)).remove(0);
    assert!(spec.rules.unwrap()[0].notify.is_empty());
    let people = "Alert people when they enter the left half of the hall";
    assert!(matches!(ask(people, &scene), Answer::Propose(_)));
}

#[test]
fn a_watch_that_there_is_tells_others_too_and_no_other_is_set_beside_it() {
    let scene = with_pipelines(&["gate", "dock"]);
    for text in [
        "send the gate watch to #front-desk too",
        "send the gate alarm to #front-desk as well",
        "also send the gate watch to #front-desk",
        "forward the gate watch to front-desk too",
        "let #front-desk know about the gate watch too",
        "tell #front-desk about the gate watch as well",
        "post gate-person-or-ca-appears to #front-desk",
    ] {
        let proposal = proposal_in(text, &scene);
        assert_eq!(proposal.not_understood, [""; 0], "{text}");
        let [Change::Replace(spec)] = proposal.changes.as_slice() else {
            panic!("{text}: {:#?}", proposal.changes);
        };
        assert_eq!(spec.id, scene.pipelines[0].spec.id, "{text}");
        let rules = spec.rules.iter().flatten();
        for rule in rules {
            let told: Vec<&str> = rule.notify.iter().map(|c| c.as_str()).collect();
            assert_eq!(told, ["front-desk"], "{text}");
        }
    }
    let nothing = "send nothing to #front-desk about the gate watch";
    assert!(!matches!(ask(nothing, &scene), Answer::Propose(_)));
    let all = question_in("send all watches to #front-desk", &scene);
    assert_eq!(all.choices.len(), 2, "{}", all.text);
    // One of several is asked for, and what is watched for is a watch of its own.
    let which = question_in("send the watch to #front-desk too", &scene);
    assert_eq!(which.choices.len(), 2, "{}", which.text);
    for text in [
        "tell #front-desk about people on camera gate too",
        "send people on camera gate to #front-desk",
        "tell #front-desk when a person is on camera gate",
    ] {
        let changes = proposal_in(text, &scene).changes;
        assert!(
            matches!(&changes[..], [Change::Deploy(_)]),
            "{text}: {changes:#?}"
        );
    }
}
