//! Questions and answers: an answer completes the request.

use watchkeeper_contract::rule::CrossDirection;
use watchkeeper_plain::Scene;
use watchkeeper_plain::answer::{Answer, EventsWanted, Look, Looked};
use watchkeeper_plain::scene::{Deployed, Model, Place, Shape};

use crate::support::{
    ask, camera, deployed, proposal_in, question_in, scene, specs, with_pipelines,
};

#[test]
fn what_shall_be_different_is_answered_by_what_it_names() {
    let scene = with_pipelines(&["gate", "dock"]);
    let question = question_in("change the gate alarm", &scene);
    let proposal = proposal_in(&question.answered("only dogs"), &scene);
    assert!(
        proposal.understood.contains("only dogs"),
        "{}",
        proposal.understood
    );
}

/// A gate with the watch `people` and the zone `bench`, watched by a watch of that name. The yard
/// has a lawn where only motion is watched.
fn site() -> Scene {
    let mut scene = scene();
    scene.models.push(Model {
        name: "motion".to_owned(),
        labels: Vec::new(),
    });
    for (id, text) in [
        (
            "people",
            "tell me when a person enters the left half on camera gate",
        ),
        (
            "bench",
            "tell me when a person stays in the left half on camera gate for 20 seconds",
        ),
        (
            "lawn-motion",
            "tell me when a person enters the left half on camera yard",
        ),
        (
            "door-watch",
            "tell me when a person crosses the vertical line at 50% on camera dock",
        ),
    ] {
        let mut spec = deployed(text);
        spec.id = id.parse().unwrap();
        let place = match id {
            "bench" => "bench",
            "lawn-motion" => "lawn",
            _ => "",
        };
        for step in spec.workflow["steps"].as_array_mut().unwrap() {
            if id == "lawn-motion" && step.get("model_id").is_some() {
                step["model_id"] = "motion".into();
            }
            if !place.is_empty() && step["type"].as_str().unwrap().contains("time_in_zone") {
                step["name"] = place.into();
            }
        }
        if !place.is_empty() {
            let camera = scene.cameras.iter_mut().find(|c| c.id == spec.source);
            camera.unwrap().places.push(Place {
                name: place.to_owned(),
                shape: Shape::Zone(vec![[0.0, 0.0], [0.5, 0.0], [0.5, 1.0]]),
            });
        }
        scene.pipelines.push(Deployed {
            name: id.to_owned(),
            spec,
            paused: false,
            paused_until: None,
            not_running: None,
        });
    }
    scene
}

fn events_in(text: &str, scene: &Scene) -> EventsWanted {
    match ask(text, scene) {
        Answer::Look(Looked {
            look: Look::Events(wanted),
            ..
        }) => *wanted,
        other => panic!("{text}: {other:#?}"),
    }
}

fn refusal_in(text: &str, scene: &Scene) -> String {
    match ask(text, scene) {
        Answer::Unknown(unknown) => unknown.text,
        other => panic!("{text}: {other:#?}"),
    }
}

#[test]
fn question_for_what_the_box_did_lists_nothing_that_it_saw() {
    let scene = site();
    for text in [
        "did you let anybody in",
        "did you tell anybody",
        "did you alert anyone today",
        "did anybody see me",
        "did anything happen to the gate camera",
        "how many events need a person",
        "which events wait for me",
        "what did you just do",
    ] {
        refusal_in(text, &scene);
    }
    for text in [
        "did you see anybody at the gate today",
        "how many people did you see at the gate today",
        "let me know how many people came to the gate today",
    ] {
        assert_eq!(events_in(text, &scene).labels, ["person"], "{text}");
    }
}

