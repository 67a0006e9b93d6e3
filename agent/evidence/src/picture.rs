//! Checks of pictures before a model sees one.
//!
//! - At least one picture; JPEG, PNG or WebP by its contents, whatever its name says.
//! - At most [`MAX_BYTES`] and [`MAX_PIXELS`]; it is whole and can be decoded.

use std::io::Cursor;

use image::codecs::jpeg::JpegEncoder;
use image::{ImageFormat, ImageReader, Limits};
use watchkeeper_vision::picture_file::PictureFile;

/// Largest picture in bytes.
pub const MAX_BYTES: usize = 10 << 20;
/// Most pixels of a picture.
pub const MAX_PIXELS: u64 = 50_000_000;
/// Longest side in pixels.
const MAX_SIDE: u32 = 16_384;

/// Why pictures are refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PictureError {
    #[error("the event has no picture")]
    None,
    #[error("picture {nth} is empty")]
    Empty { nth: usize },
    #[error("picture {nth} has {bytes} bytes, more than {MAX_BYTES}")]
    TooLarge { nth: usize, bytes: usize },
    #[error("picture {nth} is neither JPEG, PNG nor WebP")]
    Format { nth: usize },
    #[error("picture {nth} has {width} x {height} pixels, more than {MAX_PIXELS}")]
    TooManyPixels { nth: usize, width: u32, height: u32 },
    #[error("picture {nth} can't be decoded: {why}")]
    Unreadable { nth: usize, why: String },
}

/// Checks pictures, numbered from 1.
///
/// # Errors
/// The first thing that is wrong.
pub fn check(pictures: &[&[u8]]) -> Result<(), PictureError> {
    if pictures.is_empty() {
        return Err(PictureError::None);
    }
    let numbered = (1..).zip(pictures);
    numbered
        .into_iter()
        .try_for_each(|(nth, bytes)| check_one(nth, bytes))
}

/// Quality of a cut-out as JPEG.
const CUT_QUALITY: u8 = 95;

/// Returns the part in `bbox`, normalised `[x_min, y_min, x_max, y_max]`, as JPEG; without one the
/// whole picture, as it is where a runtime takes it (JPEG, PNG).
///
/// # Errors
/// If it can't be decoded.
pub fn cut(bytes: &[u8], bbox: Option<[f64; 4]>) -> Result<Vec<u8>, PictureError> {
    let unreadable = |error: image::ImageError| PictureError::Unreadable {
        nth: 1,
        why: error.to_string(),
    };
    if bbox.is_none() && !matches!(image::guess_format(bytes), Ok(ImageFormat::WebP)) {
        return Ok(bytes.to_vec());
    }
    let whole = image::load_from_memory(bytes).map_err(unreadable)?;
    let (width, height) = (whole.width(), whole.height());
    let [left, top, right, bottom] = bbox.unwrap_or([0.0, 0.0, 1.0, 1.0]);
    // A float becomes the nearest number of the range; what is not a number becomes 0.
    let pixel =
        |share: f64, size: u32| (share * f64::from(size)).round().min(f64::from(size)) as u32;
    let (x, y) = (
        pixel(left, width).min(width.saturating_sub(1)),
        pixel(top, height).min(height.saturating_sub(1)),
    );
    let right = pixel(right, width).max(x + 1);
    let bottom = pixel(bottom, height).max(y + 1);
    let part = whole.crop_imm(x, y, right - x, bottom - y).to_rgb8();
    let mut jpeg = Vec::new();
    let encoder = JpegEncoder::new_with_quality(&mut jpeg, CUT_QUALITY);
    part.write_with_encoder(encoder).map_err(unreadable)?;
    Ok(jpeg)
}

