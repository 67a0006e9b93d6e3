//! Objects over time: unites fragments of one object, splits a blob over several, and rejects what
//! never moves.
//!
//! - An object is a box with a velocity, so that a vehicle is one box from entering to leaving.
//! - Fragments inside an object's predicted box are united; a blob over several objects is shared
//!   among them.
//! - Only what moved as a whole is reported, unlike leaves, water, noise and uncovered background.
//! - It is not a tracker: no identity leaves this module. At most [`MAX_OBJECTS`] objects are kept.

use super::blobs::Blob;
use super::edges::{Edges, centre, distance, gap, height, iou, near, overlap, size, unite, width};
use super::entry::Entry;

const MAX_OBJECTS: usize = 128;
/// Share of a blob inside an object's predicted box that makes it a part of the object.
const MIN_PART_SHARE: f32 = 0.5;
/// Bound of an object's growth by a part, as a factor on each predicted side.
const MAX_GROWTH: f32 = 1.15;
/// Gap between parts of an object, as a share of its side.
const MAX_GAP: f32 = 0.1;
/// Seconds for which an unseen moving object is kept.
const KEEP_UNSEEN_S: f32 = 0.5;
/// Overlap (intersection over union) with the first box. Below the first value an object has moved
/// or entered, below the second it has left its first place. Uncovered background never leaves it.
const MAX_START_OVERLAP: f32 = 0.6;
const MAX_HOME_OVERLAP: f32 = 0.2;
/// Distance from the first place, as a share of an object's side and in cells, that exceeds the
/// jitter of the mask.
const MIN_TRAVEL: f32 = 0.2;
const MIN_TRAVEL_CELLS: f32 = 3.0;
/// Distance from the first place as a share of the path: a swaying object returns.
const MIN_STRAIGHTNESS: f32 = 0.5;
/// Frames in which an object must be seen before it is kept and reported.
const MIN_HITS: u32 = 3;
/// Seconds from the first to the last frame that replace [`MIN_HITS`] before it is kept: two frames
/// at 13 frames a second or fewer.
const MIN_AGE_S: f32 = 0.075;
/// Seconds that replace [`MIN_HITS`] before it is reported: two frames at eight frames a second or
/// fewer. Two at 12.5 counted a car twice.
const MIN_REPORT_AGE_S: f32 = 0.125;
/// Gains of an alpha-beta filter (Kalata, 1984) for position and velocity.
const ALPHA: f32 = 0.7;
const BETA: f32 = 0.3;

/// A moving object.
#[derive(Debug, Clone, Copy)]
pub(super) struct Object {
    pub(super) edges: Edges,
    /// Filtered box of the previous frame.
    last: Edges,
    /// Cells per second, by edge.
    velocity: Edges,
    /// Box in the first frame.
    birth: Edges,
    /// Length of its centre's path in cells.
    path: f32,
    /// Frames in which it was seen.
    hits: u32,
    /// Seconds since it was last seen.
    unseen: f32,
    /// Seconds since it was first seen.
    age: f32,
    /// Whether it moved as a whole.
    pub(super) proven: bool,
    /// Whether it left its first place.
    pub(super) travelled: bool,
    /// Mean contrast in multiples of the threshold.
    contrast: f32,
    /// Whether its core looks like uncovered background.
    ghost: bool,
    /// Union of its blobs in this frame.
    measured: Option<Edges>,
    /// The blob that covers most of it in this frame.
    core: Option<usize>,
    /// How far it has entered the picture.
    entry: Entry,
}

impl Object {
    fn new(blob: &Blob) -> Self {
        let e = blob.edges;
        Self {
            edges: e,
            last: e,
            velocity: [0.0; 4],
            birth: e,
            path: 0.0,
            hits: 1,
            unseen: 0.0,
            age: 0.0,
            proven: false,
            travelled: false,
            contrast: blob.weight / blob.area,
            ghost: blob.is_ghost(),
            measured: None,
            core: None,
            entry: Entry::new(&e),
        }
    }

