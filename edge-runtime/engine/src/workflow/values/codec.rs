//! Pictures as files in memory: JPEG, PNG and WebP, and base64 around them.
//!
//! - No file on disk is touched.
//! - Invalid bytes, or a picture beyond the bounds of [`picture_file`], are an error.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use image::codecs::png::PngEncoder;
use image::{ExtendedColorType, ImageEncoder, ImageFormat};
use watchkeeper_vision::imaging;
use watchkeeper_vision::jpeg::encode_bytes;
use watchkeeper_vision::picture_file::{self, PictureFile};

use crate::workflow::values::image::RgbPixels;

/// JPEG quality of pictures in results; the peer's default.
pub(crate) const QUALITY: u8 = 95;

/// Encodes a picture as JPEG with `quality` 1 to 100.
///
/// # Errors
/// If the encoder refuses it, such as a picture without pixels.
pub fn jpeg(picture: &RgbPixels, quality: u8) -> Result<Vec<u8>, String> {
    let quality = quality.clamp(1, 100);
    encode_bytes(&picture.data, picture.width, picture.height, quality).map_err(|e| e.to_string())
}

/// Encodes a picture as PNG.
///
/// # Errors
/// If the encoder refuses it, such as a picture without pixels.
pub fn png(picture: &RgbPixels) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    let RgbPixels {
        width,
        height,
        data,
    } = picture;
    PngEncoder::new(&mut out)
        .write_image(data, *width, *height, ExtendedColorType::Rgb8)
        .map_err(|e| format!("a picture of {width}x{height} can't be encoded as PNG: {e}"))?;
    Ok(out)
}

/// Decodes a JPEG, PNG or WebP file.
///
/// # Errors
/// If the bytes are no such picture, or it is beyond a bound.
pub fn decode(bytes: &[u8]) -> Result<Arc<RgbPixels>, String> {
    decode_within(bytes, &mut { u64::MAX })
}

/// Decodes a picture in base64, with or without the head of a data URL. Its pixels are taken from
/// `budget`, a budget shared by pictures of one request; a larger one is refused before it is in
/// memory.
///
/// # Errors
/// If the text is no such picture, or the picture is too large.
pub fn picture(text: &str, budget: &mut u64) -> Result<Arc<RgbPixels>, String> {
    decode_within(&from_base64(text)?, budget)
}

fn decode_within(bytes: &[u8], budget: &mut u64) -> Result<Arc<RgbPixels>, String> {
    let file = PictureFile::open(bytes).map_err(|e| e.to_string())?;
    let size = file.size().into();
    reserve_pixels("picture", size, budget, picture_file::MAX_PIXELS)?;
    let picture = file.decode().map_err(|e| e.to_string())?;
    Ok(Arc::new(imaging::pixels(picture)))
}

/// Takes the pixels of `what`, a picture or a mask, from the budget of its request, which begins
/// with `max`. Fails if fewer are left.
pub(crate) fn reserve_pixels(
    what: &str,
    [width, height]: [u32; 2],
    budget: &mut u64,
    max: u64,
) -> Result<(), String> {
    let pixels = u64::from(width) * u64::from(height);
    *budget = budget.checked_sub(pixels).ok_or_else(|| {
        format!(
            "a {what} of {width}x{height} is too large: {budget} pixels are left for the {what}s \
             of one request, which have at most {max}; scale it down"
        )
    })?;
    Ok(())
}

pub fn to_base64(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

/// Decodes base64, with or without the head of a data URL.
///
/// # Errors
/// If the text is not base64.
pub fn from_base64(text: &str) -> Result<Vec<u8>, String> {
    let body = match text.split_once(";base64,") {
        Some((head, body)) if head.starts_with("data:") => body,
        _ => text,
    };
    BASE64
        .decode(body.trim())
        .map_err(|e| format!("not base64: {e}"))
}

/// Returns whether the bytes begin like a JPEG, PNG or WebP file.
pub fn is_picture(bytes: &[u8]) -> bool {
    matches!(
        image::guess_format(bytes),
        Ok(ImageFormat::Jpeg | ImageFormat::Png | ImageFormat::WebP)
    )
}

#[cfg(test)]
mod tests {
    use super::{RgbPixels, decode, from_base64, jpeg, picture, png, to_base64};

    #[test]
    fn picture_round_trips_through_jpeg_and_base64() {
        let grey = RgbPixels {
            width: 8,
            height: 4,
            data: vec![128; 96],
        };
        let text = to_base64(&jpeg(&grey, 95).unwrap());
        let back =
            decode(&from_base64(&format!("data:image/jpeg;base64,{text}")).unwrap()).unwrap();
        assert_eq!((back.width, back.height), (8, 4));
        assert!(back.data.iter().all(|b| b.abs_diff(128) < 4));
    }

    #[test]
    fn pictures_of_one_request_share_a_pixel_budget() {
        let grey = RgbPixels {
            width: 8,
            height: 4,
            data: vec![128; 96],
        };
        let text = to_base64(&png(&grey).unwrap());
        let mut budget = 70;
        picture(&text, &mut budget).unwrap();
        picture(&text, &mut budget).unwrap();
        let refused = picture(&text, &mut budget).unwrap_err();
        assert!(
            refused.contains("8x4") && refused.contains("6 pixels"),
            "{refused}"
        );
        assert_eq!(budget, 6, "a smaller one still fits");
    }

    #[test]
    fn invalid_pictures_are_refused() {
        assert!(decode(b"hello").is_err());
        assert!(from_base64("§").is_err());
        let empty = RgbPixels::default();
        assert!(jpeg(&empty, 95).is_err());
    }
}