#[test]
fn a_watch_called_like_a_class_takes_no_class_from_a_question() {
    let scene = site();
    for text in [
        "how many people entered the gate in the last minute",
        "were there people at the gate today",
    ] {
        let wanted = events_in(text, &scene);
        assert_eq!(wanted.labels, ["person"], "{text}");
        assert!(wanted.pipelines.is_empty(), "{text}");
    }
    let wanted = events_in("how many events did the people watch have today", &scene);
    assert_eq!(wanted.pipelines.len(), 1);
}

#[test]
fn a_place_called_like_a_watch_is_that_place_on_its_camera() {
    let mut scene = site();
    let text = "was anybody at the bench today";
    let wanted = events_in(text, &scene);
    assert_eq!(wanted.place.as_deref(), Some("bench"));
    assert_eq!(wanted.camera.unwrap().as_str(), "gate");
    assert!(wanted.pipelines.is_empty());
    let said = refusal_in("was anybody at the bench or on the lawn today", &scene);
    assert!(said.contains("I did not understand"), "{said}");
    let bench = scene.cameras[1].places[0].clone();
    scene.cameras[0].places.push(bench);
    let said = refusal_in(text, &scene);
    assert!(said.contains("drawn on dock and gate"), "{said}");
}

#[test]
fn place_with_a_class_name_is_that_place_in_a_question() {
    let mut scene = site();
    scene.models[0].labels.push("bench".to_owned());
    for text in [
        "when was the bench busiest",
        "which hour had the most people at the bench",
    ] {
        let wanted = events_in(text, &scene);
        assert_eq!(wanted.place.as_deref(), Some("bench"), "{text}");
        assert!(wanted.by_hour, "{text}");
    }
    let said = refusal_in("did anyone walk past the bench between 3 and 4", &scene);
    assert!(said.contains("did not understand \"walk past\""), "{said}");
}

#[test]
fn a_direction_narrows_the_crossings_that_count() {
    let scene = site();
    for (text, way) in [
        ("crossed the line going in at the dock", CrossDirection::In),
        ("crossed the line into the dock", CrossDirection::In),
        ("came in at the dock", CrossDirection::In),
        (
            "crossed the line at the dock going out",
            CrossDirection::Out,
        ),
        (
            "crossed the line at the dock to go out",
            CrossDirection::Out,
        ),
        ("crossed the line leaving the dock", CrossDirection::Out),
        ("went out at the dock", CrossDirection::Out),
        ("came from the dock", CrossDirection::Out),
    ] {
        let wanted = events_in(&format!("how many people {text} today"), &scene);
        assert_eq!(wanted.conditions, ["crosses"], "{text}");
        assert_eq!(wanted.direction, Some(way), "{text}");
    }
    let last_night = "how many people crossed the line at the dock going in last night";
    assert_eq!(
        events_in(last_night, &scene).direction,
        Some(CrossDirection::In)
    );
    for text in [
        "crossed the line at the dock",
        "crossed in the yard",
        "left the dock",
    ] {
        let wanted = events_in(&format!("how many people {text} today"), &scene);
        assert_eq!(wanted.direction, None, "{text}");
    }
    for text in [
        "how many people crossed the line going in or going out at the dock today",
        "how many people crossed the line and entered the dock today",
        "how many people crossed the line at the dock upwards today",
    ] {
        refusal_in(text, &scene);
    }
}

#[test]
fn a_moment_ago_is_no_span_until_now() {
    let scene = site();
    for text in [
        "what happened at the gate ten minutes ago",
        "was anybody at the gate an hour ago",
    ] {
        let said = refusal_in(text, &scene);
        assert!(said.contains("ago"), "{text}: {said}");
    }
}

#[test]
fn present_objects_at_a_place_come_from_a_watch_of_that_place() {
    let scene = site();
    for text in [
        "how many people are at the bench now",
        "is anybody at the bench now",
    ] {
        let Answer::Look(looked) = ask(text, &scene) else {
            panic!("{text}: {:#?}", ask(text, &scene));
        };
        assert_eq!(looked.look, Look::Status(Some("gate".parse().unwrap())));
    }
    for text in [
        "how many people are on the lawn now",
        "how many people are in the yard now",
        "how many cars are at the bench now",
    ] {
        let said = refusal_in(text, &scene);
        assert!(said.contains("I don't know"), "{text}: {said}");
    }
}