    /// The box to report, if any.
    pub(super) fn visible(&self) -> Option<Edges> {
        if self.proven && !self.ghost && self.unseen == 0.0 {
            self.entry.visible(&self.edges)
        } else {
            None
        }
    }

    /// Confidence `0.0..=1.0` from contrast and the number of frames.
    pub(super) fn score(&self) -> f32 {
        let strong = 1.0 - (-self.contrast / 1.5).exp();
        let lasting = 1.0 - (-(self.hits as f32) / 3.0).exp();
        (0.3 + 0.7 * strong * lasting).clamp(0.0, 1.0)
    }

    fn predict(&mut self, dt: f32, bounds: [f32; 2]) {
        for (e, v) in self.edges.iter_mut().zip(&self.velocity) {
            *e += v * dt;
        }
        self.clip(bounds);
        self.age += dt;
        self.measured = None;
        self.core = None;
    }

    fn clip(&mut self, [w, h]: [f32; 2]) {
        for (i, e) in self.edges.iter_mut().enumerate() {
            *e = e.clamp(0.0, if i % 2 == 0 { w } else { h });
        }
    }

    fn update(&mut self, dt: f32, bounds: [f32; 2]) {
        let old = self.last;
        let Some(measured) = self.measured else {
            self.unseen += dt;
            return;
        };
        self.hits += 1;
        self.unseen = 0.0;
        for (i, measured) in measured.into_iter().enumerate() {
            let off = measured - self.edges[i];
            let (a, b) = if self.hits == 2 {
                (1.0, 1.0)
            } else {
                (ALPHA, BETA)
            };
            self.edges[i] += a * off;
            if dt > 0.0 {
                self.velocity[i] += b * off / dt;
            }
        }
        self.clip(bounds);
        let is_reportable = self.hits >= MIN_HITS || self.age >= MIN_REPORT_AGE_S;
        self.entry.observe(&self.edges, bounds, is_reportable);
        self.last = self.edges;
        let c = centre(&self.edges);
        self.path += distance(c, centre(&old));
        let gone = distance(c, centre(&self.birth));
        let far = MIN_TRAVEL * size(&self.edges).sqrt().max(MIN_TRAVEL_CELLS / MIN_TRAVEL);
        let straight = gone >= far && gone >= MIN_STRAIGHTNESS * self.path;
        let stayed = iou(&self.birth, &self.edges);
        let is_lasting = self.hits >= MIN_HITS || self.age >= MIN_AGE_S;
        self.proven |= !self.ghost && is_lasting && straight && stayed < MAX_START_OVERLAP;
        self.travelled |= self.proven && straight && stayed < MAX_HOME_OVERLAP;
    }
}

/// All objects of one stream.
#[derive(Debug, Default)]
pub(super) struct Objects {
    list: Vec<Object>,
    /// The object of each blob.
    owner: Vec<Option<usize>>,
}

impl Objects {
    pub(super) fn clear(&mut self) {
        self.list.clear();
        self.owner.clear();
    }

    pub(super) fn list(&self) -> &[Object] {
        &self.list
    }

    /// The object of blob `index` of the last update.
    pub(super) fn owner(&self, index: usize) -> Option<&Object> {
        self.list.get((*self.owner.get(index)?)?)
    }

    /// Updates the objects with the blobs of a frame, `dt` seconds after the last. `bounds` is the
    /// picture in cells.
    pub(super) fn update(&mut self, blobs: &[Blob], smallest: f32, dt: f32, bounds: [f32; 2]) {
        self.list
            .retain(|o| o.unseen <= if o.proven { KEEP_UNSEEN_S } else { 0.0 });
        for o in &mut self.list {
            o.predict(dt, bounds);
        }
        self.owner.clear();
        self.owner.resize(blobs.len(), None);
        self.find_cores(blobs, smallest);
        self.join_parts(blobs);
        for o in &mut self.list {
            o.update(dt, bounds);
        }
        for (i, blob) in blobs.iter().enumerate() {
            if self.owner[i].is_none() && blob.area >= smallest && self.list.len() < MAX_OBJECTS {
                self.owner[i] = Some(self.list.len());
                self.list.push(Object::new(blob));
            }
        }
    }

