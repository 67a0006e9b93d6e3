//! Bilinear sampling of a network's coarse grid at the pixels of a picture.
//!
//! Samples beyond the outermost cells take the values of those cells.

use watchkeeper_vision::geometry::Point;

use crate::letterbox::Letterbox;

/// Two neighbouring cells on one axis, and the weight of the second.
#[derive(Debug, Clone, Copy)]
pub(super) struct Between {
    pub(super) low: usize,
    pub(super) high: usize,
    pub(super) share: f32,
}

/// The cells around the centre of each column and each row of pixels.
#[derive(Debug)]
pub(super) struct Lattice {
    pub(super) across: Vec<Between>,
    pub(super) down: Vec<Between>,
}

impl Lattice {
    /// Computes the cells of a grid that covers an input of `width` and `height`, for the picture
    /// at `place`. The grid has `columns` and `rows`, at least one each.
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

/// The cells around a point of the input.
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