#[test]
fn present_number_in_zones_is_not_that_of_the_picture() {
    let mut scene = scene();
    for text in [
        "tell me when a person appears on camera gate",
        "tell me when a person enters the left half on camera gate",
        "tell me when a person appears on camera dock",
        "tell me when a person stays in the whole picture for 20 seconds on camera yard",
    ] {
        let spec = deployed(text);
        scene.pipelines.push(Deployed {
            name: spec.id.to_string(),
            spec,
            paused: false,
            paused_until: None,
            not_running: None,
        });
    }
    for (camera, is_part) in [("gate", true), ("dock", false), ("yard", false)] {
        let text = format!("how many people are on camera {camera} now");
        let Answer::Look(looked) = ask(&text, &scene) else {
            panic!("{text}: {:#?}", ask(&text, &scene));
        };
        let said = looked.text;
        assert_eq!(said.contains("only what is in it"), is_part, "{said}");
    }
}

#[test]
fn camera_with_an_everyday_name_is_meant_behind_at_the() {
    let mut scene = scene();
    scene.cameras.push(camera("stop-1", "Bus stop"));
    let wanted = events_in("was anybody at the bus stop today", &scene);
    assert_eq!(wanted.camera.unwrap().as_str(), "stop-1");
    let text = "tell me when a person is at the bus stop";
    let proposed = proposal_in(text, &scene);
    assert_eq!(specs(&proposed)[0].source.as_str(), "stop-1");
}

#[test]
fn day_with_since_or_until_is_not_that_day_alone() {
    let scene = site();
    let request = "tell me when a person enters the left half on camera gate";
    for days in [
        "by Friday",
        "after Friday",
        "from Monday",
        "this Friday",
        "until Friday",
    ] {
        let answer = ask(&format!("{request} {days}"), &scene);
        assert!(!matches!(answer, Answer::Propose(_)), "{days}: {answer:#?}");
        let said = format!("{answer:?}").to_lowercase();
        assert!(said.contains("day"), "{days}: {said}");
    }
    for days in ["on Friday", "every Friday", "from Monday to Friday"] {
        let proposal = proposal_in(&format!("{request} {days}"), &scene);
        assert!(proposal.understood.contains("Fri"), "{days}");
    }
}

#[test]
fn a_count_on_all_cameras_says_where_no_class_is_told() {
    let scene = site();
    for text in [
        "how many people are on all cameras right now",
        "how many people are there?",
    ] {
        let Answer::Look(looked) = ask(text, &scene) else {
            panic!("{text}");
        };
        assert_eq!(looked.look, Look::Status(None), "{text}");
        assert!(
            looked.text.contains("now on yard"),
            "{text}: {}",
            looked.text
        );
    }
    let Answer::Look(looked) = ask("status", &scene) else {
        panic!("status");
    };
    assert_eq!(looked.text, "");
}

#[test]
fn when_the_last_was_is_answered_by_one_event() {
    let scene = site();
    let wanted = events_in("when was the last person seen at the gate", &scene);
    assert_eq!(wanted.most, Some(1));
    assert_eq!(
        events_in("when was a person seen at the gate", &scene).most,
        None
    );
    for text in [
        "when did a person last enter the gate",
        "who was last at the gate",
        "what was the last person at the gate yesterday",
        "show me the last person at the gate",
        "what was the most recent event at the gate",
    ] {
        assert_eq!(events_in(text, &scene).most, Some(1), "{text}");
    }
    let wanted = events_in("what were the last 3 people at the gate", &scene);
    assert_eq!(wanted.most, Some(3));
    let wanted = events_in("who was at the gate last night", &scene);
    assert_eq!(wanted.most, None);
    refusal_in("how many people came last", &scene);
}

