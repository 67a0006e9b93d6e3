//! The number of the last durable batch, kept outside the database's file.
//!
//! redb treats a last commit that fails its checksum as torn by a power cut, and silently goes back
//! to the one before. That is right for batches that were not acknowledged, but wrong after a
//! flipped bit or a lying disk. So every batch has a number, and after every sync that number is
//! written to a file of its own. A greater number there than in the store means that acknowledged
//! batches are gone.
//!
//! - The file's number is never ahead of what was synced. When [`Witness::note`] has returned, it
//!   is durable: the file is written with `O_DSYNC`, its name is synced when it is made, and it
//!   never grows, so a full disk does not stop it.
//! - A write that is cut leaves the number before it: the two slots lie in pages of their own and
//!   take turns.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::durable::sync_folder;
use crate::record;

const NAME: &str = "witness";
const KEY: &[u8] = b"witness";

/// Offsets of the slots in bytes: no sector, page or erase unit holds both.
const SLOTS: [u64; 2] = [0, 4096];

/// Bytes of a slot.
const SLOT: usize = record::HEADER + 8;

/// The file beside the data.
#[derive(Debug)]
pub(crate) struct Witness {
    file: File,
    /// Notes taken; decides on the next slot.
    notes: AtomicU64,
}

impl Witness {
    /// Opens the file and reads the greatest number in it; an invalid slot counts as zero.
    pub(crate) fn open(root: &Path) -> io::Result<(Self, u64)> {
        let path = root.join(NAME);
        let flags = rustix::fs::OFlags::DSYNC.bits();
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .custom_flags(flags.cast_signed())
            .open(path)?;
        let seen = SLOTS.map(|at| {
            let mut bytes = [0; SLOT];
            let read = file.read_exact_at(&mut bytes, at);
            if let Err(error) = &read
                && error.kind() != io::ErrorKind::UnexpectedEof
            {
                tracing::error!(%error, "the witness can't be read: a loss may go unnoticed");
            }
            read.ok()
                .and_then(|()| number(record::decode(KEY, &bytes).ok()?))
                .unwrap_or(0)
        });
        let latest = seen[0].max(seen[1]);
        let witness = Self {
            file,
            // The slot with the greater number is not the next one to be written.
            notes: AtomicU64::new(u64::from(seen[0] > seen[1])),
        };
        if witness.file.metadata()?.len() < SLOTS[1] + SLOT as u64 {
            // A new file, or one of a version with one slot: both are written now, so that no later
            // note makes it longer.
            witness.note(latest)?;
            witness.note(latest)?;
            sync_folder(root)?;
        }
        Ok((witness, latest))
    }

    /// Notes that batch `n` is durable; so is the note on return.
    pub(crate) fn note(&self, n: u64) -> io::Result<()> {
        let turn = self.notes.fetch_add(1, Ordering::Relaxed);
        let at = if turn.is_multiple_of(2) {
            SLOTS[0]
        } else {
            SLOTS[1]
        };
        self.file.write_all_at(&encode(KEY, n), at)
    }
}

/// Encodes the number `n` as a record at `key`.
pub(crate) fn encode(key: &[u8], n: u64) -> Vec<u8> {
    record::encode(key, &n.to_be_bytes())
}

/// Decodes the number in the payload of a record.
pub(crate) fn number(payload: &[u8]) -> Option<u64> {
    payload.try_into().ok().map(u64::from_be_bytes)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use super::*;

    fn seen(root: &Path) -> u64 {
        Witness::open(root).unwrap().1
    }

    #[test]
    fn witness_returns_last_number_or_zero() {
        let dir = tempfile::tempdir().unwrap();
        let (witness, before) = Witness::open(dir.path()).unwrap();
        assert_eq!(before, 0);
        for n in [7, 8, 9] {
            witness.note(n).unwrap();
            assert_eq!(seen(dir.path()), n);
        }
        std::fs::write(dir.path().join(NAME), "nonsense that is long enough").unwrap();
        assert_eq!(seen(dir.path()), 0);
    }

    #[test]
    fn note_is_durable_on_return() {
        let dir = tempfile::tempdir().unwrap();
        let (witness, _) = Witness::open(dir.path()).unwrap();
        let flags = rustix::fs::fcntl_getfl(&witness.file).unwrap();
        assert!(flags.contains(rustix::fs::OFlags::DSYNC), "{flags:?}");
    }

    #[test]
    fn cut_note_leaves_the_one_before_after_reopening() {
        let dir = tempfile::tempdir().unwrap();
        for n in 1..=5 {
            // Opened each time: the slots decide whose turn it is.
            let (witness, _) = Witness::open(dir.path()).unwrap();
            let before = std::fs::read(dir.path().join(NAME)).unwrap();
            witness.note(n).unwrap();
            let whole = std::fs::read(dir.path().join(NAME)).unwrap();
            let last = (0..whole.len())
                .rfind(|at| whole[*at] != before[*at])
                .unwrap();
            let mut cut = whole.clone();
            cut[last] = before[last];
            std::fs::write(dir.path().join(NAME), cut).unwrap();
            assert_eq!(seen(dir.path()), n - 1);
            std::fs::write(dir.path().join(NAME), whole).unwrap();
            assert_eq!(seen(dir.path()), n);
        }
    }

    #[test]
    fn a_witness_never_grows_once_it_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let (witness, _) = Witness::open(dir.path()).unwrap();
        let length = || witness.file.metadata().unwrap().len();
        let before = length();
        for n in 1..5 {
            witness.note(n).unwrap();
        }
        assert_eq!(length(), before);
    }
}
