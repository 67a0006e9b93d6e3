//! What people say and what is understood by it.

use watchkeeper_contract::rule::{
    ClipSpec, Condition, CountBound, CrossDirection, Schedule, Severity, Weekday,
};
use watchkeeper_plain::answer::{Answer, Change, Look, Missing};
use watchkeeper_plain::scene::{Place, Shape};

use crate::support::{
    ask, deployed, proposal, proposal_in, question, question_in, scene, specs, with_pipelines,
};

fn conditions(text: &str) -> Vec<Condition> {
    let rules = deployed(text).rules.unwrap();
    rules.into_iter().map(|r| r.when).collect()
}

fn classes(text: &str) -> serde_json::Value {
    deployed(text).workflow["steps"][0]["class_filter"].clone()
}

#[test]
fn waiting_longer_than_two_minutes_is_a_stay_of_120_seconds() {
    for text in [
        "Tell me when somebody waits at the loading dock for more than two minutes.",
        "alert me if a person is loitering at the loading dock longer than 2 min",
        "Loading dock: warn me when people stay over 120 seconds",
    ] {
        let spec = deployed(text);
        assert_eq!(spec.source.as_str(), "dock", "{text}");
        let stays = Condition::Stays {
            zone: "picture".to_owned(),
            for_s: 120.0,
        };
        assert_eq!(conditions(text), [stays], "{text}");
        assert_eq!(classes(text), serde_json::json!(["person"]), "{text}");
    }
}

#[test]
fn what_was_not_said_is_told_as_assumed() {
    let proposal =
        proposal("Tell me when somebody waits at the loading dock for more than two minutes.");
    assert!(
        proposal.assumed.iter().any(|s| s.contains("whole picture")),
        "{:?}",
        proposal.assumed
    );
    assert!(
        proposal.understood.contains("2 minutes"),
        "{}",
        proposal.understood
    );
}

#[test]
fn places_in_the_picture_become_zones() {
    let spec =
        deployed("Alert me when a person enters the left half of the picture on the gate camera");
    assert_eq!(spec.source.as_str(), "gate");
    let zone = &spec.workflow["steps"][2];
    assert_eq!(
        zone["zone"],
        serde_json::json!([[0, 0], [640, 0], [640, 720], [0, 720]])
    );
    let text = "Notify me when a dog is in the rectangle from 10%,20% to 50%,60% on camera gate";
    assert_eq!(
        deployed(text).workflow["steps"][2]["zone"],
        serde_json::json!([[128, 144], [640, 144], [640, 432], [128, 432]])
    );
}

#[test]
fn the_name_of_a_drawn_place_tells_place_and_camera() {
    let spec = deployed("Watch the left parking bay and tell me when it is free.");
    assert_eq!(spec.source.as_str(), "yard");
    let rules = spec.rules.unwrap();
    let free = Condition::Count {
        detections: "$steps.left-parking-bay.timed_detections".to_owned(),
        bound: CountBound::Under(1),
        for_s: 3.0,
    };
    assert_eq!(rules[0].when, free, "for long enough that nobody is hidden");
    let told = proposal("Watch the left parking bay and tell me when it is free.").assumed;
    assert!(told.iter().any(|a| a.contains("3 seconds")), "{told:?}");
}

#[test]
fn a_direction_over_a_line_is_one_of_the_line_counters_two() {
    for (way, direction) in [
        ("from left to right", CrossDirection::In),
        ("to the left", CrossDirection::Out),
        ("in either direction", CrossDirection::Any),
        ("", CrossDirection::Any),
    ] {
        let text =
            format!("Tell me when a car crosses the vertical line at 50% {way} on camera gate");
        let line = "line".to_owned();
        assert_eq!(
            conditions(&text),
            [Condition::Crosses { line, direction }],
            "{text}"
        );
    }
    question(
        "Tell me when a car crosses the vertical line at 50% upwards on camera gate",
        Missing::Meaning,
    );
}

