//! Narrows a rule by the answers of people. Chooses the ignored areas or the lowest score that
//! remove the most rejected events and nearly no approved one.
//!
//! - It is chosen on the older two thirds of the answers, and proposed only if the newest third
//!   confirms it. There it loses no more than [`MAX_LOST`] of the approved events. It removes at
//!   least half the share of rejected ones that it removes of the older.
//! - Pure; changes nothing by itself.
//! - Not here: hours and dwell times. A few answers can't show that nothing ever happens at night.
//!   And a gate on the confidence: docs/design/reviews.md has what it lost.

mod areas;

use serde::Serialize;
use watchkeeper_contract::review::RuleAnswer;
use watchkeeper_contract::rule::{Band, Condition, MAX_IGNORED_AREAS, RuleSpec};

use self::areas::{find_areas, is_within};
use crate::wording::counted;

/// Fewest answers that narrow a rule.
pub(crate) const MIN_ANSWERS: usize = 20;
/// Largest share of the approved events that a narrowed rule loses.
pub(crate) const MAX_LOST: f64 = 0.01;
/// Fewest approved events among the older answers; the newest third has at least one.
const MIN_APPROVED: usize = 3;
/// Fewest rejected events among the older answers.
const MIN_REJECTED: usize = 3;

/// A change of a rule that removes false events.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Narrowing {
    /// Areas to ignore, normalised `[x_min, y_min, x_max, y_max]`.
    pub ignore: Vec<[f64; 4]>,
    /// Lowest score of an object.
    pub min_score: Option<f64>,
    /// Removed events among those that it was chosen on.
    pub older: Removed,
    /// Removed events among those that it was checked on.
    pub newer: Removed,
}

/// Events that a narrowing removes, of those that people answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Removed {
    pub approved: usize,
    pub approved_removed: usize,
    pub rejected: usize,
    pub rejected_removed: usize,
}

/// Why a rule is not narrowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotNarrowed {
    #[error("{0} answers are too few; it takes {MIN_ANSWERS}")]
    FewAnswers(usize),
    #[error("people rejected too few of its events")]
    FewRejected,
    #[error("people approved too few of its events, so what it would lose is not known")]
    FewApproved,
    #[error("rejected and approved events are in the same places and equally likely")]
    NotSeparable,
    #[error("what would remove the older rejected events does not hold for the newer ones")]
    DoesNotHold,
}

/// Finds the narrowing of `rule` by `answers` about its events.
///
/// # Errors
/// Why the rule stays unchanged.
pub fn narrow(rule: &RuleSpec, answers: &[RuleAnswer]) -> Result<Narrowing, NotNarrowed> {
    if answers.len() < MIN_ANSWERS {
        return Err(NotNarrowed::FewAnswers(answers.len()));
    }
    let mut answers: Vec<&RuleAnswer> = answers.iter().collect();
    answers.sort_by_key(|answer| answer.event);
    let (older, newer) = answers.split_at(answers.len() * 2 / 3);
    let rejected = |of: &[&RuleAnswer]| of.iter().filter(|answer| !answer.is_true).count();
    if rejected(older) < MIN_REJECTED || rejected(newer) == 0 {
        return Err(NotNarrowed::FewRejected);
    }
    if older.len() - rejected(older) < MIN_APPROVED || newer.len() == rejected(newer) {
        return Err(NotNarrowed::FewApproved);
    }
    let mut candidates = candidates(rule, older);
    candidates.retain(|found| found.older.rejected_removed > 0 && is_harmless(found.older));
    if candidates.is_empty() {
        return Err(NotNarrowed::NotSeparable);
    }
    // Among equals the first, which changes the least.
    candidates.sort_by_key(|found| std::cmp::Reverse(found.older.rejected_removed));
    for found in &mut candidates {
        found.newer = removed(found, newer);
    }
    let held = candidates
        .into_iter()
        .find(|found| holds(found.older, found.newer));
    held.ok_or(NotNarrowed::DoesNotHold)
}

impl Narrowing {
    pub fn apply(&self, rule: &mut RuleSpec) {
        rule.ignore.extend(&self.ignore);
        if let Some(min) = self.min_score {
            let max = rule.confidence.map_or(1.0, |band| band.max);
            rule.confidence = Some(Band { min, max });
        }
    }

