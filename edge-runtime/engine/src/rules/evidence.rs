//! Evidence of an event: which observations support it, how strongly, and how much each counts.
//!
//! An observation without data is left out rather than guessed; the decision divides by the weights
//! that are present. The weights, and why:
//!
//! | observation | weight | why |
//! |---|---|---|
//! | `detector_score` | 0.30 | the only one based on pixels, but a score is a rank, not a probability (see [`calibrate`]) |
//! | `track_age` | 0.25 | noise does not return to the same place: after a second of sightings a false track is rare |
//! | `continuity` | 0.15 | a present object is seen in most frames; weighs less because age covers part of it |
//! | `box_stability` | 0.10 | boxes of real objects change size slowly; weak, because those of a detector jump too |
//! | `motion_agreement` | 0.15 | real objects keep their velocity; weak, because people turn |
//! | `change` | 0.20 | only against `stays`: what has neither moved nor changed may be a post or a shadow |
//! | `crossing_depth` | 0.30 | a box that jumps over the line was hardly before it |
//! | `recent_score` | 0.40 | a track that changes to another object is seen badly, or missed, meanwhile |
//! | `persistence` | 0.25 | the age of a condition that has no track |
//! | `rule_margin` | 0.20 | distance from the bound: a count over by one depends on a single box |
//! | `damage` | 0 | limits the verdict to `review`, see below |
//! | `workflow_value` | 0.50 | a boolean or number computed by the workflow: exact, but based on what its steps saw |
//!
//! An established track of the motion detector (class `motion`, score about 0.5, seen for two
//! seconds, steady) reaches about 0.88. It is recorded without a second opinion. One seen for three
//! frames reaches about 0.69 and is escalated.
//!
//! - A confidence is in `0.0..=1.0`, whatever numbers it is computed from.
//! - With `damage` the verdict is `review` at most, except for a critical rule. Garbage may look
//!   like a perfect object, so no other observation tells them apart.
//!
//! `docs/ref/rules.md` has the verdicts on true and wrong crossings of annotated sequences.

use serde_json::json;
use watchkeeper_contract::event::Evidence;

use super::history::Record;

/// One observation. [`EvidenceItem::evidence`] formats it for a record.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EvidenceItem {
    observation: Observation,
    confidence: f64,
    /// The numbers behind the confidence, for the note.
    numbers: [f64; 2],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Observation {
    DetectorScore,
    TrackAge,
    Continuity,
    BoxStability,
    MotionAgreement,
    Change,
    CrossingDepth,
    RecentScore,
    Persistence,
    RuleMargin,
    Damage,
    WorkflowValue,
}

impl Observation {
    /// Name in records, weight, and names of its numbers.
    fn form(self) -> (&'static str, f64, &'static [&'static str]) {
        match self {
            Self::DetectorScore => ("detector_score", 0.30, &["best", "mean"]),
            Self::TrackAge => ("track_age", 0.25, &["seen", "over_s"]),
            Self::Continuity => ("continuity", 0.15, &["share"]),
            Self::BoxStability => ("box_stability", 0.10, &["change"]),
            Self::MotionAgreement => ("motion_agreement", 0.15, &["off"]),
            Self::Change => ("change", 0.20, &[]),
            Self::CrossingDepth => ("crossing_depth", 0.30, &["depth"]),
            Self::RecentScore => ("recent_score", 0.40, &["recent", "best"]),
            Self::Persistence => ("persistence", 0.25, &["held_s"]),
            Self::RuleMargin => ("rule_margin", 0.20, &["number", "limit"]),
            Self::Damage => ("damage", 0.0, &["damaged", "seen"]),
            Self::WorkflowValue => ("workflow_value", 0.50, &[]),
        }
    }

    fn item(self, confidence: f64, numbers: [f64; 2]) -> EvidenceItem {
        let confidence = if confidence.is_finite() {
            confidence.clamp(0.0, 1.0)
        } else {
            0.0
        };
        EvidenceItem {
            observation: self,
            confidence,
            numbers,
        }
    }
}

impl EvidenceItem {
    /// The observation that a condition has held for `held_s` seconds.
    fn persistence(held_s: f64) -> Self {
        Observation::Persistence.item(saturate(held_s, 0.4), [held_s, 0.0])
    }

    /// The observation that an object has neither moved nor changed.
    pub(super) fn no_change() -> Self {
        Observation::Change.item(0.0, [0.0; 2])
    }

    /// The observation that pictures are damaged, or most of those that show the object were.
    pub(super) fn damage(is_damaged: bool, record: Option<&Record>) -> Option<Self> {
        let [damaged, seen] = record.map_or([0, 0], |record| [record.damaged, record.seen]);
        let is_in_doubt = is_damaged || 2 * damaged > seen;
        is_in_doubt.then(|| Observation::Damage.item(0.0, [damaged as f64, seen as f64]))
    }

    /// Whether it forbids a verdict above `review`.
    pub(super) fn is_damage(&self) -> bool {
        self.observation == Observation::Damage
    }

    /// The observation that an object was up to `depth` extents of its box before the line.
    pub fn crossing_depth(depth: f64) -> Self {
        Observation::CrossingDepth.item(saturate(depth, 0.1), [depth, 0.0])
    }

