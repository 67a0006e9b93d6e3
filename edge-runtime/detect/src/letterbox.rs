//! The place of a picture in a network's input, and the mapping of boxes back.
//!
//! - Mapping a point there and back is the identity up to rounding.
//! - Each axis uses its true scale, so that rounding to whole pixels moves no box. Roboflow's
//!   packages are an exception: they map by one scale and whole margins, which differs by less than
//!   a pixel.

use watchkeeper_models::manifest::{Fit, Input, Placement};
use watchkeeper_vision::geometry::{BBox, Point};

/// The place of a picture in the input, in pixels of the input.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Letterbox {
    pub source_width: u32,
    pub source_height: u32,
    /// The visible part of the picture: all of it unless it is cropped.
    pub part: Part,
    /// Left edge of the scaled picture.
    pub left: u32,
    /// Upper edge of the scaled picture.
    pub top: u32,
    /// Width of the scaled picture, at least 1.
    pub width: u32,
    /// Height of the scaled picture, at least 1.
    pub height: u32,
    /// Input pixels per pixel of the picture, for packages that map points by this scale and whole
    /// margins in single precision.
    pub scale: Option<f64>,
}

/// A part of a picture, in its pixels. Its corner has even coordinates, so that half-size planes
/// can be cropped alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    pub left: u32,
    pub top: u32,
    /// Width, at least 1.
    pub width: u32,
    /// Height, at least 1.
    pub height: u32,
}

impl Part {
    /// The part of this size in the middle of a picture.
    const fn centred(picture: [u32; 2], [width, height]: [u32; 2]) -> Self {
        Self {
            left: (picture[0] - width) / 2 / 2 * 2,
            top: (picture[1] - height) / 2 / 2 * 2,
            width,
            height,
        }
    }
}

impl Letterbox {
    /// Fits a picture into an input; `None` for an empty picture.
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
            part: Part::centred([source_width, source_height], [source_width, source_height]),
            left: 0,
            top: 0,
            width: input.width,
            height: input.height,
            scale: None,
        };
        // Integers keep the ratio exact.
        let (sw, sh) = (u64::from(source_width), u64::from(source_height));
        let (iw, ih) = (u64::from(input.width), u64::from(input.height));
        let is_wide = iw * sh <= ih * sw;
        let placement = match input.fit {
            Fit::Stretch => return Some(full),
            Fit::Crop => {
                let (width, height) = if is_wide {
                    (side(sh * iw / ih, source_width), source_height)
                } else {
                    (source_width, side(sw * ih / iw, source_height))
                };
                let part = Part::centred([source_width, source_height], [width, height]);
                return Some(Self { part, ..full });
            }
            Fit::Letterbox { placement, .. } => placement,
        };
        // The side that fills the input decides.
        let (width, height) = if is_wide {
            (input.width, side(sh * iw / sw, input.height))
        } else {
            (side(sw * ih / sh, input.width), input.height)
        };
        let (left, top) = match placement {
            Placement::TopLeft => (0, 0),
            Placement::Centre | Placement::CentreExact => {
                ((input.width - width) / 2, (input.height - height) / 2)
            }
        };
        if placement == Placement::CentreExact {
            return Some(full.by_scale([input.width, input.height]));
        }
        Some(Self {
            left,
            top,
            width,
            height,
            ..full
        })
    }

    /// Places the picture like Roboflow's engine, which truncates sides and margins.
    fn by_scale(self, input: [u32; 2]) -> Self {
        let [width, height] = input.map(f64::from);
        let (sw, sh) = (f64::from(self.source_width), f64::from(self.source_height));
        let scale = (width / sw).min(height / sh);
        let [width, height] = [(sw * scale, input[0]), (sh * scale, input[1])]
            .map(|(side, most)| (side as u32).clamp(1, most));
        Self {
            left: (input[0] - width) / 2,
            top: (input[1] - height) / 2,
            width,
            height,
            scale: Some(scale),
            ..self
        }
    }

    /// Maps a point from the input to the picture.
    #[must_use]
    pub fn point_to_source(&self, p: Point) -> Point {
        if let Some(scale) = self.scale {
            let back = |at: f64, margin: u32| {
                let [at, margin, scale] = [at, f64::from(margin), scale].map(|n| n as f32);
                f64::from((at - margin) / scale)
            };
            return Point::new(back(p.x, self.left), back(p.y, self.top));
        }
        let sx = f64::from(self.part.width) / f64::from(self.width);
        let sy = f64::from(self.part.height) / f64::from(self.height);
        Point::new(
            (p.x - f64::from(self.left)) * sx + f64::from(self.part.left),
            (p.y - f64::from(self.top)) * sy + f64::from(self.part.top),
        )
    }

    /// Maps a point from the picture to the input.
    #[must_use]
    pub fn point_to_input(&self, p: Point) -> Point {
        if let Some(scale) = self.scale {
            let (left, top) = (f64::from(self.left), f64::from(self.top));
            return Point::new(p.x * scale + left, p.y * scale + top);
        }
        let sx = f64::from(self.width) / f64::from(self.part.width);
        let sy = f64::from(self.height) / f64::from(self.part.height);
        Point::new(
            (p.x - f64::from(self.part.left)) * sx + f64::from(self.left),
            (p.y - f64::from(self.part.top)) * sy + f64::from(self.top),
        )
    }

    /// Maps a box from the input to the picture, without clipping.
    #[must_use]
    pub fn to_source(&self, b: &BBox) -> BBox {
        let [min, max] = corners(b).map(|p| self.point_to_source(p));
        BBox::new(min.x, min.y, max.x, max.y)
    }

    /// Maps a box from the picture to the input.
    #[must_use]
    pub fn to_input(&self, b: &BBox) -> BBox {
        let [min, max] = corners(b).map(|p| self.point_to_input(p));
        BBox::new(min.x, min.y, max.x, max.y)
    }
}

