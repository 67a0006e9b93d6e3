//! What may be meant in two ways, or says more than one rule holds, is not offered as one of them.

use watchkeeper_contract::rule::{Condition, Severity};
use watchkeeper_plain::Scene;
use watchkeeper_plain::answer::{Answer, Change, Look};

use crate::support::{ask, deployed, proposal_in, scene, specs, with_pipelines};

fn refused_in(text: &str, scene: &Scene) -> String {
    match ask(text, scene) {
        Answer::Unknown(unknown) => unknown.text,
        Answer::Ask(question) => question.text,
        other => panic!("{text}: {other:#?}"),
    }
}

fn refused(text: &str) -> String {
    refused_in(text, &scene())
}

fn conditions(text: &str) -> Vec<Condition> {
    let rules = deployed(text).rules.unwrap();
    rules.into_iter().map(|rule| rule.when).collect()
}

#[test]
fn two_clauses_about_one_class_are_not_one_rule() {
    for text in [
        "tell me when a car comes to the gate. tell me when it leaves",
        "tell me when a car comes to the gate or leaves",
        "tell me when a person is at the gate, and warn me if they stay longer than 10 minutes",
        "tell me when a person enters the gate and when they stay there for 5 minutes",
        "tell me about people at the gate, and warn me after 10 minutes",
        "tell me about people at the gate, and alert me about those staying longer than 5 minutes",
        "alert me about people at the gate, urgently if they stay 10 minutes",
        "alert me about people at the gate. If they stay 10 minutes it's urgent",
        "tell me as soon as a person is at the gate. tell me as soon as they stay 5 minutes",
        "tell me about people who enter the gate and who stay there for 5 minutes",
    ] {
        refused(text);
    }
}

#[test]
fn one_condition_in_two_clauses_is_offered() {
    for text in [
        "Keep an eye on the gate for people. Tell me when they stay there for 5 minutes.",
        "tell me when a person enters the gate and stays there for 5 minutes",
        "tell me when a person has been at the gate for 10 minutes",
        "could you always tell me when a person stays at the gate for 5 minutes",
    ] {
        let found = conditions(text);
        assert!(
            matches!(found.as_slice(), [Condition::Stays { .. }]),
            "{text}: {found:?}"
        );
    }
    let both = conditions("tell me when a car enters the left half of the gate and when it leaves");
    assert!(
        matches!(
            both.as_slice(),
            [Condition::Enters { .. }, Condition::Leaves { .. }]
        ),
        "{both:?}"
    );
}

#[test]
fn no_rule_tells_for_how_long_something_moves() {
    for text in [
        "tell me when a car parked for 5 minutes moves",
        "tell me when a car moves at the gate for 10 seconds",
        "tell me when a parked car is moving at the gate",
    ] {
        refused(text);
    }
    conditions("tell me when a car moves at the gate");
}

#[test]
fn a_question_counts_no_class_that_is_left_out() {
    let scene = with_pipelines(&["gate", "dock"]);
    for text in [
        "how many cars but no trucks yesterday",
        "how many cars but no trucks are there",
        "how many people came to the gate yesterday without a car",
        "how many people with dogs were at the gate yesterday",
        "how many people came to the gate yesterday while no car was there",
        "how many people except children were at the gate yesterday",
        "were there cars without people at the gate today",
    ] {
        refused_in(text, &scene);
    }
    for (text, labels) in [
        ("how many cars and trucks yesterday", ["car", "truck"]),
        ("how many people, cars yesterday", ["person", "car"]),
        ("how many dogs or cats came yesterday", ["dog", "cat"]),
    ] {
        match ask(text, &scene) {
            Answer::Look(looked) => match looked.look {
                Look::Events(wanted) => assert_eq!(wanted.labels, labels, "{text}"),
                other => panic!("{text}: {other:?}"),
            },
            other => panic!("{text}: {other:#?}"),
        }
    }
}

