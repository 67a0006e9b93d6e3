//! What must not be half understood: a request that its unread words would change is not proposed.

use proptest::prelude::*;
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::rule::{Condition, CountBound, CrossDirection, Schedule};
use watchkeeper_plain::Scene;
use watchkeeper_plain::answer::{Answer, Change, Missing};

use crate::support::{
    ask, deployed, proposal, proposal_in, question, scene, specs, with_pipelines,
};

fn schedules(text: &str) -> Vec<String> {
    let rules = deployed(text).rules.unwrap();
    let said = |s: &Schedule| {
        let days: Vec<String> = s.days.iter().map(|d| format!("{d:?}")).collect();
        format!("{} {}-{}", days.join(","), s.from, s.to)
    };
    rules
        .iter()
        .filter_map(|r| r.schedule.as_ref().map(said))
        .collect()
}

fn classes(text: &str) -> serde_json::Value {
    deployed(text).workflow["steps"][0]["class_filter"].clone()
}

/// A request that is not taken, and the words that are named for it.
fn not_taken(text: &str) -> Vec<String> {
    match ask(text, &scene()) {
        Answer::Unknown(unknown) => unknown.not_understood,
        other => panic!("{text}: {other:#?}"),
    }
}

fn is_offered(text: &str) -> bool {
    matches!(ask(text, &scene()), Answer::Propose(_))
}

#[test]
fn a_number_is_one_of_objects_only_before_what_is_counted() {
    for (said, over) in [("3 persons", 2), ("three cars", 2), ("12 people", 11)] {
        let text = format!("Tell me when {said} are seen on camera gate");
        let rules = deployed(&text).rules.unwrap();
        assert!(
            matches!(rules[0].when, Condition::Count { bound: CountBound::Over(n), .. } if n == over),
            "{text}: {:?}",
            rules[0].when
        );
    }
    for text in [
        "Tell me when a person is seen on camera gate at 7 am",
        "Tell me when a person is seen on camera gate on 24 December",
        "Alert me about cars on camera gate faster than 50 km/h",
        "Tell me when 100 people have been on camera gate today",
        "Tell me when a person is seen on camera gate every day at noon",
    ] {
        assert!(!not_taken(text).is_empty(), "{text}");
    }
    assert_eq!(
        schedules("Tell me when a person is seen on camera gate 24/7"),
        [" 00:00-00:00"; 0]
    );
}

#[test]
fn days_that_are_left_out_are_those_of_the_whole_week() {
    let text = "Tell me when a person is seen on camera gate";
    const WORKDAYS: &str = "Mon,Tue,Wed,Thu,Fri 00:00-00:00";
    const BUT_SUNDAYS: &str = "Mon,Tue,Wed,Thu,Fri,Sat 00:00-00:00";
    for (said, wanted) in [
        ("but not on weekends", WORKDAYS),
        ("except on saturdays and sundays", WORKDAYS),
        ("every day except sundays", BUT_SUNDAYS),
        ("any day but sunday", BUT_SUNDAYS),
        (
            "between 8 am and 5 pm, but not on sundays",
            "Mon,Tue,Wed,Thu,Fri,Sat 08:00-17:00",
        ),
        ("unless it is at night", " 06:00-22:00"),
        ("but at night only", " 22:00-06:00"),
    ] {
        assert_eq!(schedules(&format!("{text} {said}")), [wanted], "{said}");
    }
    for said in [
        "except on sundays between 8 am and 10 am",
        "between 8 am and 5 pm, but not between 12:00 and 13:00",
        "on weekdays except monday",
    ] {
        assert!(!not_taken(&format!("{text} {said}")).is_empty(), "{said}");
    }
    let weekends = "Tell me when a person is seen on camera gate but only on weekends";
    assert_eq!(schedules(weekends), ["Sat,Sun 00:00-00:00"]);
}