#[test]
fn numbers_over_and_under_for_a_time_are_bounds() {
    for (said, bound, for_s) in [
        (
            "more than 5 people for 30 seconds",
            CountBound::Over(5),
            30.0,
        ),
        ("at least three people", CountBound::Over(2), 0.0),
        (
            "fewer than 2 people for a minute",
            CountBound::Under(2),
            60.0,
        ),
        ("no people for 5 minutes", CountBound::Under(1), 300.0),
        ("4 or more people", CountBound::Over(3), 0.0),
        (
            "three or fewer people for 5 seconds",
            CountBound::Under(4),
            5.0,
        ),
    ] {
        let text = format!("Warn me when there are {said} on the gate camera");
        let detections = watchkeeper_engine::templates::watch::TRACKED.to_owned();
        let wanted = Condition::Count {
            detections,
            bound,
            for_s,
        };
        assert_eq!(conditions(&text), [wanted], "{text}");
    }
}

#[test]
fn hours_days_and_quiet_stand_in_the_rule() {
    let text = "Alert me when a person is seen at the gate between 22:00 and 6 am on weekdays, at most once every 10 minutes, urgent";
    let rule = deployed(text).rules.unwrap().remove(0);
    let days = vec![
        Weekday::Mon,
        Weekday::Tue,
        Weekday::Wed,
        Weekday::Thu,
        Weekday::Fri,
    ];
    let schedule = Schedule {
        days,
        from: "22:00".to_owned(),
        to: "06:00".to_owned(),
    };
    assert_eq!(rule.schedule, Some(schedule));
    assert_eq!(
        (rule.cooldown_s, rule.severity),
        (600.0, Severity::Critical)
    );
    let saturday =
        deployed("warn me about people at the gate from 8 pm to 11 pm on saturday and sunday")
            .rules
            .unwrap();
    assert_eq!(
        saturday[0].schedule.as_ref().unwrap().days,
        [Weekday::Sat, Weekday::Sun]
    );
}

#[test]
fn confidence_is_the_detectors() {
    for text in [
        "Tell me when a car appears at the gate with confidence over 60%",
        "Tell me when a car appears at the gate, at least 60 percent sure",
        "Tell me when a car appears at the gate, 0.6 confidence",
    ] {
        assert_eq!(
            deployed(text).workflow["steps"][0]["confidence"],
            0.6,
            "{text}"
        );
    }
}

#[test]
fn groups_and_exceptions_of_classes_are_taken_from_the_model() {
    assert_eq!(
        classes("tell me when a vehicle appears at the gate"),
        serde_json::json!(["car", "motorcycle", "bus", "truck"])
    );
    assert_eq!(
        classes("tell me about cats or dogs at the gate"),
        serde_json::json!(["cat", "dog"])
    );
    let animals = classes("tell me about animals except cats at the gate");
    let animals = animals.as_array().unwrap();
    assert!(
        animals.contains(&"dog".into()) && !animals.contains(&"cat".into()),
        "{animals:?}"
    );
}

#[test]
fn several_cameras_make_a_pipeline_each() {
    let two = proposal(
        "On the loading dock camera count cars; on the gate camera warn me if a person is there.",
    );
    let two = specs(&two);
    assert_eq!(two.len(), 2);
    assert_eq!(
        (two[0].source.as_str(), two[1].source.as_str()),
        ("dock", "gate")
    );
    assert_eq!(
        two[0].rules.as_deref(),
        Some(&[][..]),
        "counting makes no events"
    );
    let all = specs(&proposal("Alert me about people on all cameras"));
    assert_eq!(all.len(), 3);
}

#[test]
fn a_count_is_a_number_in_the_results() {
    let spec = deployed("Count people on the gate camera");
    let outputs = spec.workflow["outputs"].as_array().unwrap();
    assert!(outputs.iter().any(|o| o["name"] == "people"), "{outputs:?}");
}

#[test]
fn what_is_needed_and_was_not_said_is_asked_for() {
    question(
        "Tell me when somebody enters the left half",
        Missing::Camera,
    );
    question(
        "Tell me when somebody stands at the fuel pump on camera gate for 10 seconds",
        Missing::Place,
    );
    question(
        "Tell me when a person crosses the driveway on camera gate",
        Missing::Line,
    );
    question(
        "Tell me when somebody loiters at the gate",
        Missing::Duration,
    );
    question("Alert me on the gate camera", Missing::Class);
    question(
        "Let me know if something bad happens at the gate.",
        Missing::Meaning,
    );
    let answer = ask("Don't tell me about cats at the gate", &scene());
    assert!(matches!(&answer, Answer::Unknown(u) if u.not_understood == ["cats"]));
}

