//! Calibrates a rule's confidence by the answers of people: Platt scaling with a prior.
//!
//! `confidence = logistic(slope * logit(raw) + offset)`, fitted by Newton's method with step
//! halving (Lin, Lin, Weng 2007). The prior draws towards the identity, slope 1 and offset 0, so
//! few answers change little.
//!
//! - Monotone, within `0.0..=1.0`, and independent of the order of the answers.
//! - Without [`MIN_EACH`] answers of both kinds there is no calibration.
//!
//! `docs/design/0043-calibration-by-answers.md` says why it is not a library.

use watchkeeper_contract::review::Calibration;

use super::evidence::round;

/// Fewest approved, and fewest rejected, answers.
pub const MIN_EACH: usize = 5;
/// Standard deviations of slope and offset before any answer. Ten answers of which half are
/// rejected move a confidence of 0.80 to 0.67, fifty to 0.56.
const PRIOR: [f64; 2] = [0.25, 0.5];
/// Confidences are kept this far from 0 and 1, whose logits are infinite.
const MARGIN: f64 = 1e-3;
const MAX_STEPS: usize = 50;
const MAX_HALVINGS: usize = 30;
/// Length of a step at which the fit has converged.
const TOLERANCE: f64 = 1e-10;

/// Fits a calibration to raw confidences and whether their events were approved; `None` without
/// enough answers of both kinds.
pub fn fit(answers: impl IntoIterator<Item = (f64, bool)>) -> Option<Calibration> {
    let answers = answers.into_iter().filter(|(raw, _)| raw.is_finite());
    let mut points: Vec<Point> = answers
        .map(|(raw, is_true)| Point {
            logit: logit(raw),
            is_true,
        })
        .collect();
    // Sums of floating point numbers depend on their order.
    points.sort_by(|a, b| (a.logit.total_cmp(&b.logit)).then(a.is_true.cmp(&b.is_true)));
    let approved = points.iter().filter(|point| point.is_true).count();
    let rejected = points.len() - approved;
    if approved.min(rejected) < MIN_EACH {
        return None;
    }
    let mut found = minimise(&points, [1.0, 0.0], true);
    if found[0] < 0.0 {
        // The loss is convex, so the best slope that is allowed is 0.
        found = minimise(&points, [0.0, 0.0], false);
    }
    let [slope, offset] = found;
    Some(Calibration {
        approved: u32::try_from(approved).unwrap_or(u32::MAX),
        rejected: u32::try_from(rejected).unwrap_or(u32::MAX),
        slope,
        offset,
    })
}

/// Returns the calibrated confidence, `0.0..=1.0`.
pub fn apply(calibration: &Calibration, raw: f64) -> f64 {
    let Calibration { slope, offset, .. } = calibration;
    round(logistic(slope * logit(raw) + offset).clamp(0.0, 1.0))
}

#[derive(Debug, Clone, Copy)]
struct Point {
    logit: f64,
    is_true: bool,
}

fn logit(raw: f64) -> f64 {
    let raw = raw.clamp(MARGIN, 1.0 - MARGIN);
    (raw / (1.0 - raw)).ln()
}

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// Negative logarithm of the likelihood and the prior.
fn loss(points: &[Point], [slope, offset]: [f64; 2]) -> f64 {
    let of_point = |point: &Point| {
        let x = slope * point.logit + offset;
        let x = if point.is_true { -x } else { x };
        // ln(1 + e^x) without overflow.
        x.max(0.0) + (-x.abs()).exp().ln_1p()
    };
    let of_prior = ((slope - 1.0) / PRIOR[0]).powi(2) + (offset / PRIOR[1]).powi(2);
    points.iter().map(of_point).sum::<f64>() + of_prior / 2.0
}

/// Newton's method from `at`; with `moves_slope` false only the offset is fitted.
fn minimise(points: &[Point], mut at: [f64; 2], moves_slope: bool) -> [f64; 2] {
    for _ in 0..MAX_STEPS {
        let [mut step_slope, mut step_offset] = newton_step(points, at, moves_slope);
        let before = loss(points, at);
        let mut next = [at[0] - step_slope, at[1] - step_offset];
        for _ in 0..MAX_HALVINGS {
            if loss(points, next) <= before {
                break;
            }
            step_slope /= 2.0;
            step_offset /= 2.0;
            next = [at[0] - step_slope, at[1] - step_offset];
        }
        at = next;
        if step_slope.abs().max(step_offset.abs()) < TOLERANCE {
            break;
        }
    }
    at
}