#[test]
fn hours_are_read_as_people_say_them() {
    for (said, wanted) in [
        (
            "between ten in the evening and six in the morning",
            " 22:00-06:00",
        ),
        ("from 9 to 5", " 09:00-17:00"),
        ("from 8 at night to 5 in the morning", " 20:00-05:00"),
        ("between 10 pm and 6", " 22:00-06:00"),
        ("from 8 to 11 am", " 08:00-11:00"),
        ("from 22 to 6 am", " 22:00-06:00"),
        ("from 9 to 5 in the afternoon", " 09:00-17:00"),
        ("from 06:00 to 8 pm", " 06:00-20:00"),
        ("between 9 and 17 and save a clip", " 09:00-17:00"),
        ("from 9 to 5 and tell #security", " 09:00-17:00"),
    ] {
        let text = format!("Tell me when a person is seen on camera gate {said}");
        assert_eq!(schedules(&text), [wanted], "{text}");
        drop(proposal(&text));
    }
}

#[test]
fn am_or_pm_at_one_end_counts_for_both_and_is_noted() {
    for (said, wanted) in [
        ("from 6 to 8 pm", " 18:00-20:00"),
        ("between 6 and 8 pm", " 18:00-20:00"),
        ("between 6 and 8 in the evening", " 18:00-20:00"),
        ("between 6:30 and 8 o'clock in the evening", " 18:30-20:00"),
        ("between 9 and 11 at night", " 21:00-23:00"),
        ("between 10 and 6 at night", " 22:00-06:00"),
        ("between 12 and 3 at night", " 00:00-03:00"),
        ("from 10 to 6 in the morning", " 22:00-06:00"),
        ("from 6 pm to 8", " 18:00-20:00"),
        ("from 8 in the morning to 5", " 08:00-17:00"),
        ("from noon to 4", " 12:00-16:00"),
    ] {
        let text = format!("Tell me when a person is seen on camera gate {said}");
        assert_eq!(schedules(&text), [wanted], "{text}");
        let proposal = proposal(&text);
        assert!(
            proposal.assumed.iter().any(|a| a.contains("is taken as")),
            "{text}: {:?}",
            proposal.assumed
        );
    }
}

#[test]
fn share_of_a_time_is_read_or_refuses_the_request() {
    let held = |text: &str| match deployed(text).rules.unwrap()[0].when {
        Condition::Stays { for_s, .. } => for_s,
        ref other => panic!("{text}: {other:?}"),
    };
    for (said, seconds) in [("half an hour", 1800.0), ("half a minute", 30.0)] {
        let text = format!("Tell me when somebody stays on camera gate for {said}");
        assert_eq!(held(&text), seconds, "{text}");
        drop(proposal(&text));
    }
    let quiet =
        "Tell me when somebody stays on camera gate for a minute, then be quiet for half an hour";
    let rule = deployed(quiet).rules.unwrap().remove(0);
    assert_eq!(rule.cooldown_s, 1800.0);
    for said in [
        "a quarter of an hour",
        "minus 5 seconds",
        "two thirds of an hour",
        "three quarters of an hour",
        "an eighth and a half",
        "2 minutes and a half",
        "two and a half minutes",
        "an hour and three quarters",
    ] {
        let text = format!("Tell me when somebody stays on camera gate for {said}");
        assert!(!is_offered(&text), "{text}");
    }
}

#[test]
fn classes_that_do_not_matter_are_left_out() {
    for (text, wanted) in [
        (
            "Let me know if a dog shows up on camera gate. People don't interest me.",
            &["dog"][..],
        ),
        (
            "Tell me about any vehicle but buses on camera gate",
            &["car", "motorcycle", "truck"],
        ),
        (
            "Tell me about animals and people on camera gate, I don't care about people, birds, cats, dogs, sheep, cows, horses, bears, zebras and giraffes",
            &["elephant"],
        ),
    ] {
        assert_eq!(classes(text), serde_json::json!(wanted), "{text}");
        drop(proposal(text));
    }
}

#[test]
fn two_things_in_relation_are_not_either_of_them() {
    for text in [
        "Alert me if a person comes close to a truck on camera gate",
        "Person next to truck on camera gate = alarm",
        "Tell me when a person and a dog are together on camera gate",
        "Tell me when a person with a dog is on camera gate",
        "Tell me when somebody leaves a backpack on camera gate",
    ] {
        assert!(!not_taken(text).is_empty(), "{text}");
    }
    assert!(is_offered(
        "Tell me when a person or a dog is on camera gate, and save a picture"
    ));
}