    /// Whether the narrowed rule makes no event like that of `answer`.
    pub fn removes(&self, answer: &RuleAnswer) -> bool {
        let is_ignored = |area: &[f64; 4]| answer.bbox.is_some_and(|b| is_within(*area, b));
        let is_below = (self.min_score.zip(answer.score)).is_some_and(|(min, score)| score < min);
        is_below || self.ignore.iter().any(is_ignored)
    }

    /// The removed answered events, one sentence for the older and one for the newer.
    pub fn sentences(&self) -> [String; 2] {
        [
            format!("chosen on the older answers: {}", self.older.sentence()),
            format!("checked on the newest: {}", self.newer.sentence()),
        ]
    }
}

impl Removed {
    fn sentence(self) -> String {
        let Self {
            approved,
            approved_removed,
            rejected,
            rejected_removed,
        } = self;
        format!(
            "{} rejected before, {} after; {} approved before, {} after",
            counted(rejected as u64, "event"),
            rejected - rejected_removed,
            approved,
            approved - approved_removed
        )
    }
}

/// Narrowings that are chosen on these answers, those with fewer parts first.
fn candidates(rule: &RuleSpec, older: &[&RuleAnswer]) -> Vec<Narrowing> {
    let mut found = Vec::new();
    // A count has no place: it is about several objects.
    let has_place = !matches!(rule.when, Condition::Value { .. } | Condition::Count { .. });
    let free = MAX_IGNORED_AREAS.saturating_sub(rule.ignore.len());
    let ignore = match has_place {
        true => find_areas(older, budget(older), free),
        false => Vec::new(),
    };
    let placed = Narrowing {
        ignore,
        ..Narrowing::default()
    };
    for base in [Narrowing::default(), placed] {
        let left: Vec<&RuleAnswer> = older.iter().copied().filter(|a| !base.removes(a)).collect();
        let allowed = budget(older).saturating_sub(removed(&base, older).approved_removed);
        let min = rule.confidence.map_or(0.0, |band| band.min);
        let max = rule.confidence.map_or(1.0, |band| band.max);
        // A crossing is judged by the score of one frame, which is below the best one of an event.
        let min_score = (has_place && !matches!(rule.when, Condition::Crosses { .. }))
            .then(|| lowest_score(&left, allowed))
            .flatten()
            .filter(|score| (min..max).contains(score) && *score > min);
        found.push(base.clone());
        found.push(Narrowing { min_score, ..base });
    }
    for narrowing in &mut found {
        narrowing.older = removed(narrowing, older);
    }
    found
}

/// The bound on the score, in hundredths. It is halfway between the lowest approved score, after
/// `allowed` of them are left out, and the highest rejected score below it.
fn lowest_score(answers: &[&RuleAnswer], allowed: usize) -> Option<f64> {
    let scores = |is_true| {
        let of = answers.iter().filter(move |a| a.is_true == is_true);
        of.filter_map(|answer| answer.score)
    };
    let mut approved: Vec<f64> = scores(true).collect();
    approved.sort_by(f64::total_cmp);
    let first_kept = *approved.get(allowed)?;
    let below = scores(false).filter(|score| *score < first_kept);
    let last_removed = below.max_by(f64::total_cmp)?;
    Some((f64::midpoint(last_removed, first_kept) * 100.0).floor() / 100.0)
}

/// Approved events that a narrowing may remove of these.
fn budget(answers: &[&RuleAnswer]) -> usize {
    let approved = answers.iter().filter(|answer| answer.is_true).count();
    (approved as f64 * MAX_LOST).floor() as usize
}

fn removed(narrowing: &Narrowing, answers: &[&RuleAnswer]) -> Removed {
    let mut sum = Removed::default();
    for answer in answers {
        let is_removed = usize::from(narrowing.removes(answer));
        if answer.is_true {
            sum.approved += 1;
            sum.approved_removed += is_removed;
        } else {
            sum.rejected += 1;
            sum.rejected_removed += is_removed;
        }
    }
    sum
}

fn is_harmless(of: Removed) -> bool {
    of.approved_removed as f64 <= of.approved as f64 * MAX_LOST
}

/// Whether what was chosen on the older answers holds for the newer ones.
fn holds(older: Removed, newer: Removed) -> bool {
    let share = |of: Removed| of.rejected_removed as f64 / of.rejected.max(1) as f64;
    is_harmless(newer) && newer.rejected_removed > 0 && share(newer) >= share(older) / 2.0
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests;
