//! Answers that count, places that differ between cameras, and settings that were not meant.

use watchkeeper_plain::Scene;
use watchkeeper_plain::answer::{Answer, Look, Missing};
use watchkeeper_plain::scene::{Model, Place, Shape};

use crate::support::{ask, proposal_in, question_in, scene, specs};

/// The scene with a bench on the dock, and a model that tells no classes apart.
fn bench() -> Scene {
    let mut scene = scene();
    scene.models = vec![Model {
        name: "motion".to_owned(),
        labels: Vec::new(),
    }];
    draw(&mut scene, "dock", [0.1, 0.1], [0.3, 0.4]);
    scene
}

fn draw(scene: &mut Scene, camera: &str, [x0, y0]: [f64; 2], [x1, y1]: [f64; 2]) {
    let camera = scene.cameras.iter_mut().find(|c| c.id.as_str() == camera);
    camera.unwrap().places.push(Place {
        name: "bench".to_owned(),
        shape: Shape::Zone(vec![[x0, y0], [x1, y0], [x1, y1], [x0, y1]]),
    });
}

fn refusal(text: &str, scene: &Scene) -> String {
    match ask(text, scene) {
        Answer::Ask(question) => question.text,
        Answer::Unknown(unknown) => unknown.text,
        other => panic!("{text}: {other:#?}"),
    }
}

#[test]
fn place_drawn_on_one_camera_only_is_refused_for_all() {
    let mut scene = bench();
    let text = "tell me when something enters the bench on all cameras";
    let refused = refusal(text, &scene);
    assert!(refused.contains("not drawn on gate"), "{refused}");
    draw(&mut scene, "gate", [0.5, 0.5], [0.9, 0.9]);
    draw(&mut scene, "yard", [0.0, 0.0], [0.5, 0.5]);
    let zones: Vec<String> = specs(&proposal_in(text, &scene))
        .iter()
        .map(|spec| spec.workflow.to_string())
        .collect();
    for (spec, corner) in zones.iter().zip(["[128,72]", "[640,360]", "[0,0]"]) {
        assert!(spec.contains(corner), "{corner}: {spec}");
    }
    let which = question_in("tell me when something enters the bench", &scene);
    assert_eq!(
        (which.about, which.choices),
        (
            Missing::Camera,
            ["dock", "gate", "yard"].map(str::to_owned).to_vec()
        )
    );
}

#[test]
fn without_classes_free_and_occupied_are_about_anything() {
    for (text, said) in [
        ("tell me when the bench is free again", "when nothing is in"),
        (
            "tell me when the bench is occupied for more than 20 seconds",
            "when anything is in",
        ),
    ] {
        let proposal = proposal_in(text, &bench());
        assert!(
            proposal.understood.contains(said),
            "{}",
            proposal.understood
        );
        assert!(
            proposal
                .assumed
                .iter()
                .any(|a| a.contains("has no classes")),
            "{proposal:#?}"
        );
    }
}

/// Description of the resulting proposal.
fn understood(text: &str, scene: &Scene) -> String {
    let proposal = proposal_in(text, scene);
    proposal.understood
}

#[test]
fn words_for_anything_are_read_in_counts_and_states() {
    for (text, said) in [
        (
            "tell me when more than 3 things are on camera gate",
            "at least 4 things are in the picture",
        ),
        (
            "tell me when two things are at the bench",
            "at least 2 things are in the place \"bench\"",
        ),
        ("count things on camera gate", "count things in the picture"),
        (
            "tell me when there is nothing on the bench for 10 seconds",
            "when nothing is in the place \"bench\" for 10 seconds",
        ),
    ] {
        let found = understood(text, &bench());
        assert!(found.contains(said), "{text}: {found}");
    }
}

#[test]
fn a_number_a_time_and_a_negation_are_no_classes() {
    for text in [
        "tell me when two are at the bench",
        "tell me when 2 of them are at the bench",
        "every morning at 8 tell me how many came to the bench",
        "tell me at 8 every morning what is on the bench",
        "every day at 9:30 count on camera gate",
        "tell me when three enter the bench",
        "tell me nothing about the bench",
        "tell me about nothing but people at the bench",
        "tell me about nothing else than people at the bench",
    ] {
        let refused = refusal(text, &bench());
        for word in ["two", "2", "three", "nothing", "morning", "every", "day"] {
            let taken = format!("knows \"{word}");
            assert!(!refused.contains(&taken), "{text}: {refused}");
        }
    }
}