#[test]
fn an_answered_question_is_understood_together_with_the_request() {
    let scene = scene();
    let first = question_in(
        "Tell me when somebody stands at the fuel pump for 10 seconds",
        &scene,
    );
    assert_eq!(first.about, Missing::Camera);
    let second = question_in(&first.answered("gate"), &scene);
    assert_eq!(second.about, Missing::Place);
    let spec = specs(&proposal_in(&second.answered("the left half"), &scene)).remove(0);
    let stays = Condition::Stays {
        zone: "fuel-pump".to_owned(),
        for_s: 10.0,
    };
    assert_eq!(spec.rules.unwrap()[0].when, stays);
    assert_eq!(spec.source.as_str(), "gate");
}

#[test]
fn words_that_were_not_understood_are_told_as_they_were_written() {
    let text = "Tell me when a Crimson car appears at the gate";
    let Answer::Unknown(unknown) = ask(text, &scene()) else {
        panic!("taken");
    };
    assert_eq!(unknown.not_understood, ["Crimson"]);
    assert!(unknown.text.contains("\"Crimson\""), "{}", unknown.text);
}

#[test]
fn what_is_understood_and_cannot_be_done_is_told() {
    let proposal = proposal("If a person appears at the gate, save a clip and send it to #lobby");
    let told = proposal.not_possible.join(" ");
    assert!(told.contains("#lobby"), "{told}");
}

#[test]
fn a_clip_is_kept_by_every_rule_from_when_to_when_it_was_said() {
    for (text, before_s, after_s) in [
        (
            "If a person appears at the gate, save a clip that starts five seconds before, plus a still, and send both to the security channel.",
            5.0,
            10.0,
        ),
        (
            "Person at the gate -> clip with 8 s pre-roll + snapshot to #security.",
            8.0,
            10.0,
        ),
        (
            "Record a clip from 3 seconds before to 20 seconds after when a person appears at the gate, tell #security",
            3.0,
            20.0,
        ),
        (
            "When a person appears at the gate, keep a 20 second clip and tell #security",
            5.0,
            15.0,
        ),
        (
            "When a person appears at the gate, save a clip of 4 seconds and tell #security",
            2.0,
            2.0,
        ),
        (
            "save a clip when a person appears at the gate and send it to #security",
            5.0,
            10.0,
        ),
    ] {
        let proposal = proposal(text);
        assert_eq!(proposal.not_possible, [""; 0], "{text}");
        let said = &proposal.understood;
        assert!(
            said.contains("with a clip from") && said.contains("#security"),
            "{said}"
        );
        let rules = specs(&proposal).remove(0).rules.unwrap();
        assert!(!rules.is_empty(), "{text}");
        for rule in rules {
            let wanted = ClipSpec {
                before_s,
                after_s,
                ..ClipSpec::default()
            };
            assert_eq!(rule.clip, Some(wanted), "{text}");
        }
    }
    let plain = deployed("If a person appears at the gate, save a still and tell #security");
    assert!(plain.rules.unwrap().iter().all(|rule| rule.clip.is_none()));
}

#[test]
fn the_length_of_a_clip_is_no_time_for_which_somebody_stays() {
    let spec = deployed("tell me when somebody is at the gate and save a clip for 20 seconds");
    let rule = spec.rules.unwrap().remove(0);
    assert_eq!(rule.clip.unwrap().length_s(), 20.0);
    assert!(
        !matches!(rule.when, Condition::Stays { .. }),
        "{:?}",
        rule.when
    );
    for text in [
        "tell me when somebody is at the gate and save a clip 20 seconds",
        "tell me when somebody is at the gate and save a clip after 20 seconds",
    ] {
        if let Answer::Propose(proposal) = ask(text, &scene()) {
            panic!("{text}: {proposal:#?}");
        }
    }
    // Who is filmed for a time stays for it.
    let when = deployed("tell me when a person is in the video of camera gate for 20 seconds");
    let when = when.rules.unwrap().remove(0).when;
    assert!(
        matches!(when, Condition::Stays { for_s, .. } if for_s == 20.0),
        "{when:?}"
    );
}

#[test]
fn a_clip_that_is_too_long_is_asked_about_with_what_can_be() {
    for text in [
        "If a person appears at the gate, save a clip that starts one minute before",
        "If a person appears at the gate, save a clip for three minutes",
        "If a person appears at the gate, save a clip of five minutes",
    ] {
        let question = question(text, Missing::Meaning);
        assert!(question.text.contains("30 seconds before") && question.text.contains("2 minutes"));
    }
}

