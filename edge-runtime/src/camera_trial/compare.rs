//! Judges what the candidates of a trial found. Pure.
//!
//! - An object is a box of a fair confidence that a neighbouring frame shows too; other boxes are
//!   doubtful and count for nothing. What stays in one place is counted apart: a parked car, or a
//!   traffic cone that a network takes for a person in every frame.
//! - Candidates are compared by what moves, and by all objects only where too little does.
//! - An object is agreed if another model has a box there, of any confidence. Only agreed objects
//!   count for the proposal, unless too few are: a model that sees more mistakes wins nothing.
//! - Proposed is the cheapest candidate that keeps up and finds nearly as many of them as the best
//!   of those that keep up.

use std::cmp::Reverse;

use watchkeeper_contract::camera_trial::TrialCandidate;
use watchkeeper_vision::detections::Detection;
use watchkeeper_vision::geometry::BBox;

/// Confidence from which a box counts: that of the boxes that begin a track. Weaker ones make no
/// event, and networks differ most in them.
const MIN_CONFIDENCE: f64 = 0.5;
/// Share of its size by which a box is extended on each side to meet itself in the next frame.
const REACH: f64 = 0.5;
/// Overlap of an object and one of another candidate that are the same.
const SAME_IOU: f64 = 0.5;
/// Frames per second that a watch needs: people cross a line within half a second.
const MIN_FPS: f64 = 4.0;
/// Share of the machine that detection may take; the rest is for decoding, tracking and the system.
const LOAD: f64 = 0.7;
/// Factor up to which a time is about that of the fastest candidate.
const NEAR: f64 = 1.25;
/// Share of the best candidate's objects that is nearly as many.
const NEARLY: f64 = 0.9;
/// Overlap of two boxes of an object that stays, and the share of the frames that show it there.
const STILL_IOU: f64 = 0.6;
const STILL_SHARE: f64 = 0.8;
/// Frames below which nothing is called still.
const MIN_FRAMES: usize = 5;
/// Objects over all frames below which nothing is proposed.
const MIN_OBJECTS: usize = 10;

/// Measurements of one candidate.
#[derive(Debug, Clone)]
pub(super) struct Measured {
    pub(super) model: String,
    pub(super) tiles: Option<String>,
    pub(super) ms_per_frame: f64,
    pub(super) frames: Vec<Vec<Detection>>,
    pub(super) tracks: usize,
}

/// Support for a box from the other frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Judgement {
    /// A neighbouring frame shows it too.
    Moving,
    /// Nearly every frame shows it in the same place.
    Still,
    /// No neighbouring frame shows it.
    Doubtful,
}

/// The comparison of all candidates, in their order.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Finding {
    pub(super) candidates: Vec<TrialCandidate>,
    pub(super) proposed: Option<usize>,
    pub(super) reason: String,
    /// Index of the frame with the most objects.
    pub(super) busiest: usize,
}

impl Measured {
    /// Frames per second that the machine keeps up with.
    fn fps(&self) -> f64 {
        LOAD * 1e3 / self.ms_per_frame.max(0.001)
    }

    /// The boxes of a frame that count, each with what the other frames say of it.
    pub(super) fn judged(&self, frame: usize) -> Vec<(&Detection, Judgement)> {
        let boxes = self.frames.get(frame).into_iter().flatten();
        let counted = boxes.filter(|d| d.confidence >= MIN_CONFIDENCE);
        counted.map(|d| (d, self.judgement(frame, d))).collect()
    }

    fn judgement(&self, frame: usize, d: &Detection) -> Judgement {
        let beside = [frame.checked_sub(1), frame.checked_add(1)];
        let beside = beside.into_iter().flatten();
        let beside = beside.filter_map(|at| self.frames.get(at)).flatten();
        let wide = grown(&d.bbox);
        let mut alike = beside.filter(|other| other.class_id == d.class_id);
        // Boxes that only touch do not meet.
        if !alike.any(|other| grown(&other.bbox).iou(&wide) > f64::EPSILON) {
            return Judgement::Doubtful;
        }
        let is_here = |boxes: &&Vec<Detection>| {
            let mut alike = boxes.iter().filter(|other| other.class_id == d.class_id);
            alike.any(|other| other.bbox.iou(&d.bbox) >= STILL_IOU)
        };
        let here = self.frames.iter().filter(is_here).count();
        let is_judged = self.frames.len() >= MIN_FRAMES;
        if is_judged && here as f64 >= STILL_SHARE * self.frames.len() as f64 {
            Judgement::Still
        } else {
            Judgement::Moving
        }
    }

