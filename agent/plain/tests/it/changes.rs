//! A change of what runs: done as it was said, or not offered.

use serde_json::json;
use watchkeeper_contract::id::PipelineId;
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::rule::{Condition, CountBound, Schedule, Weekday};
use watchkeeper_plain::Scene;
use watchkeeper_plain::answer::{Answer, Change, Missing};
use watchkeeper_plain::scene::Deployed;

use crate::support::{ask, camera, deployed, proposal_in, question_in, scene, specs};

/// A box with two watches in the yard and one in the hall.
fn site() -> Scene {
    let mut scene = scene();
    scene.cameras.push(camera("hall", "Hall"));
    for (id, text) in [
        (
            "yard-person-crosses",
            "tell me when a person crosses the vertical line at 50% on camera yard",
        ),
        (
            "yard-traffic",
            "tell me when a car or a motorcycle is seen on camera yard",
        ),
    ] {
        add(&mut scene, id, deployed(text));
    }
    let mut stays =
        deployed("tell me when somebody stays in the left half on camera yard for 20 seconds");
    stays.source = "hall".parse().unwrap();
    add(&mut scene, "hall-somebody-stays", stays);
    scene
}

fn add(scene: &mut Scene, id: &str, mut spec: PipelineSpec) {
    spec.id = PipelineId::new(id).unwrap();
    scene.pipelines.push(Deployed {
        name: id.to_owned(),
        spec,
        paused: false,
        paused_until: None,
        not_running: None,
    });
}

fn changed(text: &str) -> PipelineSpec {
    let proposal = proposal_in(text, &site());
    match proposal.changes.as_slice() {
        [Change::Replace(spec)] => (**spec).clone(),
        other => panic!("{text}: {other:#?}"),
    }
}

fn classes(spec: &PipelineSpec) -> Vec<&str> {
    let classes = spec.workflow["steps"][0]["class_filter"]
        .as_array()
        .unwrap();
    classes.iter().map(|c| c.as_str().unwrap()).collect()
}

#[test]
fn a_change_of_a_watch_with_an_end_says_its_time_starts_again() {
    let mut site = site();
    let assumed = |site: &Scene| {
        proposal_in("change yard-traffic to only cars", site)
            .assumed
            .join(" ")
    };
    assert!(assumed(&site).contains("Everything else stays as it is."));
    for watch in &mut site.pipelines {
        watch.spec.stop_after_s = Some(3600.0);
    }
    let told = assumed(&site);
    assert!(
        told.contains("but its time of 1 hour starts again"),
        "{told}"
    );
}

#[test]
fn each_word_for_leaving_out_removes_the_class() {
    for leaves_out in [
        "so that it ignores motorcycles",
        "to exclude motorcycles",
        "so it skips motorcycles",
        "to disregard motorcycles",
        "to leave out motorcycles",
        "and filter out motorcycles",
        "so that motorcycles are ignored",
        "without motorcycles",
        "to everything but not motorcycles and not people, ignoring dogs",
    ] {
        let spec = changed(&format!("change yard-traffic {leaves_out}"));
        assert!(!classes(&spec).contains(&"motorcycle"), "{leaves_out}");
        assert!(classes(&spec).contains(&"car"), "{leaves_out}");
    }
    // Of what it does not watch for nothing is left to be left out.
    assert_eq!(
        classes(&changed("change yard-person-crosses to exclude bicycles")),
        ["person"]
    );
}

#[test]
fn cool_down_is_no_stay_wherever_the_watch_is_named() {
    for text in [
        "set the cool-down of hall-somebody-stays to 5 minutes",
        "change the cooldown of hall-somebody-stays to 5 minutes",
        "change the cool down of hall-somebody-stays to 5 minutes",
        "change the cool-down period for the hall watch to 5 minutes",
        "change hall-somebody-stays: cool-down 5 minutes",
        "change hall-somebody-stays to be quiet for 5 minutes",
        "change hall-somebody-stays to wait 5 minutes between alerts",
        "change hall-somebody-stays to alert at most every 5 minutes",
        "change hall-somebody-stays to at most one message per 5 minutes",
    ] {
        let rule = changed(text).rules.unwrap().remove(0);
        assert_eq!(rule.cooldown_s, 300.0, "{text}");
        assert!(
            matches!(rule.when, Condition::Stays { for_s, .. } if for_s == 20.0),
            "{text}: {:?}",
            rule.when
        );
    }
    for text in [
        "set the duration of hall-somebody-stays to 5 minutes",
        "change the delay of the hall watch to 5 minutes",
        "change hall-somebody-stays to 5 minutes",
        "change hall-somebody-stays to wait 5 minutes",
    ] {
        let rule = changed(text).rules.unwrap().remove(0);
        assert_eq!(rule.cooldown_s, 60.0, "{text}");
        assert!(
            matches!(rule.when, Condition::Stays { for_s, .. } if for_s == 300.0),
            "{text}: {:?}",
            rule.when
        );
    }
}

