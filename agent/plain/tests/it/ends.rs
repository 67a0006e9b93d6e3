//! A watch that ends by itself, a pause that is taken back, and orders that cannot be carried out.

use watchkeeper_contract::id::PipelineId;
use watchkeeper_plain::Scene;
use watchkeeper_plain::answer::{Answer, Change, Missing};

use crate::support::{ask, proposal_in, with_pipelines};

fn site() -> Scene {
    with_pipelines(&["gate", "dock", "yard"])
}

fn paused(ids: &[usize]) -> Scene {
    let mut scene = site();
    for at in ids {
        scene.pipelines[*at].paused = true;
    }
    scene
}

/// The pipelines of a site, by their camera.
fn id(scene: &Scene, camera: &str) -> PipelineId {
    let found = scene
        .pipelines
        .iter()
        .find(|p| p.spec.source.as_str() == camera);
    found.unwrap().spec.id.clone()
}

/// Reply to a command that is not carried out. It asks nothing that a name would answer.
fn refused(text: &str, scene: &Scene) -> String {
    match ask(text, scene) {
        Answer::Ask(question) => {
            assert_eq!(
                question.about,
                Missing::Meaning,
                "{text}: {}",
                question.text
            );
            assert!(
                question.choices.is_empty() && !question.text.contains('?'),
                "{text}: {}",
                question.text
            );
            question.text
        }
        Answer::Unknown(unknown) => unknown.text,
        other => panic!("{text}: {other:#?}"),
    }
}

#[test]
fn end_or_stop_inside_a_request_is_refused_and_quoted() {
    for text in [
        "watch the left half of the gate camera for people and stop after 10 minutes",
        "tell me when a person is on camera gate for the next hour, then stop",
        "tell me when a person is on camera gate and stop watching",
        "tell me when a person is on camera gate and turn it off after half an hour",
        "tell me when a person is on camera gate and stop the dock watch",
        "tell me when cars come and stop in the left half of camera gate for 10 seconds",
    ] {
        let said = refused(text, &site());
        assert!(said.contains('"'), "{text}: {said}");
    }
}

#[test]
fn a_pause_that_is_cancelled_goes_on_and_stops_nothing() {
    for text in [
        "cancel the pause",
        "end the pause",
        "undo the pause please",
        "stop the pause",
        "remove the pause",
    ] {
        // Which one is asked for like that of any other order.
        let text = &format!("{text} of the dock watch");
        let scene = paused(&[1]);
        assert_eq!(
            proposal_in(text, &scene).changes,
            [Change::Resume(id(&scene, "dock"))],
            "{text}"
        );
    }
}

#[test]
fn what_runs_is_not_stopped_when_something_happens() {
    for text in [
        "tell me when a person is on camera gate and then stop the dock watch",
        "tell me when a person is on camera gate, then pause the dock watch",
        "if a person is on camera gate pause the dock watch",
        "when a person is on camera gate, stop the dock watch",
        "tell me when a person is on camera gate and delete the dock watch then",
    ] {
        let answer = ask(text, &site());
        let done = match &answer {
            Answer::Propose(proposal) => proposal.changes.as_slice(),
            _ => &[],
        };
        assert!(done.is_empty(), "{text}: {done:#?}");
    }
    let said = refused(
        "tell me when a person is on camera gate, then pause the dock watch",
        &site(),
    );
    assert!(said.contains("one at a time"), "{said}");
}

/// Parts of a text between quotation marks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('"').skip(1).step_by(2)
}

#[test]
fn what_is_said_to_be_possible_is_understood() {
    let orders = ["stop ", "pause ", "resume ", "restart ", "change "];
    let scene = site();
    let mut tried = 0;
    for text in [
        "stop the gate watch at 6pm",
        "pause the gate watch at night",
        "resume the gate watch at 8",
        "restart the box",
        "turn off notifications for the gate",
        "stop the zone of the gate watch",
        "stop the gate watch when it rains",
        "pause the gate watch at the weekend",
    ] {
        let said = refused(text, &scene);
        let remedies = quoted(&said).filter(|q| orders.iter().any(|o| q.starts_with(o)));
        for remedy in remedies {
            tried += 1;
            let answer = ask(remedy, &scene);
            assert!(
                matches!(answer, Answer::Propose(_)),
                "{text}: {remedy}: {answer:#?}"
            );
        }
    }
    assert!(tried >= 8, "{tried}");
}

#[test]
fn order_behind_a_watch_is_refused() {
    let scene = with_pipelines(&["dock"]);
    for text in [
        "tell me when a person is on camera gate. Then turn off.",
        "tell me when a person is on camera gate. Stop it.",
        "tell me when a person is on camera gate. Pause for an hour.",
        "tell me when a person is on camera gate. Stop the dock watch.",
    ] {
        refused(text, &scene);
    }
}

#[test]
fn a_pause_ends_tonight_and_not_at_an_hour_that_is_over() {
    let at = |text: &str, hour: i8| {
        let mut scene = site();
        scene.now = scene.now.with().hour(hour).build().unwrap();
        let answer = ask(text, &scene);
        match &answer {
            Answer::Propose(proposal) => match &proposal.changes[..] {
                [Change::Pause { until, .. }] => {
                    Some(until.as_ref().unwrap().strftime("%d %H:%M").to_string())
                }
                other => panic!("{text}: {other:#?}"),
            },
            _ => None,
        }
    };
    for (text, hour, until) in [
        ("pause the gate watch until 8 tonight", 15, Some("28 20:00")),
        ("pause the gate watch until 12 tonight", 9, Some("29 00:00")),
        ("pause the gate watch until 1 tonight", 21, Some("29 01:00")),
        ("pause the gate watch until 8 today", 6, Some("28 08:00")),
        ("pause the gate watch until 8 today", 15, None),
        ("pause the gate watch until 8 tonight", 21, None),
        ("pause the gate watch until 8", 21, Some("29 08:00")),
    ] {
        assert_eq!(at(text, hour).as_deref(), until, "{text} at {hour}");
    }
}

#[test]
fn the_end_of_a_pause_is_that_of_what_is_paused() {
    let one = paused(&[1]);
    let changes = proposal_in("end the pause", &one).changes;
    assert_eq!(changes, [Change::Resume(id(&one, "dock"))]);
    assert!(refused("end all pauses", &one).contains("\"pauses\""));
    let two = paused(&[0, 1]);
    let Answer::Ask(question) = ask("end the pause", &two) else {
        panic!("not a question");
    };
    let [gate, dock] = ["gate", "dock"].map(|camera| id(&two, camera).to_string());
    assert_eq!(question.choices, [gate, dock, "all".to_owned()]);
    let all = proposal_in(&question.answered("all"), &two);
    assert_eq!(all.changes.len(), 2);
    assert!(
        question.text.contains("shall I resume?"),
        "{}",
        question.text
    );
    let said = refused("end the pause of the gate watch", &one);
    assert!(said.contains("Nothing is paused there"), "{said}");
    refused("end the pause", &Scene::default());
}

#[test]
fn a_verb_of_deleting_is_the_one_that_leads() {
    for (text, deletes) in [
        ("erase the gate watch", true),
        ("get rid of the gate watch", true),
        ("stop the bin watch", false),
    ] {
        let mut scene = site();
        scene.pipelines[1].name = "bin".to_owned();
        let changes = proposal_in(text, &scene).changes;
        let stops = matches!(&changes[..], [Change::Delete(_)]);
        assert_eq!(stops, deletes, "{text}: {changes:#?}");
    }
}