    fn objects(&self, frame: usize, with_still: bool) -> Vec<&Detection> {
        let is_object = |judgement: &Judgement| match judgement {
            Judgement::Moving => true,
            Judgement::Still => with_still,
            Judgement::Doubtful => false,
        };
        let judged = self.judged(frame).into_iter();
        let objects = judged.filter(|(_, judgement)| is_object(judgement));
        objects.map(|(d, _)| d).collect()
    }

    fn object_count(&self, with_still: bool) -> usize {
        let counts = (0..self.frames.len()).map(|frame| self.objects(frame, with_still).len());
        counts.sum()
    }

    /// Number of its objects at which another model has a box too.
    fn agreed_count(&self, all: &[Self], with_still: bool) -> usize {
        let others: Vec<&Self> = all.iter().filter(|m| m.model != self.model).collect();
        let is_agreed = |frame: usize, d: &Detection| {
            let mut boxes = others.iter().filter_map(|m| m.frames.get(frame)).flatten();
            boxes.any(|other| is_same(d, other))
        };
        let counts = (0..self.frames.len()).map(|frame| {
            let objects = self.objects(frame, with_still).into_iter();
            objects.filter(|d| is_agreed(frame, d)).count()
        });
        counts.sum()
    }
}

/// Whether the boxes of two candidates show one object.
fn is_same(a: &Detection, b: &Detection) -> bool {
    a.class == b.class && a.bbox.iou(&b.bbox) >= SAME_IOU
}

/// Compares the candidates; `source_fps` is what the source delivers, if known.
pub(super) fn compare(measured: &[Measured], source_fps: Option<f64>) -> Finding {
    let count = |with_still: bool| -> Vec<usize> {
        let counts = measured.iter().map(|one| one.object_count(with_still));
        counts.collect()
    };
    let moving = count(false);
    let with_still = moving.iter().all(|count| *count < MIN_OBJECTS);
    let counts = if with_still { count(true) } else { moving };
    let most = (0..measured.len()).max_by_key(|&i| (counts[i], Reverse(i)));
    let reference = most.map(|i| &measured[i]);
    let candidates = measured.iter().map(|one| TrialCandidate {
        disagreement: reference.and_then(|reference| disagreement(one, reference, with_still)),
        ..candidate(one)
    });
    let wanted_fps = source_fps.map_or(MIN_FPS, |fps| fps.min(MIN_FPS));
    let agreed = measured
        .iter()
        .map(|one| one.agreed_count(measured, with_still));
    let agreed = Some(agreed.collect()).filter(|agreed: &Vec<usize>| has_enough(agreed));
    let (proposed, mut reason) = match agreed {
        Some(agreed) => propose(measured, &agreed, wanted_fps, "objects that two models see"),
        None => propose(measured, &counts, wanted_fps, "objects"),
    };
    if with_still && proposed.is_some() {
        reason.push_str(" Hardly anything moved, so objects that stay in one place counted too.");
    }
    let objects_in =
        |frame: &usize| -> usize { measured.iter().map(|m| m.objects(*frame, true).len()).sum() };
    let frames = measured.first().map_or(0, |m| m.frames.len());
    Finding {
        candidates: candidates.collect(),
        proposed,
        reason,
        busiest: (0..frames).max_by_key(objects_in).unwrap_or(0),
    }
}

