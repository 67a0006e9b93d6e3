//! Crossings of lines by the annotated objects of a sequence, and which reported ones are true.
//!
//! - The foot of an annotated box crosses when it moves to beyond a tenth of the box on the other
//!   side: the dead band of the counter, without its other rules.
//! - A report is true if an annotated object crosses the line in its direction within [`NEAR_S`]
//!   and has the reported box. One true crossing makes one report true.

use std::collections::BTreeMap;

use watchkeeper_engine::templates::shape::NamedLine;
use watchkeeper_vision::geometry::BBox;

use super::files::{Frames, Info, Truth};

/// Greatest distance in time between a report and the true crossing, in seconds.
const NEAR_S: f64 = 2.0;
/// Least overlap of a reported box and the annotated one.
const SAME: f64 = 0.3;
/// Half of the dead band, in extents of the box across the line.
const BAND: f64 = 0.1;
/// Class of targets in `gt.txt`.
const TARGET: i64 = 1;

/// A crossing, in the terms of the counter: `in` is to the left, looking from start to end.
#[derive(Debug, Clone, PartialEq)]
pub struct TrueCrossing {
    pub line: String,
    pub is_in: bool,
    /// Identity in the ground truth.
    pub id: i64,
    /// Index of the first frame on the other side.
    pub frame: usize,
}

/// A crossing that the product reported.
#[derive(Debug, Clone, PartialEq)]
pub struct Reported {
    pub line: String,
    pub is_in: bool,
    /// Index of the frame of the crossing.
    pub frame: usize,
    /// Index of the frame that shows the box.
    pub shown: usize,
    /// Bounding box that the event shows, in pixels.
    pub bbox: BBox,
}

/// Whether a reported crossing happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Label {
    True,
    /// An annotated object has the box, and did not cross so, or was counted before.
    Wrong,
    /// No annotated object has the box.
    Ghost,
    /// The box is of an object that the annotation leaves out.
    Ignored,
}

/// Lines through the picture, from border to border: seven upright and six level ones.
pub fn lines(info: &Info) -> Vec<NamedLine> {
    let [w, h] = [info.width, info.height].map(f64::from);
    let upright = (1..8).map(|n| {
        let x = (w * f64::from(n) / 8.0).round();
        (format!("upright{n}"), [x, 0.0], [x, h])
    });
    let level = (1..7).map(|n| {
        let y = (h * f64::from(n) / 7.0).round();
        (format!("level{n}"), [0.0, y], [w, y])
    });
    let all = upright.chain(level);
    all.map(|(name, from, to)| NamedLine { name, from, to })
        .collect()
}

/// Returns the crossings of `line` by annotated targets, in the order of objects.
pub fn true_crossings(truth: &Frames<Truth>, line: &NamedLine) -> Vec<TrueCrossing> {
    let mut paths: BTreeMap<i64, Vec<(usize, BBox)>> = BTreeMap::new();
    for (frame, boxes) in truth.iter().enumerate() {
        for t in boxes.iter().filter(|t| t.consider && t.class == TARGET) {
            paths.entry(t.id).or_default().push((frame, t.bbox));
        }
    }
    let mut out = Vec::new();
    for (id, path) in paths {
        let mut before: Option<bool> = None;
        for (frame, bbox) in path {
            let (distance, extent) = across(line, &bbox);
            let is_left = distance < 0.0;
            if before.is_some() && distance.abs() < BAND * extent {
                continue;
            }
            if before.is_some_and(|before| before != is_left) {
                out.push(TrueCrossing {
                    line: line.name.clone(),
                    is_in: is_left,
                    id,
                    frame,
                });
            }
            before = Some(is_left);
        }
    }
    out
}

/// Distance of the foot from the line, negative to its left, and extent of the box across it.
fn across(line: &NamedLine, bbox: &BBox) -> (f64, f64) {
    let along = [line.to[0] - line.from[0], line.to[1] - line.from[1]];
    let length = along[0].hypot(along[1]);
    let normal = [-along[1] / length, along[0] / length];
    let foot = [bbox.center().x - line.from[0], bbox.y2 - line.from[1]];
    let distance = foot[0] * normal[0] + foot[1] * normal[1];
    let extent = bbox.width() * normal[0].abs() + bbox.height() * normal[1].abs();
    (distance, extent)
}