#[test]
fn channel_named_by_mark_or_word_is_notified_by_each_rule() {
    for text in [
        "If a person appears at the gate, tell #security",
        "Tell me when a person appears at the gate and send it to the security channel.",
        "alert channel security when a person appears at the gate",
        "When a person appears at the gate, send both to #Security",
        "Call the security when a person appears at the gate",
    ] {
        let proposal = proposal(text);
        assert_eq!(proposal.not_possible, [""; 0], "{text}");
        assert!(
            proposal.understood.contains("notifies #security"),
            "{}",
            proposal.understood
        );
        let rules = specs(&proposal).remove(0).rules.unwrap();
        assert!(!rules.is_empty(), "{text}");
        for rule in rules {
            let notify: Vec<&str> = rule.notify.iter().map(|c| c.as_str()).collect();
            assert_eq!(notify, ["security"], "{text}");
        }
    }
    let both = "tell #security and #front-desk when a person appears at the gate";
    let rules = deployed(both).rules.unwrap();
    assert_eq!(rules[0].notify.len(), 2, "{both}");
}

#[test]
fn unknown_channel_is_left_out_and_the_known_are_named() {
    let proposal = proposal("If a person appears at the gate, send it to #lobby and by email");
    let told = proposal.not_possible.join(" ");
    assert!(
        told.contains("#lobby") && told.contains("#security, #front-desk"),
        "{told}"
    );
    assert!(
        specs(&proposal)[0].rules.as_ref().unwrap()[0]
            .notify
            .is_empty()
    );
    let mut scene = scene();
    scene.channels.truncate(1);
    let proposal = proposal_in("Tell me by slack when a person appears at the gate", &scene);
    assert!(
        proposal.assumed.iter().any(|a| a.contains("#security")),
        "{:?}",
        proposal.assumed
    );
    scene.channels.clear();
    let proposal = proposal_in("Tell me by slack when a person appears at the gate", &scene);
    let told = proposal.not_possible.join(" ");
    assert!(told.contains("[channels.NAME]"), "{told}");
}

#[test]
fn everything_is_stopped_and_counted() {
    let scene = with_pipelines(&["dock", "gate", "yard"]);
    for text in [
        "Stop all pipelines.",
        "Stop everything.",
        "please turn off all alerts",
    ] {
        let proposal = proposal_in(text, &scene);
        assert_eq!(proposal.changes.len(), 3, "{text}");
        assert!(proposal.understood.contains('3'), "{}", proposal.understood);
    }
}

#[test]
fn pause_until_tomorrow_is_right_over_a_clock_change() {
    let scene = with_pipelines(&["dock", "gate"]);
    let proposal = proposal_in(
        "Pause the gate camera until eight tomorrow morning.",
        &scene,
    );
    let [Change::Pause { pipeline, until }] = proposal.changes.as_slice() else {
        panic!("{proposal:#?}");
    };
    assert_eq!(pipeline.as_str(), scene.pipelines[1].spec.id.as_str());
    let until = until.as_ref().unwrap().timestamp().to_string();
    assert_eq!(until, "2026-03-29T06:00:00Z");
}

#[test]
fn a_stop_that_says_more_than_is_understood_is_not_done_in_part() {
    let scene = with_pipelines(&["dock", "gate"]);
    for text in [
        "Stop telling me about cats at the gate",
        "Stop the gate camera when it rains",
        "Stop",
    ] {
        assert!(!matches!(ask(text, &scene), Answer::Propose(_)), "{text}");
    }
}

#[test]
fn resume_and_pause_go_by_camera_and_by_name() {
    let scene = with_pipelines(&["dock", "gate"]);
    let resumed = proposal_in("Resume the dock alarm", &scene);
    assert_eq!(
        resumed.changes,
        [Change::Resume(scene.pipelines[0].spec.id.clone())]
    );
    let paused = proposal_in("Could you pause the gate camera for two hours?", &scene);
    assert!(
        matches!(&paused.changes[..], [Change::Pause { until: Some(_), .. }]),
        "{paused:?}"
    );
}

