//! HOTA, MOTA, IDF1 and identity switches of one sequence and of a group.
//!
//! - HOTA: Luiten et al., "HOTA: A Higher Order Metric for Evaluating Multi-Object Tracking", IJCV
//!   2021.
//! - CLEAR: Bernardin & Stiefelhagen 2008. IDF1: Ristani et al. 2016.
//! - The details are those of `TrackEval`, so that figures are comparable. They are the order of
//!   matching, the rules of the data sets for ignored boxes, and how sequences are combined. Counts
//!   are added up; association is weighted by matches.
//!
//! Figures agree with `TrackEval` to a tenth of a percent; a test compares them with its table.

use std::collections::BTreeMap;

use watchkeeper_vision::geometry::BBox;
use watchkeeper_vision::track::assign::Matcher;

use super::files::{Frames, Tracked, Truth};

/// Number of overlaps at which HOTA is computed: 0.05 to 0.95.
const ALPHAS: usize = 19;
/// Least overlap of a match for MOTA, IDF1 and the search for ignored boxes.
const SAME: f64 = 0.5;
/// KITTI ignores unmatched boxes up to this height in pixels.
const KITTI_SMALL: f64 = 25.0;

/// Counts of one sequence, or the sum of several.
#[derive(Debug, Clone, Default)]
pub struct Score {
    /// Matches, misses and false boxes at each alpha.
    hota: [Counts; ALPHAS],
    /// Sum over matches of how well their identities agree, at each alpha.
    association: [f64; ALPHAS],
    clear: Counts,
    switches: u64,
    identity: Counts,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    right: f64,
    missed: f64,
    wrong: f64,
}

impl Counts {
    fn add(&mut self, right: usize, truth: usize, found: usize) {
        self.right += right as f64;
        self.missed += (truth - right) as f64;
        self.wrong += (found - right) as f64;
    }

    fn plus(&mut self, other: &Self) {
        self.right += other.right;
        self.missed += other.missed;
        self.wrong += other.wrong;
    }
}

/// Figures in percent; switches as a count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    /// Higher order tracking accuracy.
    pub hota: f64,
    /// Detection part of HOTA.
    pub det_a: f64,
    /// Association part of HOTA.
    pub ass_a: f64,
    /// Accuracy of CLEAR.
    pub mota: f64,
    /// Share of boxes with the right identity.
    pub idf1: f64,
    /// Times that an object got another identity.
    pub switches: u64,
}

impl Score {
    /// Adds the counts of another sequence.
    pub fn add(&mut self, other: &Self) {
        for (a, b) in self.hota.iter_mut().zip(&other.hota) {
            a.plus(b);
        }
        for (a, b) in self.association.iter_mut().zip(&other.association) {
            *a += b;
        }
        self.clear.plus(&other.clear);
        self.switches += other.switches;
        self.identity.plus(&other.identity);
    }

    /// Computes the figures from the counts.
    pub fn figures(&self) -> Figures {
        let (mut hota, mut det_a, mut ass_a) = (0.0, 0.0, 0.0);
        for (c, a) in self.hota.iter().zip(&self.association) {
            let det = c.right / (c.right + c.missed + c.wrong).max(1.0);
            let ass = a / c.right.max(1.0);
            det_a += det;
            ass_a += ass;
            hota += (det * ass).sqrt();
        }
        let percent = |sum: f64| 100.0 * sum / ALPHAS as f64;
        let truth = (self.clear.right + self.clear.missed).max(1.0);
        let i = &self.identity;
        Figures {
            hota: percent(hota),
            det_a: percent(det_a),
            ass_a: percent(ass_a),
            mota: 100.0 * (self.clear.right - self.clear.wrong - self.switches as f64) / truth,
            idf1: 100.0 * i.right / (i.right + 0.5 * i.missed + 0.5 * i.wrong).max(1.0),
            switches: self.switches,
        }
    }
}