    /// The observation how well a track was seen in its latest frames, compared with its best one.
    pub fn recent_score(record: &Record) -> Self {
        let (recent, best) = (record.recent_score, record.best_score);
        Observation::RecentScore.item(recent / best, [recent, best])
    }

    /// Returns the confidence, `0.0..=1.0`.
    pub fn confidence(&self) -> f64 {
        self.confidence
    }

    pub fn weight(&self) -> f64 {
        self.observation.form().1
    }

    pub fn name(&self) -> &'static str {
        self.observation.form().0
    }

    /// Formats the item for a record: its numbers in words, and as data.
    pub fn evidence(&self) -> Evidence {
        let [a, b] = self.numbers;
        let note = match self.observation {
            Observation::DetectorScore => format!("best {a:.2}, mean {b:.2}"),
            Observation::TrackAge => format!("seen {a:.0} times over {b:.1} s"),
            Observation::Continuity => format!("seen in {:.0} % of its frames", a * 100.0),
            Observation::BoxStability => format!("size changes by {:.1} % a frame", a * 100.0),
            Observation::MotionAgreement => {
                format!("off its course by {:.1} % of its size", a * 100.0)
            }
            Observation::Change => "neither moved nor changed since its first sight".to_owned(),
            Observation::CrossingDepth => {
                format!("was up to {:.0} % of its size before the line", a * 100.0)
            }
            Observation::RecentScore => format!("{a:.2} a frame lately, best {b:.2}"),
            Observation::Persistence => format!("has held for {a:.1} s"),
            Observation::RuleMargin => format!("{} against a limit of {}", round(a), round(b)),
            Observation::Damage if b > 0.0 => format!(
                "the decoder reported damage: {a:.0} of {b:.0} sightings are in such pictures"
            ),
            Observation::Damage => "the decoder reported damage".to_owned(),
            Observation::WorkflowValue => "computed by the workflow".to_owned(),
        };
        let (name, weight, names) = self.observation.form();
        let numbers = names.iter().zip(self.numbers);
        let data = numbers.map(|(name, number)| ((*name).to_owned(), json!(round(number))));
        Evidence {
            data: (!names.is_empty()).then(|| data.collect()),
            ..Evidence::new(name, round(self.confidence), weight, note)
        }
    }
}

/// Rounds a confidence or weight to four digits.
pub fn round(v: f64) -> f64 {
    (v * 1e4).round() / 1e4
}

/// Maps a detector's score to a confidence.
///
/// Scores of one-stage detectors rank boxes; their scale is what training left. A box at 0.5 that
/// survived the threshold and suppression is right far more often than half the time. One at 0.9 is
/// right hardly more often than one at 0.8. The square root is the plainest curve of that shape:
/// 0.25 → 0.50, 0.50 → 0.71, 0.80 → 0.89.
pub fn calibrate(score: f64) -> f64 {
    score.clamp(0.0, 1.0).sqrt()
}

/// Grows from 0 to 1, halving the remaining distance every `half`.
fn saturate(value: f64, half: f64) -> f64 {
    1.0 - 0.5f64.powf(value.max(0.0) / half)
}

pub fn of_track(record: &Record) -> Vec<EvidenceItem> {
    let (best, mean) = (record.best_score, record.mean_score());
    let age = record.age_s();
    // Requires both sightings and time: thirty sightings within a second are not independent.
    let established = saturate(record.seen as f64, 3.0).min(saturate(age, 0.4));
    let mut chain = vec![
        Observation::DetectorScore.item(calibrate(f64::midpoint(best, mean)), [best, mean]),
        Observation::TrackAge.item(established, [record.seen as f64, age]),
    ];
    // One sighting says nothing about change.
    if record.seen > 2 {
        let (seen, change, surprise) = (record.continuity(), record.size_change, record.surprise);
        chain.extend([
            Observation::Continuity.item(seen, [seen, 0.0]),
            Observation::BoxStability.item((-3.0 * change).exp(), [change, 0.0]),
            Observation::MotionAgreement.item((-4.0 * surprise).exp(), [surprise, 0.0]),
        ]);
    }
    chain
}

/// Returns the evidence for an event about a count of boxes with `scores`, compared with `bound`.
pub fn of_count(scores: &[f64], bound: f64, held_s: f64) -> Vec<EvidenceItem> {
    let n = scores.len() as f64;
    let excess = (n - bound).abs();
    let mut chain = vec![
        EvidenceItem::persistence(held_s),
        Observation::RuleMargin.item(excess / (excess + 0.25), [n, bound]),
    ];
    if !scores.is_empty() {
        let mean = scores.iter().sum::<f64>() / n;
        let best = scores.iter().fold(0.0, |m: f64, &s| m.max(s));
        chain.insert(
            0,
            Observation::DetectorScore.item(calibrate(mean), [best, mean]),
        );
    }
    chain
}

