//! Blobs over time: which fragments are one thing, which blob is two, and which never was a thing.
//!
//! Owns a short memory of things (a box with a velocity), so that a box is one vehicle from entering to leaving:
//! fragments inside a thing's predicted box are united, a blob over several known things is shared among them, and only
//! what has moved as a whole is reported, which leaves, water, noise and uncovered background do not. It is no tracker: no
//! identity leaves this module. Invariant: at most [`MAX_OBJECTS`] things; the least proven give way.

use super::blobs::Blob;
use super::edges::{
    Edges, centre, distance, gap, height, likeness, near, overlap, size, unite, width,
};
use super::entry::Entry;

/// Things remembered at most.
const MAX_OBJECTS: usize = 128;
/// Share of a blob's box inside a thing's predicted box that makes it a part of the thing.
const PART: f32 = 0.5;
/// How much larger than predicted a thing may become by a part, as a factor on each side.
const GROWTH: f32 = 1.15;
/// Gap between parts of a thing, as a share of its side.
const GAP: f32 = 0.1;
/// Seconds for which an unseen thing that was proven is remembered.
const REMEMBER: f32 = 0.5;
/// Likeness (intersection over union) with the box in which it was first seen, below which a thing has moved, or has come
/// into the picture; and below which it has left its first place, as uncovered background never does.
const MOVED: f32 = 0.6;
const GONE: f32 = 0.2;
/// Distance from the start, as a share of a thing's side and in cells, that is more than the mask's own unrest.
const FAR: f32 = 0.2;
const FAR_CELLS: f32 = 3.0;
/// Distance from the start as a share of the way gone: what sways comes back.
const STRAIGHT: f32 = 0.5;
/// Frames a thing must be seen before it is reported.
const PROOF: u32 = 3;
/// Gain of the position and of the velocity against a new measurement: an alpha-beta filter (Kalata, 1984).
const ALPHA: f32 = 0.7;
const BETA: f32 = 0.3;

/// One thing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Object {
    /// Filtered box.
    pub(super) edges: Edges,
    /// Filtered box of the frame before.
    last: Edges,
    /// Cells a second, by edge.
    velocity: Edges,
    /// Box in which it was first seen.
    birth: Edges,
    /// Length of the way of its centre in cells.
    path: f32,
    /// Frames in which it was seen.
    hits: u32,
    /// Seconds since it was seen last.
    unseen: f32,
    /// Seconds since it was first seen.
    age: f32,
    /// Whether it has moved as a whole.
    pub(super) proven: bool,
    /// Whether it has left the place where it was first seen.
    pub(super) travelled: bool,
    /// Mean contrast in thresholds.
    contrast: f32,
    /// Whether its core looks like uncovered background.
    ghost: bool,
    /// Union of what was measured in this frame.
    measured: Option<Edges>,
    /// The blob that covers most of it in this frame.
    core: Option<usize>,
    /// How far it has come into the picture.
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
            ghost: blob.ghostly(),
            measured: None,
            core: None,
            entry: Entry::new(&e),
        }
    }

    /// The box to report, if it is to be reported.
    pub(super) fn visible(&self) -> Option<Edges> {
        if self.proven && !self.ghost && self.unseen == 0.0 {
            self.entry.visible(&self.edges)
        } else {
            None
        }
    }

    /// How sure it is that this is a thing, `0.0..=1.0`: from contrast and from the frames that support it.
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
        self.entry.observe(&self.edges, bounds);
        self.last = self.edges;
        let c = centre(&self.edges);
        self.path += distance(c, centre(&old));
        let gone = distance(c, centre(&self.birth));
        let far = FAR * size(&self.edges).sqrt().max(FAR_CELLS / FAR);
        let straight = gone >= far && gone >= STRAIGHT * self.path;
        let stayed = likeness(&self.birth, &self.edges);
        self.proven |= !self.ghost && self.hits >= PROOF && straight && stayed < MOVED;
        self.travelled |= self.proven && straight && stayed < GONE;
    }
}

/// All things of one stream.
#[derive(Debug, Default)]
pub(super) struct Objects {
    list: Vec<Object>,
    /// For each blob the thing it belongs to.
    owner: Vec<Option<usize>>,
}

impl Objects {
    /// Forgets all things.
    pub(super) fn clear(&mut self) {
        self.list.clear();
        self.owner.clear();
    }

    /// The things now known.
    pub(super) fn list(&self) -> &[Object] {
        &self.list
    }

    /// The thing that blob `index` of the last call belongs to.
    pub(super) fn owner(&self, index: usize) -> Option<&Object> {
        self.list.get((*self.owner.get(index)?)?)
    }

    /// Takes the blobs of one frame, `dt` seconds after the last. `bounds` is the picture in cells.
    pub(super) fn update(&mut self, blobs: &[Blob], smallest: f32, dt: f32, bounds: [f32; 2]) {
        self.list
            .retain(|o| o.unseen <= if o.proven { REMEMBER } else { 0.0 });
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
        let known = self.list.len();
        for (i, blob) in blobs.iter().enumerate() {
            if self.owner[i].is_none() && blob.area >= smallest && self.list.len() < MAX_OBJECTS {
                self.owner[i] = Some(self.list.len());
                self.list.push(Object::new(blob));
            }
        }
        debug_assert!(known <= MAX_OBJECTS, "things are bounded");
    }

    /// Gives each thing the blob that covers most of it; proven things choose first.
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
                        o.ghost = blob.ghostly();
                        o.contrast += 0.2 * (blob.weight / blob.area - o.contrast);
                    }
                }
                _ => self.share(i, &blob.edges),
            }
        }
    }

    /// Adds to each thing the other blobs that are parts of it: inside its predicted box, close to its core, and not
    /// making it larger than it was.
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
                    && overlap(e, &o.edges) > PART * size(e)
                    && width(&both) <= GROWTH * w + 2.0
                    && height(&both) <= GROWTH * h + 2.0
                    && gap(core[0], core[2], e[0], e[2]) <= (GAP * w).max(2.0)
                    && gap(core[1], core[3], e[1], e[3]) <= (GAP * h).max(2.0)
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

    /// One blob over several proven things: each keeps its size and place as predicted, and takes from the blob only
    /// the edges that are its own.
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