#[test]
fn a_sentence_has_the_articles_that_belong_there() {
    for (text, said) in [
        (
            "tell me when person or elephant is on camera gate",
            "when a person or an elephant is seen",
        ),
        (
            "tell me when somebody is on camera gate",
            "when somebody is seen",
        ),
        ("tell me about dogs on camera gate", "when dogs are seen"),
        (
            "tell me when the bay is occupied in the left half of camera gate",
            "when a car or a bus or a truck or a motorcycle is in",
        ),
        (
            "tell me when no cars are on camera gate",
            "when no cars are in",
        ),
        ("tell me when nobody is on camera gate", "when nobody is in"),
    ] {
        let mut found = understood(text, &scene());
        // In whatever order the model has them.
        if said.contains("bus") {
            for article in ["a car", "a bus", "a truck", "a motorcycle"] {
                assert!(found.contains(article), "{text}: {found}");
            }
            found = said.to_owned();
        }
        assert!(found.contains(said), "{text}: {found}");
    }
}

#[test]
fn a_class_that_is_not_known_is_not_left_out_wherever_it_stands() {
    for text in [
        "tell me about a dog or a forklift on camera gate",
        "tell me about a forklift or a dog on camera gate",
    ] {
        let refused = refusal(text, &scene());
        assert!(
            refused.contains("forklift") && refused.contains("no model here"),
            "{text}: {refused}"
        );
    }
}

#[test]
fn whatever_is_named_beside_anything_is_not_all_that_counts() {
    for (text, said) in [
        (
            "tell me when a person or something is on camera gate",
            "when anything is seen",
        ),
        (
            "tell me when nobody and nothing is on camera gate",
            "when nothing is in the picture",
        ),
    ] {
        let proposal = proposal_in(text, &scene());
        assert!(
            proposal.understood.contains(said),
            "{text}: {}",
            proposal.understood
        );
        let workflow = &specs(&proposal)[0].workflow;
        assert!(
            workflow["steps"][0].get("class_filter").is_none(),
            "{text}: {workflow}"
        );
    }
}

#[test]
fn hours_of_every_day_are_a_span_and_no_report() {
    let text = "every day from 8:00 to 10:00 tell me about people on camera gate";
    let hours = understood(text, &scene());
    assert!(hours.contains("every day from 08:00 to 10:00"), "{hours}");
    let text = "every weekday at 22:00 to 6:00 warn me about people on camera gate";
    let hours = understood(text, &scene());
    assert!(hours.contains("from 22:00 to 06:00"), "{hours}");
}

#[test]
fn place_with_a_class_name_is_read_after_a_preposition() {
    let mut scene = scene();
    draw(&mut scene, "dock", [0.1, 0.1], [0.3, 0.4]);
    let text = "tell me when a person stays on the bench for 4 seconds";
    let spec = specs(&proposal_in(text, &scene)).remove(0);
    assert_eq!(spec.source.as_str(), "dock");
    assert!(spec.workflow.to_string().contains("time_in_zone@"));

    let text = "tell me when a bench appears on camera dock";
    let spec = specs(&proposal_in(text, &scene)).remove(0);
    assert!(!spec.workflow.to_string().contains("time_in_zone@"));
}

#[test]
fn line_that_begins_with_the_name_of_its_camera_is_that_line() {
    let mut scene = scene();
    scene.cameras[1].places.push(Place {
        name: "gate line".to_owned(),
        shape: Shape::Line([0.5, 0.0], [0.5, 1.0]),
    });
    for text in [
        "tell me when a car crosses the gate line",
        "tell me when a car crosses the gate line on camera gate",
    ] {
        let spec = specs(&proposal_in(text, &scene)).remove(0);
        assert_eq!(spec.source.as_str(), "gate", "{text}");
    }
    let answer = ask("how many cars crossed the gate line yesterday", &scene);
    let Answer::Look(looked) = answer else {
        panic!("{answer:#?}");
    };
    let place = match looked.look {
        Look::Events(wanted) => wanted.place,
        other => panic!("{other:?}"),
    };
    assert_eq!(place.as_deref(), Some("gate line"));
}

#[test]
fn movement_is_watched_by_the_motion_detector() {
    let mut scene = scene();
    scene.models.extend(bench().models);
    let model = |text: &str| {
        let proposal = proposal_in(text, &scene);
        specs(&proposal)[0].workflow["steps"][0]["model_id"].clone()
    };
    for text in [
        "tell me when there is movement on camera gate",
        "tell me when anything moves on camera gate",
        "tell me when something moves in the left parking bay",
    ] {
        assert_eq!(model(text), "motion", "{text}");
    }
    for text in [
        "tell me when anything is seen on camera gate",
        "tell me when a car moves on camera gate",
    ] {
        assert_eq!(model(text), "yolox-nano", "{text}");
    }
}
