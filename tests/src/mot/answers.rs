//! Simulates people who answer the first events of a camera, and measures the rest.
//!
//! - An event is true if it has the box of an annotated object; a crossing, as
//!   [`super::truth_crossings`] says. Events on objects that the annotation leaves out are left
//!   out.
//! - The answers are those that the annotation gives; nobody errs.

use watchkeeper_assistant::narrowing::{Narrowing, narrow};
use watchkeeper_contract::event::Verdict;
use watchkeeper_contract::id::EventId;
use watchkeeper_contract::review::{Calibration, RuleAnswer};
use watchkeeper_contract::rule::{Gates, RuleSpec};
use watchkeeper_engine::rules::Change;
use watchkeeper_engine::rules::calibration::{apply, fit};
use watchkeeper_engine::rules::decide::verdict;
use watchkeeper_vision::geometry::BBox;

use super::count::{appearances, count};
use super::files::{Frames, Sequence, Truth};
use super::follow::{Setting, run_tracker};
use super::truth_crossings::{Annotated, Label, Reported, lines};

/// Least overlap of the box of an event and the annotated one.
const SAME: f64 = 0.3;
/// Class of targets in `gt.txt`.
const TARGET: i64 = 1;

/// Events of one rule of one camera with what the annotation says of each, oldest first.
#[derive(Debug, Clone)]
pub struct LabelledEvents {
    pub rule: RuleSpec,
    pub events: Vec<RuleAnswer>,
}

/// Consequences of the answers for the events that follow.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AfterAnswers {
    /// True and false events without any change.
    pub events: [usize; 2],
    /// True and false events of the narrowed rule.
    pub narrowed: [usize; 2],
    /// Narrowing of the rule.
    pub narrowing: Option<Narrowing>,
    /// True and false events that nobody reviews (`record`, `act`), without any change.
    pub certain: [usize; 2],
    /// True and false events of the narrowed and calibrated rule that nobody reviews.
    pub calibrated_certain: [usize; 2],
}

/// Events of the rules `crosses`, at 13 lines, and `appears`.
///
/// # Errors
/// If the product refuses the rules.
pub fn labelled(sequence: &Sequence, truth: &Frames<Truth>) -> anyhow::Result<[LabelledEvents; 2]> {
    let is_made = |confidence: f64| confidence >= Gates::default().escalate;
    let lines = lines(&sequence.info);
    let tracks = run_tracker(sequence, Setting::Default).tracked;
    let annotated = Annotated::new(truth, &tracks, sequence.info.fps);
    let crossings: Vec<_> = lines
        .iter()
        .flat_map(|line| annotated.crossings(line))
        .collect();
    let found = count(sequence, &lines)?;
    let reported: Vec<Reported> = found.iter().map(|e| e.reported.clone()).collect();
    let labels = annotated.label(&reported, &crossings, &lines);
    let crossed = found
        .iter()
        .zip(labels.iter().map(|finding| finding.label))
        .filter(|(_, label)| *label != Label::Ignored);
    let crossed = crossed.map(|(event, label)| (&event.change, label == Label::True));
    let crossed = crossed.filter(|(change, _)| is_made(change.decision.confidence));
    let changes = appearances(sequence)?;
    let appeared = changes.iter().filter_map(|change| {
        let is_true = is_annotated(change, sequence, truth)?;
        Some((change, is_true))
    });
    Ok([
        ordered(rule("crosses", "line")?, crossed),
        ordered(rule("appears", "detections")?, appeared),
    ])
}

fn rule(kind: &str, of: &str) -> anyhow::Result<RuleSpec> {
    let when = serde_json::json!({"kind": kind, of: "any"});
    Ok(serde_json::from_value(
        serde_json::json!({"name": kind, "when": when}),
    )?)
}

fn ordered<'a>(rule: RuleSpec, events: impl Iterator<Item = (&'a Change, bool)>) -> LabelledEvents {
    let mut events: Vec<(u64, RuleAnswer)> = events
        .map(|(change, is_true)| {
            let answer = RuleAnswer {
                event: change.id,
                is_true,
                raw_confidence: Some(change.decision.confidence),
                score: change.event.score,
                bbox: change.event.bbox,
            };
            (change.event.frame, answer)
        })
        .collect();
    events.sort_by_key(|(frame, _)| *frame);
    let events = events
        .into_iter()
        .zip(0u128..)
        .map(|((_, answer), n)| RuleAnswer {
            // In the order of the film, not in that of the replay.
            event: EventId(n.into()),
            ..answer
        });
    LabelledEvents {
        rule,
        events: events.collect(),
    }
}

/// Whether an event has the box of an annotated target; `None` for one that the annotation leaves
/// out, or without a box.
fn is_annotated(change: &Change, sequence: &Sequence, truth: &Frames<Truth>) -> Option<bool> {
    let [w, h] = [sequence.info.width, sequence.info.height].map(f64::from);
    let [x1, y1, x2, y2] = change.event.bbox?;
    let bbox = BBox::new(x1 * w, y1 * h, x2 * w, y2 * h);
    let shown = change.event.shown_frame.unwrap_or(change.event.frame);
    let boxes = truth.get(shown.saturating_sub(1) as usize)?;
    let same = boxes.iter().filter(|t| t.bbox.iou(&bbox) >= SAME);
    let (mut is_target, mut is_left_out) = (false, false);
    for found in same {
        let counts = found.consider && found.class == TARGET;
        is_target |= counts;
        is_left_out |= !counts;
    }
    (is_target || !is_left_out).then_some(is_target)
}

impl LabelledEvents {
    /// Lets people answer the first `answers` events, and measures the rest; `None` where fewer
    /// than `least` follow.
    pub fn answer(&self, answers: usize, least: usize) -> Option<AfterAnswers> {
        let (first, rest) = self.events.split_at_checked(answers)?;
        if rest.len() < least {
            return None;
        }
        let narrowing = narrow(&self.rule, first).ok();
        let calibration = self.calibration(answers);
        let mut after = AfterAnswers::default();
        for event in rest {
            let side = usize::from(!event.is_true);
            let raw = event.raw_confidence.unwrap_or_default();
            let is_kept = !narrowing.as_ref().is_some_and(|n| n.removes(event));
            let calibrated = calibration.map_or(raw, |found| apply(&found, raw));
            after.events[side] += 1;
            after.narrowed[side] += usize::from(is_kept);
            after.certain[side] += usize::from(is_certain(raw));
            after.calibrated_certain[side] += usize::from(is_kept && is_certain(calibrated));
        }
        after.narrowing = narrowing;
        Some(after)
    }

    /// Calibration by the first `answers` events.
    pub fn calibration(&self, answers: usize) -> Option<Calibration> {
        let first = self.events.iter().take(answers);
        fit(first.filter_map(|event| Some((event.raw_confidence?, event.is_true))))
    }
}

fn is_certain(confidence: f64) -> bool {
    verdict(confidence, &Gates::default()) >= Verdict::Record
}