#[test]
fn a_change_keeps_the_pipeline_and_all_that_was_not_named() {
    let scene = with_pipelines(&["dock", "gate"]);
    for text in [
        "Make the gate alarm less nervous: only cars, and 0.6 confidence.",
        "Change the gate alarm to cars at 0.6",
    ] {
        let proposal = proposal_in(text, &scene);
        let [Change::Replace(spec)] = proposal.changes.as_slice() else {
            panic!("{proposal:#?}");
        };
        assert_eq!(spec.id, scene.pipelines[1].spec.id);
        let detect = &spec.workflow["steps"][0];
        assert_eq!(
            (detect["class_filter"].clone(), detect["confidence"].clone()),
            (serde_json::json!(["car"]), 0.6.into()),
            "{text}"
        );
        assert_eq!(spec.rules, scene.pipelines[1].spec.rules);
    }
}

#[test]
fn a_change_that_adds_or_leaves_out_a_class_keeps_the_others() {
    let scene = with_pipelines(&["dock", "gate"]);
    for (text, labels) in [
        (
            "Make the gate alarm also watch for trucks.",
            &["person", "car", "truck"][..],
        ),
        (
            "Change the gate alarm to include dogs too.",
            &["person", "car", "dog"],
        ),
        ("Change the gate alarm to ignore cars.", &["person"]),
        ("Make the gate alarm only about cars, too.", &["car"]),
    ] {
        let proposal = proposal_in(text, &scene);
        let [Change::Replace(spec)] = proposal.changes.as_slice() else {
            panic!("{text}: {proposal:#?}");
        };
        let kept = &spec.workflow["steps"][0]["class_filter"];
        assert_eq!(*kept, serde_json::json!(labels), "{text}");
    }
    question_in("Change the gate alarm to ignore people and cars.", &scene);
}

#[test]
fn questions_are_looked_up_and_change_nothing() {
    let scene = with_pipelines(&["gate"]);
    let look = |text: &str| match ask(text, &scene) {
        Answer::Look(looked) => looked,
        other => panic!("{text}: {other:#?}"),
    };
    assert_eq!(look("list cameras").look, Look::Cameras);
    assert_eq!(look("What is running?").look, Look::Pipelines(None));
    assert_eq!(look("status").look, Look::Status(None));
    assert_eq!(look("help").look, Look::Help);
    for text in [
        "What objects can you detect?",
        "Which things are you able to recognise?",
    ] {
        let classes = look(text);
        assert_eq!(classes.look, Look::Classes, "{text}");
        assert!(classes.text.contains("person"), "{text}");
    }
}

#[test]
fn what_happened_is_asked_with_camera_and_time() {
    let scene = scene();
    for (text, from, to) in [
        (
            "What happened last night?",
            "2026-03-27T21:00:00Z",
            Some("2026-03-28T05:00:00Z"),
        ),
        (
            "Show me the events of the last two hours",
            "2026-03-28T18:10:00Z",
            None,
        ),
        (
            "what happened yesterday between 14:00 and 15:00 at the gate",
            "2026-03-27T13:00:00Z",
            Some("2026-03-27T14:00:00Z"),
        ),
        ("How many people came today?", "2026-03-27T23:00:00Z", None),
    ] {
        let Answer::Look(looked) = ask(text, &scene) else {
            panic!("{text}: {:#?}", ask(text, &scene));
        };
        let Look::Events(wanted) = looked.look else {
            panic!("{text}: {looked:#?}");
        };
        assert_eq!(
            wanted.from.map(|t| t.to_string()).as_deref(),
            Some(from),
            "{text}"
        );
        assert_eq!(wanted.to.map(|t| t.to_string()).as_deref(), to, "{text}");
        assert_eq!(wanted.camera.is_some(), text.contains("gate"), "{text}");
        assert_eq!(wanted.only_number, text.contains("many"), "{text}");
    }
}

#[test]
fn another_language_and_pictures_are_plainly_not_understood() {
    for text in [
        "Pausiere die Kamera am Tor bis morgen um acht Uhr.",
        "lorem ipsum",
        "What's in this picture, and what is the name of the man?",
    ] {
        assert!(
            matches!(ask(text, &scene()), Answer::Unknown(_)),
            "{text}: {:#?}",
            ask(text, &scene())
        );
    }
}

