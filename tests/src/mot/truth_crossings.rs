//! Crossings of lines by the annotated objects of a sequence, and which reported ones are true.
//!
//! - The foot of an annotated box crosses when it moves to beyond a tenth of the box on the other
//!   side. That is the dead band of the counter, without its other rules.
//! - A report is about the annotated object that its track was on in most frames within
//!   [`NEAR_S`]. It is true if that object crosses the line in its direction within [`NEAR_S`]. One
//!   true crossing makes one report true.
//! - Where the annotation can't tell, a report is ignored. Its object is left out there, or its
//!   annotation begins or ends on the line within [`NEAR_S`]. Or its track is in an unlabelled
//!   region (KITTI's `DontCare`).

use std::collections::BTreeMap;

use watchkeeper_engine::templates::shape::NamedLine;
use watchkeeper_vision::geometry::BBox;

use super::files::{Frames, Info, Tracked, Truth};

/// Greatest distance in time between a report and the true crossing, in seconds.
const NEAR_S: f64 = 2.0;
/// Least overlap of the box of a track and the annotated one.
const SAME: f64 = 0.3;
/// Least share of a track's box in unlabelled regions, as TrackEval ignores boxes of KITTI.
const UNLABELLED: f64 = 0.5;
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
    /// Whether the object is a target in this frame; it is one in some frame.
    pub is_target: bool,
}

/// A crossing that the product reported.
#[derive(Debug, Clone, PartialEq)]
pub struct Reported {
    pub line: String,
    pub is_in: bool,
    /// Index of the frame of the crossing.
    pub frame: usize,
    /// Identity of the track.
    pub track: i64,
}

/// Whether a reported crossing happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Label {
    True,
    /// The annotated object did not cross so, or was counted before.
    Wrong,
    /// No annotated object is there.
    Ghost,
    /// The annotation can't tell.
    Ignored,
}

/// The annotation's judgement of one report.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    pub label: Label,
    /// Identity of the annotated object that it is about.
    pub object: Option<i64>,
    /// Index of the crossing that makes it true.
    pub crossing: Option<usize>,
}

/// Annotated objects and tracks of a sequence.
#[derive(Debug)]
pub struct Annotated<'a> {
    /// Boxes of each object, by frame.
    objects: BTreeMap<i64, BTreeMap<usize, Truth>>,
    /// Unlabelled regions, by frame.
    regions: Frames<BBox>,
    tracks: &'a Frames<Tracked>,
    /// [`NEAR_S`] in frames.
    near: usize,
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

impl<'a> Annotated<'a> {
    pub fn new(truth: &Frames<Truth>, tracks: &'a Frames<Tracked>, fps: f64) -> Self {
        let mut objects: BTreeMap<i64, BTreeMap<usize, Truth>> = BTreeMap::new();
        // An unlabelled region has no identity.
        for (frame, boxes) in truth.iter().enumerate() {
            for t in boxes.iter().filter(|t| t.id >= 0) {
                objects.entry(t.id).or_default().insert(frame, *t);
            }
        }
        let regions = truth.iter().map(|boxes| {
            let regions = boxes.iter().filter(|t| t.id < 0);
            regions.map(|t| t.bbox).collect()
        });
        let near = (NEAR_S * fps) as usize;
        Self {
            objects,
            regions: regions.collect(),
            tracks,
            near,
        }
    }

