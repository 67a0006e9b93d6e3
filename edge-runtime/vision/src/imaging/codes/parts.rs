//! Parts of a picture in which several scan lines have bars at one place.
//!
//! - The lines of a large picture lie too far apart, and their samples too, for a small code. Each
//!   part is small enough to be read with the finest samples. Of 22 pictures of ZXing's ean13-4 on
//!   a white sheet of 640, 1280 and 1920 pixels, 19, 18 and 8 are read. Without parts it is 3, 0
//!   and 0.
//! - At most [`MAX_PARTS`] parts, those with most lines.
//! - Not here: reading them ([`bars`](super::bars)).

use std::cmp::Reverse;
use std::f64::consts::FRAC_PI_2;

use image::GrayImage;

use super::scan;
use crate::geometry::BBox;
use crate::outline;

const MAX_PARTS: usize = 2;

/// Maximum number of places with bars that are compared; a wall of bricks has thousands.
const MAX_PLACES: usize = 256;

/// Least number of lines with bars in a part.
const MIN_LINES: usize = 3;

/// Longest side of a part in pixels.
const MAX_SIDE: f64 = 680.0;

/// Share of the length that the bars of two lines of a part have in common.
const SHARED: f64 = 0.6;

/// Distances of two lines that one part may lack, to both sides.
const REACH: f64 = 1.25;

/// A part of a picture.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub(super) bbox: BBox,
    /// Angle of its scan lines in radians.
    pub(super) angle: f64,
    lines: usize,
}

impl Part {
    /// Whether bars that another line has are of this part; `reach` is their reach across.
    fn has(&self, other: &Self) -> bool {
        let along = |part: &Self| match part.angle {
            0.0 => [part.bbox.x1, part.bbox.x2],
            _ => [part.bbox.y1, part.bbox.y2],
        };
        let ([a, b], [c, d]) = (along(self), along(other));
        let (one, two) = (&self.bbox, &other.bbox);
        let touches = one.x1 < two.x2 && two.x1 < one.x2 && one.y1 < two.y2 && two.y1 < one.y2;
        self.angle == other.angle && touches && b.min(d) - a.max(c) > SHARED * (b - a).max(d - c)
    }

    fn is_small(&self) -> bool {
        self.bbox.width().max(self.bbox.height()) <= MAX_SIDE
    }
}

/// Finds the parts of a picture.
pub(super) fn find(grey: &GrayImage) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for (angle, across) in [(0.0, grey.height()), (FRAC_PI_2, grey.width())] {
        let reach = REACH * f64::from(across) / f64::from(scan::MAX_LINES);
        let [dx, dy] = if angle == 0.0 {
            [0.0, reach]
        } else {
            [reach, 0.0]
        };
        for line in scan::lines(grey, angle, scan::MAX_LINES, scan::FINE) {
            let dark = scan::dark_samples(grey, &line, scan::SHORT_BLOCK);
            for bars in scan::stretches(&dark) {
                let ends = [bars.start, bars.end].map(|at| line.at(at as f64));
                let bbox = outline::around(&ends).grown(dx, dy);
                let new = Part {
                    bbox,
                    angle,
                    lines: 1,
                };
                if let Some(part) = parts.iter_mut().find(|part| part.has(&new)) {
                    part.bbox = part.bbox.union(&bbox);
                    part.lines += 1;
                } else if new.is_small() && parts.len() < MAX_PLACES {
                    parts.push(new);
                }
            }
        }
    }
    parts.retain(|part| part.lines >= MIN_LINES && part.is_small());
    parts.sort_by_key(|part| Reverse(part.lines));
    parts.truncate(MAX_PARTS);
    parts
}
