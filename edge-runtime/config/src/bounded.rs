//! Reading files that somebody named, without trusting how large they are: `/dev/zero` has no end.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;

/// Largest file, in bytes: far beyond any configuration or workflow.
const MAX_BYTES: u64 = 4 << 20;

/// The text in a file of at most [`MAX_BYTES`].
///
/// # Errors
/// When it can't be read, is larger or is not UTF-8.
pub fn read(path: &Path) -> Result<String> {
    let bytes = read_up_to(path, MAX_BYTES)?;
    String::from_utf8(bytes).map_err(|e| Error::new(ErrorKind::InvalidData, e))
}

/// What is in a file of at most `most` bytes.
///
/// # Errors
/// When it can't be read or is larger.
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
    fn a_file_without_an_end_is_refused() {
        let error = read(Path::new("/dev/zero")).expect_err("it has no end");
        assert!(error.to_string().contains("larger"), "{error}");
    }
}