/// The inverse Hessian times the gradient. The prior keeps the Hessian positive definite.
fn newton_step(points: &[Point], [slope, offset]: [f64; 2], moves_slope: bool) -> [f64; 2] {
    let precision = PRIOR.map(|deviation| deviation.powi(-2));
    let mut gradient = [(slope - 1.0) * precision[0], offset * precision[1]];
    let (mut ss, mut so, mut oo) = (precision[0], 0.0, precision[1]);
    for point in points {
        let likely = logistic(slope * point.logit + offset);
        let error = likely - f64::from(u8::from(point.is_true));
        gradient[0] += error * point.logit;
        gradient[1] += error;
        let weight = likely * (1.0 - likely);
        ss += weight * point.logit * point.logit;
        so += weight * point.logit;
        oo += weight;
    }
    if !moves_slope {
        return [0.0, gradient[1] / oo];
    }
    let determinant = ss * oo - so * so;
    [
        (oo * gradient[0] - so * gradient[1]) / determinant,
        (ss * gradient[1] - so * gradient[0]) / determinant,
    ]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `approved` of `all` answers at one confidence.
    fn at(raw: f64, approved: usize, all: usize) -> Vec<(f64, bool)> {
        (0..all).map(|n| (raw, n < approved)).collect()
    }

    #[test]
    fn few_answers_change_little_and_many_decide() {
        let after = |all| apply(&fit(at(0.8, all / 2, all)).unwrap(), 0.8);
        assert_eq!(fit(at(0.8, 4, 20)), None);
        assert_eq!(fit(at(0.8, 16, 20)), None);
        let found = [10, 50, 500].map(after);
        assert!((0.64..0.70).contains(&found[0]), "{found:?}");
        assert!((0.54..0.58).contains(&found[1]), "{found:?}");
        assert!((0.50..0.52).contains(&found[2]), "{found:?}");
    }

    #[test]
    fn answers_against_the_evidence_end_at_slope_zero() {
        let mut answers = at(0.95, 0, 200);
        answers.extend(at(0.55, 200, 200));
        let found = fit(answers).unwrap();
        assert_eq!(found.slope, 0.0);
        let flat = [0.1, 0.9].map(|raw| apply(&found, raw));
        assert_eq!(flat[0], flat[1]);
    }

    #[test]
    fn calibrated_confidence_is_the_share_of_true_events() {
        let mut answers = at(0.6, 100, 500);
        answers.extend(at(0.9, 350, 500));
        let found = fit(answers).unwrap();
        for (raw, share) in [(0.6, 0.2), (0.9, 0.7)] {
            let got = apply(&found, raw);
            assert!((got - share).abs() < 0.03, "{raw}: {got}");
        }
    }

    proptest! {
        #[test]
        fn calibration_is_monotone_in_range_and_independent_of_order(
            answers in proptest::collection::vec((0.0f64..=1.0, any::<bool>()), 10..120),
            raws in proptest::collection::vec(0.0f64..=1.0, 2..20),
        ) {
            let Some(found) = fit(answers.iter().copied()) else {
                return Ok(());
            };
            prop_assert_eq!(fit(answers.iter().rev().copied()), Some(found));
            prop_assert!(found.slope >= 0.0 && found.offset.is_finite());
            let mut raws = raws;
            raws.sort_by(f64::total_cmp);
            let calibrated: Vec<f64> = raws.iter().map(|raw| apply(&found, *raw)).collect();
            prop_assert!(calibrated.is_sorted(), "{:?}", calibrated);
            prop_assert!(calibrated.iter().all(|c| (0.0..=1.0).contains(c)));
        }

        #[test]
        fn prior_alone_is_the_identity(raw in 0.001f64..=0.999) {
            let identity = Calibration { approved: 0, rejected: 0, slope: 1.0, offset: 0.0 };
            prop_assert!((apply(&identity, raw) - raw).abs() <= 5e-5 + 1e-12);
            prop_assert_eq!(minimise(&[], [1.0, 0.0], true), [1.0, 0.0]);
        }
    }
}
