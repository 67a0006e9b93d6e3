//! A keypoint and the order of keypoints.

use std::cmp::Ordering;

use crate::geometry::Point;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Keypoint {
    /// In pixels of the picture, with fractions.
    pub place: [f32; 2],
    /// Diameter of its neighbourhood in pixels.
    pub size: f32,
    /// Dominant gradient direction, degrees clockwise from "to the right", `0.0..360.0`.
    pub angle: f32,
    pub response: f32,
    /// As OpenCV packs it: octave, layer and offset from the layer, one byte each.
    pub octave: i32,
}

impl Keypoint {
    pub fn point(&self) -> Point {
        let [x, y] = self.place.map(f64::from);
        Point::new(x, y)
    }
}

/// From left to right, from top to bottom, the larger first.
pub(super) fn order(a: &Keypoint, b: &Keypoint) -> Ordering {
    let by = |f: fn(&Keypoint) -> f32| f(a).total_cmp(&f(b));
    by(|k| k.place[0])
        .then(by(|k| k.place[1]))
        .then(by(|k| k.size).reverse())
        .then(by(|k| k.angle))
        .then(by(|k| k.response).reverse())
        .then(b.octave.cmp(&a.octave))
}
