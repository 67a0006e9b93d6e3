//! Where the pixels of a picture lie between the places of a network that has numbers for a coarse grid over its input.
//!
//! Invariant: places are those of the grid, whatever the sizes; what lies beyond its outermost places takes their numbers.

use watchkeeper_vision::geometry::Point;

use crate::letterbox::Letterbox;

/// Two neighbouring places, and the share of the second.
#[derive(Debug, Clone, Copy)]
pub(super) struct Between {
    pub(super) low: usize,
    pub(super) high: usize,
    pub(super) share: f32,
}

/// For each column and each row of a picture the places around the middles of its pixels.
#[derive(Debug)]
pub(super) struct Lattice {
    pub(super) across: Vec<Between>,
    pub(super) down: Vec<Between>,
}

impl Lattice {
    /// Of a grid of `columns` and `rows`, at least one each, over an input of this `width` and `height`, in which the picture lies at `place`.
    pub(super) fn over(
        place: &Letterbox,
        [width, height]: [u32; 2],
        [columns, rows]: [usize; 2],
    ) -> Self {
        let input = |pixel: u32| {
            let middle = f64::from(pixel) + 0.5;
            place.point_to_input(Point::new(middle, middle))
        };
        let across = 0..place.source_width;
        let down = 0..place.source_height;
        Self {
            across: across
                .map(|x| between(input(x).x, width, columns))
                .collect(),
            down: down.map(|y| between(input(y).y, height, rows)).collect(),
        }
    }
}

/// The places around a point of the input.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "places of an input, clamped to it"
)]
fn between(at: f64, side: u32, cells: usize) -> Between {
    let last = cells.saturating_sub(1);
    let place = at * cells as f64 / f64::from(side.max(1)) - 0.5;
    let place = place.clamp(0.0, last as f64);
    let low = (place.floor() as usize).min(last);
    Between {
        low,
        high: (low + 1).min(last),
        share: (place - low as f64) as f32,
    }
}
