//! One small file that is read again at each sample.
//!
//! - A file is opened and closed for each reading.
//! - At most [`CAPACITY`] bytes are read, into memory that all probes share.
//! - Not here: what the text means.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Bytes of a file that are read; the values are at its start.
const CAPACITY: usize = 4096;

/// Memory for the text of one file.
pub(super) struct Buffer(Box<[u8; CAPACITY]>);

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer").finish_non_exhaustive()
    }
}

impl Buffer {
    pub(super) fn new() -> Self {
        Self(Box::new([0; CAPACITY]))
    }
}

/// Path of a file.
#[derive(Debug, Clone)]
pub(super) struct Probe(PathBuf);

impl Probe {
    /// Returns the probe of an existing file.
    pub(super) fn find(path: impl Into<PathBuf>) -> Option<Self> {
        let path = path.into();
        path.is_file().then_some(Self(path))
    }

    /// Returns the probe of a file that may not exist yet.
    pub(super) fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// Returns the probe of the first of these files that exists.
    pub(super) fn first(root: &Path, paths: &[&str]) -> Option<Self> {
        paths.iter().find_map(|path| Self::find(root.join(path)))
    }

    /// Reads the beginning of the file, trimmed; `None` if it can't be read or is empty.
    pub(super) fn text<'a>(&self, buffer: &'a mut Buffer) -> Option<&'a str> {
        self.read(buffer).ok().filter(|text| !text.is_empty())
    }

    /// Reads the beginning of the file, trimmed.
    ///
    /// # Errors
    /// Those of open(2) and read(2), which say why a driver does not answer.
    pub(super) fn read<'a>(&self, buffer: &'a mut Buffer) -> io::Result<&'a str> {
        let mut file = File::open(&self.0)?;
        let mut length = 0;
        while let Some(free) = buffer.0.get_mut(length..).filter(|free| !free.is_empty()) {
            match file.read(free)? {
                0 => break,
                count => length += count,
            }
        }
        let bytes = buffer.0.get(..length).unwrap_or_default();
        // A text that is cut within a character counts up to there.
        let valid = std::str::from_utf8(bytes)
            .or_else(|error| std::str::from_utf8(bytes.get(..error.valid_up_to()).unwrap_or(&[])));
        Ok(valid.unwrap_or_default().trim_end_matches('\0').trim())
    }

    /// Reads the file as one number.
    pub(super) fn number<T: FromStr>(&self, buffer: &mut Buffer) -> Option<T> {
        self.text(buffer)?.parse().ok()
    }
}

/// Reads an optional probe as one number.
pub(super) fn number<T: FromStr>(probe: Option<&Probe>, buffer: &mut Buffer) -> Option<T> {
    probe?.number(buffer)
}

/// Names of the entries of a folder that begin with `prefix` and a number, by number; at most
/// `max`.
pub(super) fn numbered(folder: &Path, prefix: &str, max: usize) -> Vec<PathBuf> {
    let number = |path: &Path| -> Option<u32> {
        let name = path.file_name()?.to_str()?;
        name.strip_prefix(prefix)?.parse().ok()
    };
    let mut found: Vec<(u32, PathBuf)> = entries(folder)
        .filter_map(|path| Some((number(&path)?, path)))
        .collect();
    found.sort();
    found.truncate(max);
    found.into_iter().map(|(_, path)| path).collect()
}

/// Paths of the entries of a folder; none where it can't be read.
pub(super) fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|entry| Some(entry.ok()?.path()))
}
