//! Checksums recorded beside the files that they are of.
//!
//! - A record is replaced whole. One that is there and can't be read is an error: nothing is known
//!   then of the file that was accepted.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::digest::Sha256Sum;
use crate::raw::read_small;
use crate::replace::replace;

/// Largest file with a checksum in bytes: the sum and a long name.
const MAX_RECORD: u64 = 4096;

/// Returns the checksum recorded when this file was placed.
///
/// # Errors
/// A record that can't be read or holds no checksum.
pub(crate) fn recorded_sum(target: &Path) -> io::Result<Option<Sha256Sum>> {
    let Some(text) = read(&record_of(target))? else {
        return Ok(None);
    };
    let sum = text
        .split_whitespace()
        .next()
        .and_then(|sum| sum.parse().ok());
    let invalid = || io::Error::new(io::ErrorKind::InvalidData, "it holds no SHA-256");
    sum.ok_or_else(invalid).map(Some)
}

/// Renames a file into place and records its checksum.
///
/// The record is written first. A crash in between leaves the earlier file with the checksum of the
/// new one. It counts as changed, and only the new file is accepted in its place.
pub(super) fn rename_with_sum(part: &Path, target: &Path, sum: Sha256Sum) -> io::Result<()> {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let record = record_of(target);
    let earlier = read(&record);
    replace(&record, &[format!("{sum}  {name}\n").as_bytes()])?;
    let renamed = fs::rename(part, target);
    if renamed.is_err() {
        // The earlier file keeps its checksum, if that is known.
        match earlier {
            Ok(Some(text)) => replace(&record, &[text.as_bytes()])?,
            Ok(None) => fs::remove_file(&record)?,
            Err(_) => {}
        }
    }
    renamed
}

fn read(record: &Path) -> io::Result<Option<String>> {
    match read_small(record, MAX_RECORD) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the path of the record of a file.
pub(crate) fn record_of(target: &Path) -> PathBuf {
    target.with_added_extension("sha256")
}
