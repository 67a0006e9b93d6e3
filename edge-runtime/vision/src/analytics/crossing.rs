//! Counts objects that cross a line by one point of their box, with a dead band.
//!
//! - The line is a segment; crossing to the left, looking from start to end, is *in*.
//! - An object is on the side on which its point was last beyond the dead band, however long ago.
//! - It crosses when its point has been beyond the band on the other side for a moment, and its
//!   path went through the segment. The way back counts only after it was far from the line.
//! - An object that comes into the picture on the line counts in the direction in which it leaves
//!   the line. One that leaves the picture on the line counts in the direction of its movement.
//! - At the end of the source, an object in sight beyond the band on the other side has crossed. An
//!   object on the line at the border of the picture goes out of it.
//! - A new track that continues a lost one is the same object ([`Succession`]).
//! - Distances are in extents of the box across the line, so near and far objects are judged alike.
//! - Held boxes and invalid coordinates change nothing.
//! - `docs/ref/counting.md` has the figures behind the constants.

use serde::{Deserialize, Serialize};
use watchkeeper_contract::id::TrackId;

use super::recent::Recent;
use super::succession::{ObjectId, Succession};
use crate::detections::{Detection, Detections};
use crate::geometry::{Anchor, BBox, Point};

/// Name of the property of a box that holds [`Crossing::depth`].
pub const CROSSING_DEPTH: &str = "crossing_depth";
const MAX_OBJECTS: usize = 4096;
/// Half of the dead band, in extents.
const NEAR: f64 = 0.1;
/// Distance in extents beyond which a crossing counts at once, and the way back counts again.
const FAR: f64 = 0.5;
/// Seconds for which a nearer object must stay beyond the band.
const SETTLED_S: f64 = 0.3;
/// Movement in extents that gives an object first or last seen on the line a direction.
const MOVED: f64 = 0.25;
/// Greatest distance from the border of the picture of a box that enters or leaves it, in sizes.
const AT_BORDER: f64 = 0.02;
/// Seconds out of sight after which an object counts as gone.
const GONE_S: f64 = 1.0;
/// Seconds out of sight after which an object is forgotten: longer than a tracker remembers one.
const FORGOTTEN_S: f64 = 60.0;
/// Time constant of the running mean of the speed, in seconds.
const SPEED_S: f64 = 0.3;

/// Direction of a crossing, or side of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Side {
    /// Left, looking from start to end.
    In,
    Out,
}

impl Side {
    /// The side of a distance, or the side towards which a speed leads.
    fn of(distance: f64) -> Self {
        if distance > 0.0 { Self::Out } else { Self::In }
    }

    /// Sign of the distances on this side.
    fn sign(self) -> f64 {
        match self {
            Self::In => -1.0,
            Self::Out => 1.0,
        }
    }
}

/// The crossings of one frame.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Crossed {
    /// Crossed to the left.
    pub crossed_in: Vec<Crossing>,
    /// Crossed to the right.
    pub crossed_out: Vec<Crossing>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Crossing {
    /// The latest box; held if it is of an earlier frame.
    pub detection: Detection,
    /// Greatest distance of its track from the line on the side that it left, in extents; 0 if only
    /// an earlier track was seen there. `None` if the object came into the picture, or went out of
    /// it, on the line.
    pub depth: Option<f64>,
}

/// A counting line with a dead band.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CrossingCounter {
    line: Line,
    succession: Succession,
    paths: Recent<Path, ObjectId>,
    count_in: u64,
    count_out: u64,
    /// Of the latest frame; reuses its memory.
    #[serde(skip)]
    crossed: Crossed,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Line {
    start: Point,
    end: Point,
    /// The point of a box that crosses.
    anchor: Anchor,
}