#[test]
fn a_word_that_limits_a_question_is_not_passed_over() {
    let scene = with_pipelines(&["gate", "dock"]);
    for text in [
        "how many people did not leave the gate yesterday",
        "how many new people came yesterday",
        "how many other people came yesterday",
        "how many people came first yesterday",
        "how many people came to the gate once yesterday",
        "how many people came to the gate again yesterday",
        "how many people came while it was open yesterday",
        "how many people came at least yesterday",
        "on which camera were most people yesterday",
        "how many people went in and out yesterday",
        "how many people were at the gate for long yesterday",
        "how many people were always at the gate yesterday",
        "how many people came or left yesterday",
        "which cameras are not online",
        "which watches are not running",
    ] {
        refused_in(text, &scene);
    }
    for text in [
        "how many people left the gate yesterday",
        "was anybody at the gate yesterday",
        "which cameras are online",
        "could you show me what is running",
    ] {
        assert!(matches!(ask(text, &scene), Answer::Look(_)), "{text}");
    }
}

#[test]
fn only_takes_the_place_of_a_watch_where_it_limits_what_is_told() {
    let scene = with_pipelines(&["gate"]);
    for text in [
        "tell me when only a person is at the gate",
        "tell me if just a person is at the gate",
        "tell me when there is only a person at the gate",
        "tell me when people only are at the gate",
    ] {
        refused_in(text, &scene);
    }
    for text in [
        "tell me only about dogs at the gate",
        "watch the gate only for dogs",
        "tell me about dogs only at the gate",
    ] {
        let changes = proposal_in(text, &scene).changes;
        let pauses = |change: &Change| matches!(change, Change::Pause { .. });
        assert!(changes.iter().any(pauses), "{text}: {changes:?}");
    }
}

#[test]
fn what_is_urgent_is_not_lowered() {
    for text in [
        "urgent: tell me when a person is at the gate, no notifications",
        "tell me when a person is at the gate, critical, but no notifications",
    ] {
        refused(text);
    }
    let spec = deployed("urgent: tell me when a person is at the gate");
    assert_eq!(spec.rules.unwrap()[0].severity, Severity::Critical);
}

#[test]
fn what_no_model_sees_is_quoted_by_a_refusal() {
    for (text, verb) in [
        ("tell me when a person closes the gate", "\"closes\""),
        ("tell me when a person opens the gate", "\"opens\""),
        (
            "tell me when the car is locked for 10 seconds at the gate",
            "\"locked\"",
        ),
    ] {
        let said = refused(text);
        assert!(said.contains(verb), "{text}: {said}");
    }
}

#[test]
fn a_number_that_is_to_be_sent_at_intervals_is_no_rule() {
    for text in [
        "count cars at the gate each hour and tell me",
        "count cars at the gate every 10 minutes and send me a message",
    ] {
        refused(text);
    }
    assert_eq!(conditions("count cars at the gate each hour"), []);
}

#[test]
fn two_named_cameras_are_an_answer_to_which() {
    let mut scene = with_pipelines(&["gate", "dock", "yard"]);
    for text in [
        "delete the gate watch and the dock watch",
        "pause the gate watch and the dock watch",
    ] {
        let changes = proposal_in(text, &scene).changes;
        let on: Vec<&str> = changes.iter().map(|c| c.pipeline().as_str()).collect();
        assert_eq!(on, ["gate-person-appears", "dock-person-appears"], "{text}");
    }
    let part = proposal_in("pause the gate watch and the hall watch", &{
        let mut scene = scene.clone();
        scene.cameras.push(crate::support::camera("hall", "Hall"));
        scene
    });
    assert_eq!(part.changes.len(), 1);
    // Which of two on one camera is meant was not said.
    let mut other = scene.pipelines[0].clone();
    other.name = "second".to_owned();
    other.spec.id = watchkeeper_contract::id::PipelineId::new("gate-second").unwrap();
    scene.pipelines.push(other);
    refused_in("delete the gate watch and the dock watch", &scene);
}

