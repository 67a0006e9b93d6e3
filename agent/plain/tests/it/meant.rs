//! Answers that count, places that lie elsewhere on each camera, and settings that are not those that were meant.

use watchkeeper_contract::rule::{Condition, CrossDirection};
use watchkeeper_plain::answer::Missing;

use crate::support::{proposal_in, question_in, scene, specs};

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
