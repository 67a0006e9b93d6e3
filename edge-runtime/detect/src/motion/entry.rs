//! Boxes of objects that enter the picture and are still cut by its border.
//!
//! Such a box grows from a sliver and changes its aspect ratio fast. Trackers after SORT and
//! `ByteTrack` follow an aspect ratio within some ten frames; a faster change loses the box or
//! duplicates it.
//!
//! - A sliver is not reported. Later the cut side, which is invisible anyway, grows at a pace that
//!   trackers follow.
//! - A reported box lies inside the measured one, and equals it once its aspect ratio has caught
//!   up.

use super::edges::{Edges, height, width};

/// Change per frame of the log aspect ratio above which an object at the border is a sliver.
const SLIVER: f32 = 0.18;
/// Change per frame of the log aspect ratio that a tracker follows. With a gain of 0.1 it lags ten
/// times as much, which leaves an overlap of 0.6; trackers drop a box at 0.5.
const MAX_CHANGE: f32 = 0.05;

/// How far an object has entered the picture.
#[derive(Debug, Clone, Copy)]
pub(super) enum Entry {
    /// Hardly visible, with its last log aspect ratio.
    Sliver { slim: f32 },
    /// Reported with log aspect ratio `slim`; `cut` are the sides `[left, upper, right, lower]` at
    /// the border.
    Growing { slim: f32, cut: [bool; 4] },
    /// Entirely visible, or first seen inside the picture.
    Whole,
}

impl Entry {
    /// The state of an object first seen in this box.
    pub(super) fn new(edges: &Edges) -> Self {
        Self::Sliver {
            slim: slimness(edges),
        }
    }

    /// Updates the state with the next frame's box; `bounds` is the picture in cells. An object
    /// stays a sliver until it `is_reportable`.
    pub(super) fn observe(&mut self, edges: &Edges, bounds: [f32; 2], is_reportable: bool) {
        let cut = cut(edges, bounds);
        let inside = cut == [false; 4];
        let now = slimness(edges);
        *self = match *self {
            Self::Sliver { slim } => {
                if !is_reportable || (!inside && (now - slim).abs() > SLIVER) {
                    Self::Sliver { slim: now }
                } else if inside {
                    Self::Whole
                } else {
                    Self::Growing { slim: now, cut }
                }
            }
            Self::Growing { slim, cut: was } => {
                let off = now - slim;
                if inside && off.abs() <= MAX_CHANGE {
                    Self::Whole
                } else {
                    Self::Growing {
                        slim: slim + off.clamp(-MAX_CHANGE, MAX_CHANGE),
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
            // Taller than the aspect ratio allows yet: the cut side lags.
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

/// The sides that the border cuts.
fn cut(e: &Edges, [w, h]: [f32; 2]) -> [bool; 4] {
    [e[0] < 1.0, e[1] < 1.0, e[2] > w - 1.0, e[3] > h - 1.0]
}

/// Logarithm of the aspect ratio.
fn slimness(e: &Edges) -> f32 {
    (width(e).max(1.0) / height(e).max(1.0)).ln()
}
