//! SHA-256 sums of files.
//!
//! - [`of_file`] reads a file in full; [`of_unchanged_file`] once in a process, until it changes.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error as _};
use sha2::{Digest, Sha256};

use crate::file_stamp::KnownFiles;

static KNOWN: KnownFiles<Sha256Sum> = KnownFiles::empty();

/// A SHA-256 sum, written as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sha256Sum(pub [u8; 32]);

impl fmt::Display for Sha256Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for Sha256Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sha256Sum({self})")
    }
}

/// The text is not 64 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a sha256 sum of 64 hexadecimal digits")]
pub struct NotASum(String);

impl Sha256Sum {
    /// Returns the sum of some bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let mut hasher = Hasher::default();
        hasher.update(bytes);
        hasher.finish()
    }
}

impl FromStr for Sha256Sum {
    type Err = NotASum;

    fn from_str(text: &str) -> Result<Self, NotASum> {
        let wrong = || NotASum(text.to_owned());
        // `from_str_radix` would accept a sign.
        if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let mut sum = [0; 32];
        for (byte, digits) in sum.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| wrong())?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| wrong())?;
        }
        Ok(Self(sum))
    }
}

impl<'de> Deserialize<'de> for Sha256Sum {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

/// Computes a sum incrementally.
#[derive(Debug, Clone, Default)]
pub struct Hasher {
    sha: Sha256,
    bytes: u64,
}

impl Hasher {
    /// Adds bytes to the sum.
    pub fn update(&mut self, bytes: &[u8]) {
        self.sha.update(bytes);
        self.bytes += bytes.len() as u64;
    }

    /// Returns the number of bytes added.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the sum of all bytes added.
    #[must_use]
    pub fn finish(self) -> Sha256Sum {
        Sha256Sum(self.sha.finalize().into())
    }

    /// Adds everything that is left in `reader`.
    ///
    /// # Errors
    /// Those of the reader.
    pub fn drain(&mut self, reader: &mut impl Read) -> io::Result<()> {
        let mut buffer = vec![0; 1 << 16];
        loop {
            match reader.read(&mut buffer)? {
                0 => return Ok(()),
                n => self.update(&buffer[..n]),
            }
        }
    }
}

/// Returns sum and size in bytes of a file.
///
/// # Errors
/// The file can't be read.
pub fn of_file(path: &Path) -> io::Result<(Sha256Sum, u64)> {
    let mut hasher = Hasher::default();
    hasher.drain(&mut File::open(path)?)?;
    let bytes = hasher.bytes();
    Ok((hasher.finish(), bytes))
}

/// Returns the sum of a file, which is read in full unless its stamp is the one of the last time.
///
/// # Errors
/// The file can't be read.
pub fn of_unchanged_file(path: &Path) -> io::Result<Sha256Sum> {
    KNOWN.get_or_compute(path, |path| of_file(path).map(|(sum, _)| sum))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test that can't set up has failed")]
mod tests {
    use super::*;

    #[test]
    fn sum_of_nothing_is_the_published_one_and_reads_back() {
        // FIPS 180-4, example of the empty message.
        let text = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let sum = Hasher::default().finish();
        assert_eq!(sum.to_string(), text);
        assert_eq!(text.parse(), Ok(sum));
        assert!(text[1..].parse::<Sha256Sum>().is_err());
        assert!("é".repeat(32).parse::<Sha256Sum>().is_err());
    }

    #[test]
    fn changed_file_has_another_sum() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("m"), folder.path().join("n"));
        std::fs::write(&path, "one").unwrap();
        let first = of_unchanged_file(&path).unwrap();
        assert_eq!(first, Sha256Sum::of(b"one"));
        assert_eq!(of_unchanged_file(&path).unwrap(), first);
        // The same size, and with the times of the first.
        std::fs::write(&other, "two").unwrap();
        let times = std::fs::metadata(&path).unwrap().modified().unwrap();
        let file = File::options().write(true).open(&other).unwrap();
        file.set_modified(times).unwrap();
        std::fs::rename(&other, &path).unwrap();
        assert_eq!(of_unchanged_file(&path).unwrap(), Sha256Sum::of(b"two"));
    }

    #[test]
    fn unchanged_file_is_not_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m");
        std::fs::write(&path, "one").unwrap();
        let mark = Sha256Sum::of(b"kept");
        KNOWN.get_or_compute(&path, |_| Ok(mark)).unwrap();
        assert_eq!(of_unchanged_file(&path).unwrap(), mark);
    }
}
