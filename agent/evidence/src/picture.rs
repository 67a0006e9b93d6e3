//! Checks of pictures before a model sees one.
//!
//! - At least one picture; JPEG, PNG or WebP by its contents, whatever its name says.
//! - At most [`MAX_BYTES`]; it is whole and within the bounds of [`PictureFile`].

use image::{ImageFormat, imageops};
use watchkeeper_vision::jpeg;
use watchkeeper_vision::picture_file::{self, PictureFile};

/// Largest picture in bytes.
pub const MAX_BYTES: usize = 10 << 20;

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
/// whole picture as it is.
///
/// # Errors
/// If it can't be decoded.
pub fn cut(bytes: &[u8], bbox: Option<[f64; 4]>) -> Result<Vec<u8>, PictureError> {
    let unreadable = |why: String| PictureError::Unreadable { nth: 1, why };
    let Some([left, top, right, bottom]) = bbox else {
        return Ok(bytes.to_vec());
    };
    let whole = picture_file::decode(bytes).map_err(|error| unreadable(error.to_string()))?;
    let (width, height) = (whole.width(), whole.height());
    // A float becomes the nearest number of the range; what is not a number becomes 0.
    let pixel =
        |share: f64, size: u32| (share * f64::from(size)).round().min(f64::from(size)) as u32;
    let (x, y) = (
        pixel(left, width).min(width.saturating_sub(1)),
        pixel(top, height).min(height.saturating_sub(1)),
    );
    let right = pixel(right, width).max(x + 1);
    let bottom = pixel(bottom, height).max(y + 1);
    let part = imageops::crop_imm(&whole, x, y, right - x, bottom - y).to_image();
    jpeg::encode(&part, CUT_QUALITY).map_err(|error| unreadable(error.to_string()))
}

fn check_one(nth: usize, bytes: &[u8]) -> Result<(), PictureError> {
    match bytes.len() {
        0 => return Err(PictureError::Empty { nth }),
        size if size > MAX_BYTES => return Err(PictureError::TooLarge { nth, bytes: size }),
        _ => {}
    }
    let formats = [ImageFormat::Jpeg, ImageFormat::Png, ImageFormat::WebP];
    if !image::guess_format(bytes).is_ok_and(|format| formats.contains(&format)) {
        return Err(PictureError::Format { nth });
    }
    let whole = PictureFile::open(bytes).and_then(PictureFile::decode);
    whole.map(drop).map_err(|error| PictureError::Unreadable {
        nth,
        why: error.to_string(),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use std::io::Cursor;

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
        let refused = check(&[&png]).unwrap_err().to_string();
        assert!(
            refused.contains("60000x60000 has a side of more than"),
            "{refused}"
        );
    }
}
