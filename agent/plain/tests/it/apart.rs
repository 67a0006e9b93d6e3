//! What a request says of one camera, watch or class is never done to another.

use watchkeeper_plain::Scene;
use watchkeeper_plain::answer::{Answer, Change, EventsWanted, Look};

use crate::support::{ask, proposal, proposal_in, specs, with_pipelines};

/// `gate watch` and `dock watch`, each on its camera.
fn two_watches() -> Scene {
    let mut scene = with_pipelines(&["gate", "dock"]);
    for pipeline in &mut scene.pipelines {
        pipeline.name = pipeline.name.replace("alarm", "watch");
    }
    scene
}

/// No offer is made of it, and the answer says something.
fn refused_in(text: &str, scene: &Scene) -> String {
    match ask(text, scene) {
        Answer::Unknown(unknown) => unknown.text,
        Answer::Ask(question) => question.text,
        other => panic!("{text}: {other:#?}"),
    }
}

/// No offer is made of it by the rules, and a model may be asked.
fn handed_on(text: &str, scene: &Scene) -> String {
    match ask(text, scene) {
        Answer::Unknown(unknown) => unknown.text,
        other => panic!("{text}: {other:#?}"),
    }
}

/// Camera and classes of each watch that is proposed.
fn watched(text: &str) -> Vec<(String, Vec<String>)> {
    let all = specs(&proposal(text));
    all.iter()
        .map(|spec| {
            let classes = spec.workflow["steps"][0]["class_filter"].as_array();
            let classes = classes.into_iter().flatten();
            let classes = classes.map(|c| c.as_str().unwrap().to_owned());
            (spec.source.to_string(), classes.collect())
        })
        .collect()
}

#[test]
fn a_wish_for_each_camera_is_a_watch_for_each() {
    for (text, wanted) in [
        (
            "At the gate alert me about persons, in the yard count cars.",
            vec![("gate", "person"), ("yard", "car")],
        ),
        (
            "On the gate camera tell me about people. On the dock camera tell me about dogs between 22:00 and 6:00.",
            vec![("gate", "person"), ("dock", "dog")],
        ),
    ] {
        let watched = watched(text);
        let found: Vec<(&str, &str)> = watched
            .iter()
            .map(|(camera, classes)| {
                assert_eq!(classes.len(), 1, "{text}: {classes:?}");
                (camera.as_str(), classes[0].as_str())
            })
            .collect();
        assert_eq!(found, wanted, "{text}");
    }
}

#[test]
fn what_may_be_meant_for_one_camera_or_for_both_is_not_offered() {
    let scene = crate::support::scene();
    for text in [
        "Tell me when a person is at the gate, and when a car stays in the yard for more than 30 seconds.",
        "Tell #security about people at the gate and #front-desk about people at the dock.",
        "Tell me when a person is at the gate on weekdays and in the yard at weekends.",
        "Tell me when a person is at the dock after 22:00 and when a car is in the yard.",
        "Tell me when two people are at the gate and one is in the yard.",
        "Tell me if a person is at the dock and nobody is at the gate.",
        "Tell me when a person is at the gate and a car is in the yard.",
        "Tell me about people at the gate at night, and at the dock.",
        "Tell me about people at the gate with a clip and at the dock without.",
        "Let me know about people at the gate between 8 and 10 and at the dock between 16 and 18.",
        "Notify me of people at the gate for 20 seconds, in the yard for 60 seconds.",
        "Tell me about people at the gate and critical about people at the dock.",
        "Tell me about cars on all cameras and people at the gate.",
        "Tell me when a person leaves the dock camera and enters the gate camera.",
        "Tell me when people or dogs are at the gate, at the dock cars.",
        "Tell me when people come to the gate and when they go from the dock.",
        "Tell me when people are at the gate while a car is at the dock.",
        "Send people at the gate to #security and cars at the dock to #front-desk.",
        "Tell me when a person was on camera gate and then on camera dock.",
        "Alert me about people at the gate more often than at the dock.",
    ] {
        let said = handed_on(text, &scene);
        assert!(said.contains("a sentence for each"), "{text}: {said}");
    }
}

#[test]
fn one_wish_for_several_cameras_is_for_all_of_them() {
    for text in [
        "Tell me about people at the gate and the dock.",
        "Tell me about people at the gate and at the dock at night.",
        "Tell me about people at the gate, and at the dock too.",
        "Tell me when somebody waits at the gate or at the dock for more than two minutes.",
        "Watch the gate and the dock for people at night.",
        "Tell #security about people at the gate or the dock.",
    ] {
        let cameras: Vec<String> = watched(text)
            .into_iter()
            .map(|(camera, _)| camera)
            .collect();
        assert_eq!(cameras, ["gate", "dock"], "{text}");
    }
}

