//! Requests as operators type them: short, in a hurry, British and American.

use watchkeeper_contract::rule::{ClipSpec, Condition, CountBound, RuleSpec, Severity};
use watchkeeper_plain::answer::{Answer, Change, Look, Missing, Proposal};
use watchkeeper_plain::scene::{Deployed, Model};

use crate::support::{
    PLAIN, ask, camera, deployed, proposal, proposal_in, question, question_in, scene, specs,
    with_pipelines,
};

fn rule(text: &str) -> RuleSpec {
    deployed(text).rules.unwrap().remove(0)
}

fn hours(text: &str) -> String {
    let schedule = rule(text).schedule.unwrap();
    let days: Vec<String> = schedule.days.iter().map(|d| format!("{d:?}")).collect();
    format!("{} {}-{}", days.join(","), schedule.from, schedule.to)
}

fn classes(proposal: &Proposal) -> serde_json::Value {
    specs(proposal)[0].workflow["steps"][0]["class_filter"].clone()
}

#[test]
fn misspelt_word_is_quoted_and_never_guessed() {
    for (text, quoted) in [
        ("tell me when a preson is at the gate", "preson"),
        ("tell me when a trunk is at the gate", "trunk"),
        ("pause the gaet watch", "gaet"),
    ] {
        let Answer::Unknown(refused) = ask(text, &with_pipelines(&["gate", "yard"])) else {
            panic!("{text}");
        };
        assert!(refused.text.contains(quoted), "{text}: {}", refused.text);
    }
    let hurried = proposal("pls tel me wen ppl are at the gate");
    assert_eq!(classes(&hurried), serde_json::json!(["person"]));
}

#[test]
fn name_with_a_word_that_is_replaced_is_refused() {
    let mut scene = scene();
    scene.cameras[1].name = "Nite Club".to_owned();
    let answer = ask("tell me about people on the nite club camera", &scene);
    assert!(matches!(answer, Answer::Unknown(_)), "{answer:#?}");
}

#[test]
fn times_are_said_in_many_ways() {
    for (said, wanted) in [
        ("Mon-Fri 10pm-6am", "Mon,Tue,Wed,Thu,Fri 22:00-06:00"),
        ("from 10 p.m. to 6 a.m.", " 22:00-06:00"),
        ("weekends 8am-8pm", "Sat,Sun 08:00-20:00"),
    ] {
        let text = format!("Tell me when a person is seen on camera gate, {said}");
        assert_eq!(hours(&text), wanted, "{text}");
        drop(proposal(&text));
    }
}

#[test]
fn at_most_one_message_is_shared_by_all_objects() {
    for text in [
        "Tell me about cars at the gate, but not more often than every five minutes.",
        "tell me about cars at the gate, once every 5 minutes at most",
    ] {
        let rule = rule(text);
        assert_eq!(
            (rule.cooldown_s, rule.shared_cooldown),
            (300.0, true),
            "{text}"
        );
    }
    // Where nothing was said it is a minute, and it is said.
    let usual = proposal("tell me about cars at the gate");
    assert!(
        usual
            .assumed
            .iter()
            .any(|a| a.contains("quiet for 1 minute"))
    );
    assert_eq!(rule("tell me about cars at the gate").cooldown_s, 60.0);
    for text in [
        "tell me about every one of the cars at the gate",
        "tell me each time a car is at the gate",
    ] {
        assert_eq!(rule(text).cooldown_s, 0.0, "{text}");
    }
}

#[test]
fn nobody_is_told_where_nobody_wants_to_be() {
    for text in [
        "Truck arrival at the gate: only keep a still, no messages.",
        "keep a picture of every truck on the gate camera, no notifications",
    ] {
        let proposal = proposal(text);
        assert_eq!(classes(&proposal), serde_json::json!(["truck"]), "{text}");
        let rule = specs(&proposal)[0].rules.clone().unwrap().remove(0);
        assert_eq!(
            (rule.severity, rule.notify.len()),
            (Severity::Info, 0),
            "{text}"
        );
        assert!(
            proposal
                .assumed
                .iter()
                .any(|s| s.starts_with("No channel notifies")),
            "{text}"
        );
    }
    // Only then is nothing else meant.
    let night = ask(
        "tell me about cars at the gate but no alerts at night",
        &scene(),
    );
    if let Answer::Propose(proposal) = &night {
        assert!(
            !proposal
                .assumed
                .iter()
                .any(|s| s.starts_with("No channel notifies"))
        );
    }
}

