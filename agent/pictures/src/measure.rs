//! Decodes a picture once and keeps what every tool needs of it.

use std::collections::{HashMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use image::imageops::thumbnail;
use image::metadata::Orientation;
use image::{DynamicImage, GrayImage, ImageFormat, RgbImage};
use watchkeeper_vision::imaging::near_duplicate::{Sketch, Thumbnail};
use watchkeeper_vision::jpeg;
use watchkeeper_vision::picture_file::{self, PictureFile, PictureFileError};

use crate::difference_hash::DifferenceHash;
use crate::metadata;
use crate::picture::{PictureError, read_file};
use crate::scores::Scores;

/// Most pictures whose measurement is kept: 73 MiB, with about 4.7 KiB each.
const MAX_KEPT: usize = 16_000;

/// Longer side in pixels of the small version of a picture: that in which
/// [`quality`](watchkeeper_vision::imaging::quality) measures sharpness.
const MEASURED_SIDE: u32 = 512;

/// JPEG quality of a picture that was turned.
const TURNED_QUALITY: u8 = 95;

/// What is kept of the pixels of one picture.
#[derive(Debug)]
pub struct Measured {
    pub scores: Scores,
    pub(crate) hash: DifferenceHash,
    pub(crate) sketch: Sketch,
    pub(crate) thumbnail: Thumbnail,
}

impl Measured {
    #[must_use]
    pub fn of(grey: &GrayImage) -> Self {
        // The only other look at the whole picture is that for noise.
        let small = scaled(grey);
        let thumbnail = Thumbnail::of(&small);
        Self {
            scores: Scores::of(grey, &small),
            hash: DifferenceHash::of(&small),
            sketch: Sketch::of(&thumbnail),
            thumbnail,
        }
    }
}

/// A picture whose longer side has at most [`MEASURED_SIDE`] pixels.
pub(crate) fn scaled(grey: &GrayImage) -> GrayImage {
    let (width, height) = grey.dimensions();
    let longer = width.max(height);
    if longer <= MEASURED_SIDE {
        return grey.clone();
    }
    let side = |n: u32| (n * MEASURED_SIDE / longer).max(1);
    thumbnail(grey, side(width), side(height))
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
    /// What is measured, the oldest first.
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
/// If the bytes are no picture within the bounds, or those of a JPEG end early.
pub fn turned(file: &[u8]) -> Result<Option<Vec<u8>>, PictureFileError> {
    let format = PictureFile::open(file)?.format();
    // Decoders fill what is missing with grey.
    if format == ImageFormat::Jpeg && !is_complete_jpeg(file) {
        let why = "the file ends early; copy it again".to_owned();
        return Err(PictureFileError::Unreadable(why));
    }
    let orientation = metadata::read(file).orientation;
    if orientation == Orientation::NoTransforms {
        return Ok(None);
    }
    let mut picture = DynamicImage::ImageRgb8(picture_file::decode(file)?);
    picture.apply_orientation(orientation);
    let jpeg = jpeg::encode(&picture.into_rgb8(), TURNED_QUALITY);
    jpeg.map(Some)
        .map_err(|error| PictureFileError::Unreadable(error.to_string()))
}

/// Whether a JPEG has the mark of its end behind its pixels; one in a thumbnail does not count.
fn is_complete_jpeg(file: &[u8]) -> bool {
    const END: u8 = 0xd9;
    // Marks without a length: stuffed bytes, TEM, restarts, the begin.
    let is_bare = |mark: u8| matches!(mark, 0x00 | 0x01 | 0xd0..=0xd8);
    let mut rest = file;
    let is_mark = |two: &[u8]| matches!(two, [0xff, mark] if *mark != 0xff);
    while let Some(at) = rest.windows(2).position(is_mark) {
        let mark = rest.get(at + 1).copied();
        rest = rest.get(at + 2..).unwrap_or_default();
        match mark {
            Some(END) => return true,
            Some(mark) if is_bare(mark) => {}
            _ => {
                let Some(&[high, low]) = rest.first_chunk::<2>() else {
                    return false;
                };
                let length = usize::from(u16::from_be_bytes([high, low]));
                rest = rest.get(length..).unwrap_or_default();
            }
        }
    }
    false
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
    fn jpeg_that_ends_early_is_refused_wherever_it_is_cut() {
        let picture = RgbImage::from_fn(64, 48, |x, y| {
            let shade = |n: u32| u8::try_from(n % 256).unwrap_or_default();
            image::Rgb([shade(x * y), shade(x * 5), shade(y * 7)])
        });
        let whole = jpeg::encode(&picture, 90).unwrap();
        assert_eq!(turned(&whole), Ok(None));
        for cut in [1, 2, 3, 50, whole.len() / 2] {
            assert!(turned(&whole[..whole.len() - cut]).is_err(), "{cut}");
        }
        // What follows the end, such as a film, does not count; an end within a segment neither.
        let film = [&whole[..], b"film"].concat();
        assert_eq!(turned(&film), Ok(None));
        let thumbnail = [0xff, 0xec, 0, 6, 0xff, 0xd9, 0, 0];
        let with_thumbnail = [&whole[..2], &thumbnail, &whole[2..]].concat();
        assert_eq!(turned(&with_thumbnail), Ok(None));
        let cut = &with_thumbnail[..with_thumbnail.len() - 2];
        assert!(turned(cut).is_err());
    }

    #[test]
    fn refusal_of_no_picture_repeats_nothing_of_it() {
        let refused = turned(b"file\tgroup\na.jpg\t1\n").unwrap_err().to_string();
        assert!(refused.starts_with("not a JPEG or PNG"), "{refused}");
        assert!(!refused.contains("a.jpg"), "{refused}");
    }
}