#[test]
fn what_is_expected_or_goes_on_is_not_passed_over() {
    for text in [
        "tell me when a person is always at the gate",
        "tell me when a person is constantly at the gate",
        "tell me when a car is continuously at the gate",
        "tell me when a person is at the gate again",
        "tell me when a person should be at the gate",
        "tell me if a person could be at the gate",
        "tell me when a person must be at the gate",
        "tell me when a person may be at the gate",
        "tell me when a person was at the gate",
        "tell me when a person has been at the gate",
    ] {
        refused(text);
    }
}

#[test]
fn an_exit_or_an_entry_behind_an_article_is_a_place() {
    for (text, place) in [
        (
            "alert me when a person enters the emergency exit on camera gate",
            "emergency exit",
        ),
        (
            "tell me when a car blocks the entry on camera gate for 5 minutes",
            "entry",
        ),
        (
            "tell me when a car blocks the exit on camera gate for 5 minutes",
            "exit",
        ),
    ] {
        let said = refused(text);
        assert!(
            said.contains(&format!("Where in the picture is \"{place}\"?")),
            "{text}: {said}"
        );
    }
    for text in [
        "tell me when a person exits the left half of camera gate",
        "tell me when a car is exiting the left half of camera gate",
    ] {
        assert!(
            matches!(conditions(text).as_slice(), [Condition::Leaves { .. }]),
            "{text}"
        );
    }
    let urgent = deployed("emergency: tell me when a person is at the gate");
    assert_eq!(urgent.rules.unwrap()[0].severity, Severity::Critical);
}

#[test]
fn a_channel_and_no_notification_contradict_each_other() {
    let said = refused("tell #security when a person is seen on camera gate, no notifications");
    assert!(said.contains("without one of the two"), "{said}");
}

#[test]
fn somebody_on_the_phone_names_no_channel() {
    let mut scene = scene();
    scene.channels.truncate(1);
    for text in [
        "tell me when a worker is on phone on camera gate",
        "tell me when a person stops to phone on camera gate",
    ] {
        if let Answer::Propose(proposal) = ask(text, &scene) {
            panic!("{text}: {proposal:#?}");
        }
    }
    let sent = proposal_in("tell me by phone when a person is on camera gate", &scene);
    let rule = specs(&sent).remove(0).rules.unwrap().remove(0);
    assert_eq!(rule.notify, scene.channels);
}

#[test]
fn class_narrowed_after_a_comma_is_not_offered_wider() {
    let text = refused("tell me about vehicles, cars only on camera gate");
    assert!(text.contains("cars"), "{text}");
    let both = deployed("tell me about cars and trucks only on camera gate");
    assert_eq!(
        both.workflow["steps"][0]["class_filter"],
        serde_json::json!(["car", "truck"])
    );
}

#[test]
fn nothing_else_is_refused_beside_what_is_watched_for() {
    for text in [
        "tell me when nothing else but a dog is on camera gate",
        "tell me when a dog and nothing else is in the left half of camera gate",
    ] {
        let said = refused(text);
        assert!(said.contains("nothing else"), "{text}: {said}");
    }
}

#[test]
fn a_negation_belongs_to_the_class_behind_it() {
    let said = refused("tell me about not only people but cars on camera gate");
    assert!(said.contains("not"), "{said}");
    for text in [
        "tell me about vehicles but not cars on camera gate",
        "tell me about vehicles apart from the cars on camera gate",
        "tell me about vehicles other than cars on camera gate",
        "tell me about vehicles on camera gate, leave out cars",
    ] {
        let classes = deployed(text).workflow["steps"][0]["class_filter"].to_string();
        assert!(
            classes.contains("truck") && !classes.contains("\"car\""),
            "{text}: {classes}"
        );
    }
}