#[test]
fn words_that_turn_a_request_into_another_are_never_only_told() {
    for text in [
        "Tell me when a person on camera gate is not moving for 20 seconds",
        "Tell me when a person appears on camera gate but only once",
        "Tell me when a dog is on camera gate since monday",
        "Tell me when a person is outside the left half on camera gate",
        "Tell me when a dog or a cat, but no person, is on camera gate",
        "Tell me when a person and a car are on camera gate",
        "Tell me when up to three people are on camera gate",
        "Tell me when only one person is on camera gate",
        "Tell me when exactly two people are on camera gate",
        "Tell me when several people are on camera gate",
        "Tell me when more than 3 persons enter the left half on camera gate within a minute",
        "Tell me when somebody stays in the left half or the right third on camera gate for 20 seconds",
        "Tell me when somebody enters or waits 10 seconds in the left half on camera gate",
        "Tell me when a person in a red jacket enters the left half on camera gate",
        "Remind me to lock up when a person is on camera gate",
        "Tell me when the number of people on camera gate doubles",
        "Tell me what the people on camera gate are talking about when they wait",
    ] {
        assert!(!not_taken(text).is_empty(), "{text}");
    }
}

/// Words that may follow a number that is not a number of objects.
const UNITS: [&str; 14] = [
    "am", "pm", "o'clock", "December", "km/h", "mph", "-8", "/7", "%", "metres", "minutes",
    "seconds", "hours", "times",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_number_before_a_unit_is_a_number_of_objects(n in 2_u32..60, unit in proptest::sample::select(&UNITS[..]), before in "(at|on|for|over|after|) ?") {
        let text = format!("Tell me when a person is seen on camera gate {before}{n} {unit}");
        if let Answer::Propose(proposal) = ask(&text, &scene()) {
            for rule in specs(&proposal).remove(0).rules.unwrap() {
                let counts = matches!(rule.when, Condition::Count { .. });
                prop_assert!(!counts, "{}: {:?}", text, rule.when);
            }
        }
    }

    #[test]
    fn a_negation_that_no_phrase_reads_is_never_offered(word in "(not|never|unless|without|except|isn't|nor)", at in 0_usize..6) {
        let words = ["tell", "me", "about", "people", "on", "camera", "gate"];
        let mut said: Vec<&str> = words.to_vec();
        said.insert(at + 1, &word);
        said.push("blue");
        let text = said.join(" ");
        if let Answer::Propose(proposal) = ask(&text, &scene()) {
            // Only where the word left a class out.
            prop_assert!(proposal.understood.contains("but not"), "{}: {}", text, proposal.understood);
        }
    }
}

#[test]
fn a_direction_that_was_said_is_in_the_rule_or_asked_about() {
    for (way, direction) in [
        ("from the left", CrossDirection::In),
        ("from top to bottom", CrossDirection::Out),
    ] {
        let line = match way.contains("top") {
            true => "horizontal line at 50%",
            false => "vertical line at 50%",
        };
        let text = format!("Tell me when a car crosses the {line} on camera gate, {way}");
        let rules = deployed(&text).rules.unwrap();
        assert!(
            matches!(&rules[0].when, Condition::Crosses { direction: d, .. } if *d == direction),
            "{text}: {:?}",
            rules[0].when
        );
    }
    let at = deployed(
        "Tell me when a car crosses the vertical line at 40% from the left on camera gate",
    );
    assert_eq!(
        at.workflow["steps"][2]["line_segment"],
        serde_json::json!([[512, 0], [512, 720]])
    );
    question(
        "Tell me about cars going from left to right on camera gate",
        Missing::Line,
    );
}

#[test]
fn what_passes_the_middle_both_ways_is_counted_at_a_line_there() {
    let text = "On camera gate count cars in both directions at the vertical centre line.";
    let spec = deployed(text);
    assert_eq!(
        spec.workflow["steps"][2]["line_segment"],
        serde_json::json!([[640, 0], [640, 720]]),
        "{text}"
    );
    drop(proposal(text));
    question(
        "Count how many people go in and out on camera gate",
        Missing::Line,
    );
}

