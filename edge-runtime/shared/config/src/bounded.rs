//! Reads files of unknown size up to a bound: `/dev/zero` has no end.
//!
//! - A file beyond the bound is an error; nothing is cut off silently.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;

/// Largest file in bytes: far beyond any configuration or workflow.
pub const MAX_BYTES: u64 = 4 << 20;

/// Byte order mark that some editors put before UTF-8 text.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads the text of a file of at most [`MAX_BYTES`], without a byte order mark.
///
/// # Errors
/// When the file can't be read, is larger or is not UTF-8.
pub fn read(path: &Path) -> Result<String> {
    let bytes = read_up_to(path, MAX_BYTES)?;
    String::from_utf8(without_mark(&bytes).to_owned())
        .map_err(|e| Error::new(ErrorKind::InvalidData, e))
}

/// Returns the text without a byte order mark.
#[must_use]
pub fn without_mark(text: &[u8]) -> &[u8] {
    text.strip_prefix(MARK).unwrap_or(text)
}

/// Reads a file of at most `most` bytes.
///
/// # Errors
/// When the file can't be read or is larger.
pub fn read_up_to(path: &Path, most: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(most.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let why = format!(
            "it is larger than {} MiB, the most that is read",
            most >> 20
        );
        return Err(Error::new(ErrorKind::FileTooLarge, why));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_order_mark_is_no_part_of_a_text() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("text.json");
        std::fs::write(&file, b"\xef\xbb\xbf{}").expect("a file");
        assert_eq!(read(&file).expect("text"), "{}");
        let bytes = read_up_to(&file, 9).expect("bytes");
        assert_eq!(without_mark(&bytes), b"{}");
        assert_eq!(without_mark(b"{}"), b"{}");
    }

    #[test]
    fn a_file_without_an_end_is_refused() {
        let error = read(Path::new("/dev/zero")).expect_err("it has no end");
        assert!(error.to_string().contains("larger"), "{error}");
    }
}