fn corners(b: &BBox) -> [Point; 2] {
    [Point::new(b.x1, b.y1), Point::new(b.x2, b.y2)]
}

/// Clamps a scaled side to `1..=max`.
fn side(scaled: u64, most: u32) -> u32 {
    u32::try_from(scaled).unwrap_or(most).clamp(1, most)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::input;

    fn fits() -> impl Strategy<Value = Fit> {
        prop_oneof![
            Just(Fit::Stretch),
            Just(Fit::Crop),
            Just(Fit::Letterbox {
                placement: Placement::TopLeft,
                pad: 114
            }),
            Just(Fit::Letterbox {
                placement: Placement::Centre,
                pad: 0
            }),
            Just(Fit::Letterbox {
                placement: Placement::CentreExact,
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

    /// Measured at Roboflow's own detector: a crop of 250×190 in an input of 640×640.
    #[test]
    fn a_package_of_another_engine_maps_by_whole_margins() {
        let fit = Fit::Letterbox {
            placement: Placement::CentreExact,
            pad: 127,
        };
        let lb = Letterbox::fit(250, 190, &input(640, 640, fit)).expect("not empty");
        assert_eq!((lb.left, lb.top, lb.width, lb.height), (0, 77, 640, 486));
        let back = lb.to_source(&BBox::new(120.0, 140.0, 200.0, 260.0));
        let whole = [back.x1, back.y1, back.x2, back.y2].map(f64::round_ties_even);
        assert_eq!(whole, [47.0, 25.0, 78.0, 71.0]);
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
                // Single precision resolves a pixel of a large input to a few thousandths.
                let near = if lb.scale.is_some() { 1e-3 * (w + h) / f64::from(iw.min(ih)) } else { 1e-6 * (w + h) };
                prop_assert!((a - b).abs() < near, "{a} came back as {b}");
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
            let fills = |side: u32, input: u32| side == input || (lb.scale.is_some() && side + 1 == input);
            prop_assert!(fills(lb.width, iw) || fills(lb.height, ih), "one side fills the input");
            let Part { left, top, width, height } = lb.part;
            prop_assert!(left + width <= sw && top + height <= sh);
            if fit == Fit::Crop {
                prop_assert!(width == sw || height == sh, "one side is seen whole");
                prop_assert!(sw - width - left <= left + 3 && sh - height - top <= top + 3, "from the middle");
                // Rounding a side down shortens it by less than a pixel.
                let ratio = f64::from(iw) / f64::from(ih);
                let (w, h) = (f64::from(width), f64::from(height));
                prop_assert!((w - h * ratio).abs() < 1.0 || (h - w / ratio).abs() < 1.0 || width == 1 || height == 1);
            } else {
                prop_assert_eq!(lb.part, Part { left: 0, top: 0, width: sw, height: sh });
            }
            if let Fit::Letterbox { .. } = fit {
                // The shorter side is the exact one rounded down, or 1.
                let exact = f64::from(sh) * f64::from(lb.width) / f64::from(sw);
                let other = f64::from(sw) * f64::from(lb.height) / f64::from(sh);
                // Truncating a float may lose one pixel more.
                let most = if lb.scale.is_some() { 2.0 } else { 1.0 };
                prop_assert!(
                    (exact - f64::from(lb.height)).abs() < most || (other - f64::from(lb.width)).abs() < most
                        || lb.width == 1 || lb.height == 1
                );
            }
        }
    }
}
