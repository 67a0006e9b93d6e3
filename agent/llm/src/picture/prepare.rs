//! Decodes a picture, scales it to a size that the server leaves unscaled, and encodes it.
//!
//! - Nothing is cropped or padded: coordinates differ from the original's by
//!   [`PreparedPicture::scale`] alone.
//! - A picture that fits keeps its exact bytes.

use bytes::Bytes;
use fast_image_resize::images::{TypedImage, TypedImageRef};
use fast_image_resize::pixels::U8x3;
use fast_image_resize::{ResizeOptions, Resizer};
use image::{ImageFormat, RgbImage};
use watchkeeper_vision::jpeg;
use watchkeeper_vision::picture_file::{PictureFile, PictureFileError};

use super::size::{unscaled, with_long_edge};
use crate::catalogue::ImageTier;
use crate::conversation::{MediaType, Picture};

/// JPEG quality: text in the picture stays readable, and tokens do not depend on it.
const QUALITY: u8 = 85;

/// Resolution of pictures for a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// Enough for a verdict: long edge up to 896 px (576 tokens at 16:9).
    Low,
    /// Enough to place lines and zones: long edge up to 1456 px (1560 tokens at 16:9).
    Medium,
}

impl Detail {
    const fn max_edge(self) -> u32 {
        match self {
            Self::Low => 896,
            Self::Medium => 1_456,
        }
    }
}

/// A picture ready to send.
#[derive(Debug, Clone, PartialEq)]
pub struct PreparedPicture {
    pub picture: Picture,
    /// Factors from a model's coordinates to the original's, across and down.
    pub scale: (f64, f64),
}

/// Why a picture can't be prepared.
#[derive(Debug, thiserror::Error)]
pub enum PictureError {
    /// The file is damaged, of another format, or beyond a bound.
    #[error("the picture can't be read ({0}); give a JPEG, PNG or WebP file")]
    Unreadable(#[from] PictureFileError),
    /// Scaling or encoding failed: a fault of this program.
    #[error("the picture could not be scaled ({0})")]
    Internal(String),
}

/// Prepares `file`, a JPEG, PNG or WebP, for a model whose server scales by `tier`.
///
/// # Errors
/// When the file is not a sound JPEG, PNG or WebP within the bounds of [`PictureFile`].
pub fn prepare(
    file: &Bytes,
    tier: ImageTier,
    detail: Detail,
) -> Result<PreparedPicture, PictureError> {
    let opened = PictureFile::open(file)?;
    // Not all servers read WebP.
    let kept_as = match opened.format() {
        ImageFormat::Jpeg => Some(MediaType::Jpeg),
        ImageFormat::Png => Some(MediaType::Png),
        _ => None,
    };
    let (width, height) = opened.size();
    // A picture that keeps its bytes is decoded too: a damaged one costs a call.
    let decoded = opened.decode()?;
    let (mut to_width, mut to_height) = unscaled(tier, width, height);
    if to_width.max(to_height) > detail.max_edge() {
        (to_width, to_height) = with_long_edge(width, height, detail.max_edge());
    }
    let is_same = (to_width, to_height) == (width, height);
    let (media, bytes) = match kept_as {
        Some(media) if is_same => (media, file.clone()),
        _ => {
            let small = scaled(&decoded, to_width, to_height)?;
            (MediaType::Jpeg, encoded(&small)?)
        }
    };
    Ok(PreparedPicture {
        picture: Picture {
            media,
            width: to_width,
            height: to_height,
            bytes,
        },
        scale: (
            f64::from(width) / f64::from(to_width),
            f64::from(height) / f64::from(to_height),
        ),
    })
}

fn internal(error: &dyn std::fmt::Display) -> PictureError {
    PictureError::Internal(error.to_string())
}

fn scaled(from: &RgbImage, width: u32, height: u32) -> Result<RgbImage, PictureError> {
    let mut to = RgbImage::new(width, height);
    // Of one pixel type: the resizer's code for all of them takes seconds to compile.
    let source = TypedImageRef::<U8x3>::from_buffer(from.width(), from.height(), from)
        .map_err(|e| internal(&e))?;
    let mut target =
        TypedImage::<U8x3>::from_buffer(width, height, &mut to).map_err(|e| internal(&e))?;
    Resizer::new()
        .resize_typed(&source, &mut target, &ResizeOptions::new())
        .map_err(|e| internal(&e))?;
    Ok(to)
}

fn encoded(picture: &RgbImage) -> Result<Bytes, PictureError> {
    let out = jpeg::encode(picture, QUALITY).map_err(|e| internal(&e))?;
    Ok(out.into())
}

#[cfg(test)]
mod tests {
    use image::{DynamicImage, Rgb};

    use super::*;

    /// A black picture with a white square of `side` pixels.
    fn scene(width: u32, height: u32, at: (u32, u32), side: u32) -> Bytes {
        let mut picture = RgbImage::new(width, height);
        for y in at.1..at.1 + side {
            for x in at.0..at.0 + side {
                picture.put_pixel(x, y, Rgb([255; 3]));
            }
        }
        encoded(&picture).expect("encode")
    }

    /// The centre of the bright pixels.
    fn bright(file: &[u8]) -> (f64, f64) {
        let picture: DynamicImage = image::load_from_memory(file).expect("decode");
        let (mut n, mut sum) = (0.0, (0.0, 0.0));
        for (x, y, pixel) in picture.into_rgb8().enumerate_pixels() {
            if pixel.0[0] > 128 {
                n += 1.0;
                sum = (sum.0 + f64::from(x) + 0.5, sum.1 + f64::from(y) + 0.5);
            }
        }
        (sum.0 / n, sum.1 / n)
    }

    #[test]
    fn scale_maps_coordinates_to_the_original() {
        let file = scene(1920, 1080, (1500, 300), 120);
        for (detail, size) in [(Detail::Low, (896, 504)), (Detail::Medium, (1456, 819))] {
            let made = prepare(&file, ImageTier::Standard, detail).expect("prepare");
            assert_eq!((made.picture.width, made.picture.height), size);
            let seen = bright(&made.picture.bytes);
            let (x, y) = (seen.0 * made.scale.0, seen.1 * made.scale.1);
            assert!(
                (x - 1560.0).abs() < 1.5 && (y - 360.0).abs() < 1.5,
                "{x} {y}"
            );
        }
    }

    #[test]
    fn picture_that_fits_keeps_its_bytes() {
        let file = scene(640, 480, (0, 0), 10);
        let made = prepare(&file, ImageTier::Standard, Detail::Low).expect("prepare");
        assert_eq!(made.picture.bytes, file);
        assert_eq!(made.scale, (1.0, 1.0));
    }

    #[test]
    fn file_that_is_not_a_picture_is_rejected_with_the_remedy() {
        for wrong in [&b"GIF89a...."[..], b"", b"\xff\xd8\xff\xe0 and no more"] {
            let refused = prepare(
                &Bytes::copy_from_slice(wrong),
                ImageTier::High,
                Detail::Medium,
            );
            let refused = refused.expect_err("refused").to_string();
            assert!(
                refused.ends_with("give a JPEG, PNG or WebP file"),
                "{refused}"
            );
        }
    }
}