/// The way of one object.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Path {
    side: Option<Side>,
    /// Since when the point is beyond the band on the other side, in seconds of source time.
    over_since_s: Option<f64>,
    /// Whether the object came into the picture on the line.
    came_in: bool,
    /// Whether the object crossed and was not far from the line since.
    is_close: bool,
    /// Where the path last went through the line: 0 at its start, 1 at its end.
    through: Option<f64>,
    /// Distance of the point at first sight, in pixels.
    first: f64,
    at: Point,
    /// Distance of the latest point, in pixels; positive on the side [`Side::Out`].
    distance: f64,
    /// Speed across the line, in pixels a second.
    speed: f64,
    last_s: f64,
    /// The latest box with its extent, if it was on the line at the border of the picture.
    leaving: Option<(Detection, f64)>,
    /// The latest box with its extent while the point is beyond the band for too short a time.
    #[serde(default)]
    settling: Option<(Detection, f64)>,
    #[serde(default)]
    reach: Reach,
}

/// How far one track of an object was from the line on either side, since it last crossed.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct Reach {
    track: Option<TrackId>,
    /// In pixels, on the sides [`Side::In`] and [`Side::Out`].
    farthest: [f64; 2],
}

/// A box as the line sees it.
#[derive(Debug, Clone, Copy)]
struct Sight {
    at: Point,
    /// Of the point, in pixels; positive on the side [`Side::Out`].
    distance: f64,
    /// Of the box across the line, in pixels.
    extent: f64,
    /// Whether the box is on the line and at the border of the picture.
    is_passing: bool,
    time_s: f64,
}

impl CrossingCounter {
    /// A line in pixels, crossed by this point of a box. A line of length 0 counts nothing.
    pub fn new(start: Point, end: Point, anchor: Anchor) -> Self {
        Self {
            line: Line { start, end, anchor },
            succession: Succession::default(),
            paths: Recent::new(MAX_OBJECTS),
            count_in: 0,
            count_out: 0,
            crossed: Crossed::default(),
        }
    }

    pub fn count_in(&self) -> u64 {
        self.count_in
    }

    pub fn count_out(&self) -> u64 {
        self.count_out
    }

    pub fn crossed(&self) -> &Crossed {
        &self.crossed
    }

    /// Processes the tracked boxes of a frame at `time_s` seconds of source time.
    pub fn update(&mut self, detections: &Detections, time_s: f64) -> &Crossed {
        self.crossed.clear();
        self.paths.next_round(u64::MAX);
        self.succession.observe(detections, time_s);
        let time_s = self.succession.now_s();
        let objects = self.succession.objects();
        for (d, object) in detections.boxes.iter().zip(objects) {
            let sight = self.line.sight(&d.bbox, detections.size, time_s);
            let (Some(object), Some(sight)) = (*object, sight) else {
                continue;
            };
            if d.held {
                if let Some(path) = self.paths.touch(object) {
                    path.hold(time_s);
                }
                continue;
            }
            let Some(path) = self.paths.touch(object) else {
                self.paths.touch_or_insert(object, Path::begin(d, sight));
                continue;
            };
            self.crossed.add(path.advance(d, sight, &self.line));
        }
        let (line, crossed) = (self.line, &mut self.crossed);
        self.paths.retain_mut(|path| {
            let unseen_s = time_s - path.last_s;
            if unseen_s > GONE_S {
                crossed.add(path.leave(&line));
            }
            unseen_s <= FORGOTTEN_S
        });
        self.count()
    }

    /// Counts the crossings that were undecided when the source ended.
    pub fn finish(&mut self) -> &Crossed {
        self.crossed.clear();
        let now_s = self.succession.now_s();
        let (line, crossed) = (self.line, &mut self.crossed);
        self.paths.retain_mut(|path| {
            let is_in_sight = path.last_s >= now_s;
            let settled = is_in_sight.then(|| path.settle(&line)).flatten();
            crossed.add(settled.or_else(|| path.leave(&line)));
            false
        });
        self.count()
    }

    fn count(&mut self) -> &Crossed {
        self.count_in += self.crossed.crossed_in.len() as u64;
        self.count_out += self.crossed.crossed_out.len() as u64;
        &self.crossed
    }
}

