//! Motion model of a box: constant velocity, with noise in proportion to the height.
//!
//! This is the filter of SORT and `DeepSORT` (Bewley et al. 2016; Wojke et al. 2017), which
//! `ByteTrack` kept. Its state is `(x, y, a, h)` (centre, aspect ratio `w / h`, height) with
//! velocities. Initial covariance and noise are diagonal, and each component couples only with its
//! own velocity. So the 8×8 covariance is always four 2×2 blocks: four independent filters, at a
//! fiftieth of the cost.
//!
//! No input makes a function panic; a state that is not finite stays so and overlaps nothing.

use serde::{Deserialize, Serialize};

use super::axis::Axis;
use crate::geometry::BBox;

/// Standard deviation of a position relative to the box's height (`DeepSORT`'s choice).
const POSITION_STD: f64 = 1.0 / 20.0;
/// Standard deviation of a velocity, per frame, relative to the box's height (`DeepSORT`'s choice).
const VELOCITY_STD: f64 = 1.0 / 160.0;
/// Absolute deviations of the aspect ratio: process noise, of its velocity, and measurement noise.
const ASPECT_STD: f64 = 1e-2;
const ASPECT_VELOCITY_STD: f64 = 1e-5;
const ASPECT_MEASUREMENT_STD: f64 = 1e-1;

/// Estimated box and velocity, in pixels and pixels per frame.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BoxFilter {
    x: Axis,
    y: Axis,
    aspect: Axis,
    height: Axis,
}

impl BoxFilter {
    /// A filter that starts at rest on `bbox`.
    pub fn new(bbox: &BBox) -> Self {
        let (c, h) = (bbox.center(), bbox.height());
        let (position, velocity) = (2.0 * POSITION_STD * h, 10.0 * VELOCITY_STD * h);
        Self {
            x: Axis::new(c.x, position, velocity),
            y: Axis::new(c.y, position, velocity),
            aspect: Axis::new(bbox.width() / h, ASPECT_STD, ASPECT_VELOCITY_STD),
            height: Axis::new(h, position, velocity),
        }
    }

    /// Predicts one frame ahead.
    pub fn predict(&mut self) {
        let h = self.height.position;
        let (position, velocity) = (POSITION_STD * h, VELOCITY_STD * h);
        self.x.advance(1.0, position, velocity);
        self.y.advance(1.0, position, velocity);
        self.aspect.advance(1.0, ASPECT_STD, ASPECT_VELOCITY_STD);
        self.height.advance(1.0, position, velocity);
    }

    /// Sets the velocity of the height to 0, so that an unseen object does not grow or shrink
    /// without bound.
    pub fn hold_height(&mut self) {
        self.height.velocity = 0.0;
    }

    /// Corrects the state by a box of this frame.
    pub fn correct(&mut self, seen: &BBox) {
        let std = POSITION_STD * self.height.position;
        let (c, h) = (seen.center(), seen.height());
        self.x.correct(c.x, std);
        self.y.correct(c.y, std);
        self.aspect
            .correct(seen.width() / h, ASPECT_MEASUREMENT_STD);
        self.height.correct(h, std);
    }

    /// The estimated box.
    pub fn bbox(&self) -> BBox {
        let h = self.height.position;
        let w = self.aspect.position * h;
        let (x1, y1) = (self.x.position - w / 2.0, self.y.position - h / 2.0);
        BBox::new(x1, y1, x1 + w, y1 + h)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boxed(x: f64, h: f64) -> BBox {
        BBox::new(x, 100.0, x + h / 2.0, 100.0 + h)
    }

    #[test]
    fn a_box_at_rest_stays_where_it_is() {
        let mut f = BoxFilter::new(&boxed(10.0, 40.0));
        for _ in 0..50 {
            f.predict();
            f.correct(&boxed(10.0, 40.0));
        }
        assert!(f.bbox().iou(&boxed(10.0, 40.0)) > 0.999);
    }

    #[test]
    fn a_steady_motion_is_learnt_and_carried_on() {
        let mut f = BoxFilter::new(&boxed(0.0, 40.0));
        for i in 1..60 {
            f.predict();
            f.correct(&boxed(3.0 * f64::from(i), 40.0));
        }
        for _ in 0..5 {
            f.predict();
        }
        let expected = boxed(3.0 * 64.0, 40.0);
        assert!(f.bbox().iou(&expected) > 0.9, "{:?} {expected:?}", f.bbox());
    }
}