#[test]
fn a_place_that_is_empty_needs_no_class() {
    for (text, wanted) in [
        ("tell me when the street is empty for 10 minutes", "person"),
        ("tell me when the car park is empty for 10 minutes", "truck"),
        (
            "let me know when the office is empty for ten minutes",
            "person",
        ),
    ] {
        let text = format!("{text}, in the whole picture of the gate camera");
        let proposal = proposal(&text);
        assert!(classes(&proposal).to_string().contains(wanted), "{text}");
        let told = proposal
            .assumed
            .iter()
            .any(|s| s.starts_with("Who or what was not said"));
        assert!(told, "{text}: {:?}", proposal.assumed);
        let Condition::Count {
            bound: CountBound::Under(1),
            for_s,
            ..
        } = rule(&text).when
        else {
            panic!("{text}");
        };
        assert_eq!(for_s, 600.0);
    }
}

#[test]
fn of_an_unknown_place_it_is_asked_who_is_missing() {
    let mut scene = scene();
    scene.cameras = vec![camera("c1", "First")];
    let text = "tell me when the canteen is empty for 10 minutes, in the whole picture";
    let asked = question_in(text, &scene);
    assert!(asked.text.contains("no people are"), "{}", asked.text);
    let text = "tell me when no cats are in the canteen for 10 minutes, in the whole picture";
    let proposal = proposal_in(text, &scene);
    assert_eq!(classes(&proposal), serde_json::json!(["cat"]));
}

#[test]
fn heads_are_people() {
    for text in [
        "Gate: keep a running head count.",
        "headcount at the gate please",
    ] {
        let spec = deployed(text);
        assert_eq!(
            spec.workflow["steps"][0]["class_filter"],
            serde_json::json!(["person"]),
            "{text}"
        );
        assert_eq!(spec.rules.unwrap().len(), 0, "{text}");
    }
}

#[test]
fn requests_of_two_kinds_or_of_one_pipeline_are_refused() {
    let scene = with_pipelines(&["gate"]);
    let text = "Stop the gate alarm and tell me when a car is in the yard.";
    let Answer::Unknown(refused) = ask(text, &scene) else {
        panic!("{text}");
    };
    assert!(refused.text.contains("a car is in the yard"), "{refused:?}");
    let twice = ask(
        "Stop the gate alarm and pause the gate alarm for an hour",
        &scene,
    );
    assert!(matches!(twice, Answer::Ask(_)), "{twice:#?}");
}

#[test]
fn a_note_about_a_watch_that_runs_changes_it() {
    let scene = with_pipelines(&["gate"]);
    let proposal = proposal_in("Gate alarm: only dogs.", &scene);
    assert!(
        matches!(&proposal.changes[..], [Change::Replace(_)]),
        "{:#?}",
        proposal.changes
    );
    assert_eq!(classes(&proposal), serde_json::json!(["dog"]));
}

#[test]
fn a_change_in_plain_words_adds_a_clip() {
    let scene = with_pipelines(&["gate"]);
    for text in [
        "change the gate alarm to also keep a clip of 20 seconds",
        "the gate alarm should also save a clip of 20 seconds",
        "add a clip of 20 seconds to the gate alarm",
        "also keep a 20 second clip for the gate alarm",
    ] {
        let proposal = proposal_in(text, &scene);
        let rules = specs(&proposal)[0].rules.clone().unwrap();
        let clip = ClipSpec {
            before_s: 5.0,
            after_s: 15.0,
            ..ClipSpec::default()
        };
        assert!(
            rules.iter().all(|r| r.clip == Some(clip)),
            "{text}: {rules:?}"
        );
        assert!(proposal.understood.contains("with a clip"), "{text}");
    }
}

#[test]
fn a_time_in_a_name_is_none_of_the_request() {
    let mut scene = with_pipelines(&["gate", "yard"]);
    scene.pipelines[0].name = "Night patrol".to_owned();
    for text in [
        "Pause the night patrol until 8 tomorrow morning.",
        "Mute the night patrol until 8 tomorrow morning.",
    ] {
        let proposal = proposal_in(text, &scene);
        let [
            Change::Pause {
                pipeline,
                until: Some(until),
            },
        ] = &proposal.changes[..]
        else {
            panic!("{text}: {:#?}", proposal.changes);
        };
        assert_eq!(*pipeline, scene.pipelines[0].spec.id, "{text}");
        assert_eq!(until.hour(), 8, "{text}");
    }
}