    /// Returns the crossings of `line` by objects that are targets, in the order of objects.
    pub fn crossings(&self, line: &NamedLine) -> Vec<TrueCrossing> {
        let mut out = Vec::new();
        for (&id, path) in &self.objects {
            if !path.values().any(is_target) {
                continue;
            }
            let mut before: Option<bool> = None;
            for (&frame, t) in path {
                let (distance, extent) = across(line, &t.bbox);
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
                        is_target: is_target(t),
                    });
                }
                before = Some(is_left);
            }
        }
        out
    }

    /// Labels reported crossings of `lines`, whose true `crossings` are all given.
    pub fn label(
        &self,
        reported: &[Reported],
        crossings: &[TrueCrossing],
        lines: &[NamedLine],
    ) -> Vec<Finding> {
        let objects: Vec<_> = reported.iter().map(|report| self.object(report)).collect();
        let pairs = self.pairs(reported, &objects, crossings);
        let reports = reported.iter().zip(objects).enumerate();
        let finding = |(r, (report, object)): (usize, (&Reported, Option<i64>))| {
            let crossing = pairs.get(&r).copied();
            let crossed = crossing.and_then(|c| crossings.get(c));
            let line = lines.iter().find(|line| line.name == report.line);
            let label = match (crossed, object.and_then(|id| self.objects.get(&id))) {
                (Some(crossed), _) if crossed.is_target => Label::True,
                (Some(_), _) => Label::Ignored,
                (None, None) if self.is_unlabelled(report) => Label::Ignored,
                (None, None) => Label::Ghost,
                (None, Some(path)) if self.is_unsure(report.frame, path, line) => Label::Ignored,
                (None, Some(_)) => Label::Wrong,
            };
            Finding {
                label,
                object,
                crossing,
            }
        };
        reports.map(finding).collect()
    }

    /// The boxes of a report's track within [`NEAR_S`], with their frames.
    fn boxes(&self, report: &Reported) -> impl Iterator<Item = (usize, BBox)> {
        let first = report.frame.saturating_sub(self.near);
        let frames = first..=report.frame + self.near;
        frames.filter_map(move |frame| {
            let mut boxes = self.tracks.get(frame)?.iter();
            let own = boxes.find(|t| t.id == report.track)?;
            Some((frame, own.bbox))
        })
    }

    /// Whether a report's track is in unlabelled regions in most frames.
    fn is_unlabelled(&self, report: &Reported) -> bool {
        let is_in = |(frame, bbox): (usize, BBox)| {
            let regions = self.regions.get(frame).into_iter().flatten();
            let covered: f64 = regions.map(|region| region.common_area(&bbox)).sum();
            covered > UNLABELLED * bbox.area()
        };
        let inside: Vec<bool> = self.boxes(report).map(is_in).collect();
        2 * inside.iter().filter(|is_in| **is_in).count() > inside.len()
    }

    /// The object that a report is about.
    fn object(&self, report: &Reported) -> Option<i64> {
        let mut frames: BTreeMap<i64, usize> = BTreeMap::new();
        for (frame, own) in self.boxes(report) {
            let there = |(id, path): (&i64, &BTreeMap<usize, Truth>)| {
                Some((path.get(&frame)?.bbox.iou(&own), *id))
            };
            let best = self.objects.iter().filter_map(there);
            let best = best.max_by(|a, b| a.0.total_cmp(&b.0));
            if let Some((_, id)) = best.filter(|(overlap, _)| *overlap >= SAME) {
                *frames.entry(id).or_default() += 1;
            }
        }
        let most = frames.into_iter().rev().max_by_key(|(_, frames)| *frames);
        most.map(|(id, _)| id)
    }

    /// The crossing of each report that has one; the nearest in time come first.
    fn pairs(
        &self,
        reported: &[Reported],
        objects: &[Option<i64>],
        crossings: &[TrueCrossing],
    ) -> BTreeMap<usize, usize> {
        let mut near = Vec::new();
        for (r, (report, object)) in reported.iter().zip(objects).enumerate() {
            for (c, crossing) in crossings.iter().enumerate() {
                let apart = report.frame.abs_diff(crossing.frame);
                let fits = report.line == crossing.line && report.is_in == crossing.is_in;
                if fits && *object == Some(crossing.id) && apart <= self.near {
                    near.push((apart, r, c));
                }
            }
        }
        near.sort_unstable();
        let mut pairs = BTreeMap::new();
        let mut used = vec![false; crossings.len()];
        for (_, r, c) in near {
            if !used[c] && !pairs.contains_key(&r) {
                used[c] = true;
                pairs.insert(r, c);
            }
        }
        pairs
    }

    /// Whether the annotation of an object can't tell what it does at `line` in this frame.
    fn is_unsure(
        &self,
        frame: usize,
        path: &BTreeMap<usize, Truth>,
        line: Option<&NamedLine>,
    ) -> bool {
        let begins_or_ends_on_line = |(at, t): (&usize, &Truth)| {
            let is_on = line.is_some_and(|line| is_on(line, &t.bbox));
            is_on && at.abs_diff(frame) <= self.near
        };
        let ends = [path.first_key_value(), path.last_key_value()];
        let nearest = path.iter().min_by_key(|(at, _)| at.abs_diff(frame));
        ends.into_iter().flatten().any(begins_or_ends_on_line)
            || nearest.is_some_and(|(_, t)| !is_target(t))
    }
}

fn is_target(t: &Truth) -> bool {
    t.consider && t.class == TARGET
}

/// Whether a line goes through a box, lengthened over its ends.
fn is_on(line: &NamedLine, bbox: &BBox) -> bool {
    let center = bbox.center();
    let (distance, extent) = across_at(line, bbox, [center.x, center.y]);
    distance.abs() < extent / 2.0
}

/// Distance of the foot from the line, negative to its left, and extent of the box across it.
fn across(line: &NamedLine, bbox: &BBox) -> (f64, f64) {
    across_at(line, bbox, [bbox.center().x, bbox.y2])
}

