//! Answers that count, places that lie elsewhere on each camera, and settings that are not those that were meant.

use watchkeeper_contract::rule::{Condition, CrossDirection};
use watchkeeper_plain::Scene;
use watchkeeper_plain::answer::{Answer, Missing};
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
fn the_answer_to_which_way_counts_and_only_ways_over_the_line_are_offered() {
    let scene = scene();
    let text = "tell me when something crosses the horizontal line at 60% on the loading dock from left to right";
    let question = question_in(text, &scene);
    assert_eq!(question.about, Missing::Direction);
    assert_eq!(
        question.choices,
        ["upwards", "downwards", "in either direction"]
    );
    assert!(
        !question.text.contains("right to left"),
        "{}",
        question.text
    );
    let ways: Vec<CrossDirection> = question
        .choices
        .iter()
        .map(|answer| {
            let proposal = proposal_in(&question.answered(answer), &scene);
            assert!(
                proposal.assumed.iter().any(|a| a.contains("left to right")),
                "{proposal:#?}"
            );
            let rule = specs(&proposal).remove(0).rules.unwrap().remove(0);
            let Condition::Crosses { direction, .. } = rule.when else {
                panic!("{answer}: {:?}", rule.when);
            };
            direction
        })
        .collect();
    assert_ne!(ways[0], ways[1]);
    assert!(!ways[..2].contains(&CrossDirection::Any), "{ways:?}");
    assert_eq!(ways[2], CrossDirection::Any);
    let both = "tell me when something crosses the horizontal line at 60% on the loading dock from left to right or from right to left";
    assert_eq!(question_in(both, &scene).about, Missing::Direction);
}

#[test]
fn a_place_that_is_drawn_on_one_camera_lies_nowhere_on_the_others() {
    let mut scene = bench();
    let text = "tell me when something enters the bench on all cameras";
    let refused = refusal(text, &scene);
    assert!(
        refused.contains("on dock") && refused.contains("not on gate and yard"),
        "{refused}"
    );
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