#[test]
fn what_one_camera_watches_is_that_of_this_camera() {
    let scene = with_pipelines(&["gate", "yard"]);
    for text in [
        "What is the gate camera watching?",
        "Which watch runs at the gate?",
    ] {
        let Answer::Look(looked) = ask(text, &scene) else {
            panic!("{text}");
        };
        let gate = vec![scene.pipelines[0].spec.id.clone()];
        assert_eq!(looked.look, Look::Pipelines(Some(gate)), "{text}");
        assert!(!looked.text.contains("yard"), "{}", looked.text);
    }
}

#[test]
fn camera_that_is_called_like_a_verb_is_named_by_its_id() {
    let mut scene = scene();
    scene.cameras[1].name = "Watch tower".to_owned();
    let asked = match ask("tell me about cars", &scene) {
        Answer::Ask(question) => question,
        other => panic!("{other:#?}"),
    };
    assert_eq!(asked.about, Missing::Camera);
    let again = ask(&asked.answered("the watch tower camera"), &scene);
    assert!(matches!(again, Answer::Ask(_)), "{again:#?}");
    let proposal = proposal_in(&asked.answered("gate"), &scene);
    assert_eq!(specs(&proposal)[0].source.as_str(), "gate");
}

#[test]
fn a_pipeline_that_is_called_like_a_verb_is_an_answer() {
    let mut scene = with_pipelines(&["gate", "yard"]);
    scene.pipelines[1].name = "Watch".to_owned();
    let Answer::Ask(asked) = ask("pause it for an hour", &scene) else {
        panic!("no question");
    };
    let proposal = proposal_in(&asked.answered("watch"), &scene);
    assert!(
        matches!(&proposal.changes[..], [Change::Pause { pipeline, .. }] if *pipeline == scene.pipelines[1].spec.id),
        "{:#?}",
        proposal.changes
    );
}

#[test]
fn both_ways_over_a_line_are_no_way_of_their_own() {
    let spec = deployed("Count cars both ways over the vertical line at 50% on camera gate");
    assert_eq!(spec.rules.unwrap().len(), 0);
    question(
        "Tell me when a car goes upwards on camera gate",
        Missing::Line,
    );
}

#[test]
fn what_parks_is_a_vehicle_even_if_somebody_parks() {
    let text = "tell me when somebody parks at the gate for more than 3 minutes";
    let asked = question_in(text, &scene());
    assert!(asked.text.contains("is a vehicle"), "{}", asked.text);
}

#[test]
fn watch_is_changed_paused_and_resumed_in_many_wordings() {
    let scene = with_pipelines(&["gate", "yard"]);
    let gate = scene.pipelines[0].spec.id.clone();
    for (text, kind) in [
        (
            "the gate alarm is too jumpy, make it 0.7 confidence",
            "change",
        ),
        ("gate alarm confidence 0.7", "change"),
        ("gate alarm without people", "change"),
        ("gate alarm - no cars please", "change"),
        ("gate alarm: only 21:00-05:00", "change"),
        ("put the gate alarm on hold till monday morning", "pause"),
        ("turn the gate alarm back on", "resume"),
        ("gate alarm on again please", "resume"),
        ("kill all the alerts except the yard one", "pause"),
        ("turn everything off but the yard alarm", "pause"),
        ("delete the old gate counter", "stop"),
    ] {
        let proposal = proposal_in(text, &scene);
        let [change] = &proposal.changes[..] else {
            panic!("{text}: {:#?}", proposal.changes);
        };
        assert_eq!(*change.pipeline(), gate, "{text}");
        let found = match change {
            Change::Deploy(_) => "deploy",
            Change::Replace(_) => "change",
            Change::Delete(_) => "stop",
            Change::Pause { .. } => "pause",
            Change::Resume(_) => "resume",
        };
        assert_eq!(found, kind, "{text}");
    }
}

