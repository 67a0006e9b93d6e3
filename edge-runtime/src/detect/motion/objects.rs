//! Blobs over time: which fragments are one thing, which blob is two, and which never was a thing.
//!
//! Owns a short memory of things (a box with a velocity), so that a box is one vehicle from entering to leaving:
//! fragments inside a thing's predicted box are united, a blob over several known things is shared among them, and only
//! what has moved as a whole is reported, which leaves, water, noise and uncovered background do not. It is no tracker: no
//! identity leaves this module. Invariant: at most [`MAX_OBJECTS`] things; the least proven give way.

use super::blobs::Blob;

/// Things remembered at most.
const MAX_OBJECTS: usize = 128;
/// Share of a blob's box inside a thing's predicted box that makes it a part of the thing.
const PART: f32 = 0.5;
/// Seconds for which an unseen thing that was proven is remembered.
const REMEMBER: f32 = 0.5;
/// Frames a thing must be seen before it is reported.
const PROOF: u32 = 3;
/// Gain of the position and of the velocity against a new measurement: an alpha-beta filter (Kalata, 1984).
const ALPHA: f32 = 0.7;
const BETA: f32 = 0.3;

/// A box in cells: left, upper, right, lower.
pub(super) type Edges = [f32; 4];

/// One thing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Object {
    /// Filtered box.
    pub(super) edges: Edges,
    /// Cells a second, by edge.
    velocity: Edges,
    /// Centre where it was first seen.
    birth: [f32; 2],
    /// Frames in which it was seen.
    hits: u32,
    /// Seconds since it was seen last.
    unseen: f32,
    /// Seconds since it was first seen.
    age: f32,
    /// Whether it has moved as a whole.
    pub(super) proven: bool,
    /// Mean contrast in thresholds.
    contrast: f32,
    /// Union of what was measured in this frame.
    measured: Option<Edges>,
    /// Whether the last measurement was shared with another thing.
    shared: bool,
}

impl Object {
    fn new(blob: &Blob) -> Self {
        let e = blob.edges;
        Self {
            edges: e,
            velocity: [0.0; 4],
            birth: centre(&e),
            hits: 1,
            unseen: 0.0,
            age: 0.0,
            proven: false,
            contrast: blob.weight / blob.area,
            measured: None,
            shared: false,
        }
    }

    /// Whether it is reported.
    pub(super) fn visible(&self) -> bool {
        self.proven && self.unseen == 0.0
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
        self.shared = false;
    }

    fn clip(&mut self, [w, h]: [f32; 2]) {
        for (i, e) in self.edges.iter_mut().enumerate() {
            *e = e.clamp(0.0, if i % 2 == 0 { w } else { h });
        }
    }

