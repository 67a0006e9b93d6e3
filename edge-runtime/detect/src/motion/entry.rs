//! Coming into the picture: the box of a thing that the border still cuts.
//!
//! Such a box grows from a sliver to the whole thing and changes its shape on the way, fast. Trackers after SORT and
//! `ByteTrack` model a box by centre, aspect and height, and their aspect follows in some ten frames: a box that changes
//! shape faster than they follow is lost or comes out twice. Owns the remedy: a sliver is not reported, and after that
//! the side that the border cuts, which nobody can see anyway, follows at a pace that trackers keep up with. Invariant: a
//! reported box lies inside the measured one, and equals it once its shape has caught up.

use super::edges::{Edges, height, width};

/// Change a frame of the logarithm of width over height, above which a thing at the border is still a sliver.
const SLIVER: f32 = 0.18;
/// Change a frame of the same that a tracker follows: with a gain of 0.1 it lags ten times as much, which leaves
/// an overlap of six tenths; they drop a box at a half.
const PACE: f32 = 0.05;
/// Frames before a change of shape means anything.
const FIRST: u32 = 3;

/// How far a thing has come into the picture.
#[derive(Debug, Clone, Copy)]
pub(super) enum Entry {
    /// Hardly seen; with its last shape and the frames so far.
    Sliver { slim: f32, frames: u32 },
    /// Reported with shape `slim`; the sides `[left, upper, right, lower]` were cut.
    Growing { slim: f32, cut: [bool; 4] },
    /// All there, or it began inside the picture.
    Whole,
}

impl Entry {
    /// The entry of a thing first seen in this box.
    pub(super) fn new(edges: &Edges) -> Self {
        Self::Sliver {
            slim: slimness(edges),
            frames: 1,
        }
    }

    /// Takes the box of the next frame; `bounds` is the picture in cells.
    pub(super) fn observe(&mut self, edges: &Edges, bounds: [f32; 2]) {
        let cut = cut(edges, bounds);
        let inside = cut == [false; 4];
        let now = slimness(edges);
        *self = match *self {
            Self::Sliver { slim, frames } => {
                if frames + 1 < FIRST || (!inside && (now - slim).abs() > SLIVER) {
                    Self::Sliver {
                        slim: now,
                        frames: frames + 1,
                    }
                } else if inside {
                    Self::Whole
                } else {
                    Self::Growing { slim: now, cut }
                }
            }
            Self::Growing { slim, cut: was } => {
                let off = now - slim;
                if inside && off.abs() <= PACE {
                    Self::Whole
                } else {
                    Self::Growing {
                        slim: slim + off.clamp(-PACE, PACE),
                        cut: if inside { was } else { cut },
                    }
                }
            }
            Self::Whole => Self::Whole,
        };
    }

    /// The box to report for a measured one.
    pub(super) fn visible(&self, edges: &Edges) -> Option<Edges> {
        let (slim, [left, upper, right, lower]) = match *self {
            Self::Sliver { .. } => return None,
            Self::Whole => return Some(*edges),
            Self::Growing { slim, cut } => (slim, cut),
        };
        let mut e = *edges;
        let aspect = slim.exp();
        let (w, h) = (width(&e), height(&e));
        if h * aspect > w {
            // Taller than it may be yet: the cut side lags.
            let h = w / aspect;
            match (upper, lower) {
                (true, false) => e[1] = e[3] - h,
                (false, true) => e[3] = e[1] + h,
                _ => {}
            }
        } else {
            let w = h * aspect;
            match (left, right) {
                (true, false) => e[0] = e[2] - w,
                (false, true) => e[2] = e[0] + w,
                _ => {}
            }
        }
        Some(e)
    }
}

/// Which sides the border cuts.
fn cut(e: &Edges, [w, h]: [f32; 2]) -> [bool; 4] {
    [e[0] < 1.0, e[1] < 1.0, e[2] > w - 1.0, e[3] > h - 1.0]
}

/// Logarithm of width over height.
fn slimness(e: &Edges) -> f32 {
    (width(e).max(1.0) / height(e).max(1.0)).ln()
}