#[test]
fn questions_are_known_by_their_mark_and_by_the_past() {
    let scene = with_pipelines(&["gate"]);
    for text in [
        "anything happen at the gate last night?",
        "people at the gate yesterday evening?",
        "Number of alarms of the past night, please.",
    ] {
        assert!(
            matches!(ask(text, &scene), Answer::Look(looked) if matches!(looked.look, Look::Events(_))),
            "{text}: {:#?}",
            ask(text, &scene)
        );
    }
    let Answer::Look(looked) = ask("gate cam ok?", &scene) else {
        panic!("no look-up");
    };
    assert!(matches!(looked.look, Look::Status(Some(_))), "{looked:?}");
    let unknown = ask("what went on on the stockroom camera overnight", &scene);
    assert!(
        matches!(&unknown, Answer::Unknown(unknown) if unknown.text.contains("stockroom")),
        "{unknown:#?}"
    );
}

#[test]
fn what_limits_a_camera_a_place_or_a_time_behind_but_is_read() {
    for text in [
        "Warn me about dogs, but only on the gate camera.",
        "Tell me about dogs on camera gate, but only in the left half.",
        "Tell me about dogs on camera gate, but only at night.",
        "Tell me about dogs on camera gate, but only if they stay 10 seconds.",
    ] {
        assert_eq!(deployed(text).source.as_str(), "gate", "{text}");
    }
    for (text, quoted) in [
        ("tell me when a dog is only at the gate", "only"),
        ("tell me about dogs at the gate, but only big ones", "big"),
        ("tell me when a dog is at the gate, but only once", "once"),
        ("the gate alarm drives me mad", "drives"),
        ("tell me when a dog drives me mad at the gate", "drives"),
    ] {
        let Answer::Unknown(unknown) = ask(text, &with_pipelines(&["gate"])) else {
            panic!("{text}");
        };
        assert!(unknown.text.contains(quoted), "{text}: {unknown:?}");
        assert!(!unknown.text.contains("can't be watched"), "{text}");
    }
}

#[test]
fn end_of_a_watch_is_a_time_from_now() {
    let spec = deployed("tell me about dogs at the gate for the next 3 hours");
    assert_eq!(spec.stop_after_s, Some(10_800.0));
    for text in [
        "tell me about dogs at the gate until tomorrow",
        "tell me about dogs at the gate until 10 tomorrow",
        "tell me about dogs at the gate until friday",
        "tell me about dogs at the gate until 8 pm",
    ] {
        assert!(matches!(ask(text, &scene()), Answer::Unknown(_)), "{text}");
    }
}

#[test]
fn past_weekday_is_the_last_one_and_may_be_today() {
    // It is Saturday, 28 March.
    for (text, from) in [
        ("what happened on saturday", "Saturday 28 March"),
        ("what happened last saturday", "Saturday 21 March"),
        ("what happened on friday", "Friday 27 March"),
    ] {
        let Answer::Look(looked) = ask(text, &scene()) else {
            panic!("{text}");
        };
        assert!(looked.text.contains(from), "{text}: {}", looked.text);
    }
}

#[test]
fn duration_that_was_asked_for_completes_the_request() {
    for (request, answer) in [
        ("tell me when somebody loiters at the gate", "two minutes"),
        (
            "alert me when a truck parks on camera dock",
            "for half an hour",
        ),
        (
            "warn me when a person waits at the gate at night",
            "90 seconds",
        ),
    ] {
        let asked = question(request, Missing::Duration);
        let rule = rule(&asked.answered(answer));
        assert!(matches!(rule.when, Condition::Stays { .. }), "{request}");
    }
}

#[test]
fn place_that_is_left_alone_has_nobody_in_it() {
    for text in [
        "ping me if the till is left alone for more than 5 mins, in the left half on camera gate",
        "tell me when the till is left unattended for 5 minutes, in the left half on camera gate",
    ] {
        let Condition::Count { bound, for_s, .. } = rule(text).when else {
            panic!("{text}");
        };
        assert_eq!((bound, for_s), (CountBound::Under(1), 300.0), "{text}");
    }
    let bag = rule("tell me when a bag is left alone on camera gate for 5 minutes");
    assert!(matches!(bag.when, Condition::Stays { .. }));
}

#[test]
fn who_passes_is_seen_and_is_in_no_place() {
    for text in [
        "tell me when a car drives by on the gate camera",
        "alert me when somebody walks past at the gate",
        "tell me when a dog goes by on camera gate at night",
    ] {
        assert!(
            matches!(rule(text).when, Condition::Appears { .. }),
            "{text}"
        );
    }
    let text = "tell me when a car drives by the left parking bay";
    assert!(matches!(ask(text, &scene()), Answer::Unknown(_)));
}