#[test]
fn drawn_line_is_offered_where_a_line_is_asked_for() {
    let mut scene = scene();
    let shape = Shape::Line([0.5, 0.0], [0.5, 1.0]);
    let name = "kerb".to_owned();
    scene.cameras[1].places.push(Place { name, shape });
    for text in [
        "tell me when a car crosses the line on camera gate",
        "tell me when a person crosses the driveway on camera gate",
    ] {
        let asked = question_in(text, &scene);
        assert_eq!(
            (asked.about, &asked.choices[..]),
            (Missing::Line, &["kerb".to_owned()][..])
        );
        assert!(
            asked.text.contains("Drawn there: \"kerb\""),
            "{}",
            asked.text
        );
        let said = proposal_in(&asked.answered("kerb"), &scene).understood;
        assert!(said.contains("kerb"), "{said}");
    }
}

#[test]
fn a_picture_of_now_is_named_by_its_command() {
    for text in [
        "show me a picture of the gate now",
        "show me a picture of the gate",
        "show me the current picture of the gate camera",
    ] {
        match ask(text, &scene()) {
            Answer::Unknown(unknown) => {
                let command = "`watchkeeper frame save CAMERA -o now.jpg`";
                assert!(unknown.text.contains(command), "{text}: {}", unknown.text);
            }
            other => panic!("{text}: {other:#?}"),
        }
    }
}

#[test]
fn question_not_understood_gets_no_table() {
    let scene = with_pipelines(&["gate"]);
    for text in [
        "what colour is the sky on camera gate",
        "is anybody wearing a hat on camera gate",
        "how many red cars are on camera gate",
        "what is the licence plate on camera gate",
        "why did you not alert me?",
        "Tell me what the people on camera gate are talking about.",
        "what would happen if I stopped the gate alarm?",
    ] {
        assert!(
            matches!(ask(text, &scene), Answer::Unknown(_)),
            "{text}: {:#?}",
            ask(text, &scene)
        );
    }
}

#[test]
fn cameras_watches_and_last_sights_have_several_wordings() {
    let scene = with_pipelines(&["gate"]);
    for (text, look) in [
        ("which cameras do you have?", Look::Cameras),
        ("show me all cameras", Look::Cameras),
        ("what are you watching", Look::Pipelines(None)),
        ("what are you watching for?", Look::Pipelines(None)),
        (
            "What are you watching at the moment?",
            Look::Pipelines(None),
        ),
        ("Which watches are active?", Look::Pipelines(None)),
        ("what is being watched?", Look::Pipelines(None)),
        ("how many people are there?", Look::Status(None)),
        ("is there still a person there?", Look::Status(None)),
        ("is everything ok?", Look::Status(None)),
    ] {
        let Answer::Look(looked) = ask(text, &scene) else {
            panic!("{text}: {:#?}", ask(text, &scene));
        };
        assert_eq!(looked.look, look, "{text}");
    }
    let Answer::Look(looked) = ask("when was the last person seen at the gate?", &scene) else {
        panic!("not a look-up");
    };
    assert!(
        matches!(&looked.look, Look::Events(wanted) if wanted.labels == ["person"] && wanted.camera.is_some()),
        "{looked:#?}"
    );
}

#[test]
fn what_was_understood_is_said_back_in_plain_english() {
    for (text, part) in [
        (
            "Tell me when more than 2 people are on camera gate",
            "when at least 3 people are in the picture",
        ),
        (
            "Tell me when nobody is on camera gate for a minute",
            "when nobody is in the picture for 1 minute",
        ),
        (
            "Tell me when there are no cars on camera gate for a minute",
            "when no cars are in the picture",
        ),
        (
            "Tell me when people appear on camera gate",
            "when people are seen",
        ),
        (
            "Tell me when a car crosses the vertical line at 50% to the left on camera gate",
            "of the picture from right to left (outwards)",
        ),
        (
            "Tell me when a car crosses the horizontal line at 50% downwards on camera gate",
            "of the picture downwards (outwards)",
        ),
        (
            "Count person and dog on camera gate",
            "count people or dogs in the picture",
        ),
        (
            "Tell me when somebody enters the fuel pump in the left half on camera gate",
            "when somebody enters \"fuel pump\" (the left half of the picture)",
        ),
    ] {
        let said = proposal(text).understood;
        assert!(said.contains(part), "{text}: {said}");
    }
}

