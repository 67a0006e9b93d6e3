//! Numbers that may have been given, known outside of what they are given to.
//!
//! A small file says up to which number events (or effects) may exist. It is moved ahead by [`BLOCK`] and synced
//! *before* a number of the new block is given. When the store comes back without its newest records (damage, or set
//! aside), numbering goes on behind the reservation: a subscriber that already saw event 500 never sees another 500.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use watchkeeper_store::durable::replace;

/// Numbers reserved at a time: one small synced file a block.
const BLOCK: u64 = 1024;

#[derive(Debug)]
pub(crate) struct Reservation {
    folder: PathBuf,
    name: &'static str,
    end: u64,
}

/// Why no number can be reserved.
#[derive(Debug)]
pub(crate) struct ReservationError {
    pub(crate) path: PathBuf,
    /// What the system said.
    pub(crate) source: io::Error,
}

impl Reservation {
    /// Reads the file of this name in `folder`. None, or one that makes no sense, reserves nothing.
    pub(crate) fn open(folder: &Path, name: &'static str) -> Result<Self, ReservationError> {
        let path = folder.join(name);
        let end = match fs::read_to_string(&path) {
            Ok(text) => text.trim().parse().unwrap_or_else(|_| {
                tracing::error!(path = %path.display(), "not a number; numbering rests on what is there");
                0
            }),
            Err(e) if e.kind() == io::ErrorKind::NotFound => 0,
            Err(source) => return Err(ReservationError { path, source }),
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

    /// Makes sure that `number` is reserved.
    pub(crate) fn cover(&mut self, number: u64) -> Result<(), ReservationError> {
        if number <= self.end {
            return Ok(());
        }
        let end = number.saturating_add(BLOCK);
        let path = self.folder.join(self.name);
        replace(&path, format!("{end}\n").as_bytes())
            .map_err(|source| ReservationError { path, source })?;
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
        let mut reservation = Reservation::open(dir.path(), "a").unwrap();
        assert_eq!(reservation.end(), 0);
        reservation.cover(5).unwrap();
        let reopened = Reservation::open(dir.path(), "a").unwrap();
        assert!(reopened.end() >= 5);
        assert_eq!(reopened.end(), reservation.end());
    }
}
