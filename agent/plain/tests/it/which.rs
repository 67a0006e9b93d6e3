//! Orders that pick one of several, name a part of a watch or contradict what runs are not carried
//! out as something else.

use proptest::prelude::*;
use watchkeeper_contract::id::PipelineId;
use watchkeeper_contract::rule::{Condition, CountBound, CrossDirection};
use watchkeeper_plain::Scene;
use watchkeeper_plain::answer::{Answer, Change, Proposal};
use watchkeeper_plain::scene::Deployed;

use crate::support::{PLAIN, ask, camera, proposal_in, scene, specs};

/// A box with two watches in the yard, one in the hall, and a road where cars are only counted.
fn site() -> Scene {
    let mut scene = scene();
    scene.cameras = ["yard", "hall", "road", "gate"]
        .map(|id| camera(id, id))
        .to_vec();
    for (id, text) in [
        (
            "yard-people-number",
            "tell me when more than 3 people are on camera yard",
        ),
        (
            "yard-person-crosses",
            "tell me when a person crosses the vertical line at 50% on camera yard",
        ),
        (
            "hall-person-stays",
            "tell me when a person stays on camera hall for 30 seconds",
        ),
        ("road-car-count", "count cars on camera road"),
    ] {
        let mut spec = specs(&proposal_in(text, &scene)).remove(0);
        spec.id = PipelineId::new(id).unwrap();
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

const YARD: [&str; 2] = ["yard-people-number", "yard-person-crosses"];

fn proposal(text: &str) -> Proposal {
    proposal_in(text, &site())
}

/// The pipelines that an order changes.
fn touched(text: &str) -> Vec<String> {
    let proposal = proposal(text);
    let ids = proposal.changes.iter().map(|c| c.pipeline().to_string());
    ids.collect()
}

fn when(text: &str) -> Condition {
    let proposal = proposal(text);
    specs(&proposal)
        .remove(0)
        .rules
        .unwrap()
        .remove(0)
        .when
        .clone()
}

/// Reply to a command that is not offered.
fn told(text: &str) -> String {
    match ask(text, &site()) {
        Answer::Ask(question) => question.text,
        Answer::Unknown(unknown) => unknown.text,
        other => panic!("{text}: {other:#?}"),
    }
}

#[test]
fn the_one_behind_a_name_is_what_is_named() {
    for text in [
        "stop everything except the hall one",
        "kill all the alerts except the hall one",
    ] {
        let stopped = touched(text);
        assert!(
            stopped.len() > 1 && !stopped.iter().any(|id| id.starts_with("hall")),
            "{text}: {stopped:?}"
        );
    }
}

#[test]
fn what_is_spared_without_a_name_spares_everything() {
    for text in [
        "stop all but one of the yard watches",
        "stop all yard watches except the first",
        "stop all other watches",
        "stop everything else",
        "stop anything but the yard watch",
        "pause all watches except the last two",
        "stop all the yard watches but yard-person-crosses",
        "stop the yard watches except the crossing one",
        "stop hall-person-stays, not yard-people-number",
        "stop hall-person-stays or yard-people-number",
        "stop either hall-person-stays or yard-people-number",
        "stop the watch on yard or on hall",
        "stop both watches",
        "stop neither yard watch",
        "stop at most one watch",
        "stop the yard watches one by one",
        "stop as many yard watches as you can",
        "stop the yard watch, no, the hall watch",
        "stop the hall watch. I mean the yard watch.",
    ] {
        told(text);
    }
}

#[test]
fn all_both_and_the_only_one_are_still_said_in_many_words() {
    for text in [
        "stop all yard watches",
        "stop both yard watches",
        "stop every watch on the yard",
        "stop each of the yard watches",
        "stop the yard watches",
        "pause those on the yard",
        "pause the ones on the yard",
        "please stop the alerts in the yard now, thanks",
    ] {
        assert_eq!(touched(text), YARD, "{text}");
    }
    for text in [
        "stop the hall watch right away",
        "could you please turn off the hall watch immediately",
        "mute the hall alerts",
        "stop the hall camera",
        "delete everything on camera hall",
        "stop hall-person-stays on the hall",
    ] {
        assert_eq!(touched(text), ["hall-person-stays"], "{text}");
    }
}

#[test]
fn a_question_about_a_state_is_no_order() {
    for text in [
        "is the hall camera off",
        "was the hall camera off?",
        "was the hall watch off today",
        "is the hall camera back on",
        "are the cameras off for now",
    ] {
        let answer = ask(text, &site());
        assert!(
            !matches!(answer, Answer::Propose(_)),
            "{text:?}: {answer:?}"
        );
    }
}

#[test]
fn a_part_of_a_watch_is_not_the_watch() {
    for part in [
        "the zone in the hall",
        "the region in the hall",
        "the area of the hall watch",
        "the line in the hall",
        "the recording of the hall",
        "recording the hall",
        "the video of the hall",
        "the picture of the hall",
        "the feed of the hall",
        "the clips of the hall",
        "the notifications of the hall",
        "the schedule of the hall watch",
        "the cool-down of the hall watch",
        "the second opinion of the hall watch",
        "the confidence of hall-person-stays",
        "the rule of hall-person-stays",
        "the second rule of hall-person-stays",
        "the first alert of hall-person-stays",
        "half of hall-person-stays",
        "the events of the hall",
        "people from the hall watch",
    ] {
        for verb in ["stop", "remove"] {
            told(&format!("{verb} {part}"));
        }
    }
    // Neither is the camera itself.
    for text in ["remove the hall camera", "delete camera hall"] {
        assert!(told(text).contains("sources remove"), "{text}");
    }
}

#[test]
fn what_counts_and_what_tells_are_not_each_other() {
    for text in ["stop counting on the road", "stop counting in the yard"] {
        assert!(told(text).contains("\"counting\""), "{text}");
    }
    told("stop alerting me about the road");
    told("stop counting in the hall");
}

#[test]
fn a_stop_has_no_end_and_a_pause_only_one_that_is_a_time() {
    for text in [
        "stop the yard watch once",
        "stop the yard watch when it rains",
        "stop hall alerts at night",
        "pause the hall watch in an hour",
        "pause the hall watch for less than an hour",
        "pause the hall watch for up to an hour",
        "pause the hall watch for an hour or two",
        "pause the hall watch every night",
        "pause the hall watch for another hour",
        "pause the hall watch until somebody comes",
    ] {
        told(text);
    }
    assert_eq!(
        touched("stop the hall watch for now"),
        ["hall-person-stays"]
    );
    assert_eq!(
        touched("pause the hall watch for half an hour"),
        ["hall-person-stays"]
    );
}

#[test]
fn one_of_several_all_and_one_after_another_are_refused() {
    for text in [
        "stop the first yard watch",
        "pause a few of the yard watches",
        "delete every other yard watch",
        "stop one of the yard watches",
        "tell me when a second person enters the hall",
        "tell me about every second car on the road",
        "tell me when the next car arrives on the road",
        "tell me when another car is on the road",
        "tell me when a few people are in the hall",
        "tell me when a group of people is in the hall",
        "tell me when both people have left the hall",
        "tell me when a car and two people are on the road",
        "tell me when all people are in the hall",
        "tell me when everybody has left the hall",
        "tell me when the last person leaves the hall",
        "tell me when the car in the yard is gone",
        "tell me when nobody but a dog is in the hall",
        "tell me when anyone but me enters the hall",
        "tell me when somebody else enters the hall",
        "tell me when a person is in the hall but no car is on the road",
        "tell me when somebody leaves and comes back to the hall",
        "tell me when a bag is taken from the hall",
        "count only the first ten people in the hall",
    ] {
        told(text);
    }
    for text in [
        "tell me about every car that leaves the road",
        "tell me about all people leaving the hall",
        "tell me whenever somebody leaves the hall",
    ] {
        assert!(matches!(when(text), Condition::Leaves { .. }), "{text}");
    }
    assert!(matches!(
        when("tell me when at least two people or cars are on the road"),
        Condition::Count {
            bound: CountBound::Over(1),
            ..
        }
    ));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_word_before_what_is_ended_is_swallowed(
        word in "[a-z]{3,9}|zone|area|region|video|picture|image|view|frame|scene|first|second|other|another|new|one|some|any|most|more|least|many|much|number|not|but|about|once|while|when|if",
        verb in "(stop|pause|delete|turn off)",
    ) {
        // Little words, those for all of them, and those that mean a watch.
        let said = ["the", "our", "your", "this", "that", "these", "those", "them", "they", "please", "kindly", "hey", "hello", "okay", "thanks", "thank", "you", "can", "could", "would",
            "will", "now", "immediately", "instantly", "asap", "also", "too", "then", "and", "again", "for", "from", "about", "off", "camera", "cam", "are", "only", "ones", "all", "both",
            "every", "each", "just", "anyway", "current", "existing", "pipelines", "pipeline", "watches", "watch", "watching", "monitoring", "alerts", "alert", "alarm", "alarms", "alerting",
            "streams", "stream", "rules", "rule", "cameras", "jobs", "everything", "counter", "counters", "detection", "turn", "switch", "shut", "put", "yard"];
        prop_assume!(!said.contains(&word.as_str()));
        let text = format!("{verb} the {word} of yard watch");
        let answer = ask(&text, &site());
        prop_assert!(!matches!(answer, Answer::Propose(_)), "{}: {:#?}", text, answer);
    }
}

#[test]
fn time_other_than_a_duration_is_not_taken_as_one() {
    for text in [
        "tell me when a person leaves the hall within 10 seconds",
        "alert me within a second when a person enters the hall",
        "tell me if a car is seen on the road within 10 minutes",
        "tell me when a person stays in the hall for less than a minute",
        "tell me when a person stays in the hall for at most a minute",
        "tell me when a person stays in the hall for up to 20 seconds",
        "tell me when a person stays in the hall no longer than 20 seconds",
        "tell me when a person stays in the hall under a minute",
        "tell me when a person stays in the hall 10 seconds or less",
        "tell me 20 seconds before a person leaves the hall",
        "tell me 20 seconds after a person enters the hall",
        "tell me when a person is in the hall in 5 minutes",
        "tell me if a car was on the road in the last 2 hours",
        "tell me when a person enters the hall every 2 days",
        "tell me when a person enters the hall every other day",
        "tell me when a person is in the hall 5 minutes late",
        "tell me when a car is on the road for more than one night",
        "tell me when a person waits in the hall a second time",
        "tell me when a person stays in the hall for 5 minutes a day",
        "tell me when a person stays in the hall between 10 and 20 seconds",
        "tell me when a person stays in the hall for only 5 seconds",
        "tell me about people in the hall, only for an hour",
        "watch the first floor on camera hall and tell me when somebody enters",
    ] {
        told(text);
    }
    for (text, seconds) in [
        ("tell me when a person is in the hall for a second", 1.0),
        ("tell me when a person is in the hall for one second", 1.0),
        (
            "tell me when a person stays in the hall longer than a minute",
            60.0,
        ),
        (
            "tell me when a person is in the hall for at least 10 seconds",
            10.0,
        ),
    ] {
        assert!(
            matches!(when(text), Condition::Stays { for_s, .. } if for_s == seconds),
            "{text}: {:?}",
            when(text)
        );
    }
    // What is only for a time ends by itself.
    let ends = proposal("tell me if a car comes onto the road in the next 2 hours");
    assert_eq!(specs(&ends)[0].stop_after_s, Some(7200.0));
    assert!(matches!(
        when("tell me if a car comes onto the road in the next 2 hours"),
        Condition::Appears { .. }
    ));
}

#[test]
fn duration_or_absence_of_leaving_and_crossing_is_refused() {
    for text in [
        "tell me when a person leaves the hall for more than 5 minutes",
        "tell me when a person exits the hall for an hour",
        "tell me when the dog is away from the yard for 10 minutes",
        "tell me when a car crosses the vertical line at 50% on the road and stays for 10 seconds",
        "alert me when nobody crosses the vertical line at 50% on yard for an hour",
        "alert me when no car crosses the vertical line at 50% on yard",
        "tell me when nobody enters the left half on hall",
        "tell me if no car leaves the yard for an hour",
        "tell me when nobody comes to the hall before 8 am",
        "warn me if no one shows up on the yard",
        "tell me when a person never comes to the hall",
    ] {
        told(text);
    }
    for text in [
        "tell me when nobody is in the hall for 10 minutes",
        "tell me when there is not anybody in the hall for 10 minutes",
        "tell me when there are not any people in the hall for 10 minutes",
    ] {
        assert!(
            matches!(
                when(text),
                Condition::Count { bound: CountBound::Under(1), for_s, .. } if for_s == 600.0
            ),
            "{text}: {:?}",
            when(text)
        );
    }
}

#[test]
fn one_thing_after_another_is_neither_of_them() {
    for text in [
        "tell me when the hall has been empty for 10 minutes and then someone comes",
        "tell me when a person enters and then leaves the left half on hall",
        "tell me when a person is on the road and then a car",
    ] {
        told(text);
    }
    drop(when("if a person is in the hall then tell me"));
    drop(when(
        "tell me when a person is in the hall, then save a clip",
    ));
}

#[test]
fn a_way_is_in_the_rule_or_nothing_is_offered() {
    for (text, direction) in [
        (
            "tell me when a person walks down over a horizontal line at 30% on yard",
            CrossDirection::Out,
        ),
        (
            "tell me when a person walks up over a horizontal line at 30% on yard",
            CrossDirection::In,
        ),
        (
            "tell me when a person crosses a horizontal line at 30% on yard going down",
            CrossDirection::Out,
        ),
    ] {
        assert!(
            matches!(when(text), Condition::Crosses { direction: d, .. } if d == direction),
            "{text}: {:?}",
            when(text)
        );
    }
    for text in [
        "tell me when a person drives off over a horizontal line at 30% on yard",
        "tell me when a car backs away over a vertical line at 30% on yard",
        "tell me when a person crosses the horizontal line at 30% on yard downhill",
        "tell me when a person walks down over a vertical line at 30% on yard",
        "tell me when a person crosses the horizontal line at 30% on yard down",
    ] {
        told(text);
    }
}

#[test]
fn once_is_as_soon_as_or_one_time() {
    for text in [
        "tell me when a person enters the hall, once",
        "tell me once when a person enters the hall",
        "tell me when a person enters the hall once",
        "alert me once if a person is in the hall",
        "tell me one time when a person is in the hall",
        "tell me the first time a person is in the hall",
        "change hall-person-stays to 40 seconds once",
    ] {
        told(text);
    }
    for text in [
        "tell me once a person enters the hall",
        "once a person enters the hall tell me",
        "tell me at once when a person enters the hall",
        "tell me when a person is in the hall, at most once an hour",
    ] {
        drop(when(text));
    }
}

#[test]
fn a_watch_that_only_counts_makes_no_events() {
    for text in [
        "only count people in the hall, don't alert me",
        "count people in the hall but do not tell me",
    ] {
        let proposal = proposal(text);
        assert_eq!(specs(&proposal)[0].rules, Some(Vec::new()), "{text}");
    }
}

#[test]
fn raised_or_lowered_setting_gets_the_value_that_is_said() {
    for text in [
        "raise the confidence of hall-person-stays to 80%",
        "shorten the duration of hall-person-stays to 10 seconds",
        "make the hall watch more sensitive: confidence 0.05",
    ] {
        assert_eq!(touched(text), ["hall-person-stays"], "{text}");
    }
}

#[test]
fn a_change_of_a_part_is_no_change_of_another() {
    for text in [
        "set the video of the hall watch to 30 seconds",
        "set the zone of the hall watch to 30 seconds",
        "change the clip of the hall watch to 20 seconds",
        "change the picture of the hall watch to 40 seconds",
        "change hall-person-stays to 40 seconds and no notifications",
        "change hall-person-stays to only the first person",
        "change hall-person-stays to up to 40 seconds",
        "change hall-person-stays to less than 40 seconds",
        "change hall-person-stays to within 40 seconds",
        "change hall-person-stays by 10 seconds",
        "change the first yard watch to confidence 0.5",
        "change one of the yard watches to only cars",
        "change both yard watches to confidence 0.5",
        "change everything but hall-person-stays to confidence 0.5",
        "change all watches except the hall to confidence 0.5",
        "change hall-person-stays to only cars for now",
        "change hall-person-stays to at least one alert per hour",
        "change hall-person-stays to tell nobody",
        "hall-person-stays should wait 10 seconds more",
        "make the hall watch wait another 10 seconds",
        "remove #security from hall-person-stays",
    ] {
        told(text);
    }
    let kept = proposal("change hall-person-stays to 40 seconds and keep a 10 second clip");
    assert!(matches!(kept.changes.as_slice(), [Change::Replace(_)]));
}

#[test]
fn what_happened_at_another_time_is_no_answer() {
    for text in [
        "what happened since yesterday at 9",
        "what happened between monday and wednesday",
    ] {
        told(text);
    }
    assert!(matches!(
        ask("what happened last night", &site()),
        Answer::Look(_)
    ));
}

#[test]
fn a_correction_is_read_as_carefully_as_a_request() {
    let scene = site();
    let request = "tell me when a person waits in the left half on camera hall for 2 minutes";
    let corrected = |said: &str| {
        assert!(PLAIN.is_correction(said, &scene), "{said}");
        PLAIN
            .corrected(request, &[said.to_owned()], &scene)
            .unwrap()
    };
    for said in [
        "make it the second person",
        "only the first person",
        "another person",
        "several people",
        "every second person",
        "no, once",
        "make it 3 minutes, once",
        "just this once",
        "make it at most 10 seconds",
        "make it up to 10 seconds",
        "less than 10 seconds",
        "make it within 10 seconds",
        "make it 10 seconds or less",
        "in 10 seconds",
        "make it 10 seconds more",
        "10 seconds longer",
        "5 seconds earlier",
        "only for an hour",
        "for the first hour",
        "when nobody is there",
        "the other half",
        "the left half or the right half",
        "down",
    ] {
        assert!(!matches!(corrected(said), Answer::Propose(_)), "{said}");
    }
    for said in [
        "make it 30 seconds",
        "only cars",
        "only at night",
        "the right half",
    ] {
        assert!(matches!(corrected(said), Answer::Propose(_)), "{said}");
    }
    // What is left out of everything leaves the rest, and not what there was.
    let Answer::Propose(proposal) = corrected("anything but cars") else {
        panic!("not offered");
    };
    let classes = specs(&proposal)[0].workflow["steps"][0]["class_filter"].clone();
    let classes = classes.as_array().unwrap();
    assert!(classes.iter().any(|c| c == "dog") && !classes.iter().any(|c| c == "car"));
}