#[test]
fn cameras_that_are_left_out_of_all_are_refused() {
    let text = "Tell me about people on all cameras except the dock";
    let Answer::Unknown(unknown) = ask(text, &scene()) else {
        panic!("offered");
    };
    assert_eq!(unknown.not_understood, ["except"]);
}

#[test]
fn all_of_them_answers_which_camera() {
    for request in ["watch everything", "tell me about people"] {
        let asked = question(request, Missing::Camera);
        for reply in [
            "all of them",
            "all",
            "all cameras",
            "every one",
            "everywhere",
        ] {
            let on: Vec<String> = specs(&proposal(&asked.answered(reply)))
                .iter()
                .map(|s| s.source.to_string())
                .collect();
            assert_eq!(on, ["dock", "gate", "yard"], "{request}: {reply}");
        }
    }
    let on = deployed("tell me about people on camera gate all day").source;
    assert_eq!(on.as_str(), "gate");
}

#[test]
fn camera_named_like_a_class_is_that_class_in_a_count() {
    let mut scene = scene();
    scene.cameras.extend([
        crate::support::camera("cars", "cars"),
        crate::support::camera("cars2", "cars2"),
    ]);
    let looked = |text: &str| match ask(text, &scene) {
        Answer::Look(looked) => match looked.look {
            Look::Events(wanted) => (wanted.camera.map(|c| c.to_string()), wanted.labels),
            other => panic!("{text}: {other:?}"),
        },
        other => panic!("{text}: {other:?}"),
    };
    let on = |camera: &str| Some(camera.to_owned());
    let car = || vec!["car".to_owned()];
    assert_eq!(looked("how many cars today"), (None, car()));
    assert_eq!(looked("were there any cars today"), (None, car()));
    assert_eq!(
        looked("how many cars on camera cars today"),
        (on("cars"), car())
    );
    assert_eq!(looked("how many cars at cars2 today"), (on("cars2"), car()));
    assert_eq!(
        looked("what happened on the cars camera today"),
        (on("cars"), Vec::new())
    );
}

#[test]
fn a_way_without_a_channel_is_noted_beside_a_channel() {
    let proposal = proposal("notify #security and email me when a person appears at the gate");
    let told = proposal.not_possible.join(" ");
    assert!(
        told.contains("\"email me\"") && told.contains("only #security"),
        "{told}"
    );
}

#[test]
fn the_numbers_of_a_shape_end_where_another_phrase_begins() {
    let zone = |text: &str| match deployed(text).rules.unwrap().remove(0).schedule {
        Some(schedule) => (schedule.from, schedule.to),
        None => panic!("{text}"),
    };
    for text in [
        "tell me when a person is in the zone 10%,10% to 40%,40% from 9 to 5 on camera gate",
        "tell me when a person is in the rectangle 10%,20% to 50%,80% from 9 am to 5 pm on camera gate",
    ] {
        let hours = ("09:00".to_owned(), "17:00".to_owned());
        assert_eq!(zone(text), hours, "{text}");
        let said = proposal(text).understood;
        assert!(
            said.contains("to 40%, 40%, only") || said.contains("to 50%, 80%, only"),
            "{said}"
        );
    }
    let text = "tell me when a person crosses the line 10%,20% to 50%,80% at 60% confidence on camera gate";
    assert!(proposal(text).understood.contains("confidence of 0.6"));
}

#[test]
fn a_shape_in_two_units_is_refused() {
    for shape in ["10%,20% to 0.5,0.8", "0.1,0.2 to 50%,80%", "0,0 to 100%,1"] {
        let text = format!("tell me when a person is in the rectangle {shape} on camera gate");
        let refused = question(&text, Missing::Meaning).text;
        assert!(refused.contains("is no shape"), "{refused}");
    }
    for shape in ["10,20 to 50,80 %", "0,0 to 50%,80%", "0.1,0.2 to 0.5,0.8"] {
        let text = format!("tell me when a person is in the rectangle {shape} on camera gate");
        assert_eq!(specs(&proposal(&text)).len(), 1, "{text}");
    }
}

#[test]
fn a_time_without_its_unit_is_no_number_of_objects() {
    for text in [
        "Alert me when a vehicle stays in the left half for more than 3 on camera gate.",
        "Alert me when a person stays in the left half for at least 90 on camera gate.",
    ] {
        let answer = ask(text, &scene());
        assert!(!matches!(answer, Answer::Propose(_)), "{text}: {answer:#?}");
    }
}