impl Crossed {
    fn clear(&mut self) {
        self.crossed_in.clear();
        self.crossed_out.clear();
    }

    fn add(&mut self, crossing: Option<(Side, Crossing)>) {
        match crossing {
            Some((Side::In, crossing)) => self.crossed_in.push(crossing),
            Some((Side::Out, crossing)) => self.crossed_out.push(crossing),
            None => {}
        }
    }
}

impl Line {
    /// A box as the line sees it; `None` if its distance is not a number.
    fn sight(&self, bbox: &BBox, picture: [u32; 2], time_s: f64) -> Option<Sight> {
        let (dx, dy) = (self.end.x - self.start.x, self.end.y - self.start.y);
        let length = dx.hypot(dy);
        let (nx, ny) = (-dy / length, dx / length);
        let distance = |p: Point| nx * (p.x - self.start.x) + ny * (p.y - self.start.y);
        let at = bbox.anchor(self.anchor);
        let extent = nx.abs() * bbox.width() + ny.abs() * bbox.height();
        let is_on_line = distance(bbox.center()).abs() < extent / 2.0;
        let sight = Sight {
            at,
            distance: distance(at),
            extent,
            is_passing: is_on_line && is_at_border(bbox, picture),
            time_s,
        };
        let is_usable = sight.distance.is_finite() && extent.is_finite() && extent > 0.0;
        is_usable.then_some(sight)
    }

    /// Where the path between two points on either side crosses the line: 0 at its start, 1 at its
    /// end.
    fn place(&self, from: Point, distance: f64, to: &Sight) -> f64 {
        let share = distance / (distance - to.distance);
        let x = from.x + (to.at.x - from.x) * share;
        let y = from.y + (to.at.y - from.y) * share;
        self.place_beside(Point::new(x, y))
    }

    /// Position of a point along the line: 0 at its start, 1 at its end.
    fn place_beside(&self, point: Point) -> f64 {
        let (x, y) = (point.x - self.start.x, point.y - self.start.y);
        let (dx, dy) = (self.end.x - self.start.x, self.end.y - self.start.y);
        (x * dx + y * dy) / (dx * dx + dy * dy)
    }
}

/// Whether a box touches the border of a picture of this size.
fn is_at_border(bbox: &BBox, [width, height]: [u32; 2]) -> bool {
    let near = AT_BORDER * bbox.area().sqrt();
    let (right, bottom) = (f64::from(width) - near, f64::from(height) - near);
    bbox.x1 <= near || bbox.y1 <= near || bbox.x2 >= right || bbox.y2 >= bottom
}

impl Reach {
    fn see(&mut self, track: Option<TrackId>, distance: f64) {
        if self.track != track {
            *self = Self {
                track,
                ..Self::default()
            };
        }
        let farthest = &mut self.farthest[usize::from(distance > 0.0)];
        *farthest = farthest.max(distance.abs());
    }

    /// Returns the farthest distance on the side that was left for `to`, and forgets it.
    fn take_left(&mut self, to: Side) -> f64 {
        std::mem::take(&mut self.farthest[usize::from(to == Side::In)])
    }
}

impl Path {
    fn begin(d: &Detection, sight: Sight) -> Self {
        let is_beyond = sight.distance.abs() >= NEAR * sight.extent;
        let is_near = sight.distance.abs() < FAR / 2.0 * sight.extent;
        let came_in = sight.is_passing && is_near;
        let mut reach = Reach::default();
        reach.see(d.track, sight.distance);
        Self {
            side: (is_beyond && !came_in).then(|| Side::of(sight.distance)),
            over_since_s: None,
            came_in,
            is_close: false,
            through: None,
            first: sight.distance,
            at: sight.at,
            distance: sight.distance,
            speed: 0.0,
            last_s: sight.time_s,
            leaving: leaving(d, sight),
            settling: None,
            reach,
        }
    }