#[test]
fn whom_to_tell_is_no_class() {
    let scene = two_watches();
    for text in [
        "The gate watch should tell nobody.",
        "The gate watch should send to nobody.",
        "The gate watch should notify no one.",
        "The gate watch should not notify anyone.",
        "The gate watch should alert somebody.",
        "The gate watch should email everyone.",
        "Make the gate watch tell everyone.",
        "Change the gate watch so that everybody is informed.",
        "Nobody should be told by the gate watch.",
        "Nobody else should get the alerts of the gate watch.",
        "The gate watch should notify staff.",
        "The gate watch should tell no one but me.",
        "Alert everybody about cars at the gate.",
        "Warn somebody when a car is at the gate.",
        "Everyone should be told about cars at the gate.",
        "Tell me when a car is at the gate and send it to everyone.",
        "Tell me about cars at the gate and tell nobody else.",
        "Count cars at the gate and tell nobody.",
    ] {
        refused_in(text, &scene);
    }
    for text in [
        "The gate watch should ignore nobody.",
        "The gate watch should exclude nobody.",
        "The gate watch should watch for nobody.",
    ] {
        refused_in(text, &scene);
    }
    // What is watched for may be anybody.
    let proposal = proposal_in("The gate watch should look for everyone.", &scene);
    assert!(proposal.understood.contains("only people"));
    proposal_in("Tell me when nobody is at the gate.", &scene);
    let everything = refused_in("Make the gate watch tell me everything.", &scene);
    assert!(everything.contains("\"everything\""), "{everything}");
}

#[test]
fn what_is_left_as_it_is_is_neither_ended_nor_started() {
    let scene = two_watches();
    for text in [
        "Switch off the gate watch but leave the others on.",
        "Turn off the gate camera and leave the others running.",
    ] {
        let changes = proposal_in(text, &scene).changes;
        let [change @ (Change::Delete(_) | Change::Pause { .. })] = changes.as_slice() else {
            panic!("{text}: {changes:?}");
        };
        assert_eq!(*change.pipeline(), scene.pipelines[0].spec.id, "{text}");
    }
    let resumed = proposal_in("Turn the gate watch back on.", &scene).changes;
    assert!(
        matches!(resumed.as_slice(), [Change::Resume(id)] if *id == scene.pipelines[0].spec.id),
        "{resumed:?}"
    );
    for text in [
        "Switch the gate watch on again and dock watch off.",
        "Turn the gate watch on and the dock watch off.",
        "Turn the dock watch off and the gate watch back on.",
        "Stop the gate camera but keep its dog watch on.",
        "Stop the gate watch but leave the gate watch on.",
        "Pause the gate watch and keep the dock watch running until 8 tomorrow.",
    ] {
        refused_in(text, &scene);
    }
    refused_in("Keep only the gate watch.", &scene);
    refused_in("Leave the gate watch on.", &scene);
}

#[test]
fn a_class_that_is_added_gets_no_hours_of_its_own() {
    let scene = two_watches();
    for text in [
        "The gate watch should also tell about trucks, but only at weekends.",
        "Gate watch: trucks too, and only for 45 seconds.",
        "The gate watch should also tell about trucks at night.",
        "The gate watch should also look for dogs and only at night.",
        "The gate watch should include trucks, at night only cars.",
        "Gate watch: confidence 0.6 for trucks.",
        "Gate watch: 30 seconds for persons, 60 for trucks.",
        "Set the gate watch confidence to 0.7 for cars.",
    ] {
        refused_in(text, &scene);
    }
    for text in [
        "Gate watch: also trucks.",
        "Gate watch: trucks too.",
        "The gate watch should look for trucks as well.",
    ] {
        let understood = proposal_in(text, &scene).understood;
        assert!(
            understood.contains("people or cars or trucks"),
            "{text}: {understood}"
        );
    }
    let only = proposal_in("The gate watch should only look for dogs.", &scene);
    assert!(
        only.understood.contains("only dogs."),
        "{}",
        only.understood
    );
}

#[test]
fn setting_for_some_hours_of_a_watch_is_refused() {
    let scene = two_watches();
    for text in [
        "Set the gate watch cooldown to 10 minutes on workdays.",
        "The gate watch should have confidence 0.7 at night.",
        "The gate watch should tell #security at night.",
    ] {
        refused_in(text, &scene);
    }
    refused_in("Gate watch: night only, and a clip.", &scene);
}

#[test]
fn a_note_about_a_watch_that_runs_is_no_new_watch() {
    let scene = two_watches();
    for text in [
        "Gate watch only trucks, dock watch only persons.",
        "Set the gate watch cooldown to 10 minutes and the dock watch to 5 minutes.",
    ] {
        handed_on(text, &scene);
    }
    for text in [
        "Gate watch only trucks.",
        "Gate watch without cars.",
        "The gate watch, only for trucks.",
        "Gate watch: trucks too.",
    ] {
        let changes = proposal_in(text, &scene).changes;
        assert!(matches!(changes.as_slice(), [Change::Replace(_)]), "{text}");
    }
    refused_in(
        "Gate watch: trucks when they stay for 30 seconds -> message",
        &scene,
    );
}