fn candidate(one: &Measured) -> TrialCandidate {
    let frames = one.frames.len().max(1) as f64;
    let judged: Vec<_> = (0..one.frames.len())
        .flat_map(|frame| one.judged(frame))
        .collect();
    let per_frame = |wanted: Judgement| {
        judged
            .iter()
            .filter(|(_, judgement)| *judgement == wanted)
            .count() as f64
            / frames
    };
    let objects = judged
        .iter()
        .filter(|(_, judgement)| *judgement != Judgement::Doubtful);
    let count = objects.clone().count();
    let confidence: f64 = objects.clone().map(|(d, _)| d.confidence).sum();
    TrialCandidate {
        model: one.model.clone(),
        tiles: one.tiles.clone(),
        ms_per_frame: one.ms_per_frame,
        fps: one.fps(),
        objects_per_frame: per_frame(Judgement::Moving),
        still_per_frame: per_frame(Judgement::Still),
        doubtful_per_frame: per_frame(Judgement::Doubtful),
        tracks: one.tracks,
        mean_confidence: (count > 0).then(|| confidence / count as f64),
        smallest_px: objects.map(|(d, _)| d.bbox.height()).min_by(f64::total_cmp),
        disagreement: None,
    }
}

/// Share of the objects of both that only one of them has; `None` without objects.
fn disagreement(one: &Measured, other: &Measured, with_still: bool) -> Option<f64> {
    let (mut shared, mut all) = (0, 0);
    for frame in 0..one.frames.len() {
        let (mine, mut theirs) = (
            one.objects(frame, with_still),
            other.objects(frame, with_still),
        );
        all += mine.len() + theirs.len();
        for d in mine {
            if let Some(place) = theirs.iter().position(|t| is_same(d, t)) {
                theirs.swap_remove(place);
                shared += 2;
            }
        }
    }
    (all > 0).then(|| 1.0 - f64::from(shared) / all as f64)
}

/// Whether a candidate found enough for a comparison.
fn has_enough(counts: &[usize]) -> bool {
    counts.iter().any(|count| *count >= MIN_OBJECTS)
}

/// Proposes a candidate by the number of `objects` that each found.
fn propose(
    measured: &[Measured],
    counts: &[usize],
    wanted_fps: f64,
    objects: &str,
) -> (Option<usize>, String) {
    if !has_enough(counts) {
        let most = counts.iter().max().unwrap_or(&0);
        let reason = format!(
            "Only {most} objects were seen in all frames, too few to compare: repeat the trial \
             while something happens."
        );
        return (None, reason);
    }
    let keeps_up = |i: &usize| measured[*i].fps() >= wanted_fps;
    let able: Vec<usize> = (0..measured.len()).filter(keeps_up).collect();
    let cheapest = |among: &mut dyn Iterator<Item = usize>| {
        among.min_by(|a, b| {
            measured[*a]
                .ms_per_frame
                .total_cmp(&measured[*b].ms_per_frame)
        })
    };
    if able.is_empty() {
        let fastest = cheapest(&mut (0..measured.len())).map_or(0.0, |i| measured[i].ms_per_frame);
        let near = (0..measured.len()).filter(|&i| measured[i].ms_per_frame <= NEAR * fastest);
        let reason = format!(
            "A watch needs {wanted_fps:.0} frames per second, and no candidate reaches that on \
             this machine. Of the fastest ones, this one finds most. Fast objects may be missed."
        );
        return (near.max_by_key(|&i| (counts[i], Reverse(i))), reason);
    }
    let best = able.iter().map(|&i| counts[i]).max().unwrap_or(0);
    let is_good = |i: &usize| counts[*i] as f64 >= NEARLY * best as f64;
    let chosen = cheapest(&mut able.iter().copied().filter(is_good));
    let reason = format!(
        "It is the cheapest of those that keep up and find nearly as many {objects} as the best of \
         them."
    );
    (chosen, reason)
}

/// A box extended by [`REACH`] on each side.
fn grown(b: &BBox) -> BBox {
    b.grown(b.width() * REACH, b.height() * REACH)
}

#[cfg(test)]
mod tests {
    use watchkeeper_vision::detections::DetectionId;

    use super::*;

    fn detection(x: f64, confidence: f64) -> Detection {
        let id = DetectionId::Local {
            stream: 0,
            number: 0,
        };
        Detection::new(
            BBox::new(x, 0.0, x + 10.0, 20.0),
            confidence,
            0,
            "person",
            id,
        )
    }

