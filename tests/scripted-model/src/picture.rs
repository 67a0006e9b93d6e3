//! Pictures in requests: base64 with a media type.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use image::ImageReader;

/// Why a picture is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PictureError {
    /// Not valid base64.
    Base64,
    /// Content that differs from the media type.
    Type,
    /// Content that cannot be decoded.
    Unreadable,
}

/// Returns width and height in pixels. Without `media_type` any picture is accepted.
pub(crate) fn size(media_type: Option<&str>, data: &str) -> Result<(u32, u32), PictureError> {
    let bytes = STANDARD.decode(data).map_err(|_| PictureError::Base64)?;
    let reader = ImageReader::new(std::io::Cursor::new(bytes)).with_guessed_format();
    let format = reader.as_ref().ok().and_then(ImageReader::format);
    let mime = format.map(|format| format.to_mime_type());
    if media_type.is_some_and(|said| mime != Some(said)) {
        return Err(PictureError::Type);
    }
    let dimensions = reader.ok().and_then(|reader| reader.into_dimensions().ok());
    dimensions.ok_or(PictureError::Unreadable)
}

/// Number of squares of `side` pixels that cover a picture.
pub(crate) fn squares((width, height): (u32, u32), side: u32) -> u64 {
    u64::from(width.div_ceil(side)) * u64::from(height.div_ceil(side))
}