#[test]
fn what_nobody_should_do_is_refused() {
    for text in [
        "nobody should be in the left parking bay",
        "No dogs should enter the left parking bay at night.",
        "tell me: nobody should be in the left parking bay",
        "tell me: nobody shall be in the left parking bay",
    ] {
        let answer = ask(text, &scene());
        assert!(matches!(answer, Answer::Unknown(_)), "{text}: {answer:#?}");
    }
}

#[test]
fn what_is_entered_is_a_place_whatever_its_noun() {
    for text in [
        "tell me when someone enters the greenhouse on camera gate",
        "tell me when a dog goes into the old tool hut on camera gate",
    ] {
        question(text, Missing::Place);
    }
}

#[test]
fn number_of_parked_objects_is_refused() {
    let text = "tell me when no car is parked in the left parking bay for 10 minutes";
    let asked = question_in(text, &scene()).text;
    assert!(asked.contains("parked or drive"), "{asked}");
}

#[test]
fn order_means_the_watch_that_can_be_meant() {
    let mut scene = with_pipelines(&["gate", "dock"]);
    scene.pipelines[1].paused = true;
    let dogs = deployed("tell me when a dog enters the left parking bay");
    scene.pipelines.push(watchkeeper_plain::scene::Deployed {
        name: dogs.id.to_string(),
        spec: dogs,
        paused: false,
        paused_until: None,
        not_running: None,
    });
    let ids: Vec<_> = scene.pipelines.iter().map(|p| p.spec.id.clone()).collect();
    for (text, meant) in [("turn it back on", 1), ("pause the dog watch", 2)] {
        let changes = proposal_in(text, &scene).changes;
        let changed: Vec<_> = changes.iter().map(Change::pipeline).collect();
        assert_eq!(changed, [&ids[meant]], "{text}");
    }
    // A watch may see other classes and places too.
    for text in [
        "stop telling me about cars",
        "don't tell me about people any more",
        "stop watching the left parking bay",
        "tell me when a person enters the red car on camera gate",
    ] {
        assert!(matches!(ask(text, &scene), Answer::Unknown(_)), "{text}");
    }
}

#[test]
fn class_that_is_no_longer_told_pauses_what_tells_only_of_it() {
    let mut scene = scene();
    for camera in ["gate", "dock"] {
        let spec = deployed(&format!("tell me when a car is on camera {camera}"));
        let name = spec.id.to_string();
        scene.pipelines.push(watchkeeper_plain::scene::Deployed {
            name,
            spec,
            paused: false,
            paused_until: None,
            not_running: None,
        });
    }
    for (text, paused) in [
        ("stop telling me about cars", 2),
        ("don't tell me about cars at the gate any more", 1),
        ("stop the alerts about cars for two hours", 2),
        ("pause the car watches", 2),
        ("pause the car watch on the dock camera", 1),
    ] {
        let changes = proposal_in(text, &scene).changes;
        let pauses = changes.iter().filter(|c| matches!(c, Change::Pause { .. }));
        assert_eq!((pauses.count(), changes.len()), (paused, paused), "{text}");
    }
    let asked = question_in("pause the car watch", &scene);
    assert_eq!(
        asked.choices,
        ["gate-car-appears", "dock-car-appears", "all"]
    );
    let one = proposal_in(&asked.answered("dock-car-appears"), &scene).changes;
    assert_eq!(one[0].pipeline().as_str(), "dock-car-appears");
    assert_eq!(proposal_in(&asked.answered("all"), &scene).changes.len(), 2);
    // A watch without classes tells of no car.
    let mut with_motion = scene.clone();
    with_motion.models = vec![Model {
        name: "motion".to_owned(),
        labels: Vec::new(),
    }];
    let moving = proposal_in("tell me when anything moves on camera yard", &with_motion);
    let spec = specs(&moving).remove(0);
    with_motion.models.extend(scene.models.clone());
    with_motion.pipelines.push(Deployed {
        name: spec.id.to_string(),
        spec,
        ..scene.pipelines[0].clone()
    });
    let stopped = proposal_in("stop telling me about cars", &with_motion);
    assert_eq!(stopped.changes.len(), 2);
    let assumed = stopped.assumed.join(" ");
    assert!(assumed.contains("tells no classes apart"), "{assumed}");
    for text in [
        "stop telling me about everything",
        "stop telling me about my car",
    ] {
        assert!(!matches!(ask(text, &scene), Answer::Propose(_)), "{text}");
    }
}