/// Distance of a point of the box, and extent of the box, as [`across`].
fn across_at(line: &NamedLine, bbox: &BBox, point: [f64; 2]) -> (f64, f64) {
    let along = [line.to[0] - line.from[0], line.to[1] - line.from[1]];
    let length = along[0].hypot(along[1]);
    let normal = [-along[1] / length, along[0] / length];
    let [x, y] = [point[0] - line.from[0], point[1] - line.from[1]];
    let distance = x * normal[0] + y * normal[1];
    let extent = bbox.width() * normal[0].abs() + bbox.height() * normal[1].abs();
    (distance, extent)
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

    /// Track 1, on the annotated boxes.
    fn tracked(truth: &Frames<Truth>) -> Frames<Tracked> {
        let track = |t: &Truth| Tracked {
            id: 1,
            bbox: t.bbox,
        };
        let frames = truth.iter();
        frames
            .map(|boxes| boxes.iter().map(track).collect())
            .collect()
    }

    /// An upright line at 100, from the top: its left is where x is greater.
    fn gate() -> NamedLine {
        NamedLine {
            name: "gate".to_owned(),
            from: [100.0, 0.0],
            to: [100.0, 90.0],
        }
    }

    fn report(is_in: bool, frame: usize) -> Reported {
        Reported {
            line: "gate".to_owned(),
            is_in,
            frame,
            track: 1,
        }
    }

    /// Labels of reports at one frame a second, where two frames are near.
    fn labels(truth: &Frames<Truth>, tracks: &Frames<Tracked>, reports: &[Reported]) -> Vec<Label> {
        let annotated = Annotated::new(truth, tracks, 1.0);
        let crossings = annotated.crossings(&gate());
        let found = annotated.label(reports, &crossings, &[gate()]);
        found.into_iter().map(|finding| finding.label).collect()
    }

    const THROUGH: [f64; 12] = [
        50.0, 60.0, 70.0, 80.0, 90.0, 104.0, 114.0, 124.0, 134.0, 144.0, 154.0, 164.0,
    ];

    #[test]
    fn foot_that_rocks_within_the_band_crosses_once() {
        let truth = walk(&[90.0, 99.0, 101.0, 99.5, 101.5, 104.0]);
        let tracks = tracked(&truth);
        let crossings = Annotated::new(&truth, &tracks, 1.0).crossings(&gate());
        let seen: Vec<_> = crossings.iter().map(|c| (c.is_in, c.frame)).collect();
        assert_eq!(seen, [(true, 5)]);
    }

    #[test]
    fn second_report_of_a_crossing_is_wrong() {
        let truth = walk(&THROUGH);
        let found = labels(
            &truth,
            &tracked(&truth),
            &[report(true, 6), report(true, 5)],
        );
        assert_eq!(found, [Label::Wrong, Label::True]);
    }

    #[test]
    fn report_in_the_other_direction_is_wrong() {
        let truth = walk(&THROUGH);
        let found = labels(&truth, &tracked(&truth), &[report(false, 5)]);
        assert_eq!(found, [Label::Wrong]);
    }

    #[test]
    fn report_is_about_the_object_that_its_track_was_mostly_on() {
        let mut truth = walk(&THROUGH);
        let tracks = tracked(&truth);
        // A neighbour that stays has more of the track's box in the frame of the report.
        let at_line = Truth {
            id: 9,
            ..truth[5][0]
        };
        truth.iter_mut().for_each(|boxes| boxes.push(at_line));
        truth[5][0].bbox = BBox::new(96.0, 0.0, 116.0, 40.0);
        assert_eq!(labels(&truth, &tracks, &[report(true, 5)]), [Label::True]);
    }

    #[test]
    fn report_without_an_annotated_box_is_a_ghost() {
        let truth = walk(&THROUGH);
        let far = Tracked {
            id: 1,
            bbox: BBox::new(300.0, 0.0, 320.0, 40.0),
        };
        let tracks = vec![vec![far]; truth.len()];
        assert_eq!(labels(&truth, &tracks, &[report(true, 5)]), [Label::Ghost]);
    }

    #[test]
    fn report_in_an_unlabelled_region_is_ignored() {
        let mut truth = walk(&THROUGH);
        let tracks = tracked(&truth);
        for boxes in &mut truth {
            boxes[0].id = -1;
        }
        assert_eq!(
            labels(&truth, &tracks, &[report(true, 5)]),
            [Label::Ignored]
        );
    }

    #[test]
    fn report_of_an_object_that_is_left_out_there_is_ignored() {
        let mut truth = walk(&THROUGH);
        truth[5][0].consider = false;
        let found = labels(&truth, &tracked(&truth), &[report(true, 5)]);
        assert_eq!(found, [Label::Ignored]);
    }

    #[test]
    fn report_where_the_annotation_ends_on_the_line_is_ignored() {
        let truth = walk(&[50.0, 60.0, 70.0, 80.0, 94.0]);
        let found = labels(&truth, &tracked(&truth), &[report(true, 4)]);
        assert_eq!(found, [Label::Ignored]);
    }
}