    fn update(&mut self, dt: f32, bounds: [f32; 2]) {
        let Some(measured) = self.measured else {
            self.unseen += dt;
            return;
        };
        self.hits += 1;
        self.unseen = 0.0;
        for i in 0..4 {
            let off = measured[i] - self.edges[i];
            let (a, b) = if self.hits == 2 { (1.0, 1.0) } else { (ALPHA, BETA) };
            self.edges[i] += a * off;
            if dt > 0.0 {
                self.velocity[i] += b * off / dt;
            }
        }
        self.clip(bounds);
        let c = centre(&self.edges);
        let gone = ((c[0] - self.birth[0]).powi(2) + (c[1] - self.birth[1]).powi(2)).sqrt();
        let size = (width(&self.edges) * height(&self.edges)).sqrt();
        if self.hits >= PROOF && gone > (0.15 * size).max(2.0) {
            self.proven = true;
        }
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

    /// Whether blob `index` of the last call belongs to a thing that has moved.
    pub(super) fn keeps(&self, index: usize) -> bool {
        self.owner
            .get(index)
            .copied()
            .flatten()
            .is_some_and(|o| self.list.get(o).is_some_and(|o| o.proven))
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
        for (i, blob) in blobs.iter().enumerate() {
            self.assign(i, blob, smallest);
        }
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

    fn assign(&mut self, index: usize, blob: &Blob, smallest: f32) {
        let e = &blob.edges;
        let claims = |o: &Object| {
            let both = overlap(e, &o.edges);
            both > PART * size(e) || both > PART * size(&o.edges)
        };
        let proven = self.list.iter().filter(|o| o.proven && claims(o)).count();
        if proven > 1 {
            self.share(index, e, &claims);
            return;
        }
        // The best by overlap; a proven thing before an unproven one; else a young thing near by.
        let mut best: Option<(usize, f32)> = None;
        for (i, o) in self.list.iter().enumerate() {
            let mut worth = overlap(e, &o.edges) / size(e).min(size(&o.edges)).max(1.0);
            if worth <= 0.0 && o.hits <= 2 && blob.area >= smallest {
                worth = near(e, &o.edges) * 0.1;
            }
            if o.proven {
                worth *= 2.0;
            }
            if worth > best.map_or(0.05, |b| b.1) {
                best = Some((i, worth));
            }
        }
        if let Some((i, _)) = best {
            self.owner[index] = Some(i);
            let o = &mut self.list[i];
            o.measured = Some(o.measured.map_or(*e, |m| unite(&m, e)));
            o.contrast += 0.2 * (blob.weight / blob.area - o.contrast);
        }
    }

    /// One blob over several proven things: each keeps its size and place as predicted, and takes from the blob only
    /// the edges that are its own.
    fn share(&mut self, index: usize, blob: &Edges, claims: &dyn Fn(&Object) -> bool) {
        let mut extreme = [f32::MAX, f32::MAX, f32::MIN, f32::MIN];
        for o in self.list.iter().filter(|o| o.proven && claims(o)) {
            for (i, x) in extreme.iter_mut().enumerate() {
                *x = if i < 2 { x.min(o.edges[i]) } else { x.max(o.edges[i]) };
            }
        }
        for (n, o) in self.list.iter_mut().enumerate() {
            if !(o.proven && claims(o)) {
                continue;
            }
            self.owner[index] = Some(n);
            let mut m = o.edges;
            for i in 0..4 {
                if o.edges[i] == extreme[i] {
                    m[i] = blob[i];
                }
            }
            o.measured = Some(m);
            o.shared = true;
        }
    }
}

fn width(e: &Edges) -> f32 {
    (e[2] - e[0]).max(0.0)
}

fn height(e: &Edges) -> f32 {
    (e[3] - e[1]).max(0.0)
}

fn size(e: &Edges) -> f32 {
    width(e) * height(e)
}

fn centre(e: &Edges) -> [f32; 2] {
    [(e[0] + e[2]) / 2.0, (e[1] + e[3]) / 2.0]
}

fn overlap(a: &Edges, b: &Edges) -> f32 {
    size(&[
        a[0].max(b[0]),
        a[1].max(b[1]),
        a[2].min(b[2]),
        a[3].min(b[3]),
    ])
}

fn unite(a: &Edges, b: &Edges) -> Edges {
    [
        a[0].min(b[0]),
        a[1].min(b[1]),
        a[2].max(b[2]),
        a[3].max(b[3]),
    ]
}

/// 1 when centres agree, 0 when they are further apart than the larger side, or the sizes differ more than threefold.
fn near(a: &Edges, b: &Edges) -> f32 {
    let (ca, cb) = (centre(a), centre(b));
    let apart = ((ca[0] - cb[0]).powi(2) + (ca[1] - cb[1]).powi(2)).sqrt();
    let side = width(a).max(height(a)).max(width(b)).max(height(b)).max(1.0);
    let alike = size(a) < 3.0 * size(b) && size(b) < 3.0 * size(a);
    if alike { (1.0 - apart / side).max(0.0) } else { 0.0 }
}
