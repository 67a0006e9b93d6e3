//! Points, boxes, segments and polygons in picture coordinates: x to the right, y down, in pixels unless a name says
//! otherwise.
//!
//! Invariant: no function here panics on any input, NaN and infinity included; comparisons with NaN are false, so such
//! a box overlaps nothing and lies in no zone.

use serde::{Deserialize, Serialize};

/// A point in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Point {
    /// To the right.
    pub x: f64,
    /// Down.
    pub y: f64,
}

impl Point {
    /// A point from its coordinates.
    #[must_use]
    pub const fn new(x: f64, y: f64) -> Self {
        Self { x, y }
    }
}

/// An axis-aligned box by its corners, in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct BBox {
    /// Left edge.
    pub x1: f64,
    /// Upper edge.
    pub y1: f64,
    /// Right edge.
    pub x2: f64,
    /// Lower edge.
    pub y2: f64,
}

/// Which point of a box stands for the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[allow(missing_docs, reason = "the names say it")]
pub enum Anchor {
    #[default]
    Center,
    CenterLeft,
    CenterRight,
    TopCenter,
    TopLeft,
    TopRight,
    BottomLeft,
    BottomCenter,
    BottomRight,
    CenterOfMass,
}

impl BBox {
    /// A box from its corners.
    #[must_use]
    pub const fn new(x1: f64, y1: f64, x2: f64, y2: f64) -> Self {
        Self { x1, y1, x2, y2 }
    }

    /// Width in pixels; negative when the corners are swapped.
    #[must_use]
    pub fn width(&self) -> f64 {
        self.x2 - self.x1
    }

    /// Height in pixels; negative when the corners are swapped.
    #[must_use]
    pub fn height(&self) -> f64 {
        self.y2 - self.y1
    }

    /// Area in square pixels; zero for an empty or swapped box.
    #[must_use]
    pub fn area(&self) -> f64 {
        self.width().max(0.0) * self.height().max(0.0)
    }

    /// Centre.
    #[must_use]
    pub fn center(&self) -> Point {
        Point::new((self.x1 + self.x2) / 2.0, (self.y1 + self.y2) / 2.0)
    }

    /// The anchor point. The centre of mass of a box without a mask is its centre.
    #[must_use]
    pub fn anchor(&self, anchor: Anchor) -> Point {
        let c = self.center();
        match anchor {
            Anchor::Center | Anchor::CenterOfMass => c,
            Anchor::CenterLeft => Point::new(self.x1, c.y),
            Anchor::CenterRight => Point::new(self.x2, c.y),
            Anchor::TopCenter => Point::new(c.x, self.y1),
            Anchor::TopLeft => Point::new(self.x1, self.y1),
            Anchor::TopRight => Point::new(self.x2, self.y1),
            Anchor::BottomLeft => Point::new(self.x1, self.y2),
            Anchor::BottomCenter => Point::new(c.x, self.y2),
            Anchor::BottomRight => Point::new(self.x2, self.y2),
        }
    }

    /// Intersection over union, `0.0..=1.0`; zero when both are empty.
    #[must_use]
    pub fn iou(&self, other: &Self) -> f64 {
        let w = self.x2.min(other.x2) - self.x1.max(other.x1);
        let h = self.y2.min(other.y2) - self.y1.max(other.y1);
        if w > 0.0 && h > 0.0 {
            let inter = w * h;
            let union = self.area() + other.area() - inter;
            if union > 0.0 { inter / union } else { 0.0 }
        } else {
            0.0
        }
    }

    /// The part inside a picture of this size.
    #[must_use]
    pub fn clip(&self, width: f64, height: f64) -> Self {
        Self {
            x1: self.x1.clamp(0.0, width),
            y1: self.y1.clamp(0.0, height),
            x2: self.x2.clamp(0.0, width),
            y2: self.y2.clamp(0.0, height),
        }
    }

    /// As `[x_min, y_min, x_max, y_max]` in `0.0..=1.0` of a picture of this size, clipped to it.
    #[must_use]
    pub fn normalised(&self, width: f64, height: f64) -> [f64; 4] {
        let b = self.clip(width, height);
        [b.x1 / width, b.y1 / height, b.x2 / width, b.y2 / height]
    }
}
