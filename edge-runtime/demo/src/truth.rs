//! The ground truth of the demo scene: boxes, crossings and dwell times.

use std::collections::BTreeMap;

use watchkeeper_config::demo::DemoOptions;
use watchkeeper_vision::geometry::{Anchor, BBox, Point};

use super::actor::Kind;
use super::raster::{DESIGN_HEIGHT, DESIGN_WIDTH};
use super::scene::Scene;

/// One figure in one frame.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TruthBox {
    /// Number of the figure, by the order in which they enter.
    pub object: usize,
    pub kind: Kind,
    /// Bounds without the shadow, in pixels, clipped to the picture.
    pub bbox: BBox,
}

/// The boxes of every frame of a scene.
#[derive(Debug, Clone, PartialEq)]
pub struct Truth {
    /// Frames per second.
    pub fps: f64,
    /// The kind of each figure, by its number.
    pub objects: Vec<Kind>,
    /// The boxes of each frame. A figure counts while at least a quarter of it is in the picture.
    pub frames: Vec<Vec<TruthBox>>,
}

/// How often a line was crossed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Crossings {
    /// From the right-hand side of the line to its left, seen from its start to its end.
    pub r#in: usize,
    /// From its left-hand side to its right.
    pub out: usize,
}

/// One stay of a figure in a zone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Visit {
    pub object: usize,
    /// Seconds since the first frame.
    pub enter_s: f64,
    pub dwell_s: f64,
}

/// Computes the ground truth of the scene with these options.
pub fn truth(options: &DemoOptions) -> Truth {
    let mut scene = Scene::new(options);
    let (width, height) = (f64::from(options.width), f64::from(options.height));
    let (sx, sy) = (width / DESIGN_WIDTH, height / DESIGN_HEIGHT);
    let boxes = |index: u32| {
        let seconds = f64::from(index) / options.fps;
        let figures = scene.figures(seconds).into_iter();
        let mut boxes: Vec<TruthBox> = figures
            .filter_map(|figure| {
                let [x1, y1, x2, y2] = figure.bounds;
                let whole = BBox::new(x1 * sx, y1 * sy, x2 * sx, y2 * sy);
                let bbox = whole.clip(width, height);
                (bbox.area() >= whole.area() / 4.0).then_some(TruthBox {
                    object: figure.object,
                    kind: figure.kind,
                    bbox,
                })
            })
            .collect();
        boxes.sort_by_key(|b| b.object);
        boxes
    };
    let frames = (0..options.frames()).map(boxes).collect();
    Truth {
        fps: options.fps,
        objects: scene.kinds(),
        frames,
    }
}

impl Truth {
    /// Counts crossings of the line from `start` to `end` by figures of `kind`.
    ///
    /// The definition is that of Roboflow's line counter: a figure is on a side when all four
    /// corners of its box are. It counts when it changes sides while all four corners lie between
    /// the perpendiculars through the ends of the line.
    pub fn crossings(&self, kind: Kind, start: Point, end: Point) -> Crossings {
        let (vx, vy) = (end.x - start.x, end.y - start.y);
        let mut sides: BTreeMap<usize, bool> = BTreeMap::new();
        let mut count = Crossings::default();
        for b in self.frames.iter().flatten().filter(|b| b.kind == kind) {
            let corners = [
                (b.bbox.x1, b.bbox.y1),
                (b.bbox.x2, b.bbox.y1),
                (b.bbox.x1, b.bbox.y2),
                (b.bbox.x2, b.bbox.y2),
            ];
            let along = |(x, y): (f64, f64)| (x - start.x) * vx + (y - start.y) * vy;
            let left = |(x, y): (f64, f64)| vx * (y - start.y) - vy * (x - start.x) < 0.0;
            let within = |c: (f64, f64)| (0.0..=vx * vx + vy * vy).contains(&along(c));
            let lefts = corners.iter().filter(|c| left(**c)).count();
            if !corners.into_iter().all(within) || (lefts != 0 && lefts != 4) {
                continue;
            }
            let now = lefts == 4;
            match sides.insert(b.object, now) {
                Some(before) if before != now && now => count.r#in += 1,
                Some(before) if before != now => count.out += 1,
                _ => {}
            }
        }
        count
    }

    /// Stays of figures of `kind` in a polygon, by an anchor of their boxes, in order of entering.
    pub fn visits(&self, kind: Kind, zone: &[Point], anchor: Anchor) -> Vec<Visit> {
        let mut open: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
        let mut closed: Vec<(usize, usize, usize)> = Vec::new();
        for (index, boxes) in self.frames.iter().enumerate() {
            for b in boxes.iter().filter(|b| b.kind == kind) {
                if !inside(zone, b.bbox.anchor(anchor)) {
                    continue;
                }
                match open.get_mut(&b.object) {
                    Some((_, last)) if *last + 1 == index => *last = index,
                    Some(stay) => {
                        closed.push((stay.0, stay.1, b.object));
                        *stay = (index, index);
                    }
                    None => {
                        open.insert(b.object, (index, index));
                    }
                }
            }
        }
        closed.extend(
            open.into_iter()
                .map(|(object, (from, to))| (from, to, object)),
        );
        closed.sort_unstable();
        closed
            .into_iter()
            .map(|(from, to, object)| Visit {
                object,
                enter_s: from as f64 / self.fps,
                dwell_s: (to - from) as f64 / self.fps,
            })
            .collect()
    }
}

fn inside(zone: &[Point], p: Point) -> bool {
    let mut inside = false;
    for (i, a) in zone.iter().enumerate() {
        let b = zone[(i + 1) % zone.len()];
        if (a.y > p.y) != (b.y > p.y) && p.x < (b.x - a.x) * (p.y - a.y) / (b.y - a.y) + a.x {
            inside = !inside;
        }
    }
    inside
}