/// Scores a tracker's boxes against the ground truth, by the rules of the data set `set` (`MOT15`,
/// `MOT17`, `KITTI…`).
pub fn score(set: &str, truth: &Frames<Truth>, tracked: &Frames<Tracked>) -> Score {
    let rules = Rules::of(set);
    let mut frames: Vec<Frame> = truth
        .iter()
        .zip(tracked)
        .map(|(t, d)| rules.apply(t, d))
        .collect();
    let truths = renumber(frames.iter_mut().flat_map(|f| &mut f.truth));
    let tracks = renumber(frames.iter_mut().flat_map(|f| &mut f.found));
    let mut out = Score::default();
    hota(&mut out, &frames, truths, tracks);
    clear(&mut out, &frames, truths);
    identity(&mut out, &frames, truths, tracks);
    out
}

/// Rules of a data set for the boxes that count.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Rules {
    /// Every box that is marked as considered.
    Plain,
    /// Boxes on distractors are dropped.
    Distractors,
    /// Boxes on distractors are dropped, and unmatched ones that are small or in an unlabelled
    /// region.
    Kitti,
}

/// Counting boxes of one frame: identities, numbered from 0, and the overlap of each pair.
#[derive(Debug)]
struct Frame {
    truth: Vec<i64>,
    found: Vec<i64>,
    overlap: Vec<f64>,
}

impl Frame {
    fn overlap(&self, t: usize, f: usize) -> f64 {
        self.overlap[t * self.found.len() + f]
    }

    fn truth(&self, t: usize) -> usize {
        self.truth[t] as usize
    }

    fn found(&self, f: usize) -> usize {
        self.found[f] as usize
    }

    /// Yields every pair of a labelled and a tracked box, by index.
    fn pairs(&self) -> impl Iterator<Item = (usize, usize)> {
        let (n, m) = (self.truth.len(), self.found.len());
        (0..n).flat_map(move |t| (0..m).map(move |f| (t, f)))
    }
}

impl Rules {
    fn of(set: &str) -> Self {
        match set {
            "MOT15" => Self::Plain,
            kitti if kitti.starts_with("KITTI") => Self::Kitti,
            _ => Self::Distractors,
        }
    }

    fn apply(self, truth: &[Truth], found: &[Tracked]) -> Frame {
        let is_target = |t: &Truth| t.consider && (self == Self::Plain || t.class == 1);
        let targets: Vec<&Truth> = truth.iter().filter(|t| is_target(t)).collect();
        let mut dropped = vec![false; found.len()];
        if self != Self::Plain {
            let objects: Vec<&Truth> = truth
                .iter()
                .filter(|t| self != Self::Kitti || t.class != 0)
                .collect();
            let mut alone = vec![true; found.len()];
            let pairs = best_matching(objects.len(), found.len(), |t, f| {
                Some(objects[t].bbox.iou(&found[f].bbox)).filter(|&o| o >= SAME)
            });
            for (t, f) in pairs {
                alone[f] = false;
                dropped[f] = matches!(objects[t].class, 2 | 7 | 8 | 12);
            }
            if self == Self::Kitti {
                let unlabelled = || truth.iter().filter(|t| t.class == 0);
                for (f, Tracked { bbox, .. }) in found.iter().enumerate() {
                    let inside = unlabelled().any(|t| share_inside(bbox, &t.bbox) > SAME);
                    dropped[f] |= alone[f] && (bbox.height() <= KITTI_SMALL || inside);
                }
            }
        }
        let kept: Vec<&Tracked> = found
            .iter()
            .zip(&dropped)
            .filter(|&(_, &dropped)| !dropped)
            .map(|(f, _)| f)
            .collect();
        Frame {
            overlap: targets
                .iter()
                .flat_map(|t| kept.iter().map(|f| t.bbox.iou(&f.bbox)))
                .collect(),
            truth: targets.iter().map(|t| t.id).collect(),
            found: kept.iter().map(|f| f.id).collect(),
        }
    }
}

/// Returns the share of `inner` that lies in `outer`.
fn share_inside(inner: &BBox, outer: &BBox) -> f64 {
    if inner.area() > 0.0 {
        inner.common_area(outer) / inner.area()
    } else {
        0.0
    }
}

/// Renumbers identities from 0; returns their number.
fn renumber<'a>(ids: impl Iterator<Item = &'a mut i64>) -> usize {
    let mut known = BTreeMap::new();
    for id in ids {
        let next = known.len() as i64;
        *id = *known.entry(*id).or_insert(next);
    }
    known.len()
}

