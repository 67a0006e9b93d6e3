//! Motion model of our own tracker: centre and size of a box with their velocities, in seconds.
//!
//! Differences to [`kalman`](super::kalman):
//! - Time is in seconds, so late and missing frames move objects by the right distance.
//! - Width and height are filtered separately, so that bending people and turning cars are
//!   followed.
//! - Sizes are trusted less than positions, because detectors cut off hidden parts.
//!
//! No input makes a function panic; a state that is not finite stays so and overlaps nothing.

use serde::{Deserialize, Serialize};

use super::axis::Axis;
use crate::geometry::BBox;

// Deviations are in sizes of the box (the root of its area), which makes them independent of
// distance, shape and resolution. For their origin see docs/ref/tracking.md.

/// Error of a measured centre.
const SEEN_STD: f64 = 0.05;
/// Error of width and height, in errors of the centre.
const SIZE_STD: f64 = 2.5;
/// Velocity per second of a new object.
const FIRST_VELOCITY_STD: f64 = 2.4;
/// Velocity of a size, in velocities of the centre.
const SIZE_VELOCITY: f64 = 0.5;
/// Process noise of position and size per second.
const POSITION_DRIFT: f64 = 0.27;
/// Process noise of velocities per second.
const VELOCITY_DRIFT: f64 = 0.66;

/// Estimated box and velocity, in pixels and seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct BoxMotion {
    x: Axis,
    y: Axis,
    width: Axis,
    height: Axis,
}

impl BoxMotion {
    /// Starts on `seen` with a velocity in pixels per second.
    pub(super) fn new(seen: &BBox, velocity: [f64; 2]) -> Self {
        let (c, size) = (seen.center(), size(seen.width(), seen.height()));
        let (seen_std, fast) = (2.0 * SEEN_STD * size, FIRST_VELOCITY_STD * size);
        let slow = SIZE_VELOCITY * fast;
        let mut motion = Self {
            x: Axis::new(c.x, seen_std, fast),
            y: Axis::new(c.y, seen_std, fast),
            width: Axis::new(seen.width(), seen_std, slow),
            height: Axis::new(seen.height(), seen_std, slow),
        };
        [motion.x.velocity, motion.y.velocity] = velocity;
        motion
    }

    /// Predicts `dt` seconds ahead, with `drift` times the process noise.
    pub(super) fn advance(&mut self, dt: f64, drift: f64) {
        let gathered = drift * self.size() * dt.sqrt();
        let (position, velocity) = (POSITION_DRIFT * gathered, VELOCITY_DRIFT * gathered);
        for axis in [&mut self.x, &mut self.y, &mut self.width, &mut self.height] {
            axis.advance(dt, position, velocity);
        }
    }

    /// Sets the velocities of the sizes to 0, so that an unseen object does not grow or shrink
    /// without bound.
    pub(super) fn hold_size(&mut self) {
        self.width.velocity = 0.0;
        self.height.velocity = 0.0;
    }

    /// Moves the state by a camera motion.
    pub(super) fn shift(&mut self, by: [f64; 2]) {
        self.x.position += by[0];
        self.y.position += by[1];
    }

    /// Corrects the state by a box; returns the innovation of the centre in standard deviations.
    pub(super) fn correct(&mut self, seen: &BBox) -> [f64; 2] {
        let std = SEEN_STD * self.size();
        let c = seen.center();
        let innovation = [self.x.innovation(c.x, std), self.y.innovation(c.y, std)];
        self.x.correct(c.x, std);
        self.y.correct(c.y, std);
        self.width.correct(seen.width(), SIZE_STD * std);
        self.height.correct(seen.height(), SIZE_STD * std);
        innovation
    }

    /// Velocity of the centre in pixels per second.
    pub(super) fn velocity(&self) -> [f64; 2] {
        [self.x.velocity, self.y.velocity]
    }

    /// The estimated box, at least one pixel wide and high.
    pub(super) fn bbox(&self) -> BBox {
        let (w, h) = (self.width.position.max(1.0), self.height.position.max(1.0));
        let (x1, y1) = (self.x.position - w / 2.0, self.y.position - h / 2.0);
        BBox::new(x1, y1, x1 + w, y1 + h)
    }

    fn size(&self) -> f64 {
        size(self.width.position, self.height.position)
    }
}

/// The root of the area, of sides of at least one pixel.
fn size(width: f64, height: f64) -> f64 {
    (width.max(1.0) * height.max(1.0)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boxed(x: f64) -> BBox {
        BBox::new(x, 100.0, x + 40.0, 180.0)
    }

    #[test]
    fn steady_motion_is_predicted_at_any_frame_rate() {
        for fps in [5.0, 10.0, 30.0] {
            let at = |n: f64| boxed(60.0 * n / fps);
            let mut m = BoxMotion::new(&at(0.0), [0.0, 0.0]);
            for n in 1..=40 {
                m.advance(1.0 / fps, 1.0);
                m.correct(&at(f64::from(n)));
            }
            m.advance(0.5, 1.0);
            let wanted = at(40.0 + 0.5 * fps);
            assert!(
                m.bbox().iou(&wanted) > 0.9,
                "{fps}: {:?} {wanted:?}",
                m.bbox()
            );
        }
    }

    #[test]
    fn flickering_size_moves_box_less_than_flickering_place() {
        let mut m = BoxMotion::new(&boxed(0.0), [0.0, 0.0]);
        for _ in 0..20 {
            m.advance(0.1, 1.0);
            m.correct(&boxed(0.0));
        }
        let (mut wider, mut moved) = (m, m);
        wider.advance(0.1, 1.0);
        wider.correct(&BBox::new(-10.0, 100.0, 50.0, 180.0));
        moved.advance(0.1, 1.0);
        moved.correct(&boxed(20.0));
        let grown = wider.bbox().width() - 40.0;
        let gone = moved.bbox().center().x - 20.0;
        assert!(grown < gone, "{grown} {gone}");
    }
}