    /// A candidate that finds walking objects in each of ten frames, first at these positions.
    fn walking(model: &str, ms: f64, xs: &[f64]) -> Measured {
        let frame = |at: i32| -> Vec<Detection> {
            xs.iter()
                .map(|x| detection(x + 6.0 * f64::from(at), 0.9))
                .collect()
        };
        Measured {
            model: model.to_owned(),
            tiles: None,
            ms_per_frame: ms,
            frames: (0..10).map(frame).collect(),
            tracks: xs.len(),
        }
    }

    #[test]
    fn still_and_doubtful_boxes_are_counted_apart() {
        let mut one = walking("a", 10.0, &[0.0]);
        one.frames[4].push(detection(300.0, 0.9));
        one.frames[5].push(detection(600.0, 0.2));
        one.frames
            .iter_mut()
            .for_each(|boxes| boxes.push(detection(900.0, 0.6)));
        let finding = compare(&[one], None);
        let a = &finding.candidates[0];
        assert!((a.objects_per_frame - 1.0).abs() < 1e-9, "{a:?}");
        assert!((a.doubtful_per_frame - 0.1).abs() < 1e-9, "{a:?}");
        assert!((a.still_per_frame - 1.0).abs() < 1e-9, "{a:?}");
    }

    #[test]
    fn cheapest_that_finds_nearly_as_many_is_proposed() {
        let small = walking("small", 20.0, &[0.0]);
        let good = walking("good", 50.0, &[0.0, 100.0]);
        let large = walking("large", 100.0, &[0.0, 100.0]);
        let slow = walking("slow", 900.0, &[0.0, 100.0, 200.0]);
        let finding = compare(&[large, small, good, slow], Some(25.0));
        assert_eq!(finding.proposed, Some(2), "{}", finding.reason);
        assert!(
            finding.reason.contains("that two models see"),
            "{}",
            finding.reason
        );
        let differs = finding.candidates[1].disagreement;
        assert!(
            differs.is_some_and(|d| (d - 0.5).abs() < 1e-9),
            "{differs:?}"
        );
    }

    #[test]
    fn objects_that_no_other_model_sees_do_not_win() {
        let plain = walking("plain", 50.0, &[0.0, 200.0]);
        let shadows = walking("shadows", 60.0, &[0.0, 200.0, 400.0, 600.0]);
        let finding = compare(&[shadows.clone(), plain.clone()], None);
        assert_eq!(finding.proposed, Some(1), "{}", finding.reason);
        assert!(
            finding.reason.split_whitespace().count() < 25,
            "{}",
            finding.reason
        );
        // A candidate of the same model is no second opinion.
        let tiled = Measured {
            tiles: Some("2x2".to_owned()),
            ..shadows.clone()
        };
        let finding = compare(&[tiled, shadows, plain], None);
        assert_eq!(finding.proposed, Some(2), "{}", finding.reason);
    }

    #[test]
    fn fastest_is_proposed_where_none_keeps_up() {
        let slow = walking("slow", 900.0, &[0.0, 100.0]);
        let slower = walking("slower", 1900.0, &[0.0, 100.0]);
        let finding = compare(&[slower, slow], None);
        assert_eq!(finding.proposed, Some(1));
        assert!(finding.reason.contains("no candidate reaches that"));
    }

    #[test]
    fn still_objects_count_where_nothing_moves() {
        let mut cone = walking("cone", 20.0, &[]);
        cone.frames
            .fill(vec![detection(0.0, 0.9), detection(50.0, 0.9)]);
        let finding = compare(&[cone.clone()], None);
        assert_eq!(finding.proposed, Some(0));
        assert!(
            finding.reason.contains("Hardly anything moved"),
            "{}",
            finding.reason
        );
        let finding = compare(&[cone, walking("good", 50.0, &[0.0, 100.0])], None);
        assert_eq!(finding.proposed, Some(1), "{}", finding.reason);
    }

    #[test]
    fn nothing_is_proposed_where_nothing_was_seen() {
        for measured in [vec![], vec![walking("a", 10.0, &[])]] {
            let finding = compare(&measured, None);
            assert_eq!(finding.proposed, None);
            assert!(finding.reason.contains("too few"), "{}", finding.reason);
        }
    }
}