/// Returns the matching with the greatest sum of gains; pairs without gain stay unmatched.
fn best_matching(
    rows: usize,
    cols: usize,
    gain: impl Fn(usize, usize) -> Option<f64>,
) -> Vec<(usize, usize)> {
    /// Outweighs the margin that the matcher adds to its threshold.
    const SCALE: f64 = 1e8;
    let cost = |r, c| gain(r, c).filter(|&g| g > 0.0).map_or(1.0, |g| -g * SCALE);
    let mut matcher = Matcher::default();
    matcher.assign(rows, cols, 0.0, cost).pairs.clone()
}

fn hota(out: &mut Score, frames: &[Frame], truths: usize, tracks: usize) {
    let at = |t: usize, f: usize| t * tracks + f;
    let mut together = vec![0.0; truths * tracks];
    let (mut truth_count, mut track_count) = (vec![0.0; truths], vec![0.0; tracks]);
    for frame in frames {
        let (n, m) = (frame.truth.len(), frame.found.len());
        let of_truth: Vec<f64> = (0..n)
            .map(|t| (0..m).map(|f| frame.overlap(t, f)).sum())
            .collect();
        let of_found: Vec<f64> = (0..m)
            .map(|f| (0..n).map(|t| frame.overlap(t, f)).sum())
            .collect();
        for (t, f) in frame.pairs() {
            let overlap = frame.overlap(t, f);
            let whole = of_truth[t] + of_found[f] - overlap;
            if whole > f64::EPSILON {
                together[at(frame.truth(t), frame.found(f))] += overlap / whole;
            }
        }
        (0..n).for_each(|t| truth_count[frame.truth(t)] += 1.0);
        (0..m).for_each(|f| track_count[frame.found(f)] += 1.0);
    }
    let alike = |t: usize, f: usize| {
        let both = together[at(t, f)];
        both / (truth_count[t] + track_count[f] - both)
    };
    let mut matches = vec![[0.0f64; ALPHAS]; truths * tracks];
    for frame in frames {
        let (n, m) = (frame.truth.len(), frame.found.len());
        let pairs = best_matching(n, m, |t, f| {
            Some(alike(frame.truth(t), frame.found(f)) * frame.overlap(t, f))
        });
        for (a, counts) in out.hota.iter_mut().enumerate() {
            let alpha = 0.05 * (a + 1) as f64;
            let mut right = 0;
            for &(t, f) in &pairs {
                if frame.overlap(t, f) >= alpha - f64::EPSILON {
                    right += 1;
                    matches[at(frame.truth(t), frame.found(f))][a] += 1.0;
                }
            }
            counts.add(right, n, m);
        }
    }
    for t in 0..truths {
        for f in 0..tracks {
            for (a, &n) in matches[at(t, f)].iter().enumerate() {
                out.association[a] += n * n / (truth_count[t] + track_count[f] - n).max(1.0);
            }
        }
    }
}

fn clear(out: &mut Score, frames: &[Frame], truths: usize) {
    /// Continuing an identity outweighs any overlap.
    const CONTINUED: f64 = 1000.0;
    let mut last: Vec<Option<usize>> = vec![None; truths];
    let mut just_now = last.clone();
    for frame in frames {
        let (n, m) = (frame.truth.len(), frame.found.len());
        if n == 0 || m == 0 {
            out.clear.add(0, n, m);
            continue;
        }
        let pairs = best_matching(n, m, |t, f| {
            let overlap = frame.overlap(t, f);
            let continued = just_now[frame.truth(t)] == Some(frame.found(f));
            (overlap >= SAME - f64::EPSILON)
                .then_some(overlap + if continued { CONTINUED } else { 0.0 })
        });
        just_now.fill(None);
        for &(t, f) in &pairs {
            let (t, f) = (frame.truth(t), frame.found(f));
            if last[t].is_some_and(|before| before != f) {
                out.switches += 1;
            }
            last[t] = Some(f);
            just_now[t] = Some(f);
        }
        out.clear.add(pairs.len(), n, m);
    }
}