/// Returns the evidence for an event about a workflow value; a number comes with its bound.
pub fn of_value(number_and_bound: Option<[f64; 2]>, held_s: f64) -> Vec<EvidenceItem> {
    let mut chain = vec![
        Observation::WorkflowValue.item(1.0, [0.0; 2]),
        EvidenceItem::persistence(held_s),
    ];
    if let Some([number, bound]) = number_and_bound {
        let margin = (number - bound).abs() / bound.abs().max(number.abs()).max(1e-9);
        let confidence = 0.6 + 0.4 * saturate(margin, 0.05);
        chain.push(Observation::RuleMargin.item(confidence, [number, bound]));
    }
    chain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::decide::decide;
    use crate::rules::history::History;
    use watchkeeper_contract::event::Verdict;
    use watchkeeper_contract::id::TrackId;
    use watchkeeper_contract::rule::Gates;
    use watchkeeper_vision::detections::testing::tracked;
    use watchkeeper_vision::geometry::BBox;

    fn verdict(frames: u32, score: f64) -> Verdict {
        let history = history(frames, score);
        decide(
            &of_track(history.get(TrackId(1)).unwrap()),
            &Gates::default(),
        )
        .verdict
    }

    /// A track seen `frames` times at 15 frames per second whose boxes wobble by a few percent.
    fn history(frames: u32, score: f64) -> History {
        let mut h = History::default();
        for i in 0..frames {
            let (x, w) = (f64::from(i) * 4.0, 40.0 + f64::from(i % 3));
            let mut d = tracked(&[(1, BBox::new(x, 0.0, x + w, 80.0 - f64::from(i % 2)))]);
            d.boxes[0].confidence = score;
            h.next_frame();
            h.advance(0, f64::from(i) / 15.0);
            h.see(&d.boxes[0], f64::from(i) / 15.0);
        }
        h
    }

    #[test]
    fn established_motion_track_is_recorded() {
        assert!(verdict(30, 0.5) >= Verdict::Record);
    }

    #[test]
    fn established_track_with_good_score_acts() {
        assert_eq!(verdict(45, 0.85), Verdict::Act);
    }

    #[test]
    fn short_track_escalates_and_one_weak_box_is_discarded() {
        assert_eq!(verdict(3, 0.5), Verdict::Escalate);
        assert_eq!(verdict(1, 0.3), Verdict::Discard);
    }

    #[test]
    fn object_that_never_changed_needs_a_person_at_any_score() {
        for score in [0.6, 1.0] {
            let mut chain = of_track(history(100, score).get(TrackId(1)).unwrap());
            chain.push(EvidenceItem::no_change());
            let verdict = decide(&chain, &Gates::default()).verdict;
            assert_eq!(verdict, Verdict::Review, "{score}");
        }
    }

    #[test]
    fn crossing_that_jumps_over_the_line_needs_a_person() {
        let mut chain = of_track(history(45, 0.85).get(TrackId(1)).unwrap());
        let mut at_depth = |depth| {
            chain.truncate(5);
            chain.push(EvidenceItem::crossing_depth(depth));
            decide(&chain, &Gates::default()).verdict
        };
        assert_eq!(at_depth(0.5), Verdict::Act);
        assert!(at_depth(0.0) <= Verdict::Review);
    }

    #[test]
    fn crossing_of_a_track_that_was_missed_lately_needs_a_person() {
        let mut history = history(45, 0.85);
        let verdict = |history: &History| {
            let record = history.get(TrackId(1)).unwrap();
            let mut chain = of_track(record);
            chain.push(EvidenceItem::crossing_depth(0.5));
            chain.push(EvidenceItem::recent_score(record));
            decide(&chain, &Gates::default()).verdict
        };
        assert_eq!(verdict(&history), Verdict::Act);
        (0..10).for_each(|_| history.next_frame());
        let found_again = tracked(&[(1, BBox::new(220.0, 0.0, 260.0, 80.0))]);
        history.advance(0, 55.0 / 15.0);
        history.see(&found_again.boxes[0], 55.0 / 15.0);
        assert_eq!(verdict(&history), Verdict::Review);
    }

    #[test]
    fn link_of_an_observation_has_its_numbers() {
        let margin = of_count(&[0.8; 6], 5.0, 1.5);
        let data: Vec<_> = margin.iter().map(|item| item.evidence().data).collect();
        let expected = [
            json!({"best": 0.8, "mean": 0.8}),
            json!({"held_s": 1.5}),
            json!({"number": 6.0, "limit": 5.0}),
        ];
        assert_eq!(data, expected.map(Some));
        assert_eq!(of_value(None, 1.0)[0].evidence().data, None);
    }

    #[test]
    fn count_confidence_grows_with_persistence() {
        let sure = |held| decide(&of_count(&[0.8; 6], 5.0, held), &Gates::default()).confidence;
        assert!(sure(3.0) > 0.85);
        assert!(sure(0.0) < 0.7);
    }

    #[test]
    fn non_finite_numbers_keep_confidences_in_range() {
        for v in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let chain = of_value(Some([v, 1.0]), v)
                .into_iter()
                .chain(of_count(&[v], v, v));
            assert!(
                chain
                    .into_iter()
                    .all(|l| (0.0..=1.0).contains(&l.confidence()))
            );
        }
    }
}