fn check_one(nth: usize, bytes: &[u8]) -> Result<(), PictureError> {
    match bytes.len() {
        0 => return Err(PictureError::Empty { nth }),
        size if size > MAX_BYTES => return Err(PictureError::TooLarge { nth, bytes: size }),
        _ => {}
    }
    let unreadable = |error: &dyn std::fmt::Display| PictureError::Unreadable {
        nth,
        why: error.to_string(),
    };
    let reader = || {
        let reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format();
        reader.map_err(|error| unreadable(&error))
    };
    let found = reader()?;
    let Some(format @ (ImageFormat::Jpeg | ImageFormat::Png | ImageFormat::WebP)) = found.format()
    else {
        return Err(PictureError::Format { nth });
    };
    let (width, height) = found
        .into_dimensions()
        .map_err(|error| unreadable(&error))?;
    if u64::from(width) * u64::from(height) > MAX_PIXELS {
        return Err(PictureError::TooManyPixels { nth, width, height });
    }
    if format != ImageFormat::WebP {
        let whole = PictureFile::open(bytes).and_then(PictureFile::decode);
        return whole.map(drop).map_err(|error| unreadable(&error));
    }
    let mut decoding = reader()?;
    let mut limits = Limits::default();
    limits.max_image_width = Some(MAX_SIDE);
    limits.max_image_height = Some(MAX_SIDE);
    decoding.limits(limits);
    decoding.decode().map_err(|error| unreadable(&error))?;
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use image::{DynamicImage, RgbImage};

    use super::*;

    fn picture(format: ImageFormat) -> Vec<u8> {
        let mut bytes = Cursor::new(Vec::new());
        let picture = DynamicImage::ImageRgb8(RgbImage::new(40, 30));
        picture.write_to(&mut bytes, format).unwrap();
        bytes.into_inner()
    }

    #[test]
    fn image_validation_failure_names_what_is_wrong() {
        let good = [ImageFormat::Jpeg, ImageFormat::Png, ImageFormat::WebP].map(picture);
        let all: Vec<&[u8]> = good.iter().map(Vec::as_slice).collect();
        assert_eq!(check(&all), Ok(()));
        assert_eq!(check(&[]), Err(PictureError::None));
        assert_eq!(check(&[&[]]), Err(PictureError::Empty { nth: 1 }));
        let gif = b"GIF89a\x01\x00\x01\x00\x00\x00\x00;";
        assert_eq!(check(&[gif]), Err(PictureError::Format { nth: 1 }));
        assert_eq!(check(&[b"<svg/>"]), Err(PictureError::Format { nth: 1 }));
        let large = vec![0; MAX_BYTES + 1];
        let is_large = matches!(check(&[&large]), Err(PictureError::TooLarge { .. }));
        assert!(is_large);
        for whole in &good {
            // A decoder fills the missing end of a JPEG with grey.
            let cut = &whole[..whole.len() - 20];
            let checked = check(&[&good[0], cut]);
            let is_refused = matches!(checked, Err(PictureError::Unreadable { nth: 2, .. }));
            assert!(is_refused, "{checked:?}");
        }
    }

    #[test]
    fn cut_out_is_the_box_within_the_picture() {
        let png = picture(ImageFormat::Png);
        assert_eq!(
            cut(&png, None).unwrap(),
            png,
            "a whole picture stays as it is"
        );
        for (bbox, expected) in [
            ([0.25, 0.5, 0.75, 1.0], (20, 15)),
            ([-1.0, -1.0, 2.0, 2.0], (40, 30)),
            ([0.5, 0.5, 0.5, 0.5], (1, 1)),
            ([1.0, 1.0, 0.0, 0.0], (1, 1)),
            ([f64::NAN; 4], (1, 1)),
        ] {
            let part = image::load_from_memory(&cut(&png, Some(bbox)).unwrap()).unwrap();
            assert_eq!((part.width(), part.height()), expected, "{bbox:?}");
        }
        let webp = picture(ImageFormat::WebP);
        let jpeg = cut(&webp, None).unwrap();
        assert_eq!(image::guess_format(&jpeg).unwrap(), ImageFormat::Jpeg);
    }

    #[test]
    fn picture_with_too_many_pixels_is_refused_before_it_is_decoded() {
        // A PNG that claims 60,000 x 60,000 pixels and has none: its header and an empty part of
        // pixels, each with its check sum.
        let mut png =
            b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\xea\x60\0\0\xea\x60\x08\x02\0\0\0".to_vec();
        png.extend([0x0f, 0xb0, 0xe2, 0x15]);
        png.extend(b"\0\0\0\0IDAT");
        png.extend([0x35, 0xaf, 0x06, 0x1e]);
        let expected = PictureError::TooManyPixels {
            nth: 1,
            width: 60_000,
            height: 60_000,
        };
        assert_eq!(check(&[&png]), Err(expected));
    }
}