fn identity(out: &mut Score, frames: &[Frame], truths: usize, tracks: usize) {
    let mut together = vec![0.0; truths * tracks];
    let (mut of_truth, mut of_tracks) = (0, 0);
    for frame in frames {
        of_truth += frame.truth.len();
        of_tracks += frame.found.len();
        for (t, f) in frame.pairs() {
            if frame.overlap(t, f) >= SAME {
                together[frame.truth(t) * tracks + frame.found(f)] += 1.0;
            }
        }
    }
    let pairs = best_matching(truths, tracks, |t, f| Some(together[t * tracks + f]));
    let right: f64 = pairs.iter().map(|&(t, f)| together[t * tracks + f]).sum();
    out.identity.add(right as usize, of_truth, of_tracks);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn person(id: i64, x: f64) -> Truth {
        Truth {
            id,
            bbox: boxed(x),
            consider: true,
            class: 1,
        }
    }

    fn track(id: i64, x: f64) -> Tracked {
        Tracked { id, bbox: boxed(x) }
    }

    fn boxed(x: f64) -> BBox {
        BBox::new(x, 0.0, x + 40.0, 80.0)
    }

    fn near(found: f64, wanted: f64) {
        assert!((found - wanted).abs() < 1e-6, "{found}, not {wanted}");
    }

    #[test]
    fn tracker_equal_to_ground_truth_scores_100_percent() {
        let truth: Frames<Truth> = (0..10)
            .map(|f| vec![person(7, f64::from(f)), person(9, 300.0)])
            .collect();
        let tracked = (0..10)
            .map(|f| vec![track(1, f64::from(f)), track(2, 300.0)])
            .collect();
        let s = score("MOT17", &truth, &tracked).figures();
        near(s.hota, 100.0);
        near(s.mota, 100.0);
        near(s.idf1, 100.0);
        assert_eq!(s.switches, 0);
    }

    /// Every box is found, so detection is 1. Each half of the object has 5 boxes of its 10, and no
    /// other: its association is 5/10, so HOTA is √½. One half of the boxes has the right identity.
    #[test]
    fn identity_switch_halves_the_association_score() {
        let truth = (0..10).map(|_| vec![person(1, 0.0)]).collect();
        let tracked = (0..10)
            .map(|f| vec![track(1 + i64::from(f >= 5), 0.0)])
            .collect();
        let s = score("MOT17", &truth, &tracked).figures();
        near(s.det_a, 100.0);
        near(s.ass_a, 50.0);
        near(s.hota, 100.0 * 0.5f64.sqrt());
        near(s.idf1, 50.0);
        near(s.mota, 90.0);
        assert_eq!(s.switches, 1);
    }

    #[test]
    fn box_on_distractor_is_ignored_except_in_mot15() {
        let mut statue = person(2, 300.0);
        statue.consider = false;
        statue.class = 7;
        let truth = vec![vec![person(1, 0.0), statue]];
        let tracked = vec![vec![track(1, 0.0), track(2, 300.0)]];
        near(score("MOT17", &truth, &tracked).figures().mota, 100.0);
        near(score("MOT15", &truth, &tracked).figures().mota, 0.0);
    }

    #[test]
    fn kitti_ignores_boxes_in_unlabelled_regions() {
        let mut region = person(-1, 300.0);
        region.consider = false;
        region.class = 0;
        let truth = vec![vec![person(1, 0.0), region]];
        let inside = Tracked {
            id: 2,
            bbox: BBox::new(302.0, 2.0, 330.0, 70.0),
        };
        let small = Tracked {
            id: 3,
            bbox: BBox::new(500.0, 0.0, 520.0, 20.0),
        };
        let wrong = track(4, 600.0);
        let s = score("KITTI", &truth, &vec![vec![track(1, 0.0), inside, small]]);
        near(s.figures().mota, 100.0);
        let s = score("KITTI", &truth, &vec![vec![track(1, 0.0), wrong]]);
        near(s.figures().mota, 0.0);
    }

    #[test]
    fn empty_results_and_empty_truth_have_scores() {
        let none: Frames<Tracked> = vec![vec![]];
        let missed = score("MOT17", &vec![vec![person(1, 0.0)]], &none).figures();
        assert_eq!((missed.hota, missed.idf1, missed.mota), (0.0, 0.0, 0.0));
        let empty = score("MOT17", &vec![vec![]], &none).figures();
        assert_eq!((empty.hota, empty.idf1, empty.mota), (0.0, 0.0, 0.0));
    }
}
