//! Numbers that may have been given, recorded outside the store.
//!
//! - A small file names the highest number that events (or effects) may have. It is raised by
//!   [`BLOCK`] and synced before a number of the new block is given.
//! - When the store comes back without its newest records, numbering continues after the
//!   reservation: a subscriber that saw event 500 never sees another 500.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use watchkeeper_store::durable::replace;

/// Numbers reserved at a time, one small synced write per block.
const BLOCK: u64 = 1024;

#[derive(Debug)]
pub(crate) struct Reservation {
    folder: PathBuf,
    name: &'static str,
    end: u64,
}

/// No number can be reserved.
#[derive(Debug, thiserror::Error)]
#[error("{path} can't be {action}: {source}")]
pub struct ReservationError {
    pub(crate) path: PathBuf,
    /// `read` or `written`.
    pub(crate) action: &'static str,
    /// The error of the operating system.
    pub(crate) source: io::Error,
}

impl Reservation {
    /// Reads the file `name` in `folder`. A missing file, or one without a
    /// number, reserves nothing.
    pub(crate) fn open(folder: &Path, name: &'static str) -> Result<Self, ReservationError> {
        let path = folder.join(name);
        let end = match fs::read(&path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).trim().parse().unwrap_or_else(|_| {
                tracing::error!(path = %path.display(), "the file contains no number; numbering continues after the stored records");
                0
            }),
            Err(e) if e.kind() == io::ErrorKind::NotFound => 0,
            Err(source) => {
                let action = "read";
                return Err(ReservationError { path, action, source });
            }
        };
        Ok(Self {
            folder: folder.to_owned(),
            name,
            end,
        })
    }

    /// Last number that may have been given.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    pub(crate) fn cover(&mut self, number: u64) -> Result<(), ReservationError> {
        if number <= self.end {
            return Ok(());
        }
        let end = number.saturating_add(BLOCK);
        let path = self.folder.join(self.name);
        replace(&path, format!("{end}\n").as_bytes()).map_err(|source| ReservationError {
            path,
            action: "written",
            source,
        })?;
        self.end = end;
        Ok(())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use super::*;

    #[test]
    fn number_is_reserved_on_disk_before_it_is_given() {
        let dir = tempfile::tempdir().unwrap();
        let mut reservation = Reservation::open(dir.path(), "a").unwrap();
        assert_eq!(reservation.end(), 0);
        reservation.cover(5).unwrap();
        let reopened = Reservation::open(dir.path(), "a").unwrap();
        assert!(reopened.end() >= 5);
        assert_eq!(reopened.end(), reservation.end());
    }

    #[test]
    fn file_without_a_number_reserves_nothing_and_no_start_fails() {
        let dir = tempfile::tempdir().unwrap();
        for content in [&b"\xff"[..], b"", b"ten"] {
            fs::write(dir.path().join("a"), content).unwrap();
            assert_eq!(Reservation::open(dir.path(), "a").unwrap().end(), 0);
        }
        fs::create_dir(dir.path().join("b")).unwrap();
        let refused = Reservation::open(dir.path(), "b").unwrap_err().to_string();
        assert!(refused.contains("can't be read"), "{refused}");
    }
}
