//! Motion model of a bounding box: four filters that do not depend on each other.
//!
//! - Owns which numbers of a box are filtered, and the noise of each.
//! - Invariant: width and height of [`Form::CenterAndSize`] never fall below [`MIN_SIDE`].
//! - Not here: the filter of one number (`axis`), what a track remembers besides.

use serde::{Deserialize, Serialize};

use crate::geometry::BBox;
use crate::track::axis::Axis;

/// Smallest side of a box in BoT-SORT's filter, in pixels.
const MIN_SIDE: f64 = 1e-3;
/// BoT-SORT's standard deviations of places, velocities and measurements, in widths and heights.
const PLACE_STD: f64 = 0.05;
const VELOCITY_STD: f64 = 0.00625;
const MEASURED_STD: f64 = 0.05;

/// The four filtered numbers of a box.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Form {
    /// Left, top, right, bottom.
    Sides,
    /// Centre, area, and the constant aspect ratio.
    AreaAndRatio,
    /// Centre, width, height.
    CenterAndSize,
}

impl Form {
    pub(super) fn measure(self, b: &BBox) -> [f64; 4] {
        let (c, w, h) = (b.center(), b.width(), b.height());
        match self {
            Self::Sides => [b.x1, b.y1, b.x2, b.y2],
            Self::AreaAndRatio => [c.x, c.y, w * h, w / (h + 1e-6)],
            Self::CenterAndSize => [c.x, c.y, w, h],
        }
    }

    fn bbox(self, [a, b, c, d]: [f64; 4]) -> BBox {
        let around = |w: f64, h: f64| BBox::new(a - w / 2.0, b - h / 2.0, a + w / 2.0, b + h / 2.0);
        match self {
            Self::Sides => BBox::new(a, b, c, d),
            Self::AreaAndRatio => {
                let w = (c * d).sqrt();
                around(w, c / w)
            }
            Self::CenterAndSize => around(c, d),
        }
    }
}

/// Motion of a box: four independent filters.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Motion {
    form: Form,
    axes: [Axis; 4],
}

impl Motion {
    pub(super) fn new(form: Form, b: &BBox) -> Self {
        let at = form.measure(b);
        let mut stds = match form {
            Form::Sides => [(1.0, 1.0); 4],
            Form::AreaAndRatio => [(10_f64.sqrt(), 100.0); 4],
            Form::CenterAndSize => {
                let first = |side: f64| (2.0 * PLACE_STD * side, 10.0 * VELOCITY_STD * side);
                let (w, h) = (first(b.width()), first(b.height()));
                [w, h, w, h]
            }
        };
        if form == Form::AreaAndRatio {
            // The aspect ratio is constant.
            stds[3].1 = 0.0;
        }
        let axis = |i: usize| Axis::new(at[i], stds[i].0, stds[i].1);
        Self {
            form,
            axes: [axis(0), axis(1), axis(2), axis(3)],
        }
    }

    pub(super) fn bbox(&self) -> BBox {
        self.form.bbox(self.axes.map(|a| a.position))
    }

    /// Width and height, at least [`MIN_SIDE`].
    fn sides(&self) -> [f64; 4] {
        let b = self.bbox();
        let (w, h) = (b.width().max(MIN_SIDE), b.height().max(MIN_SIDE));
        [w, h, w, h]
    }

    /// Predicts one frame ahead.
    pub(super) fn predict(&mut self) {
        if self.form == Form::AreaAndRatio && self.axes[2].position + self.axes[2].velocity <= 0.0 {
            self.axes[2].velocity = 0.0;
        }
        self.advance();
    }

    pub(super) fn advance(&mut self) {
        let noise = match self.form {
            Form::Sides => [(0.1, 0.1); 4],
            Form::AreaAndRatio => [(1.0, 0.1), (1.0, 0.1), (1.0, 0.01), (1.0, 0.0)],
            Form::CenterAndSize => self.sides().map(|s| (PLACE_STD * s, VELOCITY_STD * s)),
        };
        for (axis, (place, velocity)) in self.axes.iter_mut().zip(noise) {
            axis.advance(1.0, place, velocity);
        }
        self.keep_size();
    }

    pub(super) fn correct(&mut self, b: &BBox) {
        self.correct_by(self.form.measure(b));
    }

    pub(super) fn correct_by(&mut self, measured: [f64; 4]) {
        let noise = match self.form {
            Form::Sides => [0.1_f64.sqrt(); 4],
            Form::AreaAndRatio => [1.0, 1.0, 10_f64.sqrt(), 10_f64.sqrt()],
            Form::CenterAndSize => self.sides().map(|s| MEASURED_STD * s),
        };
        for ((axis, at), std) in self.axes.iter_mut().zip(measured).zip(noise) {
            axis.correct(at, std);
        }
        self.keep_size();
    }

    fn keep_size(&mut self) {
        if self.form == Form::CenterAndSize {
            for axis in &mut self.axes[2..] {
                axis.position = axis.position.max(MIN_SIDE);
            }
        }
    }
}