#[test]
fn a_share_is_a_confidence_only_where_it_can_be_one() {
    for text in [
        "set the confidence of yard-traffic to 60%",
        "change yard-traffic to a confidence of 0.6",
        "change yard-traffic to cars and motorcycles at 0.6",
        "change the threshold of yard-traffic to 60 percent",
        "raise the confidence of the yard-traffic watch to 60%",
    ] {
        assert_eq!(
            changed(text).workflow["steps"][0]["confidence"],
            0.6,
            "{text}"
        );
    }
}

#[test]
fn change_with_an_unread_word_is_refused_with_the_word() {
    for (text, word) in [
        (
            "change yard-person-crosses to the vertical line at 30%",
            "vertical line",
        ),
        (
            "change the line of yard-person-crosses to the horizontal line at 70%",
            "horizontal line",
        ),
        ("change yard-traffic to only cars in the left half", "half"),
        ("change yard-traffic to red cars", "red"),
        ("change yard-traffic to cars and tractors", "tractors"),
        ("change yard-traffic so that it sheds cars", "sheds"),
        ("change yard-traffic to take the cars out", "take"),
        (
            "change yard-person-crosses to only people going in",
            "going in",
        ),
        (
            "change yard-person-crosses to only people from left to right",
            "left",
        ),
        ("change hall-somebody-stays to minus 5 seconds", "minus"),
        (
            "change yard-traffic so that it does not look for cars",
            "not",
        ),
        ("change hall-somebody-stays to at least 5 people", "5"),
    ] {
        match ask(text, &site()) {
            Answer::Unknown(unknown) => {
                assert!(
                    unknown.not_understood.iter().any(|w| w.contains(word)),
                    "{text}: {unknown:?}"
                );
                assert!(unknown.text.contains(word), "{text}: {}", unknown.text);
            }
            Answer::Ask(question) => assert!(question.about == Missing::Meaning, "{text}"),
            other => panic!("{text}: {other:#?}"),
        }
    }
}

#[test]
fn a_time_for_a_watch_that_waits_for_none_is_not_offered() {
    let asked = question_in("change yard-traffic to 30 seconds", &site());
    assert!(asked.text.contains("cool-down"), "{}", asked.text);
}

#[test]
fn question_which_watch_names_those_of_the_camera_only() {
    let scene = site();
    let asked = question_in("raise the confidence of the yard watch to 50%", &scene);
    assert_eq!(asked.choices, ["yard-person-crosses", "yard-traffic"]);
    assert!(!asked.text.contains("hall-"), "{}", asked.text);
    let proposal = proposal_in(&asked.answered("yard-traffic"), &scene);
    assert_eq!(proposal.changes[0].pipeline().as_str(), "yard-traffic");
    // That of another camera is none of these.
    assert!(!matches!(
        ask(
            "raise the confidence of the yard watch to 50% hall-somebody-stays",
            &scene
        ),
        Answer::Propose(_)
    ));
}