#[test]
fn a_word_that_no_slot_reads_refuses_the_question() {
    let scene = site();
    for (text, word) in [
        (
            "how many people waited at the gate for an hour today",
            "hour",
        ),
        ("how many people came each monday", "each"),
        (
            "how many people came every evening this week",
            "every evening",
        ),
        ("how many people came on mondays", "mondays"),
        ("how many people went right at the gate today", "right"),
        ("how many people went left at the gate today", "left"),
        (
            "how many people went straight at the gate today",
            "straight",
        ),
        ("is anybody down at the gate", "down"),
        ("how many people go up at the gate", "up"),
        ("is a person working at the gate", "working"),
        ("were between 2 and 3 people at the gate today", "between 2"),
        ("how many came to the gate after 3 people today", "after 3"),
        ("was the camera broken yesterday", "broken"),
        ("what happened on camera attic yesterday", "attic"),
        ("was there a crowd at the gate today", "crowd"),
        ("what classes of red cars can you tell", "red cars"),
        ("how many people went up at the dock today", "up"),
    ] {
        let said = refusal_in(text, &scene);
        assert!(said.contains(&format!("\"{word}\"")), "{text}: {said}");
    }
    for text in [
        "were more people at the gate today",
        "how many people come to the gate tomorrow",
        "is somebody at the gate tomorrow",
    ] {
        let said = refusal_in(text, &scene);
        assert!(!said.contains("I did not understand"), "{text}: {said}");
    }
}

#[test]
fn month_weekend_and_year_are_those_of_the_calendar() {
    // It is Saturday, 28 March 2026.
    for (text, span) in [
        (
            "what happened last weekend",
            "Saturday 21 March 00:00 until Monday 23 March 00:00",
        ),
        (
            "what happened last month",
            "Sunday 1 February 00:00 until Sunday 1 March 00:00",
        ),
        (
            "what happened in the last month",
            "Saturday 28 February 21:10 until now",
        ),
        (
            "what happened since last week",
            "Monday 16 March 00:00 until now",
        ),
        (
            "what happened this year",
            "Thursday 1 January 00:00 until now",
        ),
    ] {
        let Answer::Look(looked) = ask(text, &scene()) else {
            panic!("{text}");
        };
        assert!(looked.text.contains(span), "{text}: {}", looked.text);
    }
}

#[test]
fn every_event_and_every_camera_are_all_of_them() {
    let scene = site();
    let all = events_in("list all events of today", &scene);
    for text in ["list every event of today", "list each event of today"] {
        assert_eq!(events_in(text, &scene), all, "{text}");
    }
    let wanted = events_in("how many people every hour today", &scene);
    assert!(wanted.by_hour);
    let wanted = events_in("how many people were on every camera today", &scene);
    assert_eq!(wanted.camera, None);
}

#[test]
fn a_bare_number_is_an_hour_where_no_class_stands_behind_it() {
    let scene = site();
    for text in [
        "how many people came to the gate between 2 and 3 today",
        "how often between 2 and 3 did people come to the gate today",
        "were people at the gate after 3 today",
    ] {
        let wanted = events_in(text, &scene);
        let from = wanted.from.unwrap().to_zoned(scene.now.time_zone().clone());
        assert!((2..=15).contains(&from.hour()), "{text}: {from}");
    }
}

#[test]
fn two_kinds_at_two_times_are_two_questions() {
    let scene = site();
    for text in [
        "how many people entered the gate on monday and left on tuesday",
        "did more people enter and leave the gate today than yesterday",
    ] {
        let said = refusal_in(text, &scene);
        assert!(said.contains("two questions"), "{text}: {said}");
    }
    let wanted = events_in(
        "how many people entered and left the gate on monday",
        &scene,
    );
    assert_eq!(wanted.conditions, ["enters", "leaves"]);
    let wanted = events_in(
        "did more people enter the gate today than yesterday",
        &scene,
    );
    assert!(wanted.compared_with.is_some());
}

