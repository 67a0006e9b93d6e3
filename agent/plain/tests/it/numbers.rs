//! How many of what: a number is one of what was asked about, or it is said what it is of.

use jiff::civil::date;
use watchkeeper_contract::id::{PipelineId, SourceId};
use watchkeeper_plain::Scene;
use watchkeeper_plain::answer::{Answer, EventsWanted, Look, Looked};
use watchkeeper_plain::scene::{Deployed, Model, Place, Shape};

use crate::support::{ask, deployed, evening, scene};

/// A yard where crossings and cars are told, and a gate where people stay.
fn site() -> Scene {
    let mut scene = scene();
    for (id, text) in [
        (
            "yard-person-crosses",
            "tell me when a person crosses the vertical line at 50% on camera yard",
        ),
        (
            "yard-car-appears",
            "tell me when a car is seen on camera yard",
        ),
        (
            "gate-somebody-stays",
            "tell me when somebody stays in the left half on camera gate for 20 seconds",
        ),
    ] {
        let mut spec = deployed(text);
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

fn looked(text: &str) -> Looked {
    match ask(text, &site()) {
        Answer::Look(looked) => looked,
        other => panic!("{text}: {other:#?}"),
    }
}

fn events(text: &str) -> (EventsWanted, String) {
    let looked = looked(text);
    match looked.look {
        Look::Events(wanted) => (*wanted, looked.text),
        other => panic!("{text}: {other:#?}"),
    }
}

#[test]
fn number_of_crossings_is_per_class_and_camera() {
    for text in [
        "how many people crossed the line in the yard since 8:40",
        "how many people crossed in the yard today?",
        "how often did a person cross the line in the yard today",
        "how many people went over the line in the yard today",
    ] {
        let (wanted, _) = events(text);
        assert_eq!(wanted.conditions, ["crosses"], "{text}");
        assert_eq!(wanted.labels, ["person"], "{text}");
        assert_eq!(wanted.camera.unwrap().as_str(), "yard", "{text}");
        assert!(wanted.only_number, "{text}");
    }
}

#[test]
fn kind_that_no_watch_tells_is_asked_of_the_past_all_the_same() {
    for (text, kind) in [
        ("how many people entered the gate today", "enters"),
        ("how many people visited the gate today", "enters"),
        ("how many people stayed in the yard today", "stays"),
        (
            "how many cars crossed the line in the yard today",
            "crosses",
        ),
        ("how many people left the yard yesterday", "leaves"),
    ] {
        let (wanted, _) = events(text);
        assert_eq!(wanted.conditions, [kind], "{text}");
    }
    // Without a place, an object seen for the first time has entered, and the answer says so.
    let (wanted, said) = events("how many cars entered the yard today");
    assert_eq!(wanted.conditions, ["appears"]);
    assert!(said.contains("for the first time"), "{said}");
    // And what is told is not said to be missing.
    let (wanted, said) = events("how many people stayed at the gate today");
    assert_eq!(wanted.conditions, ["stays"]);
    assert!(!said.contains("No watch"), "{said}");
}

/// The site with one more watch, by its words and model.
fn site_with(text: &str, model: &str) -> Scene {
    let mut scene = site();
    let spec = serde_json::to_string(&deployed(text)).unwrap();
    let spec = serde_json::from_str(&spec.replace("yolox-nano", model)).unwrap();
    scene.models.push(Model {
        name: "motion".to_owned(),
        labels: Vec::new(),
    });
    scene.pipelines.push(Deployed {
        name: "one more".to_owned(),
        spec,
        paused: false,
        paused_until: None,
        not_running: None,
    });
    scene
}

fn asked_of(scene: &Scene, text: &str) -> (Vec<String>, String) {
    match ask(text, scene) {
        Answer::Look(Looked {
            look: Look::Events(wanted),
            text,
        }) => (wanted.conditions, text),
        other => panic!("{text}: {other:#?}"),
    }
}

#[test]
fn watch_that_tells_no_classes_answers_nothing_about_one() {
    let entries = "tell me when a car enters the left parking bay on camera yard";
    let text = "how many cars came today";
    let (conditions, said) = asked_of(&site_with(entries, "motion"), text);
    assert_eq!(conditions, ["appears"], "{said}");
    // Who came need not have entered a zone.
    let (conditions, said) = asked_of(&site_with(entries, "yolox-nano"), text);
    assert_eq!(conditions, ["appears"], "{said}");
    let at_place = "how many cars came to the left parking bay today";
    let (conditions, _) = asked_of(&site_with(entries, "yolox-nano"), at_place);
    assert_eq!(conditions, ["enters"]);
    let seen = "tell me when a car is seen on camera dock";
    let mut scene = site_with(entries, "yolox-nano");
    scene
        .pipelines
        .extend(site_with(seen, "yolox-nano").pipelines.pop());
    let (conditions, said) = asked_of(&scene, text);
    assert_eq!(conditions, ["appears"], "{said}");
    assert!(said.contains("Not every camera"), "{said}");
}

#[test]
fn a_watch_may_be_asked_about_by_its_name() {
    for text in [
        "how many events did yard-person-crosses have today",
        "what happened on yard-person-crosses today",
    ] {
        let (wanted, _) = events(text);
        let names: Vec<&str> = wanted.pipelines.iter().map(PipelineId::as_str).collect();
        assert_eq!(names, ["yard-person-crosses"], "{text}");
        assert_eq!(wanted.camera, None, "{text}");
    }
}

#[test]
fn a_number_of_any_kind_is_said_to_be_one() {
    let (wanted, said) = events("how many people were in the yard yesterday");
    assert!(wanted.conditions.is_empty());
    assert!(
        said.contains("events about people") && said.contains("counts twice"),
        "{said}"
    );
    let (wanted, said) = events("how many alerts were there today");
    assert!(wanted.conditions.is_empty() && wanted.labels.is_empty());
    assert_eq!(said, "This is from Saturday 28 March 00:00 until now.");
}

#[test]
fn so_many_of_the_newest_are_asked_for_by_their_number() {
    for (text, most) in [
        ("show me the last 3 events", Some(3)),
        ("list the latest two alarms at the gate", Some(2)),
        ("what was the last event in the yard?", Some(1)),
        ("show me the last events", None),
        ("what happened in the last 3 hours", None),
    ] {
        let (wanted, _) = events(text);
        assert_eq!(wanted.most, most, "{text}");
    }
}

#[test]
fn a_number_is_said_to_be_of_events() {
    for text in [
        "how many people were at gate-somebody-stays today",
        "tell me how many were at gate-somebody-stays today",
    ] {
        let (wanted, said) = events(text);
        assert!(wanted.only_number, "{text}");
        assert!(
            said.contains("I count events") && said.contains("counts twice"),
            "{text}: {said}"
        );
    }
    // What could be told then is a matter of what watched then.
    let mut scene = site();
    scene.models[0].labels.clear();
    let text = "how many people were at gate-somebody-stays today";
    let Answer::Look(looked) = ask(text, &scene) else {
        panic!("{text}");
    };
    let Look::Events(wanted) = looked.look else {
        panic!("{text}");
    };
    assert_eq!(wanted.labels, ["person"]);
    for text in [
        "how many things crossed today",
        "how many objects crossed the line today",
    ] {
        let (wanted, _) = events(text);
        assert_eq!(wanted.conditions, ["crosses"], "{text}");
    }
}

#[test]
fn how_many_are_there_now_is_no_question_about_classes() {
    for text in [
        "how many things are in the yard",
        "how many objects are on camera gate",
    ] {
        let found = looked(text).look;
        assert!(matches!(found, Look::Status(Some(_))), "{text}: {found:?}");
    }
    assert_eq!(
        looked("how many objects can you detect").look,
        Look::Classes
    );
}

#[test]
fn two_questions_are_not_answered_as_one() {
    let text = "how many people were in the yard today and how many cars crossed";
    let Answer::Unknown(unknown) = ask(text, &site()) else {
        panic!("{text}");
    };
    assert!(unknown.text.contains("one at a time"), "{}", unknown.text);
    let text = "what happened in the yard yesterday? how many cars crossed?";
    let Answer::Unknown(unknown) = ask(text, &site()) else {
        panic!("{text}");
    };
    assert!(unknown.text.contains("one question"), "{}", unknown.text);
}

#[test]
fn how_long_is_not_answered_by_how_often() {
    for text in [
        "how long did people stay at the gate today",
        "tell me how long somebody was at the gate yesterday",
    ] {
        let Answer::Unknown(unknown) = ask(text, &site()) else {
            panic!("{text}");
        };
        assert!(unknown.text.contains("long"), "{text}: {}", unknown.text);
    }
}

#[test]
fn a_number_of_something_else_is_no_answer() {
    for (text, word) in [
        ("how many red cars were seen in the yard today", "red"),
        (
            "how many people crossed the line from left to right in the yard today",
            "left",
        ),
        (
            "how many people entered the left half of the gate today",
            "half",
        ),
        ("how many people crossed the bridge today", "bridge"),
    ] {
        match ask(text, &site()) {
            Answer::Unknown(unknown) => {
                assert!(unknown.text.contains(word), "{text}: {}", unknown.text);
            }
            other => panic!("{text}: {other:#?}"),
        }
    }
}

#[test]
fn who_did_something_is_a_list_of_those_events_only() {
    let (wanted, _) = events("who crossed the line in the yard today");
    assert_eq!(wanted.conditions, ["crosses"]);
    assert_eq!(wanted.labels, ["person"]);
    assert!(!wanted.only_number);
    let (wanted, _) = events("what happened in the yard today");
    assert!(wanted.conditions.is_empty() && wanted.labels.is_empty());
}

#[test]
fn word_for_some_of_a_class_is_told_to_stand_for_all() {
    let (wanted, said) = events("was a burglar in the yard last night");
    assert_eq!(wanted.labels, ["person"]);
    let told = "I can't tell \"burglar\" from any other person: every person counts.";
    assert!(said.contains(told), "{said}");
    let Answer::Propose(offer) = ask("tell me when a child is in the yard", &site()) else {
        panic!("a watch");
    };
    assert!(
        offer
            .assumed
            .iter()
            .any(|a| a.contains("\"child\" from any other person"))
    );
    assert!(
        offer.understood.contains("when a person"),
        "{}",
        offer.understood
    );
    let mut scene = site();
    scene.models.push(scene.models[0].clone());
    let Answer::Propose(offer) = ask("tell me when my car leaves the yard", &scene) else {
        panic!("a watch");
    };
    assert!(
        offer
            .assumed
            .iter()
            .any(|a| a.contains("\"my car\" from any other car: every car counts"))
    );
    let (_, said) = events("was anybody in the yard last night");
    assert!(!said.contains("any other"), "{said}");
}

#[test]
fn number_of_one_class_and_any_of_another_are_two_watches() {
    for text in [
        "tell me when there are more than 3 cars or any truck in the yard",
        "tell me when there are at least 2 people or a dog in the yard",
    ] {
        let answer = ask(text, &site());
        assert!(!matches!(answer, Answer::Propose(_)), "{text}: {answer:?}");
    }
    let together = ask(
        "tell me when there are more than 3 cars or trucks in the yard",
        &site(),
    );
    assert!(matches!(together, Answer::Propose(_)), "{together:?}");
}

#[test]
fn question_with_words_left_over_is_not_answered_without_them() {
    for text in [
        "was a postman in the yard today",
        "did anything happen in the yard yesterday against a week before",
    ] {
        let Answer::Unknown(unknown) = ask(text, &site()) else {
            panic!("{text}");
        };
        assert!(!unknown.not_understood.is_empty(), "{text}: {unknown:?}");
    }
}

#[test]
fn pictures_and_places_of_events_are_asked_for() {
    let (wanted, _) = events("show me the pictures of the last 3 events in the yard");
    assert!(wanted.pictures && wanted.most == Some(3), "{wanted:?}");
    let (wanted, _) = events("was anybody in the left parking bay yesterday");
    let camera = wanted.camera.as_ref().map(SourceId::as_str);
    assert_eq!(
        (camera, wanted.place.as_deref()),
        (Some("yard"), Some("left parking bay"))
    );
}

#[test]
fn class_of_a_model_that_is_not_installed_may_be_asked_for() {
    let mut scene = site();
    scene.models[0].labels = vec!["person".to_owned()];
    scene.classes = vec!["forklift".to_owned()];
    let Answer::Look(looked) = ask("was a forklift in the yard today", &scene) else {
        panic!("a question");
    };
    let Look::Events(wanted) = looked.look else {
        panic!("a question for events");
    };
    assert_eq!(wanted.labels, ["forklift"]);
}

#[test]
fn watch_is_found_by_its_class_where_no_other_has_it() {
    let deleted = |text: &str| match ask(text, &site()) {
        Answer::Propose(offer) => offer
            .changes
            .iter()
            .map(|c| c.pipeline().to_string())
            .collect(),
        _ => Vec::new(),
    };
    assert_eq!(deleted("delete the car watch"), ["yard-car-appears"]);
    assert_eq!(deleted("pause the car alarm"), ["yard-car-appears"]);
    // Two watch for people.
    assert_eq!(deleted("delete the person watch"), [""; 0]);
}

#[test]
fn two_days_are_compared_and_anything_else_is_refused() {
    for (text, first, second) in [
        ("how many yesterday against today", "yesterday", "today"),
        (
            "were there more cars in the yard today than yesterday?",
            "today",
            "yesterday",
        ),
        (
            "more cars this morning than yesterday morning?",
            "this morning",
            "yesterday morning",
        ),
        ("compare today with yesterday", "today", "yesterday"),
        (
            "did more people come today or yesterday",
            "today",
            "yesterday",
        ),
    ] {
        let (wanted, _) = events(text);
        let span = |words: &str| {
            let (alone, _) = events(&format!("how many events {words}"));
            (alone.from, alone.to)
        };
        assert!(wanted.only_number, "{text}");
        assert_eq!((wanted.from, wanted.to), span(first), "{text}");
        assert_eq!(wanted.compared_with, Some(span(second)), "{text}");
    }
    for text in [
        "were there more cars than trucks today",
        "were there more people today than usual",
        "was it busier today",
    ] {
        match ask(text, &site()) {
            Answer::Unknown(unknown) => {
                assert!(unknown.text.contains("two times"), "{text}: {unknown:?}");
            }
            other => panic!("{text}: {other:#?}"),
        }
    }
    let (wanted, _) = events("how many cars between 8 and 9 today");
    assert_eq!(wanted.compared_with, None);
}

#[test]
fn numbers_by_the_hour_are_asked_for() {
    for text in [
        "how many cars per hour today",
        "how many cars each hour in the yard today",
        "when was it busiest",
        "when was it busiest yesterday?",
        "what was the busiest hour today",
        "which hour was the busiest today",
    ] {
        let (wanted, _) = events(text);
        assert!(
            wanted.by_hour && wanted.from.is_some(),
            "{text}: {wanted:?}"
        );
    }
    let (wanted, _) = events("how many cars in the last hour");
    assert!(!wanted.by_hour);
}

#[test]
fn pictures_are_asked_for_without_the_word_event() {
    for text in [
        "show me the picture",
        "show me the picture of the last visitor",
        "show the latest photo of a car in the yard",
    ] {
        let (wanted, _) = events(text);
        assert!(
            wanted.pictures && wanted.most == Some(1),
            "{text}: {wanted:?}"
        );
    }
    let (wanted, _) = events("show me the pictures of today");
    assert!(wanted.pictures && wanted.most.is_none(), "{wanted:?}");
    for text in ["what is in the picture", "describe the picture of the yard"] {
        assert!(matches!(ask(text, &site()), Answer::Unknown(_)), "{text}");
    }
}

/// The scene with zones of these names on the yard.
fn with_places(names: &[&str]) -> Scene {
    let mut scene = site();
    let yard = scene.cameras.iter_mut().find(|c| c.id.as_str() == "yard");
    let places = names.iter().map(|name| Place {
        name: (*name).to_owned(),
        shape: Shape::Zone(vec![[0.1, 0.1], [0.5, 0.1], [0.5, 0.5]]),
    });
    yard.unwrap().places.extend(places);
    scene
}

#[test]
fn place_named_like_a_class_is_a_place_only_where_one_stands() {
    let scene = with_places(&["car", "dog"]);
    for (text, place, labels) in [
        ("was a car in the yard today", None, ["car"].as_slice()),
        (
            "was a person in the car zone today",
            Some("car"),
            &["person"],
        ),
        ("was a dog in the dog zone today", Some("dog"), &["dog"]),
        (
            "did anything happen in the dog zone today",
            Some("dog"),
            &[],
        ),
        (
            "how many cars were in the dog zone today",
            Some("dog"),
            &["car"],
        ),
    ] {
        let Answer::Look(looked) = ask(text, &scene) else {
            panic!("{text}: {:#?}", ask(text, &scene));
        };
        let Look::Events(wanted) = looked.look else {
            panic!("{text}: {looked:#?}");
        };
        assert_eq!(wanted.place.as_deref(), place, "{text}");
        assert_eq!(wanted.labels, labels, "{text}");
    }
}

#[test]
fn two_cameras_are_not_answered_for_all_of_them() {
    let said = ask(
        "how many people were in the yard and at the gate today",
        &site(),
    );
    let Answer::Unknown(unknown) = said else {
        panic!("{said:#?}");
    };
    assert!(unknown.text.contains("one camera at a time"), "{unknown:?}");
}

#[test]
fn the_name_of_a_place_that_another_phrase_used_picks_no_camera() {
    let mut scene = scene();
    scene.channels = vec!["office".parse().unwrap()];
    scene.cameras.truncate(2);
    scene.cameras[0].places.push(Place {
        name: "office".to_owned(),
        shape: Shape::Zone(vec![[0.1, 0.5], [0.3, 0.5], [0.3, 0.9]]),
    });
    match ask("tell #office when a person is seen", &scene) {
        Answer::Ask(question) => assert!(question.text.contains("On which camera?")),
        other => panic!("{other:#?}"),
    }
    let text = "tell me when a person is seen in the office";
    assert!(matches!(ask(text, &scene), Answer::Propose(_)));
}

#[test]
fn a_place_with_a_minus_or_without_a_number_is_not_drawn() {
    for (text, part) in [
        (
            "tell me when a person is in the rectangle 5%,-10% to 50%,80% on camera gate",
            "is no shape",
        ),
        (
            "tell me when a person crosses the vertical line at -5% on camera gate",
            "vertical line at 50%",
        ),
        (
            "tell me when a person crosses a vertical line on camera gate",
            "vertical line at 50%",
        ),
    ] {
        match ask(text, &scene()) {
            Answer::Ask(question) => {
                assert!(question.text.contains(part), "{text}: {}", question.text);
            }
            other => panic!("{text}: {other:#?}"),
        }
    }
    let outside = "tell me when a person is in the rectangle -5%,0% to 50%,80% on camera gate";
    assert!(matches!(ask(outside, &scene()), Answer::Unknown(_)));
    for text in [
        "tell me when a person is in the rectangle 5%,0% - 50%,80% on camera gate",
        "tell me when a person crosses the vertical middle line on camera gate",
    ] {
        deployed(text);
    }
}

#[test]
fn spans_of_a_question_begin_and_end_where_it_says() {
    let at = |day: i8, hour: i8| {
        let moment = date(2026, 3, day).at(hour, 0, 0, 0);
        let tz = evening().time_zone().clone();
        Some(moment.to_zoned(tz).unwrap().timestamp())
    };
    for (text, from, to) in [
        ("how many cars came on wednesday", at(25, 0), at(26, 0)),
        ("how many cars came this week", at(23, 0), None),
        (
            "who came last night between 10 and 11",
            at(27, 22),
            at(27, 23),
        ),
        (
            "who came last night between 10 and 2",
            at(27, 22),
            at(28, 2),
        ),
        ("how many people came by yesterday", at(27, 0), at(28, 0)),
    ] {
        let (wanted, _) = events(text);
        assert_eq!((wanted.from, wanted.to), (from, to), "{text}");
        assert!(!wanted.conditions.contains(&"leaves".to_owned()), "{text}");
    }
    for text in [
        "how many people had left by monday",
        "how many people had left by yesterday",
        "how many people from 2 cameras today",
        "how many cars came on sunday this week",
        "how many cars came on wednesday this week",
    ] {
        let answer = ask(text, &site());
        assert!(matches!(answer, Answer::Unknown(_)), "{text}: {answer:#?}");
    }
}

#[test]
fn no_pictures_are_as_many_as_are_listed() {
    let (wanted, _) = events("show me the last 0 pictures");
    assert!(wanted.pictures);
    assert_eq!(wanted.most, None);
}