#[test]
fn what_people_say_to_a_watch_every_day_changes_it() {
    for text in [
        "change the hall watch to only tell me at night",
        "make the hall watch less sensitive: confidence 0.7",
        "the hall watch should also look for dogs",
        "From now on the hall watch should look for dogs too, not only people. Leave the rest of it as it is.",
        "the hall watch should ignore cats",
        "change yard-traffic to cars and trucks",
        "change the hall watch so that it only alerts between 8 and 17",
        "change the hall watch to keep a 10 second clip",
        "change the hall watch to also notify #security",
        "set the hall watch to weekends only",
        "adjust the hall watch: trucks only",
        "update the hall watch, please, to thirty seconds",
        "make the hall watch wait a minute",
        "tell me about dogs as well on the hall watch",
        "let me know about dogs on the hall watch too",
    ] {
        changed(text);
    }
    let added = changed("tell me about dogs too in the hall watch");
    assert_eq!(classes(&added), ["person", "dog"]);
    for text in [
        "at the hall watch please for dogs",
        "dogs at the hall watch too",
    ] {
        let proposal = proposal_in(text, &site());
        assert!(matches!(proposal.changes[0], Change::Deploy(_)), "{text}");
    }
}

#[test]
fn only_detection_step_of_a_workflow_is_changed() {
    let segments = json!({"type": "roboflow_core/roboflow_instance_segmentation_model@v2",
        "name": "masks", "images": "$inputs.image", "model_id": "yolox-nano"});
    let mut site = site();
    let traffic = &mut site.pipelines[1].spec.workflow["steps"];
    traffic.as_array_mut().unwrap().push(segments.clone());
    let text = "change yard-traffic to only cars";
    let refused = question_in(text, &site).text;
    assert!(refused.contains("several detection steps"), "{refused}");
    site.pipelines[1].spec.workflow["steps"][0] = segments;
    site.pipelines[1].spec.workflow["steps"]
        .as_array_mut()
        .unwrap()
        .pop();
    let changed = specs(&proposal_in(text, &site)).remove(0);
    assert_eq!(classes(&changed), ["car"]);
}

#[test]
fn refused_change_names_the_watch_and_its_values() {
    for (text, reason) in [
        (
            "lower the confidence of yard-traffic to 80%",
            "80 % is not less than the present 10 % of yard-traffic",
        ),
        (
            "shorten the duration of hall-somebody-stays to 1 minute",
            "1 minute is not less than the present 20 seconds of hall-somebody-stays",
        ),
        (
            "set the duration of yard-traffic to 30 seconds",
            "yard-traffic has no rule that waits for a time",
        ),
    ] {
        let refused = question_in(text, &site()).text;
        assert!(refused.contains(reason), "{text}: {refused}");
    }
}

/// The schedules of the rules of the yard's traffic after a change, and its sentence.
fn rescheduled(watch: &str, change: &str) -> (Vec<Option<Schedule>>, String) {
    let mut scene = site();
    scene.pipelines.clear();
    add(&mut scene, "yard-traffic", deployed(watch));
    let proposal = proposal_in(change, &scene);
    let rules = specs(&proposal).remove(0).rules.unwrap();
    let schedules = rules.into_iter().map(|rule| rule.schedule);
    (schedules.collect(), proposal.understood)
}

fn schedule(days: &[Weekday], from: &str, to: &str) -> Vec<Option<Schedule>> {
    vec![Some(Schedule {
        days: days.to_vec(),
        from: from.to_owned(),
        to: to.to_owned(),
    })]
}

#[test]
fn change_of_days_keeps_hours_and_of_hours_keeps_days() {
    let at_night = "tell me about cars on camera yard between 22:00 and 6:00";
    let (now, said) = rescheduled(at_night, "set yard-traffic to weekends only");
    let weekend = [Weekday::Sat, Weekday::Sun];
    assert_eq!(now, schedule(&weekend, "22:00", "06:00"));
    assert!(said.contains("only Sat, Sun."), "{said}");
    let on_weekends = "tell me about cars on camera yard on weekends";
    let only_at_night = "change yard-traffic to only between 22:00 and 6:00";
    let (now, said) = rescheduled(on_weekends, only_at_night);
    assert_eq!(now, schedule(&weekend, "22:00", "06:00"));
    assert!(said.contains("only from 22:00 to 06:00."), "{said}");
    let both = "tell me about cars on camera yard on weekends between 22:00 and 6:00";
    let (now, said) = rescheduled(both, "change yard-traffic to all day");
    assert_eq!(now, schedule(&weekend, "00:00", "00:00"));
    assert!(said.contains(": all day."), "{said}");
    let (now, _) = rescheduled(both, "change yard-traffic to every day");
    assert_eq!(now, schedule(&[], "22:00", "06:00"));
}