    /// Assigns each object the blob that covers most of it; moving objects choose first.
    fn find_cores(&mut self, blobs: &[Blob], smallest: f32) {
        for proven in [true, false] {
            for n in 0..self.list.len() {
                let o = &self.list[n];
                if o.proven != proven {
                    continue;
                }
                let mut best: Option<(usize, f32)> = None;
                for (i, blob) in blobs.iter().enumerate() {
                    if !proven && self.owner[i].is_some() {
                        continue;
                    }
                    let mut worth = overlap(&blob.edges, &o.edges);
                    if worth <= 0.0 && o.hits <= 2 && blob.area >= smallest {
                        worth = near(&blob.edges, &o.edges);
                    }
                    if worth > best.map_or(0.0, |b| b.1) {
                        best = Some((i, worth));
                    }
                }
                self.list[n].core = best.map(|b| b.0);
                if let Some((i, _)) = best
                    && self.owner[i].is_none()
                {
                    self.owner[i] = Some(n);
                }
            }
        }
        for (i, blob) in blobs.iter().enumerate() {
            let sharers = self.list.iter().filter(|o| o.core == Some(i)).count();
            match sharers {
                0 => {}
                1 => {
                    if let Some(o) = self.list.iter_mut().find(|o| o.core == Some(i)) {
                        o.measured = Some(blob.edges);
                        o.ghost = blob.is_ghost();
                        o.contrast += 0.2 * (blob.weight / blob.area - o.contrast);
                    }
                }
                _ => self.share(i, &blob.edges),
            }
        }
    }

    /// Adds further blobs to each object: those inside its predicted box, close to its core, that
    /// do not enlarge it.
    fn join_parts(&mut self, blobs: &[Blob]) {
        for (i, blob) in blobs.iter().enumerate() {
            let e = &blob.edges;
            if self.owner[i].is_some_and(|n| self.list[n].proven) {
                continue;
            }
            let whole = self.list.iter().position(|o| {
                let Some(core) = o.measured else { return false };
                let both = unite(&core, e);
                let (w, h) = (width(&o.edges), height(&o.edges));
                o.proven
                    && o.core != Some(i)
                    && overlap(e, &o.edges) > MIN_PART_SHARE * size(e)
                    && width(&both) <= MAX_GROWTH * w + 2.0
                    && height(&both) <= MAX_GROWTH * h + 2.0
                    && gap(core[0], core[2], e[0], e[2]) <= (MAX_GAP * w).max(2.0)
                    && gap(core[1], core[3], e[1], e[3]) <= (MAX_GAP * h).max(2.0)
            });
            if let Some(n) = whole {
                if let Some(own) = self.list.iter_mut().find(|o| o.core == Some(i)) {
                    own.measured = None;
                }
                self.owner[i] = Some(n);
                let o = &mut self.list[n];
                o.measured = o.measured.map(|m| unite(&m, e));
            }
        }
    }

    /// Shares a blob among several moving objects. Each keeps its predicted size and place, and
    /// takes from the blob only the edges that are its own.
    fn share(&mut self, index: usize, blob: &Edges) {
        let mut extreme = [f32::MAX, f32::MAX, f32::MIN, f32::MIN];
        for o in self.list.iter().filter(|o| o.core == Some(index)) {
            for (i, x) in extreme.iter_mut().enumerate() {
                *x = if i < 2 {
                    x.min(o.edges[i])
                } else {
                    x.max(o.edges[i])
                };
            }
        }
        for o in self.list.iter_mut().filter(|o| o.core == Some(index)) {
            let mut m = o.edges;
            for (i, m) in m.iter_mut().enumerate() {
                if o.edges[i] == extreme[i] {
                    *m = blob[i];
                }
            }
            o.measured = Some(m);
        }
    }
}