#[test]
fn either_of_two_conditions_is_not_one_of_them() {
    let scene = crate::support::scene();
    for text in [
        "Tell me when the yard is empty or when there are more than two cars in the yard.",
        "Tell me when there is nobody or more than 5 people at the gate.",
        "Tell me when the gate is deserted or a car is there.",
        "Tell me about people at the gate, no cars.",
        "Tell me when somebody or nobody is at the gate.",
        "Tell me when the yard is free or occupied.",
    ] {
        refused_in(text, &scene);
    }
    for text in [
        "Tell me when a dog is at the gate and no person is there.",
        "Tell me when a car is at the gate but nobody is in it.",
    ] {
        refused_in(text, &scene);
    }
    for text in [
        "Warn me when people are at the gate at night or at the weekend.",
        "Warn me when people are at the gate in the evening and on Sundays.",
        "Tell me when people are at the gate at weekends or between 22:00 and 6:00.",
        "Alert me about people at the gate at night, weekends all day.",
        "Tell me when people are at the gate between 22:00 and 6:00 or at weekends.",
    ] {
        refused_in(text, &scene);
    }
    for text in [
        "Tell me when there are no cars or people at the gate.",
        "Tell me when the gate is occupied by more than 3 people.",
        "Warn me when people are at the gate on weekends between 8:00 and 18:00.",
        "Tell me when people are at the gate on Mondays and Tuesdays between 8 and 10 am.",
        "Tell me when at least 2 people are at the gate on Saturday and Sunday.",
    ] {
        proposal(text);
    }
}

#[test]
fn how_fast_something_goes_is_not_left_out() {
    let scene = crate::support::scene();
    for text in [
        "Alert me about fast cars at the gate.",
        "Tell me about slow cars at the gate.",
        "Tell me about cars speeding at the gate.",
    ] {
        handed_on(text, &scene);
    }
}

#[test]
fn an_order_behind_a_note_is_not_mixed_with_it() {
    let scene = two_watches();
    for text in [
        "Remember that I never want to hear about cats. And warn me when a dog is at the gate.",
        "Remember I hate cats; warn me about dogs at the gate.",
        "Remember that cats are fine. Then tell me when a dog is at the gate.",
        "Please remember: no messages on Sundays, and stop all watches.",
        "Bear in mind that I like cats, and tell me about dogs at the gate.",
        "Note that the gate is broken. Stop watching it.",
        "Forget about cats and tell me about dogs at the gate.",
        "No alerts from the gate watch between noon and one.",
    ] {
        refused_in(text, &scene);
    }
    drop(proposal_in(
        "Remember to tell me when a dog is at the gate.",
        &scene,
    ));
    let proposal = proposal_in("Note: tell me about people at the gate.", &scene);
    assert!(matches!(proposal.changes.as_slice(), [Change::Deploy(_)]));
}

fn looked_back(text: &str) -> (EventsWanted, String) {
    match ask(text, &crate::support::scene()) {
        Answer::Look(looked) => match looked.look {
            Look::Events(wanted) => (*wanted, looked.text),
            other => panic!("{text}: {other:#?}"),
        },
        other => panic!("{text}: {other:#?}"),
    }
}

#[test]
fn question_about_the_past_ends_now_and_names_its_time() {
    // It is Saturday, 21:10.
    for (text, wanted) in [
        (
            "Anything since 11 pm?",
            "from Friday 27 March 23:00 until now.",
        ),
        (
            "What happened after 22:00?",
            "from Friday 27 March 22:00 until now.",
        ),
        (
            "What happened between 22:00 and 23:00?",
            "from Friday 27 March 22:00 until Friday 27 March 23:00.",
        ),
    ] {
        let (_, said) = looked_back(text);
        assert!(said.contains(wanted), "{text}: {said}");
        assert!(said.contains("yesterday"), "{text}: {said}");
    }
    for (text, wanted) in [
        (
            "What happened since 9 am?",
            "from Saturday 28 March 09:00 until now.",
        ),
        (
            "What happened last night?",
            "from Friday 27 March 22:00 until Saturday 28 March 06:00.",
        ),
        (
            "What happened between 22:00 and 23:00 today?",
            "from Saturday 28 March 22:00 until Saturday 28 March 23:00.",
        ),
    ] {
        let (_, said) = looked_back(text);
        assert!(said.contains(wanted), "{text}: {said}");
        assert!(!said.contains("yesterday"), "{text}: {said}");
    }
    let (wanted, said) = looked_back("What happened?");
    assert!(wanted.from.is_none() && said.is_empty(), "{said}");
}

#[test]
fn evening_has_the_same_hours_in_a_question_and_a_rule() {
    let (_, said) = looked_back("How many people yesterday evening?");
    let evening = "from Friday 27 March 18:00 until Saturday 28 March 00:00.";
    assert!(said.contains(evening), "{said}");
    let watch = specs(&proposal(
        "tell me about people on camera gate in the evening",
    ))
    .remove(0);
    let hours = watch.rules.unwrap().remove(0).schedule.unwrap();
    assert_eq!((hours.from.as_str(), hours.to.as_str()), ("18:00", "00:00"));
}
