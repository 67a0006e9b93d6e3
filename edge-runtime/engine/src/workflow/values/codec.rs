//! Pictures as files in memory: JPEG out, JPEG and PNG in, and base64 around them. No file is touched.
//!
//! Invariant: bytes from outside make an error, never a panic, and no picture of more than [`MAX_SIDE`] a side.

use std::io::Cursor;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use image::codecs::jpeg::JpegEncoder;
use image::codecs::png::PngEncoder;
use image::{
    DynamicImage, ExtendedColorType, ImageDecoder as _, ImageEncoder, ImageFormat, ImageReader,
    Limits,
};

use crate::workflow::values::image::RgbPixels;

/// Quality of the pictures in results, as the peer has it.
pub(crate) const QUALITY: u8 = 95;

/// Largest picture that is read, in pixels a side.
const MAX_SIDE: u32 = 16_384;

/// A picture as a JPEG file of this quality, 1 to 100.
///
/// # Errors
/// One sentence, such as for a picture without pixels.
pub fn jpeg(picture: &RgbPixels, quality: u8) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    JpegEncoder::new_with_quality(&mut out, quality.clamp(1, 100))
        .encode(
            &picture.data,
            picture.width,
            picture.height,
            ExtendedColorType::Rgb8,
        )
        .map_err(|e| {
            format!(
                "a picture of {}x{} can't be made a JPEG: {e}",
                picture.width, picture.height
            )
        })?;
    Ok(out)
}

/// A picture as a PNG file.
///
/// # Errors
/// One sentence, such as for a picture without pixels.
pub fn png(picture: &RgbPixels) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    let RgbPixels {
        width,
        height,
        data,
    } = picture;
    PngEncoder::new(&mut out)
        .write_image(data, *width, *height, ExtendedColorType::Rgb8)
        .map_err(|e| format!("a picture of {width}x{height} can't be made a PNG: {e}"))?;
    Ok(out)
}

/// A picture from the bytes of a JPEG or PNG file, whichever they are.
///
/// # Errors
/// One sentence.
pub fn decode(bytes: &[u8]) -> Result<Arc<RgbPixels>, String> {
    decode_within(bytes, &mut { u64::MAX })
}

/// A picture that came as text, with or without the head of a data URL. Its pixels are taken from `room`, which pictures that
/// come together share; one that has more is refused before it is in memory.
///
/// # Errors
/// One sentence.
pub fn picture(text: &str, room: &mut u64) -> Result<Arc<RgbPixels>, String> {
    decode_within(&from_base64(text)?, room)
}

fn decode_within(bytes: &[u8], room: &mut u64) -> Result<Arc<RgbPixels>, String> {
    let wrong = |e: &dyn std::fmt::Display| format!("no picture in JPEG or PNG: {e}");
    let mut reader = ImageReader::new(Cursor::new(bytes))
        .with_guessed_format()
        .map_err(|e| wrong(&e))?;
    let mut limits = Limits::default();
    limits.max_image_width = Some(MAX_SIDE);
    limits.max_image_height = Some(MAX_SIDE);
    reader.limits(limits);
    let decoder = reader.into_decoder().map_err(|e| wrong(&e))?;
    let (width, height) = decoder.dimensions();
    let pixels = u64::from(width) * u64::from(height);
    *room = room.checked_sub(pixels).ok_or_else(|| {
        format!("a picture of {width}x{height} is too large: pictures that come together may have {room} pixels more")
    })?;
    let picture = DynamicImage::from_decoder(decoder)
        .map_err(|e| wrong(&e))?
        .into_rgb8();
    Ok(Arc::new(RgbPixels {
        width: picture.width(),
        height: picture.height(),
        data: picture.into_raw(),
    }))
}

/// Bytes as text.
#[must_use]
pub fn to_base64(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

/// Bytes from text, with or without the head of a data URL.
///
/// # Errors
/// One sentence.
pub fn from_base64(text: &str) -> Result<Vec<u8>, String> {
    let body = match text.split_once(";base64,") {
        Some((head, body)) if head.starts_with("data:") => body,
        _ => text,
    };
    BASE64
        .decode(body.trim())
        .map_err(|e| format!("not base64: {e}"))
}

/// Whether the bytes begin like a picture file that is read here.
#[must_use]
pub fn is_picture(bytes: &[u8]) -> bool {
    matches!(
        image::guess_format(bytes),
        Ok(ImageFormat::Jpeg | ImageFormat::Png)
    )
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failing test may panic")]
mod tests {
    use super::{RgbPixels, decode, from_base64, jpeg, picture, png, to_base64};

    #[test]
    fn a_picture_survives_jpeg_and_base64() {
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
    fn pictures_that_come_together_share_their_room_and_one_without_is_refused() {
        let grey = RgbPixels {
            width: 8,
            height: 4,
            data: vec![128; 96],
        };
        let text = to_base64(&png(&grey).unwrap());
        let mut room = 70;
        picture(&text, &mut room).unwrap();
        picture(&text, &mut room).unwrap();
        let refused = picture(&text, &mut room).unwrap_err();
        assert!(
            refused.contains("8x4") && refused.contains("6 pixels"),
            "{refused}"
        );
        assert_eq!(room, 6, "a smaller one still fits");
    }

    #[test]
    fn what_is_no_picture_is_refused_in_a_sentence() {
        assert!(decode(b"hello").is_err());
        assert!(from_base64("§").is_err());
        let empty = RgbPixels::default();
        assert!(jpeg(&empty, 95).is_err());
    }
}