/// Labels reported crossings; also returns the index of the report of each true crossing.
pub fn label(
    reported: &[Reported],
    crossings: &[TrueCrossing],
    truth: &Frames<Truth>,
    fps: f64,
) -> (Vec<Label>, Vec<Option<usize>>) {
    let mut pairs = Vec::new();
    for (r, report) in reported.iter().enumerate() {
        for (c, crossing) in crossings.iter().enumerate() {
            let apart = report.frame.abs_diff(crossing.frame);
            let fits = report.line == crossing.line && report.is_in == crossing.is_in;
            if fits
                && apart as f64 <= NEAR_S * fps
                && has_box(truth, report, |t| t.id == crossing.id)
            {
                pairs.push((apart, r, c));
            }
        }
    }
    pairs.sort_unstable();
    let mut labels: Vec<Option<Label>> = vec![None; reported.len()];
    let mut found_by = vec![None; crossings.len()];
    for (_, r, c) in pairs {
        if labels[r].is_none() && found_by[c].is_none() {
            labels[r] = Some(Label::True);
            found_by[c] = Some(r);
        }
    }
    let labels = labels.into_iter().zip(reported).map(|(label, report)| {
        label.unwrap_or_else(|| {
            if has_box(truth, report, |t| t.consider && t.class == TARGET) {
                Label::Wrong
            } else if has_box(truth, report, |_| true) {
                Label::Ignored
            } else {
                Label::Ghost
            }
        })
    });
    (labels.collect(), found_by)
}

/// Whether an annotated box that fits is where the report shows one.
fn has_box(truth: &Frames<Truth>, report: &Reported, fits: impl Fn(&Truth) -> bool) -> bool {
    let boxes = truth.get(report.shown).into_iter().flatten();
    let mut boxes = boxes.filter(|t| fits(t));
    boxes.any(|t| t.bbox.iou(&report.bbox) >= SAME)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A target of 20 × 40 pixels with its foot at `x`, in every frame.
    fn walk(xs: &[f64]) -> Frames<Truth> {
        let target = |&x: &f64| {
            vec![Truth {
                id: 7,
                bbox: BBox::new(x - 10.0, 0.0, x + 10.0, 40.0),
                consider: true,
                class: TARGET,
            }]
        };
        xs.iter().map(target).collect()
    }

    /// An upright line at 100, from the top: its left is where x is greater.
    fn gate() -> NamedLine {
        NamedLine {
            name: "gate".to_owned(),
            from: [100.0, 0.0],
            to: [100.0, 90.0],
        }
    }

    fn report(truth: &Frames<Truth>, is_in: bool, frame: usize) -> Reported {
        Reported {
            line: "gate".to_owned(),
            is_in,
            frame,
            shown: frame,
            bbox: truth[frame][0].bbox,
        }
    }

    #[test]
    fn foot_that_rocks_within_the_band_crosses_once() {
        let crossings = true_crossings(&walk(&[90.0, 99.0, 101.0, 99.5, 101.5, 104.0]), &gate());
        let seen: Vec<_> = crossings.iter().map(|c| (c.is_in, c.frame)).collect();
        assert_eq!(seen, [(true, 5)]);
    }

    #[test]
    fn second_report_of_a_crossing_is_wrong() {
        let truth = walk(&[90.0, 104.0, 108.0]);
        let crossings = true_crossings(&truth, &gate());
        let reports = [report(&truth, true, 1), report(&truth, true, 2)];
        let found = label(&reports, &crossings, &truth, 10.0);
        assert_eq!(found, (vec![Label::True, Label::Wrong], vec![Some(0)]));
    }

    #[test]
    fn report_in_the_other_direction_leaves_the_crossing_missed() {
        let truth = walk(&[90.0, 104.0]);
        let crossings = true_crossings(&truth, &gate());
        let found = label(&[report(&truth, false, 1)], &crossings, &truth, 10.0);
        assert_eq!(found, (vec![Label::Wrong], vec![None]));
    }

    #[test]
    fn report_without_an_annotated_box_is_a_ghost() {
        let truth = walk(&[90.0, 104.0]);
        let mut ghost = report(&truth, true, 1);
        ghost.bbox = BBox::new(300.0, 0.0, 320.0, 40.0);
        let (labels, _) = label(&[ghost], &[], &truth, 10.0);
        assert_eq!(labels, [Label::Ghost]);
    }
}
