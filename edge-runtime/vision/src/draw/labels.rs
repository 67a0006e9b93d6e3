//! Labels of a picture: names of lines and zones, captions of bounding boxes.
//!
//! - They are collected while shapes are drawn and placed together at the end, so no shape covers
//!   a label and labels avoid each other.
//! - Lines come first, then zones, then bounding boxes by track id: what stands still or is older
//!   keeps its place when something comes near it.
//! - Work is bounded: the first [`MAX_AVOIDED`] labels avoid each other.
//! - [`super::place`] decides where a label may be.

use std::sync::Arc;

use parking_lot::Mutex;
use watchkeeper_contract::id::TrackId;

use super::annotate::{self, stroke};
use super::canvas::{Canvas, finite};
use super::font::Face;
use super::palette::Color;
use super::place::{self, Side, Space};
use super::text::{padding, plate_size};
use super::trace::{FORGET_AFTER, MAX_TRACKS};
use super::twins::are_nearly_equal;
use crate::analytics::recent::Recent;
use crate::geometry::{BBox, Point};

/// Labels that avoid each other; further ones are at their first place.
const MAX_AVOIDED: usize = 200;
/// Pixels between a line and its plate, in thicknesses of the line.
const LINE_GAP: f64 = 3.0;

/// The latest sides of the labels of tracks, shared by the pictures of one video.
#[derive(Debug, Clone)]
pub struct LastSides(Arc<Mutex<Recent<Side>>>);

impl Default for LastSides {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Recent::new(MAX_TRACKS))))
    }
}

impl LastSides {
    fn get(&self, track: TrackId) -> Option<Side> {
        let sides = self.0.lock();
        sides.get(track).copied()
    }

    fn set(&self, track: TrackId, side: Side) {
        let mut sides = self.0.lock();
        *sides.touch_or_insert(track, side) = side;
    }

    /// Begins the next picture of the video: forgets tracks without a label in the last ones.
    pub fn next_picture(&self) {
        let mut sides = self.0.lock();
        sides.next_round(FORGET_AFTER);
    }
}

#[derive(Debug, Default)]
pub struct Labels {
    all: Vec<Label>,
    /// Given to the labels of bounding boxes that are added.
    last: Option<LastSides>,
}

#[derive(Debug)]
struct Label {
    target: Target,
    text: String,
    color: Color,
}

/// Object that a label names.
#[derive(Debug)]
enum Target {
    Line(Point, Point),
    Zone(Vec<Point>),
    BBox {
        bbox: BBox,
        track: Option<TrackId>,
        last: Option<LastSides>,
    },
}

impl Target {
    /// Sort key: earlier targets are placed first.
    fn order(&self) -> (u8, i64) {
        match self {
            Self::Line(..) => (0, 0),
            Self::Zone(_) => (1, 0),
            Self::BBox { track, .. } => (2, track.map_or(i64::MAX, |t| t.0)),
        }
    }
}

impl Labels {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Places the bounding boxes that are added from now on at the side of the last picture, where
    /// that is good.
    pub fn remember(&mut self, last: &LastSides) {
        self.last = Some(last.clone());
    }

    /// Adds the text of a bounding box. A second text of nearly the same box is not added twice.
    pub fn add_box(&mut self, bbox: &BBox, track: Option<TrackId>, text: String, color: Color) {
        if !finite(&[bbox.x1, bbox.y1, bbox.x2, bbox.y2]) {
            return;
        }
        let is_twin = |label: &Label| {
            matches!(&label.target, Target::BBox { bbox: other, .. }
                if label.text == text && are_nearly_equal(other, bbox))
        };
        if self.all.len() > MAX_AVOIDED || !self.all.iter().any(is_twin) {
            let bbox = *bbox;
            let last = self.last.clone();
            self.add(Target::BBox { bbox, track, last }, text, color);
        }
    }

    pub fn add_zone(&mut self, corners: &[Point], text: String, color: Color) {
        self.add(Target::Zone(corners.to_vec()), text, color);
    }

    pub fn add_line(&mut self, start: Point, end: Point, text: String, color: Color) {
        self.add(Target::Line(start, end), text, color);
    }

    fn add(&mut self, target: Target, text: String, color: Color) {
        if !text.is_empty() {
            self.all.push(Label {
                target,
                text,
                color,
            });
        }
    }

    /// Places the labels and draws them.
    pub fn draw(mut self, canvas: &mut Canvas<'_>) {
        // Stable: labels of equal order keep the order of the steps.
        self.all.sort_by_key(|label| label.target.order());
        let mut lines = Vec::new();
        for label in &self.all {
            if let Target::Line(start, end) = label.target {
                lines.push((start, end));
                lines.extend(annotate::arrow(canvas, start, end));
            }
        }
        let face = Face::for_scale(canvas.scale());
        let mut taken = Vec::with_capacity(self.all.len().min(MAX_AVOIDED));
        for label in &self.all {
            let text = face.fit(&label.text, canvas.width() - 2.0 * padding(face));
            let (others, lines): (&[BBox], &[_]) = if taken.len() < MAX_AVOIDED {
                (&taken, &lines)
            } else {
                (&[], &[])
            };
            let plate = plate_size(&text, face);
            if let Some(place) = label.choose(canvas, plate, others, lines) {
                taken.push(place);
                canvas.plate(&place, &text, label.color, face);
            }
        }
    }
}

