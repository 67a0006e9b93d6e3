//! One picture file and its metadata.

use std::cmp::Ordering;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

use image::metadata::Orientation;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use watchkeeper_vision::picture_file::{self, PictureFileError};

use crate::metadata::{self, Metadata};
use crate::place::Place;
use crate::scores::Scores;

/// A picture file. Everything but its size may be unknown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Picture {
    /// Absolute path of the file.
    pub file: String,
    /// Pixels of the upright picture.
    pub width: u32,
    pub height: u32,
    /// Format of the contents: `jpeg`, `png` or `webp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// Local time of the exposure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken: Option<DateTime>,
    /// Instant of the exposure: of an event, or where EXIF names the offset of its time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// Camera of the site, or maker and model from the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub camera: Option<String>,
    /// Class of the object that the picture was kept for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Zone or line of that object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scores: Option<Scores>,
    /// Objects that a detector found; absent if none was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objects: Option<Vec<FoundObject>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<Tag>,
    /// Texts of the QR and bar codes in it, each once; absent if none was looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub codes: Option<Vec<String>>,
}

/// An object in a picture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FoundObject {
    pub class: String,
    /// 0 to 1.
    pub confidence: f64,
    /// Left, top, right and bottom in parts of the upright picture, 0 to 1.
    pub bounds: [f64; 4],
}

/// The word that fits a picture best.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tag {
    pub label: String,
    /// Share of the word among all words, 0 to 1.
    pub score: f64,
}

/// Why a picture file can't be used.
#[derive(Debug, thiserror::Error)]
pub enum PictureError {
    #[error("{file} can't be read: {source}")]
    Io { file: String, source: io::Error },
    #[error("{file}: the name is not UTF-8; rename the file")]
    Name { file: String },
    #[error("{file}: {source}")]
    Content {
        file: String,
        source: PictureFileError,
    },
    #[error(
        "{file} has {bytes} bytes; at most {} are read",
        picture_file::MAX_FILE_BYTES
    )]
    TooLarge { file: String, bytes: u64 },
}

impl Picture {
    /// Reads size and metadata of a JPEG, PNG or WebP file, but not its pixels.
    ///
    /// # Errors
    /// If the file can't be read, or is no such picture within the bounds of
    /// [`picture_file`].
    pub fn read(file: &Path) -> Result<Self, PictureError> {
        let path = file.to_str().ok_or_else(|| PictureError::Name {
            file: file.display().to_string(),
        })?;
        let bytes = read_file(file)?;
        let header = picture_file::PictureFile::open(&bytes).map_err(|source| {
            let file = path.to_owned();
            PictureError::Content { file, source }
        })?;
        let Metadata {
            orientation,
            taken,
            at,
            place,
            camera,
        } = metadata::read(&bytes);
        let (mut width, mut height) = header.size();
        if is_sideways(orientation) {
            std::mem::swap(&mut width, &mut height);
        }
        Ok(Self {
            file: path.to_owned(),
            width,
            height,
            format: Some(format!("{:?}", header.format()).to_lowercase()),
            taken,
            at,
            place,
            camera,
            class: None,
            zone: None,
            scores: None,
            objects: None,
            tag: None,
            codes: None,
        })
    }

    /// Whether a detector found an object in it.
    pub fn shows_objects(&self) -> bool {
        self.objects.as_ref().is_some_and(|found| !found.is_empty())
    }

    /// Reads the whole file.
    ///
    /// # Errors
    /// If it can't be read, or is too large.
    pub fn bytes(&self) -> Result<Vec<u8>, PictureError> {
        read_file(Path::new(&self.file))
    }

    /// Returns the length of the file in bytes; `None` if it is gone.
    pub fn file_bytes(&self) -> Option<u64> {
        Some(fs::metadata(&self.file).ok()?.len())
    }

    /// Returns the instant of the exposure. A local time without one is where the clock of `zone`
    /// showed it. It is after a gap of the clock, and in the first pass of a repeated hour.
    pub fn instant(&self, zone: &TimeZone) -> Option<Timestamp> {
        let placed = || Some(self.taken?.to_zoned(zone.clone()).ok()?.timestamp());
        self.at.or_else(placed)
    }

    /// Returns `landscape`, `portrait` or `square`.
    pub fn shape(&self) -> &'static str {
        match self.width.cmp(&self.height) {
            Ordering::Greater => "landscape",
            Ordering::Less => "portrait",
            Ordering::Equal => "square",
        }
    }

    /// Returns the format of the contents. Results of earlier builds lack it: then the ending of
    /// the name, that of `jpg` as `jpeg`.
    pub fn format(&self) -> Option<String> {
        let ending = || {
            let extension = Path::new(&self.file).extension()?.to_str()?;
            Some(extension.to_lowercase().replace("jpg", "jpeg"))
        };
        self.format.clone().or_else(ending)
    }

    /// Returns the last part of the path.
    pub fn name(&self) -> &str {
        let name = Path::new(&self.file).file_name();
        name.and_then(|name| name.to_str()).unwrap_or(&self.file)
    }
}

const fn is_sideways(orientation: Orientation) -> bool {
    matches!(
        orientation,
        Orientation::Rotate90
            | Orientation::Rotate270
            | Orientation::Rotate90FlipH
            | Orientation::Rotate270FlipH
    )
}

/// Reads a file of at most [`picture_file::MAX_FILE_BYTES`].
pub(crate) fn read_file(path: &Path) -> Result<Vec<u8>, PictureError> {
    let shown = || path.display().to_string();
    let io = |source| PictureError::Io {
        file: shown(),
        source,
    };
    // Before it is opened: that of a pipe would wait for a writer.
    if !fs::metadata(path).map_err(io)?.is_file() {
        return Err(io(io::Error::other("it is no regular file")));
    }
    let file = File::open(path).map_err(io)?;
    let bytes = file.metadata().map_err(io)?.len();
    if bytes > picture_file::MAX_FILE_BYTES {
        let file = shown();
        return Err(PictureError::TooLarge { file, bytes });
    }
    let mut content = Vec::new();
    // The file may grow while it is read.
    let mut bounded = file.take(picture_file::MAX_FILE_BYTES);
    bounded.read_to_end(&mut content).map_err(io)?;
    Ok(content)
}

#[cfg(test)]
pub(crate) mod testing {
    use super::Picture;

    /// A picture of which only file and local time are known.
    #[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
    pub(crate) fn picture(file: &str, taken: Option<&str>) -> Picture {
        Picture {
            file: file.to_owned(),
            width: 4,
            height: 3,
            format: None,
            taken: taken.map(|text| text.parse().unwrap()),
            at: None,
            place: None,
            camera: None,
            class: None,
            zone: None,
            scores: None,
            objects: None,
            tag: None,
            codes: None,
        }
    }
}
