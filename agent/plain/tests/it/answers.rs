//! Questions and answers: an answer completes the request, and only a question waits for one.

use proptest::prelude::*;
use watchkeeper_contract::rule::{Condition, CountBound};
use watchkeeper_plain::Scene;
use watchkeeper_plain::answer::{Answer, Missing};

use crate::support::{ask, proposal_in, question_in, scene, specs, with_pipelines};

/// The bound of what is proposed when the question that a request leads to is answered so.
fn bound(text: &str, answer: &str, scene: &Scene) -> CountBound {
    let question = question_in(text, scene);
    assert_eq!(question.about, Missing::Number, "{text}: {}", question.text);
    let proposal = proposal_in(&question.answered(answer), scene);
    assert_eq!(proposal.not_understood, [""; 0], "{text} {answer}");
    match specs(&proposal).remove(0).rules.unwrap().remove(0).when {
        Condition::Count { bound, .. } => bound,
        other => panic!("{text} {answer}: {other:?}"),
    }
}

#[test]
fn how_many_is_answered_by_a_number() {
    let scene = scene();
    for (text, answer, wanted) in [
        (
            "tell me when fewer than people are on camera gate",
            "fewer than 3",
            CountBound::Under(3),
        ),
        (
            "tell me when fewer than people are on camera gate",
            "3",
            CountBound::Under(3),
        ),
        (
            "tell me when several people are on camera gate",
            "at least 3",
            CountBound::Over(2),
        ),
        (
            "tell me when a few people are on camera gate",
            "4",
            CountBound::Over(3),
        ),
        (
            "tell me when exactly 3 people are on camera gate",
            "more than 3",
            CountBound::Over(3),
        ),
        (
            "tell me when up to 3 people are on camera gate",
            "at least 1.",
            CountBound::Over(0),
        ),
        (
            "tell me when more than 2.5 people are on camera gate",
            "more than 2",
            CountBound::Over(2),
        ),
        (
            "tell me when fewer than 0 people are on camera gate",
            "fewer than 1",
            CountBound::Under(1),
        ),
    ] {
        assert_eq!(bound(text, answer, &scene), wanted, "{text} {answer}");
    }
}

#[test]
fn an_answer_that_says_the_opposite_is_not_taken_for_one() {
    let text = "tell me when fewer than people are on camera gate";
    let question = question_in(text, &scene());
    for answer in ["more than 3", "3 minutes", "a lot"] {
        let answered = ask(&question.answered(answer), &scene());
        assert!(!matches!(answered, Answer::Propose(_)), "{answered:#?}");
    }
}

#[test]
fn a_confidence_that_is_none_is_answered_by_one() {
    let text = "tell me when a person is on camera gate with a confidence of 500";
    let question = question_in(text, &scene());
    assert_eq!(question.about, Missing::Number);
    for answer in ["0.6", "60 %", "confidence 0.6"] {
        let proposal = proposal_in(&question.answered(answer), &scene());
        let spec = specs(&proposal).remove(0);
        assert_eq!(spec.workflow["steps"][0]["confidence"], 0.6, "{answer}");
    }
}

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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_number_is_never_turned_round_by_its_answer(n in 1_u32..40, (said, over) in proptest::sample::select(&[("fewer than", false), ("less than", false), ("at least", true), ("more than", true)][..])) {
        let amount = if over { "several" } else { "fewer than" };
        let text = format!("tell me when {amount} people are on camera gate");
        let found = bound(&text, &format!("{said} {n}"), &scene());
        let wanted = match said {
            "at least" => CountBound::Over(n - 1),
            "more than" => CountBound::Over(n),
            _ => CountBound::Under(n),
        };
        prop_assert_eq!(found, wanted);
    }
}
