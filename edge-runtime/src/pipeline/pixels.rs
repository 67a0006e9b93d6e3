//! Pixels of frames for workflows and encoders.
//!
//! - A frame becomes RGB only when a step asks for it, and then once: a workflow that draws nothing
//!   costs no colour conversion.

use std::sync::{Arc, OnceLock};

use image::RgbImage;
use image::imageops::{self, FilterType};
use watchkeeper_contract::privacy::MaskFill;
use watchkeeper_engine::workflow::{Pixels, RgbPixels};
use watchkeeper_vision::frame::{Picture, PixelFormat};
use watchkeeper_vision::jpeg;
use watchkeeper_vision::privacy::Cover;

/// A frame's picture, converted to RGB on demand.
#[derive(Debug)]
pub struct FramePixels {
    picture: Picture,
    rgb: OnceLock<Arc<RgbPixels>>,
}

impl FramePixels {
    /// Wraps a picture without touching its pixels.
    pub fn new(picture: Picture) -> Self {
        Self {
            picture,
            rgb: OnceLock::new(),
        }
    }

    /// The picture, as it was decoded.
    pub fn picture(&self) -> &Picture {
        &self.picture
    }

    /// The picture in its own memory, not converted yet.
    pub fn owned(&self) -> Self {
        let picture = &self.picture;
        if picture.planes.is_owned() {
            return Self::new(picture.clone());
        }
        // A mask without regions copies.
        let cover = Cover::new(&[], self.size());
        Self::new(cover.mask(picture, MaskFill::Black))
    }

    /// Bytes of the picture without padding, and without its conversion.
    pub fn bytes(&self) -> u64 {
        let pixels = u64::from(self.picture.width) * u64::from(self.picture.height);
        match self.picture.format {
            PixelFormat::Rgb => pixels * 3,
            PixelFormat::I420 | PixelFormat::Nv12 => pixels * 3 / 2,
        }
    }
}

impl Pixels for FramePixels {
    fn size(&self) -> [u32; 2] {
        [self.picture.width, self.picture.height]
    }

    fn rgb(&self) -> Arc<RgbPixels> {
        Arc::clone(self.rgb.get_or_init(|| {
            let (width, height) = (self.picture.width, self.picture.height);
            let data = match jpeg::to_rgb(&self.picture) {
                Ok(rgb) => rgb.into_raw(),
                Err(error) => {
                    tracing::warn!(%error, "could not convert a frame to RGB; it is drawn black");
                    vec![0; width as usize * height as usize * 3]
                }
            };
            Arc::new(RgbPixels {
                width,
                height,
                data,
            })
        }))
    }
}

/// Copies the pixels into an image for the encoders.
pub fn to_image(rgb: &RgbPixels) -> RgbImage {
    RgbImage::from_raw(rgb.width, rgb.height, rgb.data.clone())
        .unwrap_or_else(|| RgbImage::new(rgb.width, rgb.height))
}

/// Puts pictures side by side in rows of at most `columns`; `None` without pictures or columns.
pub fn arrange_in_columns(pictures: &[RgbImage], columns: u32) -> Option<RgbImage> {
    let width = pictures.iter().map(RgbImage::width).max()?;
    let height = pictures.iter().map(RgbImage::height).max()?;
    let count = u32::try_from(pictures.len()).ok()?;
    let columns = Some(columns.min(count)).filter(|columns| *columns > 0)?;
    let mut all = RgbImage::new(width * columns, height * count.div_ceil(columns));
    for (place, picture) in (0_u32..).zip(pictures) {
        let (x, y) = (place % columns * width, place / columns * height);
        imageops::replace(&mut all, picture, x.into(), y.into());
    }
    Some(all)
}

/// Scales the picture into `size` (width, height), centred on black, keeping its aspect ratio.
pub fn fitted(rgb: &RgbPixels, size: [u32; 2]) -> RgbImage {
    let picture = to_image(rgb);
    let [width, height] = size;
    let scale = |to: u32, of: u32| f64::from(to) / f64::from(of.max(1));
    let scale = scale(width, rgb.width).min(scale(height, rgb.height));
    let scaled = |side: u32, most: u32| ((f64::from(side) * scale).round() as u32).clamp(1, most);
    let (w, h) = (scaled(rgb.width, width), scaled(rgb.height, height));
    let small = imageops::resize(&picture, w, h, FilterType::Triangle);
    let mut whole = RgbImage::new(width, height);
    let (x, y) = ((width - w) / 2, (height - h) / 2);
    imageops::replace(&mut whole, &small, x.into(), y.into());
    whole
}

#[cfg(test)]
mod tests {
    use watchkeeper_vision::frame::{Plane, Planes};

    use super::*;

    /// Planes that end before their rows do, as a broken decoder gives them.
    #[derive(Debug)]
    struct ShortPlanes;

    impl Planes for ShortPlanes {
        fn plane(&self, _: usize) -> Plane<'_> {
            Plane {
                data: &[255; 10],
                stride: 8,
            }
        }
    }

    #[test]
    fn short_planes_become_an_owned_black_picture() {
        let frame = FramePixels::new(Picture {
            format: PixelFormat::Nv12,
            planes: Arc::new(ShortPlanes),
            ..Picture::rgb(8, 8, vec![255; 8 * 8 * 3])
        });
        let owned = frame.owned();
        assert!(owned.picture().planes.is_owned());
        assert_eq!(owned.rgb().data, vec![0; 8 * 8 * 3]);
    }

    #[test]
    fn fitted_picture_is_centred_and_keeps_its_shape() {
        let white = |width: u32, height: u32| RgbPixels {
            width,
            height,
            data: vec![255; width as usize * height as usize * 3],
        };
        for (from, bounds) in [
            ((20, 10), [0, 15, 60, 45]),
            ((10, 20), [15, 0, 45, 60]),
            ((300, 300), [0, 0, 60, 60]),
            ((60, 60), [0, 0, 60, 60]),
        ] {
            let fitted = fitted(&white(from.0, from.1), [60, 60]);
            let [x1, y1, x2, y2] = bounds;
            for (x, y, pixel) in fitted.enumerate_pixels() {
                let inside = (x1..x2).contains(&x) && (y1..y2).contains(&y);
                assert_eq!(
                    pixel.0,
                    [if inside { 255 } else { 0 }; 3],
                    "{from:?} {x} {y}"
                );
            }
        }
    }
}
