//! Decodes a picture once and keeps what every tool needs of it.
//!
//! - Pixels are turned upright before they are measured, and dropped after that.
//! - A result is kept by path, length and time of the file, at most [`MAX_KEPT`] of them.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use image::metadata::Orientation;
use image::{DynamicImage, GrayImage, RgbImage};
use parking_lot::Mutex;
use watchkeeper_vision::imaging::codes;
use watchkeeper_vision::imaging::near_duplicate::{Sketch, Thumbnail};
use watchkeeper_vision::jpeg;
use watchkeeper_vision::picture_file::{self, PictureFile, PictureFileError};
use watchkeeper_vision::shrink;

use crate::difference_hash::DifferenceHash;
use crate::metadata;
use crate::picture::{PictureError, read_file};
use crate::scores::Scores;

/// Most pictures whose measurement is kept: 73 MiB, with about 4.7 KiB each.
const MAX_KEPT: usize = 16_000;

/// Longer side in pixels of the small version of a picture, by which most is measured.
const SMALL_SIDE: u32 = 512;

/// JPEG quality of a picture that was turned.
const TURNED_QUALITY: u8 = 95;

/// Results kept of the pixels of one picture.
#[derive(Debug)]
pub struct Measured {
    pub scores: Scores,
    pub(crate) hash: DifferenceHash,
    pub(crate) sketch: Sketch,
    pub(crate) thumbnail: Thumbnail,
}

impl Measured {
    pub fn of(grey: &GrayImage) -> Self {
        // The only other look at the whole picture is that for noise.
        let small = shrink::image_within(grey, SMALL_SIDE);
        let thumbnail = Thumbnail::of(&small);
        Self {
            scores: Scores::of(grey, &small),
            hash: DifferenceHash::of(&small),
            sketch: Sketch::of(&thumbnail),
            thumbnail,
        }
    }
}

/// Measures pictures and keeps at most [`MAX_KEPT`] results; when it is full it is emptied. Shared
/// by reference among threads.
#[derive(Debug, Default)]
pub struct Measurer {
    /// Results by [`version`] of the picture.
    kept: Mutex<HashMap<String, Arc<Measured>>>,
}

impl Measurer {
    /// Measures a picture, unless this version of the file was measured before.
    ///
    /// # Errors
    /// If the file can't be read or decoded.
    pub fn measure(&self, file: &Path) -> Result<Arc<Measured>, PictureError> {
        let version = version(file)?;
        if let Some(known) = self.kept.lock().get(&version) {
            return Ok(Arc::clone(known));
        }
        let grey = upright_grey(file)?;
        let measured = Arc::new(Measured::of(&grey));
        let mut kept = self.kept.lock();
        if kept.len() >= MAX_KEPT {
            kept.clear();
        }
        kept.insert(version, Arc::clone(&measured));
        Ok(measured)
    }
}

/// Names a file at one moment: when length or time differ, it was written since.
///
/// # Errors
/// If there is no such file.
pub fn version(file: &Path) -> Result<String, PictureError> {
    let found = fs::metadata(file).map_err(|source| PictureError::Io {
        file: file.display().to_string(),
        source,
    })?;
    let modified = found.modified().ok();
    let since = modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let (file, bytes) = (file.display(), found.len());
    Ok(format!(
        "{file} {bytes} {}",
        since.unwrap_or_default().as_nanos()
    ))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeKind {
    Any,
    Qr,
    /// All but QR codes.
    Bar,
}

/// Reads the texts of the codes of a kind in a picture, each text once.
///
/// # Errors
/// If the file can't be read or decoded.
pub fn codes(file: &Path, kind: CodeKind) -> Result<Vec<String>, PictureError> {
    let grey = upright_grey(file)?;
    let found = match kind {
        CodeKind::Any | CodeKind::Bar => codes::codes(&grey),
        CodeKind::Qr => codes::qr_codes(&grey),
    };
    let wanted = found
        .into_iter()
        .filter(|code| kind != CodeKind::Bar || !code.is_qr);
    let texts: BTreeSet<String> = wanted.map(|code| code.text).collect();
    Ok(texts.into_iter().collect())
}

/// Decodes the luma of a picture and turns it upright.
fn upright_grey(file: &Path) -> Result<GrayImage, PictureError> {
    let bytes = read_file(file)?;
    let decoded = picture_file::decode_grey(&bytes).map_err(|source| PictureError::Content {
        file: file.display().to_string(),
        source,
    })?;
    let mut picture = DynamicImage::ImageLuma8(decoded);
    picture.apply_orientation(metadata::read(&bytes).orientation);
    Ok(picture.into_luma8())
}

/// Returns the same picture as an upright JPEG file if its EXIF orientation is another one.
///
/// # Errors
/// If the bytes are not a picture within the bounds, or end early.
pub fn turned(file: &[u8]) -> Result<Option<Vec<u8>>, PictureFileError> {
    let opened = PictureFile::open(file)?;
    let orientation = metadata::read(file).orientation;
    if orientation == Orientation::NoTransforms {
        return Ok(None);
    }
    let mut picture = DynamicImage::ImageRgb8(opened.decode()?);
    picture.apply_orientation(orientation);
    let jpeg = jpeg::encode(&picture.into_rgb8(), TURNED_QUALITY);
    jpeg.map(Some)
        .map_err(|error| PictureFileError::Unreadable(error.to_string()))
}

/// Decodes a picture and turns it upright.
///
/// # Errors
/// If the file can't be read or decoded.
pub fn upright(file: &Path) -> Result<RgbImage, PictureError> {
    let bytes = read_file(file)?;
    let decoded = picture_file::decode(&bytes).map_err(|source| PictureError::Content {
        file: file.display().to_string(),
        source,
    })?;
    let mut picture = DynamicImage::ImageRgb8(decoded);
    picture.apply_orientation(metadata::read(&bytes).orientation);
    Ok(picture.into_rgb8())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use super::*;

    #[test]
    fn refusal_of_no_picture_repeats_nothing_of_it() {
        let refused = turned(b"file\tgroup\na.jpg\t1\n").unwrap_err().to_string();
        assert!(refused.starts_with("not a JPEG, PNG or WebP"), "{refused}");
        assert!(!refused.contains("a.jpg"), "{refused}");
    }
}