#[test]
fn a_camera_narrows_a_question_or_refuses_it() {
    let scene = site();
    for text in [
        "how many people are at the gate and the dock",
        "what is running on the gate and the dock",
        "status of the gate and the dock",
    ] {
        let said = refusal_in(text, &scene);
        assert!(said.contains("one camera at a time"), "{text}: {said}");
    }
    for text in [
        "which classes can you detect at the gate",
        "help with the gate",
    ] {
        let said = refusal_in(text, &scene);
        assert!(said.contains("for the whole box"), "{text}: {said}");
    }
    let there = ask("what objects are at the gate", &scene);
    assert!(
        matches!(&there, Answer::Look(looked) if looked.look == Look::Status(Some("gate".parse().unwrap()))),
        "{there:#?}"
    );
}

#[test]
fn a_count_of_now_says_what_no_label_tells_apart() {
    let scene = site();
    for text in [
        "how many children are at the gate",
        "is a child at the gate",
    ] {
        let Answer::Look(looked) = ask(text, &scene) else {
            panic!("{text}: {:#?}", ask(text, &scene));
        };
        assert!(matches!(looked.look, Look::Status(Some(_))), "{text}");
        assert!(
            looked.text.contains("every person counts"),
            "{text}: {}",
            looked.text
        );
    }
}

#[test]
fn whether_a_camera_works_is_its_status() {
    let scene = site();
    for text in [
        "is the gate up",
        "is the gate camera working",
        "is the gate down?",
    ] {
        let found = ask(text, &scene);
        assert!(
            matches!(&found, Answer::Look(looked) if matches!(looked.look, Look::Status(Some(_)))),
            "{text}: {found:#?}"
        );
    }
    for text in [
        "is everything working",
        "is it working?",
        "is everything all right",
    ] {
        let found = ask(text, &scene);
        assert!(
            matches!(&found, Answer::Look(looked) if looked.look == Look::Status(None)),
            "{text}: {found:#?}"
        );
    }
}

#[test]
fn a_refusal_helps_with_what_it_does_not_understand() {
    let scene = site();
    for text in [
        "did more than 3 people come to the gate today",
        "were there at least two people at the gate today",
    ] {
        let said = refusal_in(text, &scene);
        assert!(said.contains("with a limit"), "{text}: {said}");
    }
}

#[test]
fn number_of_crossings_says_that_a_cool_down_leaves_some_out() {
    let mut scene = site();
    let text = "how many cars crossed the line today";
    let said = |scene: &Scene| match ask(text, scene) {
        Answer::Look(looked) => looked.text,
        other => panic!("{other:#?}"),
    };
    let line = "tell me when a car crosses the vertical line at 50% on camera gate";
    let watch = |text: &str| Deployed {
        name: "Line".to_owned(),
        spec: deployed(text),
        paused: false,
        paused_until: None,
        not_running: None,
    };
    scene.pipelines = vec![watch(line)];
    assert!(
        said(&scene).contains("hourly limit left out"),
        "{}",
        said(&scene)
    );
    scene.pipelines = vec![watch(&format!("{line}, every one"))];
    assert!(!said(&scene).contains("cool-down"), "{}", said(&scene));
}

#[test]
fn second_question_and_a_duration_are_not_left_out() {
    for (text, said) in [
        (
            "how many people came today and did any of them enter the gate",
            "two questions",
        ),
        (
            "was anyone at the gate for more than 5 minutes yesterday",
            "how long",
        ),
    ] {
        let refused = refusal_in(text, &site());
        assert!(refused.contains(said), "{text}: {refused}");
    }
    // It is 21:10.
    let Answer::Look(looked) = ask("what happened this evening", &site()) else {
        panic!("not read");
    };
    assert!(looked.text.ends_with("18:00 until now."), "{}", looked.text);
}
