//! Decodes a picture once and keeps what every tool needs of it.
//!
//! - Pixels are turned upright before they are measured, and dropped after that.
//! - A result is kept by path, length and time of the file, the last [`MAX_KEPT`] of them.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use image::metadata::Orientation;
use image::{DynamicImage, GrayImage, RgbImage};
use watchkeeper_vision::imaging::codes::{self, Code};
use watchkeeper_vision::imaging::near_duplicate::{Sketch, Thumbnail};
use watchkeeper_vision::imaging::quality::MEASURED_SIDE;
use watchkeeper_vision::jpeg;
use watchkeeper_vision::picture_file::{self, PictureFile, PictureFileError};
use watchkeeper_vision::shrink;

use crate::difference_hash::DifferenceHash;
use crate::metadata;
use crate::picture::{PictureError, read_file};
use crate::scores::Scores;

/// Most pictures whose measurement is kept: 73 MiB, with about 4.7 KiB each.
const MAX_KEPT: usize = 16_000;

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
        let small = shrink::image_within(grey, MEASURED_SIDE);
        let thumbnail = Thumbnail::of(&small);
        Self {
            scores: Scores::of(grey, &small),
            hash: DifferenceHash::of(&small),
            sketch: Sketch::of(&thumbnail),
            thumbnail,
        }
    }
}

/// A file at one moment: when length or time differ, it was written since.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Version {
    path: PathBuf,
    bytes: u64,
    modified: Option<SystemTime>,
}

#[derive(Debug, Default)]
struct Kept {
    measured: HashMap<Version, Arc<Measured>>,
    /// Measured versions, the oldest first.
    order: VecDeque<Version>,
}

/// Measures pictures and keeps the last [`MAX_KEPT`] results. Shared by reference among threads.
#[derive(Debug, Default)]
pub struct Measurer {
    kept: Mutex<Kept>,
}

impl Measurer {
    /// Measures a picture, unless this version of the file was measured before.
    ///
    /// # Errors
    /// If the file can't be read or decoded.
    pub fn measure(&self, file: &Path) -> Result<Arc<Measured>, PictureError> {
        let version = version(file)?;
        if let Some(known) = self.lock().measured.get(&version) {
            return Ok(Arc::clone(known));
        }
        let grey = upright_grey(file)?;
        let measured = Arc::new(Measured::of(&grey));
        let mut kept = self.lock();
        if kept.order.len() >= MAX_KEPT
            && let Some(oldest) = kept.order.pop_front()
        {
            kept.measured.remove(&oldest);
        }
        let is_new = kept.measured.insert(version.clone(), Arc::clone(&measured));
        if is_new.is_none() {
            kept.order.push_back(version);
        }
        Ok(measured)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn version(file: &Path) -> Result<Version, PictureError> {
    let found = fs::metadata(file).map_err(|source| PictureError::Io {
        file: file.display().to_string(),
        source,
    })?;
    Ok(Version {
        path: file.to_owned(),
        bytes: found.len(),
        modified: found.modified().ok(),
    })
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
        CodeKind::Any => codes::codes(&grey),
        CodeKind::Qr => codes::qr_codes(&grey),
        CodeKind::Bar => {
            let qr = codes::qr_codes(&grey);
            let mut all = codes::codes(&grey);
            all.retain(|code| !qr.iter().any(|qr| is_same(qr, code)));
            all
        }
    };
    let texts: BTreeSet<String> = found.into_iter().map(|code| code.text).collect();
    Ok(texts.into_iter().collect())
}

fn is_same(one: &Code, other: &Code) -> bool {
    one.text == other.text && one.bbox.iou(&other.bbox) > 0.5
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