impl Label {
    /// The place of this label's plate among those `taken`.
    fn choose(
        &self,
        canvas: &Canvas<'_>,
        plate: [f64; 2],
        taken: &[BBox],
        lines: &[(Point, Point)],
    ) -> Option<BBox> {
        let space = |gap: f64| Space {
            plate,
            picture: [canvas.width(), canvas.height()],
            gap,
        };
        let thickness = stroke(canvas);
        let places = match &self.target {
            Target::Line(start, end) => {
                let arrow = annotate::arrow_length(canvas);
                space(thickness * LINE_GAP).beside_line(*start, *end, arrow)
            }
            Target::Zone(corners) => space(thickness).at_zone(corners),
            Target::BBox { bbox, track, last } => {
                let mut sides = space((thickness / 2.0).floor()).beside_box(bbox);
                let tracked = track.zip(last.as_ref());
                let before = tracked.and_then(|(track, last)| last.get(track));
                // Stable: the other sides keep their order.
                sides.sort_by_key(|(side, _)| Some(*side) != before);
                // Boxes move over lines all the time.
                let best = place::choose(sides.iter().map(|(_, place)| *place), taken, &[])?;
                let (side, place) = sides.get(best)?;
                // A label over its box hides a part of the object, so it leaves as soon as it can.
                if let Some((track, last)) = tracked.filter(|_| side.is_beside()) {
                    last.set(track, *side);
                }
                return Some(*place);
            }
        };
        let best = place::choose(places.iter().copied(), taken, lines)?;
        places.get(best).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::palette::COLORS;
    use proptest::prelude::*;

    const SIZE: [u32; 2] = [320, 240];

    /// Pixels of each of three colours after drawing labels of these colours.
    fn drawn(boxes: &[(BBox, i64)]) -> Vec<usize> {
        let mut pixels = vec![0; (SIZE[0] * SIZE[1] * 3) as usize];
        let mut labels = Labels::new();
        for (i, (bbox, track)) in boxes.iter().enumerate() {
            labels.add_box(
                bbox,
                Some(TrackId(*track)),
                format!("person #{track}"),
                COLORS[i],
            );
        }
        labels.draw(&mut Canvas::new(&mut pixels, SIZE[0], SIZE[1]));
        let plate = |color: Color| {
            let [r, g, b] = [color.r, color.g, color.b].map(|c| f64::from(c) * PLATE);
            let near = |v: u8, to: f64| (f64::from(v) - to).abs() < 3.0;
            let is_plate = |p: &&[u8]| near(p[0], r) && near(p[1], g) && near(p[2], b);
            pixels.chunks_exact(3).filter(is_plate).count()
        };
        COLORS[..boxes.len()].iter().map(|c| plate(*c)).collect()
    }
    const PLATE: f64 = 0.9;

    #[test]
    fn labels_of_overlapping_boxes_do_not_overlap() {
        let at = |x: f64| BBox::new(x, 100.0, x + 40.0, 200.0);
        let alone = drawn(&[(at(100.0), 1)])[0];
        assert!(alone > 200, "{alone}");
        let both = drawn(&[(at(100.0), 1), (at(110.0), 2)]);
        assert!(both.iter().all(|&n| n * 10 > alone * 9), "{alone} {both:?}");
    }

    #[test]
    fn older_track_keeps_its_place_when_another_comes_near() {
        let mut labels = [Labels::new(), Labels::new()];
        let (old, new) = (
            BBox::new(100.0, 100.0, 140.0, 200.0),
            BBox::new(105.0, 100.0, 145.0, 200.0),
        );
        labels[0].add_box(&old, Some(TrackId(1)), "a".into(), COLORS[0]);
        labels[1].add_box(&new, Some(TrackId(2)), "b".into(), COLORS[1]);
        labels[1].add_box(&old, Some(TrackId(1)), "a".into(), COLORS[0]);
        let first = |labels: Labels| {
            let mut pixels = vec![0; (SIZE[0] * SIZE[1] * 3) as usize];
            labels.draw(&mut Canvas::new(&mut pixels, SIZE[0], SIZE[1]));
            let y = 92;
            let at = (y * SIZE[0] as usize + 101) * 3;
            pixels[at..at + 3].to_vec()
        };
        let [alone, both] = labels.map(first);
        assert_eq!(alone, both);
        assert_ne!(alone, [0, 0, 0]);
    }

    #[test]
    fn label_stays_at_its_side_when_another_one_becomes_free() {
        let last = LastSides::default();
        let [old, new] = [100.0, 105.0].map(|x| BBox::new(x, 100.0, x + 40.0, 200.0));
        let frame = |boxes: &[(BBox, i64)]| {
            let mut labels = Labels::new();
            last.next_picture();
            labels.remember(&last);
            for (bbox, track) in boxes {
                labels.add_box(bbox, Some(TrackId(*track)), "person".into(), COLORS[0]);
            }
            let mut pixels = vec![0; (SIZE[0] * SIZE[1] * 3) as usize];
            labels.draw(&mut Canvas::new(&mut pixels, SIZE[0], SIZE[1]));
            last.get(TrackId(2))
        };
        assert_eq!(frame(&[(old, 1), (new, 2)]), Some(Side::Below));
        assert_eq!(frame(&[(new, 2)]), Some(Side::Below));
        for _ in 0..=FORGET_AFTER {
            frame(&[]);
        }
        assert_eq!(frame(&[(new, 2)]), Some(Side::Above));
    }

    #[test]
    fn label_over_its_box_leaves_it_when_there_is_room() {
        let last = LastSides::default();
        let frame = |bbox: BBox| {
            let mut labels = Labels::new();
            labels.remember(&last);
            labels.add_box(&bbox, Some(TrackId(1)), "person".into(), COLORS[0]);
            let mut pixels = vec![0; (SIZE[0] * SIZE[1] * 3) as usize];
            labels.draw(&mut Canvas::new(&mut pixels, SIZE[0], SIZE[1]));
            last.get(TrackId(1))
        };
        assert_eq!(frame(BBox::new(0.0, 0.0, 320.0, 240.0)), None);
        let room_right = BBox::new(0.0, 0.0, 100.0, 240.0);
        assert_eq!(frame(room_right), Some(Side::Right));
    }

    #[test]
    fn name_of_a_zone_leaves_the_arrow_of_a_line_free() {
        let (start, end) = (Point::new(20.0, 120.0), Point::new(300.0, 120.0));
        let zone = [(150.0, 118.0), (250.0, 118.0), (200.0, 220.0)].map(|(x, y)| Point::new(x, y));
        let mut pixels = vec![0; (SIZE[0] * SIZE[1] * 3) as usize];
        let mut canvas = Canvas::new(&mut pixels, SIZE[0], SIZE[1]);
        let mut labels = Labels::new();
        labels.add_line(start, end, "in 1".into(), Color::INK);
        labels.add_zone(&zone, "yard: 1".into(), COLORS[0]);
        labels.draw(&mut canvas);
        let at = |x: usize, y: usize| pixels[(y * SIZE[0] as usize + x) * 3 + 2];
        let column: Vec<u8> = (106..120).map(|y| at(160, y)).collect();
        assert!(column.iter().all(|&v| v == 0), "{column:?}");
        assert!(pixels.iter().any(|&v| v > 200), "the name is somewhere");
    }

    #[test]
    fn label_of_a_twin_is_not_added() {
        let mut labels = Labels::new();
        let b = BBox::new(10.0, 10.0, 110.0, 110.0);
        let near = BBox::new(11.0, 10.0, 111.0, 110.0);
        labels.add_box(&b, Some(TrackId(1)), "car 0.9".into(), COLORS[0]);
        labels.add_box(&near, Some(TrackId(1)), "car 0.9".into(), COLORS[0]);
        labels.add_box(&near, Some(TrackId(1)), "2.5s".into(), COLORS[0]);
        assert_eq!(labels.all.len(), 2);
    }

    #[test]
    fn text_wider_than_the_picture_is_shortened() {
        let mut pixels = vec![0; 100 * 50 * 3];
        let mut canvas = Canvas::new(&mut pixels, 100, 50);
        let mut labels = Labels::new();
        labels.add_zone(
            &[
                Point::new(10.0, 40.0),
                Point::new(90.0, 40.0),
                Point::new(50.0, 45.0),
            ],
            "loading bay north, gate seven".into(),
            COLORS[0],
        );
        labels.draw(&mut canvas);
        let right: Vec<u8> = pixels.chunks_exact(300).map(|row| row[99 * 3]).collect();
        assert!(pixels.iter().any(|&v| v > 0));
        assert!(
            right.iter().all(|&v| v < 255),
            "the plate ends in the picture: {right:?}"
        );
    }

    proptest! {
        #[test]
        fn any_number_is_harmless(v in proptest::collection::vec(proptest::num::f64::ANY, 8), text in ".{0,30}") {
            let mut pixels = vec![0; 64 * 48 * 3];
            let p = |i: usize| Point::new(v[i], v[i + 1]);
            let mut labels = Labels::new();
            labels.add_box(&BBox::new(v[0], v[1], v[2], v[3]), None, text.clone(), Color::INK);
            labels.add_zone(&[p(0), p(2), p(4)], text.clone(), Color::WHITE);
            labels.add_zone(&[], text.clone(), Color::WHITE);
            labels.add_line(p(4), p(6), text, Color::WHITE);
            labels.draw(&mut Canvas::new(&mut pixels, 64, 48));
        }
    }
}