#[test]
fn a_counter_where_people_queue_is_a_place() {
    let asked = question(
        "Tell me when at least three people are queueing at the counter on camera gate",
        Missing::Place,
    );
    assert!(asked.text.contains("\"counter\""), "{}", asked.text);
}

#[test]
fn a_part_may_be_one_of_a_camera() {
    for text in [
        "Tell me when a person enters the left half of the yard",
        "Tell me when a person enters the left half of camera yard",
        "Tell me when a person is in the left half of the yard camera",
    ] {
        let spec = deployed(text);
        assert_eq!(spec.source.as_str(), "yard", "{text}");
        assert_eq!(
            spec.workflow["steps"][2]["zone"],
            serde_json::json!([[0, 0], [640, 0], [640, 720], [0, 720]]),
            "{text}"
        );
    }
}

#[test]
fn a_way_on_which_nobody_is_told_is_said_to_be_none() {
    for text in [
        "Email me when a person is on camera gate",
        "Call me when a person is on camera gate",
        "Text us when a person is on camera gate",
    ] {
        let told = proposal(text).not_possible.join(" ");
        assert!(told.contains("channel"), "{text}: {told}");
    }
}

fn replaced(text: &str, scene: &Scene) -> PipelineSpec {
    let proposal = proposal_in(text, scene);
    match proposal.changes.as_slice() {
        [Change::Replace(spec)] => (**spec).clone(),
        other => panic!("{text}: {other:#?}"),
    }
}

/// A box with a watch of people who stay at the gate, and another at the dock.
fn with_stays() -> Scene {
    let mut scene = with_pipelines(&["gate", "dock"]);
    for pipeline in &mut scene.pipelines {
        let id = pipeline.spec.id.clone();
        let source = pipeline.spec.source.clone();
        pipeline.spec = deployed(&format!(
            "tell me when a person stays for 3 seconds on camera {source}"
        ));
        pipeline.spec.id = id;
    }
    scene
}

#[test]
fn what_a_watch_should_do_changes_it_and_makes_none_beside_it() {
    let scene = with_stays();
    for text in [
        "The gate watch should also look for dogs and cats",
        "Add dogs and cats to the gate watch",
        "Add dogs and cats to the gate alarm",
    ] {
        let spec = replaced(text, &scene);
        assert_eq!(spec.id, scene.pipelines[0].spec.id, "{text}");
        assert_eq!(
            spec.workflow["steps"][0]["class_filter"],
            serde_json::json!(["person", "dog", "cat"]),
            "{text}"
        );
    }
    for text in [
        "Raise the confidence of the gate watch to 0.7 and leave everything else as it is.",
        "Set the confidence of the gate alarm to 0.7",
        "Gate watch: confidence threshold 0.7",
    ] {
        let spec = replaced(text, &scene);
        assert_eq!(spec.id, scene.pipelines[0].spec.id, "{text}");
        assert_eq!(spec.workflow["steps"][0]["confidence"], 0.7, "{text}");
    }
}

#[test]
fn a_time_in_a_change_is_how_long_they_stay_and_no_confidence() {
    let scene = with_stays();
    let spec = replaced("Change the gate alarm to 10 seconds", &scene);
    assert_eq!(spec.workflow, scene.pipelines[0].spec.workflow);
    assert!(
        matches!(spec.rules.unwrap()[0].when, Condition::Stays { for_s, .. } if (for_s - 10.0).abs() < 1e-9)
    );
}

#[test]
fn a_change_may_name_a_channel_and_keeps_those_that_there_are() {
    let mut scene = with_stays();
    for (text, wanted) in [
        (
            "Change the gate alarm to notify #security",
            &["security"][..],
        ),
        (
            "The gate alarm should tell #front-desk",
            &["security", "front-desk"],
        ),
    ] {
        let spec = replaced(text, &scene);
        let notify: Vec<String> = spec.rules.as_ref().unwrap()[0]
            .notify
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(notify, wanted, "{text}");
        scene.pipelines[0].spec = spec;
    }
}