#[test]
fn absence_is_no_second_event_of_a_watch_for_presence() {
    let scene = with_pipelines(&["gate"]);
    for (text, twice) in [
        ("tell me when a person is on camera gate", true),
        (
            "tell me when nobody is on camera gate for 10 minutes",
            false,
        ),
        ("tell me when more than 5 people are on camera gate", false),
    ] {
        let assumed = proposal_in(text, &scene).assumed.join(" ");
        assert_eq!(assumed.contains("may come twice"), twice, "{text}");
    }
}

#[test]
fn every_camera_is_all_though_a_model_knows_cameras() {
    let mut scene = scene();
    scene.models[0].labels.push("camera".to_owned());
    let stopped = "tell me when a car stops coming to the left half on camera gate for 5 minutes";
    assert!(!matches!(ask(stopped, &scene), Answer::Propose(_)));
    scene.cameras.push(camera("c9", "Camera 9"));
    let numbered = proposal_in("tell me when a cat is on camera 9", &scene);
    assert!(
        numbered.understood.contains("c9"),
        "{}",
        numbered.understood
    );
    let proposal = proposal_in("watch for cats on every camera", &scene);
    assert_eq!(proposal.changes.len(), scene.cameras.len());
}

#[test]
fn running_watch_is_told_to_look_out_for_more() {
    let scene = with_pipelines(&["gate"]);
    let text = "have the gate watch look out for dogs as well";
    let changed = specs(&proposal_in(text, &scene)).remove(0);
    assert!(changed.workflow.to_string().contains("dog"), "{changed:?}");
}

#[test]
fn each_of_a_class_is_an_event() {
    for (text, cooldown_s) in [
        ("inform me of each person who is at the gate", 0.0),
        ("tell me about every car on camera gate", 0.0),
        ("tell me each time a car is on camera gate, every one", 0.0),
        ("tell me about all cars on camera gate", 60.0),
    ] {
        assert_eq!(rule(text).cooldown_s, cooldown_s, "{text}");
    }
    let capped = rule("tell me about cars on camera gate, at most 10 alerts per hour");
    assert_eq!((capped.max_per_hour, capped.cooldown_s), (Some(10), 60.0));
    let counted = proposal("count every car on camera gate");
    assert_eq!(specs(&counted)[0].rules, Some(Vec::new()));
}

#[test]
fn duration_is_corrected_only_where_it_is_clear_which() {
    let text = "tell me when a person enters the left half on camera gate";
    let corrected = |said: &str| PLAIN.corrected(text, &[said.to_owned()], &scene());
    let Ok(Answer::Unknown(refused)) = corrected("make it 30 seconds") else {
        panic!("the pause after an event, or how long somebody stays");
    };
    assert!(refused.text.contains("cool-down 30 seconds"), "{refused:?}");
    for said in ["for 30 seconds", "cool-down 30 seconds"] {
        assert!(matches!(corrected(said), Ok(Answer::Propose(_))), "{said}");
    }
    let cats = corrected("no wait, cats");
    assert!(matches!(cats, Ok(Answer::Propose(_))), "{cats:?}");
}

#[test]
fn watch_that_runs_already_is_named() {
    let scene = with_pipelines(&["gate"]);
    let same = "tell me when a person or a car appears on camera gate";
    let is_named = |text: &str| {
        let assumed = proposal_in(text, &scene).assumed;
        assumed.iter().any(|a| a.contains("there already"))
    };
    assert!(is_named(same));
    assert!(is_named(
        "tell me when a person appears on camera gate at night"
    ));
    assert!(!is_named("tell me when a dog appears on camera gate"));
}

#[test]
fn midnight_is_no_day_of_hours() {
    let after = "tell me when a car is at the gate after midnight";
    assert_eq!(hours(after), " 00:00-06:00");
    let until = ask("tell me when a car is at the gate until midnight", &scene());
    assert!(matches!(until, Answer::Unknown(_)), "{until:#?}");
    let text = "watch the gate between 7 and 9 and count the cars";
    let Answer::Ask(refused) = ask(text, &scene()) else {
        panic!("a count has no hours");
    };
    assert!(refused.text.contains("A count has no hours"), "{refused:?}");
}
