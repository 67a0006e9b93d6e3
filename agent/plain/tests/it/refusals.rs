//! What a refusal says: what was not understood, what no model knows, and a command that works.

use std::collections::BTreeMap;

use watchkeeper_plain::Scene;
use watchkeeper_plain::answer::{Answer, Change, Unknown};
use watchkeeper_plain::scene::Model;

use crate::support::{PLAIN, ask, proposal_in, scene, with_pipelines};

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
            let said = format!("\"{thing}\" can't be watched for: no model here");
            assert!(refused.text.contains(&said), "{text}: {}", refused.text);
            assert_eq!(refused.unseen, [thing], "{text}");
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
        "Tell me when somebody is at the safe on camera gate",
        "Tell me when the hall is empty on camera gate",
        "Watch the door on camera gate",
    ] {
        assert!(matches!(ask(text, &scene()), Answer::Ask(_)), "{text}");
    }
}

/// The flags of the command that a refusal suggests, by their parameters.
fn suggested(text: &str) -> (String, BTreeMap<String, String>) {
    let command = text.split("watchkeeper watch ").nth(1);
    let command = command.unwrap_or_else(|| panic!("{text}"));
    let mut words = command.split('`').next().unwrap().split(" --");
    let template = words.next().unwrap().to_owned();
    let flags = words.map(|flag| {
        let (name, value) = flag.split_once(' ').unwrap();
        let value = if name == "zone" {
            "the left half"
        } else {
            value
        };
        let name = if name == "zone" { "place" } else { name };
        (name.to_owned(), value.trim_matches('"').to_owned())
    });
    (template, flags.collect())
}

#[test]
fn the_command_that_a_refusal_suggests_works_on_that_box() {
    let mut helmets = scene();
    helmets.models[0].labels = vec!["hard hat".to_owned()];
    for scene in [scene(), motion_only(), helmets] {
        for text in [
            "Alert me when a person stays in the whole picture for 2 blorbs on camera gate",
            "Tell me when a red person enters the left half on camera gate",
            "Tell me when a red hard hat enters the left half on camera gate",
            "Tell me when there are more than 5 red people on camera gate",
            "Tell me when nobody red is in the left half on camera gate",
            "Count red people on camera gate",
            "Tell me when a red cell phone is on camera gate",
        ] {
            let refused = refusal(text, &scene);
            // What no class says is nothing that a template watches for.
            if !scene.models[0].labels.is_empty() && !refused.unseen.is_empty() {
                assert!(!refused.text.contains("watchkeeper watch"), "{text}");
                continue;
            }
            let (template, values) = suggested(&refused.text);
            let request = PLAIN.templates().fill(&template, &values).unwrap();
            drop(proposal_in(&request, &scene));
        }
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
        "send bench to #security",
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
            "a person is seen on camera gate, but not during office hours",
            "not during office hours",
        ),
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
fn nearest_template_is_named_only_for_a_verb_that_it_watches_for() {
    let red = refused("tell me when a red car is at the gate");
    assert!(red.contains("watch arrival"), "{red}");
    for text in [
        "tell me when a car leaves through the bottom of the gate camera quietly",
        "tell me when it smells of smoke at the gate",
        "tell me when a dog barks at the gate",
    ] {
        let said = refused(text);
        assert!(!said.contains("nearest template"), "{text}: {said}");
    }
}

#[test]
fn dates_and_blind_cameras_are_refused_with_their_reason() {
    let date = refused("on the first of december tell me when a car comes at the gate");
    assert!(date.contains("no dates"), "{date}");
    assert!(!date.contains("can't be watched"), "{date}");
    for text in [
        "tell me when the gate camera goes dark",
        "tell me when the picture of the gate is blurred",
        "alert me when the yard camera is covered",
    ] {
        let said = refused(text);
        assert!(said.contains("by itself"), "{text}: {said}");
    }
}

#[test]
fn a_count_per_hour_asks_for_its_line() {
    let said = refused("count cars per hour on camera gate");
    assert!(said.contains("watch traffic-count"), "{said}");
}
