//! Numbers that may have been given, known outside the store.
//!
//! A small file beside the store says up to which number events may exist. It is moved ahead by [`BLOCK`] and synced
//! *before* a number of the new block is given. When the store comes back without its newest records (damage, or set
//! aside), numbering goes on behind the reservation: a subscriber that already saw event 500 never sees another 500.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use watchkeeper_store::durable::replace;

use super::JournalError;

/// Numbers reserved at a time: one small synced file a block.
const BLOCK: u64 = 1024;

const NAME: &str = "journal.reserved";

/// The file.
#[derive(Debug)]
pub(super) struct Reservation {
    folder: PathBuf,
    end: u64,
}

impl Reservation {
    /// Reads the file in `folder`. None, or one that makes no sense, reserves nothing.
    pub(super) fn open(folder: &Path) -> Result<Self, JournalError> {
        let path = folder.join(NAME);
        let end = match fs::read_to_string(&path) {
            Ok(text) => text.trim().parse().unwrap_or_else(|_| {
                tracing::error!(path = %path.display(), "not a number; numbering rests on the store alone");
                0
            }),
            Err(e) if e.kind() == io::ErrorKind::NotFound => 0,
            Err(source) => return Err(JournalError::Reservation { path, source }),
        };
        Ok(Self {
            folder: folder.to_owned(),
            end,
        })
    }

    /// Last number that may have been given.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Makes sure that `number` is reserved.
    pub(super) fn cover(&mut self, number: u64) -> Result<(), JournalError> {
        if number <= self.end {
            return Ok(());
        }
        let end = number.saturating_add(BLOCK);
        let path = self.folder.join(NAME);
        replace(&path, format!("{end}\n").as_bytes())
            .map_err(|source| JournalError::Reservation { path, source })?;
        self.end = end;
        Ok(())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_reserved_on_disk_before_it_may_be_given() {
        let dir = tempfile::tempdir().unwrap();
        let mut reservation = Reservation::open(dir.path()).unwrap();
        assert_eq!(reservation.end(), 0);
        reservation.cover(5).unwrap();
        let reopened = Reservation::open(dir.path()).unwrap();
        assert!(reopened.end() >= 5);
        assert_eq!(reopened.end(), reservation.end());
    }
}