#[test]
fn what_stays_as_it_is_may_be_said() {
    let scene = with_stays();
    let id = scene.pipelines[0].spec.id.clone();
    let ends = [Change::Delete(id.clone())];
    for text in ["Delete all but the dock", "Delete all watches on gate"] {
        assert_eq!(proposal_in(text, &scene).changes, ends, "{text}");
    }
    let rests = [Change::Pause {
        pipeline: id,
        until: None,
    }];
    for text in [
        "Switch off the watch on the gate, nothing else.",
        "Turn the gate watch off",
        "Gate watch off",
        "Stop the alerts from the gate",
        "Turn off the gate camera",
        "Stop the gate watch but leave the others running.",
        "Stop all but the dock",
    ] {
        let offer = proposal_in(text, &scene);
        assert_eq!(offer.changes, rests, "{text}");
        assert!(
            offer.assumed.iter().any(|a| a.contains("say \"delete\"")),
            "{text}"
        );
    }
    for text in [
        "Stop the gate watch but not the dock watch",
        "Turn the gate watch off at night",
        "Pause the gate watch from 10 to 12",
    ] {
        assert!(!matches!(ask(text, &scene), Answer::Propose(_)), "{text}");
    }
}

#[test]
fn unwatchable_happening_is_not_taken_as_being_seen() {
    for (text, word) in [
        (
            "Alert me when somebody falls down on camera gate",
            "falls down",
        ),
        ("Alert me if a person runs on camera gate", "runs"),
        ("Tell me when a car is speeding on camera gate", "speeding"),
    ] {
        assert_eq!(not_taken(text), [word], "{text}");
    }
    assert!(!not_taken("Tell me when a person walks from the yard to the gate").is_empty());
}

#[test]
fn at_the_same_time_is_what_a_number_says_and_no_place() {
    for text in [
        "alert me if more than 5 people are on camera gate at the same time",
        "alert me if more than 5 people are on camera gate at once",
    ] {
        let rules = deployed(text).rules.unwrap();
        assert!(
            matches!(
                rules[0].when,
                Condition::Count {
                    bound: CountBound::Over(5),
                    ..
                }
            ),
            "{text}: {:?}",
            rules[0].when
        );
        drop(proposal(text));
    }
    assert!(!is_offered(
        "alert me if a person is on camera gate at the same time"
    ));
}

#[test]
fn at_most_every_so_often_is_a_time_of_quiet() {
    for said in [
        "at most every 2 minutes",
        "at most once every 2 minutes",
        "no more than every 2 minutes",
        "at most one message per 2 minutes",
    ] {
        let text =
            format!("Tell me when a person is on camera gate longer than 30 seconds, {said}");
        let rule = deployed(&text).rules.unwrap().remove(0);
        assert_eq!(rule.cooldown_s, 120.0, "{text}");
        assert_eq!(proposal(&text).not_possible, [""; 0], "{text}");
    }
}

#[test]
fn missing_equipment_is_watched_for_where_a_model_tells_it() {
    let text = "Inside the left half everybody needs helmet and vest. Tell me only if somebody is missing one for at least three seconds on camera gate.";
    assert!(!is_offered(text), "no model here sees what is missing");
    let mut scene = scene();
    scene.models[0].labels = ["helmet", "no-helmet", "vest", "no-vest", "person"]
        .map(str::to_owned)
        .to_vec();
    let spec = specs(&proposal_in(text, &scene)).remove(0);
    assert_eq!(
        spec.workflow["steps"][0]["class_filter"],
        serde_json::json!(["no-helmet", "no-vest"])
    );
}

#[test]
fn a_short_name_of_a_day_is_one_only_where_a_day_stands() {
    for text in [
        "alert me when a dog lies in the sun on camera yard for 10 minutes",
        "alert me when a dog sat on camera yard for 10 minutes",
    ] {
        assert!(!is_offered(text), "{text}");
    }
    for (said, days) in [
        ("on sun", "Sun 00:00-00:00"),
        ("every sat", "Sat 00:00-00:00"),
        ("mon, wed and fri 8-18", "Mon,Wed,Fri 08:00-18:00"),
        ("sat-sun", "Sat,Sun 00:00-00:00"),
    ] {
        let text = format!("tell me when a dog is on camera yard, {said}");
        assert_eq!(schedules(&text), [days], "{text}");
    }
}