#[test]
fn the_length_of_a_clip_changes_no_duration() {
    for text in [
        "keep a clip for the hall watch of 10 seconds",
        "keep a clip for the hall watch for 10 seconds",
        "change the hall watch to keep a clip for 10 seconds",
    ] {
        let rule = changed(text).rules.unwrap().remove(0);
        assert_eq!(rule.clip.unwrap().length_s(), 10.0, "{text}");
        assert!(
            matches!(rule.when, Condition::Stays { for_s, .. } if for_s == 20.0),
            "{text}: {:?}",
            rule.when
        );
    }
}

#[test]
fn a_class_that_is_left_out_at_some_hours_is_left_out_at_none() {
    let asked = question_in("yard-traffic should ignore motorcycles at night", &site());
    assert_eq!(asked.about, Missing::Meaning, "{}", asked.text);
}

#[test]
fn a_time_is_changed_where_there_is_one_of_its_kind() {
    let waits = |rules: &[(&str, Condition)]| -> Vec<Option<f64>> {
        let mut scene = site();
        let template = scene.pipelines[2].spec.rules.clone().unwrap().remove(0);
        let rules = rules.iter().map(|(name, when)| {
            let mut rule = template.clone();
            (rule.name, rule.when) = ((*name).to_owned(), when.clone());
            rule
        });
        scene.pipelines[2].spec.rules = Some(rules.collect());
        let text = "change hall-somebody-stays to 10 seconds";
        let Answer::Propose(proposal) = ask(text, &scene) else {
            return Vec::new();
        };
        let [Change::Replace(spec)] = proposal.changes.as_slice() else {
            panic!("{proposal:#?}");
        };
        let rules = spec.rules.iter().flatten();
        rules
            .map(|rule| match rule.when {
                Condition::Stays { for_s, .. } | Condition::Count { for_s, .. } => Some(for_s),
                _ => None,
            })
            .collect()
    };
    let zone = || "left-half".to_owned();
    let stays = Condition::Stays {
        zone: zone(),
        for_s: 2.0,
    };
    let number = |for_s: f64| Condition::Count {
        detections: "$steps.tracked.tracked_detections".to_owned(),
        bound: CountBound::Over(3),
        for_s,
    };
    let leaves = Condition::Leaves { zone: zone() };
    let rules = [
        ("a", stays),
        ("b", leaves.clone()),
        ("c", number(0.0)),
        ("d", number(5.0)),
    ];
    assert_eq!(
        waits(&rules),
        [Some(10.0), None, Some(0.0), Some(5.0)],
        "who stays"
    );
    assert_eq!(
        waits(&rules[1..]),
        [None, Some(0.0), Some(10.0)],
        "a number"
    );
    assert_eq!(waits(&rules[1..3]), [], "none waits");
}

#[test]
fn a_change_takes_no_channel_away() {
    for text in [
        "yard-traffic should tell #security instead",
        "yard-traffic should only tell #security",
        "change yard-traffic to notify only #security",
    ] {
        match ask(text, &site()) {
            Answer::Unknown(unknown) => {
                let limit = unknown.not_understood.join(" ");
                assert!(matches!(&*limit, "instead" | "only"), "{text}: {unknown:?}");
            }
            other => panic!("{text}: {other:#?}"),
        }
    }
    for adds in [
        "yard-traffic should tell #security about only cars",
        "yard-traffic should tell #security about cars only",
    ] {
        assert_eq!(changed(adds).rules.unwrap()[0].notify.len(), 1, "{adds}");
    }
}

#[test]
fn a_confidence_out_of_range_is_no_change_of_the_rest() {
    for text in [
        "set the threshold of yard-traffic to 150% and only cars",
        "set the confidence of yard-traffic to 150% and only cars",
    ] {
        match ask(text, &site()) {
            Answer::Ask(question) => assert!(question.text.contains("150"), "{}", question.text),
            other => panic!("{text}: {other:#?}"),
        }
    }
}

#[test]
fn more_and_less_of_a_class_are_no_change() {
    for text in [
        "the hall watch should alert less about cars",
        "the hall watch should look more for cars",
    ] {
        let answer = ask(text, &site());
        assert!(!matches!(answer, Answer::Propose(_)), "{text}: {answer:#?}");
    }
}
