use proptest::prelude::*;
use serde_json::json;
use watchkeeper_contract::id::EventId;

use super::*;

fn rule() -> RuleSpec {
    serde_json::from_value(json!({
        "name": "door", "when": {"kind": "enters", "zone": "door"},
    }))
    .unwrap()
}

/// Answer number `n` about an event at this point, of this confidence.
fn answer(n: u128, is_true: bool, [x, y]: [f64; 2], confidence: f64) -> RuleAnswer {
    RuleAnswer {
        event: EventId(format!("{n:026}").parse().unwrap()),
        is_true,
        raw_confidence: Some(confidence),
        score: Some(0.6),
        bbox: Some([x - 0.05, y - 0.2, x + 0.05, y]),
    }
}

/// A swaying branch at the upper left, people elsewhere.
fn branch(n: u128) -> RuleAnswer {
    let sway = (n % 5) as f64 / 100.0;
    match n % 3 {
        0 => answer(n, false, [0.2 + sway, 0.3], 0.8),
        _ => answer(n, true, [0.5 + sway, 0.9 - sway], 0.8),
    }
}

#[test]
fn place_of_the_rejected_events_is_ignored() {
    let answers: Vec<RuleAnswer> = (0..60).map(branch).collect();
    let found = narrow(&rule(), &answers).unwrap();
    assert_eq!(found.min_score, None);
    assert_eq!(found.ignore, [[0.19, 0.28, 0.25, 0.31]]);
    let all_rejected = Removed {
        approved: 14,
        approved_removed: 0,
        rejected: 6,
        rejected_removed: 6,
    };
    assert_eq!(found.newer, all_rejected);
    let mut narrowed = rule();
    found.apply(&mut narrowed);
    assert_eq!(narrowed.ignore, found.ignore);
    assert!(
        found.sentences()[1]
            .contains("6 events rejected before, 0 after; 14 approved before, 14 after"),
        "{:?}",
        found.sentences()
    );
    let again: Vec<RuleAnswer> = answers.into_iter().rev().collect();
    assert_eq!(narrow(&rule(), &again).unwrap(), found);
}

#[test]
fn lowest_score_rises_where_rejected_events_score_less() {
    let at = |n: u128| [0.1 + (n % 7) as f64 / 10.0, 0.2 + (n % 5) as f64 / 8.0];
    let scored = |n: u128| RuleAnswer {
        score: Some(if n.is_multiple_of(2) { 0.874 } else { 0.6 }),
        ..answer(n, n.is_multiple_of(2), at(n / 2), 0.8)
    };
    let answers: Vec<RuleAnswer> = (0..60).map(scored).collect();
    let found = narrow(&rule(), &answers).unwrap();
    assert_eq!((found.min_score, found.ignore.len()), (Some(0.73), 0));
    let mut narrowed = rule();
    found.apply(&mut narrowed);
    let band = Band {
        min: 0.73,
        max: 1.0,
    };
    assert_eq!(narrowed.confidence, Some(band));
}

#[test]
fn rule_stays_without_enough_answers_or_a_difference() {
    let few: Vec<RuleAnswer> = (0..19).map(branch).collect();
    assert_eq!(narrow(&rule(), &few), Err(NotNarrowed::FewAnswers(19)));
    let approved = |n| answer(n, true, [0.5, 0.5], 0.9);
    let approved: Vec<RuleAnswer> = (0..40).map(approved).collect();
    assert_eq!(narrow(&rule(), &approved), Err(NotNarrowed::FewRejected));
    let rejected = |n| answer(n, false, [0.2, 0.3], 0.6);
    let rejected: Vec<RuleAnswer> = (0..40).map(rejected).collect();
    assert_eq!(narrow(&rule(), &rejected), Err(NotNarrowed::FewApproved));
    let approved_until = |last| move |n| answer(n, n < last, [0.2, 0.3], 0.6);
    let none_of_the_newest: Vec<RuleAnswer> = (0..40).map(approved_until(10)).collect();
    let found = narrow(&rule(), &none_of_the_newest);
    assert_eq!(found, Err(NotNarrowed::FewApproved));
    let mixed = |n| answer(n, n % 2 == 0, [0.5, 0.5], 0.9);
    let mixed: Vec<RuleAnswer> = (0..40).map(mixed).collect();
    assert_eq!(narrow(&rule(), &mixed), Err(NotNarrowed::NotSeparable));
}

#[test]
fn narrowing_that_the_newest_answers_contradict_is_not_proposed() {
    // Later people stand where the branch was.
    let answers: Vec<RuleAnswer> = (0..60)
        .map(|n| match n {
            40.. if n % 3 == 1 => answer(n, true, [0.22, 0.3], 0.8),
            _ => branch(n),
        })
        .collect();
    assert_eq!(narrow(&rule(), &answers), Err(NotNarrowed::DoesNotHold));
}

proptest! {
    #[test]
    fn narrowed_rule_is_valid_and_keeps_approved_events(
        answers in proptest::collection::vec(
            (any::<bool>(), [0.0f64..=1.0, 0.0..=1.0], 0.5f64..=1.0), 20..80,
        ),
    ) {
        let answers: Vec<RuleAnswer> = answers
            .into_iter()
            .enumerate()
            .map(|(n, (is_true, at, confidence))| answer(n as u128, is_true, at, confidence))
            .collect();
        let Ok(found) = narrow(&rule(), &answers) else {
            return Ok(());
        };
        for of in [found.older, found.newer] {
            prop_assert!(of.approved_removed as f64 <= MAX_LOST * of.approved as f64, "{:?}", of);
            prop_assert!(of.rejected_removed > 0);
        }
        for [x_min, y_min, x_max, y_max] in &found.ignore {
            prop_assert!(0.0 <= *x_min && x_min < x_max && *x_max <= 1.0);
            prop_assert!(0.0 <= *y_min && y_min < y_max && *y_max <= 1.0);
        }
        prop_assert!(found.ignore.len() <= MAX_IGNORED_AREAS);
        let mut narrowed = rule();
        found.apply(&mut narrowed);
        prop_assert_ne!(narrowed, rule());
    }
}