    /// Moves to the latest sight; returns a crossing that counts.
    fn advance(&mut self, d: &Detection, sight: Sight, line: &Line) -> Option<(Side, Crossing)> {
        if (self.distance > 0.0) != (sight.distance > 0.0) {
            self.through = Some(line.place(self.at, self.distance, &sight));
        }
        let dt = sight.time_s - self.last_s;
        if dt > 0.0 {
            let speed = (sight.distance - self.distance) / dt;
            self.speed += (1.0 - (-dt / SPEED_S).exp()) * (speed - self.speed);
        }
        self.at = sight.at;
        self.distance = sight.distance;
        self.last_s = sight.time_s;
        self.leaving = leaving(d, sight);
        self.reach.see(d.track, sight.distance);
        let before = self.side;
        let crossed = self.change_side(sight, line);
        self.settling = self.over_since_s.map(|_| (d.clone(), sight.extent));
        let now = self.side.filter(|side| Some(*side) != before)?;
        let depth = self.reach.take_left(now) / sight.extent;
        let came_in_on_line = before.is_none() && self.came_in;
        let depth = (!came_in_on_line).then_some(depth);
        let crossing = |side| {
            let detection = d.clone();
            (side, Crossing { detection, depth })
        };
        crossed.map(crossing)
    }

    /// Keeps an object that no detector looked at where it is.
    fn hold(&mut self, time_s: f64) {
        self.last_s = time_s;
        self.speed = 0.0;
    }

    fn change_side(&mut self, sight: Sight, line: &Line) -> Option<Side> {
        let away = sight.distance.abs() / sight.extent;
        let now = Side::of(sight.distance);
        if away >= FAR {
            self.is_close = false;
        }
        if away < if self.is_close { FAR } else { NEAR } {
            self.over_since_s = None;
            return None;
        }
        if self.side.is_none() {
            if !self.came_in && self.through.is_none() {
                self.side = Some(now);
                return None;
            }
            let moved = (sight.distance - self.first) * now.sign();
            if moved < MOVED * sight.extent {
                return None;
            }
        } else if self.side == Some(now) {
            self.over_since_s = None;
            return None;
        } else {
            let since_s = *self.over_since_s.get_or_insert(sight.time_s);
            if away < FAR && sight.time_s - since_s < SETTLED_S {
                return None;
            }
        }
        let place = self.through.unwrap_or_else(|| line.place_beside(self.at));
        self.cross(now, place)
    }

    /// Changes the side; returns it if this place is on the segment.
    fn cross(&mut self, to: Side, place: f64) -> Option<Side> {
        self.side = Some(to);
        self.over_since_s = None;
        self.is_close = (0.0..=1.0).contains(&place);
        self.is_close.then_some(to)
    }

    /// Lets an object that was beyond the band for too short a time cross, once.
    fn settle(&mut self, line: &Line) -> Option<(Side, Crossing)> {
        let (mut detection, extent) = self.settling.take()?;
        detection.held = true;
        let to = Side::of(self.distance);
        let depth = Some(self.reach.take_left(to) / extent);
        let place = self.through.unwrap_or_else(|| line.place_beside(self.at));
        Some((self.cross(to, place)?, Crossing { detection, depth }))
    }

    /// Lets an object that is gone cross, once, if it went out of the picture over the line.
    fn leave(&mut self, line: &Line) -> Option<(Side, Crossing)> {
        self.settling = None;
        let (mut detection, extent) = self.leaving.take()?;
        let going = Side::of(self.speed);
        let ahead = (self.distance + self.speed * GONE_S) * going.sign();
        let moved = (self.distance - self.first) * going.sign();
        if self.side == Some(going) || ahead < NEAR * extent || moved < MOVED * extent {
            return None;
        }
        detection.held = true;
        let side = self.cross(going, line.place_beside(self.at))?;
        let depth = None;
        Some((side, Crossing { detection, depth }))
    }
}

fn leaving(d: &Detection, sight: Sight) -> Option<(Detection, f64)> {
    sight.is_passing.then(|| (d.clone(), sight.extent))
}

#[cfg(test)]
mod tests;
