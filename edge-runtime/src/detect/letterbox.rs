//! Where a picture lies in a network's input, and the way back for boxes.
//!
//! Invariant: mapping a point there and back is the identity up to rounding of floats; the true scaled size is used on
//! each axis, so that rounding it to whole pixels moves no box.

use watchkeeper_engine::geometry::BBox;
use watchkeeper_models::manifest::{Fit, Input, Placement};

/// The place of a picture in the input, in input pixels, and the picture's own size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Letterbox {
    /// Width of the picture in pixels.
    pub source_width: u32,
    /// Height of the picture in pixels.
    pub source_height: u32,
    /// Left edge of the scaled picture.
    pub left: u32,
    /// Upper edge of the scaled picture.
    pub top: u32,
    /// Width of the scaled picture, at least 1.
    pub width: u32,
    /// Height of the scaled picture, at least 1.
    pub height: u32,
}

impl Letterbox {
    /// Fits a picture of this size into an input; none for an empty picture.
    ///
    /// Scaled sides are rounded down, as YOLOX's `preproc` does (`yolox/data/data_augment.py`).
    #[must_use]
    pub fn fit(source_width: u32, source_height: u32, input: &Input) -> Option<Self> {
        if source_width == 0 || source_height == 0 {
            return None;
        }
        let full = Self {
            source_width,
            source_height,
            left: 0,
            top: 0,
            width: input.width,
            height: input.height,
        };
        let Fit::Letterbox { placement, .. } = input.fit else {
            return Some(full);
        };
        // The side that fills the input decides; whole numbers keep it exact.
        let (sw, sh) = (u64::from(source_width), u64::from(source_height));
        let (iw, ih) = (u64::from(input.width), u64::from(input.height));
        let (width, height) = if iw * sh <= ih * sw {
            (input.width, side(sh * iw / sw, input.height))
        } else {
            (side(sw * ih / sh, input.width), input.height)
        };
        let (left, top) = match placement {
            Placement::TopLeft => (0, 0),
            Placement::Centre => ((input.width - width) / 2, (input.height - height) / 2),
        };
        Some(Self {
            left,
            top,
            width,
            height,
            ..full
        })
    }

    /// A box in input pixels as one in pixels of the picture, not clipped.
    #[must_use]
    pub fn to_source(&self, b: &BBox) -> BBox {
        let sx = f64::from(self.source_width) / f64::from(self.width);
        let sy = f64::from(self.source_height) / f64::from(self.height);
        let (left, top) = (f64::from(self.left), f64::from(self.top));
        BBox::new(
            (b.x1 - left) * sx,
            (b.y1 - top) * sy,
            (b.x2 - left) * sx,
            (b.y2 - top) * sy,
        )
    }

    /// A box in pixels of the picture as one in input pixels.
    #[must_use]
    pub fn to_input(&self, b: &BBox) -> BBox {
        let sx = f64::from(self.width) / f64::from(self.source_width);
        let sy = f64::from(self.height) / f64::from(self.source_height);
        let (left, top) = (f64::from(self.left), f64::from(self.top));
        BBox::new(
            b.x1 * sx + left,
            b.y1 * sy + top,
            b.x2 * sx + left,
            b.y2 * sy + top,
        )
    }
}

/// A scaled side: at least 1, at most the input's.
fn side(scaled: u64, most: u32) -> u32 {
    u32::try_from(scaled).unwrap_or(most).clamp(1, most)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::detect::testing::input;

    fn fits() -> impl Strategy<Value = Fit> {
        prop_oneof![
            Just(Fit::Stretch),
            Just(Fit::Letterbox {
                placement: Placement::TopLeft,
                pad: 114
            }),
            Just(Fit::Letterbox {
                placement: Placement::Centre,
                pad: 0
            }),
        ]
    }

    #[test]
    fn full_hd_fills_the_width_of_the_yolox_input() {
        let fit = Fit::Letterbox {
            placement: Placement::TopLeft,
            pad: 114,
        };
        let lb = Letterbox::fit(1920, 1080, &input(416, 416, fit)).expect("not empty");
        assert_eq!((lb.left, lb.top, lb.width, lb.height), (0, 0, 416, 234));
    }

    #[test]
    fn empty_picture_has_no_place() {
        assert_eq!(Letterbox::fit(0, 10, &input(416, 416, Fit::Stretch)), None);
    }

    proptest! {
        #[test]
        fn box_comes_back_where_it_was(
            (sw, sh) in (1u32..8000, 1u32..8000),
            (iw, ih) in (16u32..1280, 16u32..1280),
            fit in fits(),
            corners in prop::array::uniform4(-0.5f64..1.5),
        ) {
            let lb = Letterbox::fit(sw, sh, &input(iw, ih, fit)).expect("not empty");
            let (w, h) = (f64::from(sw), f64::from(sh));
            let b = BBox::new(corners[0] * w, corners[1] * h, corners[2] * w, corners[3] * h);
            let back = lb.to_source(&lb.to_input(&b));
            for (a, b) in [(b.x1, back.x1), (b.y1, back.y1), (b.x2, back.x2), (b.y2, back.y2)] {
                prop_assert!((a - b).abs() < 1e-6 * (w + h), "{a} came back as {b}");
            }
        }

        #[test]
        fn picture_lies_inside_the_input_and_keeps_its_shape(
            (sw, sh) in (1u32..8000, 1u32..8000),
            (iw, ih) in (16u32..1280, 16u32..1280),
            fit in fits(),
        ) {
            let lb = Letterbox::fit(sw, sh, &input(iw, ih, fit)).expect("not empty");
            prop_assert!(lb.left + lb.width <= iw && lb.top + lb.height <= ih);
            prop_assert!(lb.width == iw || lb.height == ih, "one side fills the input");
            if fit != Fit::Stretch {
                // The shorter side is the exact one rounded down, or 1.
                let exact = f64::from(sh) * f64::from(lb.width) / f64::from(sw);
                let other = f64::from(sw) * f64::from(lb.height) / f64::from(sh);
                prop_assert!(
                    (exact - f64::from(lb.height)).abs() < 1.0 || (other - f64::from(lb.width)).abs() < 1.0
                );
            }
        }
    }
}
