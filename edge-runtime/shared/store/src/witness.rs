//! The number and mark of the last durable batch, kept outside the database's file.
//!
//! redb treats a last commit that fails its checksum as torn by a power cut, and silently returns
//! to the one before. That is right for batches that were not acknowledged, but wrong after a
//! flipped bit or a lying disk. So every batch has a number, and after every sync that number is
//! written to a file of its own. A greater number there than in the store means that acknowledged
//! batches are gone.
//!
//! - The file's number is never ahead of what was synced. When [`Witness::note`] has returned, it
//!   is durable: the file is written with `O_DSYNC`, and its name is synced when it is made. The
//!   file never grows, so a full disk does not stop it.
//! - A write that is cut leaves the number before it: the two slots lie in their own pages and take
//!   turns.
//! - A slot is the number as a record, as in all versions, then number and mark as another one. A
//!   version that knows no marks leaves the second record as it is, with another number.

use std::cmp;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::durable::sync_folder;
use crate::limits::MAX_MARK_BYTES;
use crate::record;

const NAME: &str = "witness";
const KEY: &[u8] = b"witness";

/// Offsets of the slots in bytes: no sector, page or erase unit holds both.
const SLOTS: [u64; 2] = [0, 4096];

/// Bytes of the number in a slot.
const NUMBER: usize = record::HEADER + 8;

/// Key of the second record of a slot. It has the number (8 bytes), the length of the mark plus
/// one, or zero without a mark (2 bytes). The mark follows, filled up with zeros.
const MARK_KEY: &[u8] = b"mark";
const MARK: usize = record::HEADER + 8 + 2 + MAX_MARK_BYTES;

/// Bytes of a slot, less than a sector.
const SLOT: usize = NUMBER + MARK;

/// The last batch that was applied or made durable.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Acknowledged {
    pub(crate) number: u64,
    /// Mark of the last batch that had one.
    pub(crate) mark: Option<Vec<u8>>,
}

/// A slot that was read.
#[derive(Debug, Default)]
struct Slot {
    /// `None` when it is damaged.
    number: Option<u64>,
    /// The mark of that number; `None` when it is damaged or of another number.
    mark: Option<Vec<u8>>,
}

/// The file beside the data.
#[derive(Debug)]
pub(crate) struct Witness {
    file: File,
    /// Notes taken; decides on the next slot.
    notes: AtomicU64,
}

impl Witness {
    /// Opens the file and reads the slot with the greatest number; an invalid one counts as zero.
    /// The mark is returned only if no later one can have been in the file: both slots are sound.
    pub(crate) fn open(root: &Path) -> io::Result<(Self, Acknowledged)> {
        let path = root.join(NAME);
        let flags = rustix::fs::OFlags::DSYNC.bits();
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .custom_flags(flags.cast_signed())
            .open(path)?;
        let (latest, is_first) = latest(&file);
        let witness = Self {
            file,
            // The slot with the greater number is not the next one to be written.
            notes: AtomicU64::new(u64::from(is_first)),
        };
        if witness.file.metadata()?.len() < SLOTS[1] + SLOT as u64 {
            // A new file, or one of an earlier version: both slots are written now, so that no
            // later note makes it longer.
            witness.note(&latest)?;
            witness.note(&latest)?;
            sync_folder(root)?;
        }
        Ok((witness, latest))
    }

    /// Notes that a batch is durable; so is the note on return.
    pub(crate) fn note(&self, batch: &Acknowledged) -> io::Result<()> {
        let turn = self.notes.fetch_add(1, Ordering::Relaxed);
        let at = if turn.is_multiple_of(2) {
            SLOTS[0]
        } else {
            SLOTS[1]
        };
        let mut slot = encode(KEY, batch.number);
        slot.extend(record::encode(MARK_KEY, &mark_payload(batch)));
        self.file.write_all_at(&slot, at)
    }
}

/// Reads the file in `root` and leaves it unchanged. Zero without a file.
pub(crate) fn read(root: &Path) -> Acknowledged {
    let file = File::open(root.join(NAME));
    file.map(|file| latest(&file).0).unwrap_or_default()
}

/// The slot with the greater number, and whether that is the first one.
fn latest(file: &File) -> (Acknowledged, bool) {
    let [first, second] = SLOTS.map(|at| read_slot(file, at));
    let (one, two) = (first.number.unwrap_or(0), second.number.unwrap_or(0));
    let are_sound = first.number.is_some() && second.number.is_some();
    let mark = match one.cmp(&two) {
        cmp::Ordering::Greater => first.mark,
        cmp::Ordering::Less => second.mark,
        cmp::Ordering::Equal => first.mark.filter(|mark| second.mark.as_ref() == Some(mark)),
    };
    let latest = Acknowledged {
        number: one.max(two),
        mark: mark.filter(|_| are_sound),
    };
    (latest, one > two)
}

/// Reads the slot at the offset `at`, as far as it is sound.
fn read_slot(file: &File, at: u64) -> Slot {
    let mut bytes = [0; NUMBER];
    let read = file.read_exact_at(&mut bytes, at);
    if let Err(error) = &read
        && error.kind() != io::ErrorKind::UnexpectedEof
    {
        tracing::error!(%error, "the witness can't be read: a loss may go unnoticed");
    }
    let sound = read.ok().and_then(|()| record::decode(KEY, &bytes).ok());
    let Some(found) = sound.and_then(number) else {
        return Slot::default();
    };
    let mut bytes = [0; MARK];
    let read = file.read_exact_at(&mut bytes, at + NUMBER as u64).ok();
    let sound = read.and_then(|()| record::decode(MARK_KEY, &bytes).ok());
    Slot {
        number: Some(found),
        mark: sound.and_then(|payload| mark_of(payload, found)),
    }
}

fn mark_payload(batch: &Acknowledged) -> Vec<u8> {
    let mark = batch.mark.as_deref();
    let length = mark.map_or(0, |mark| u16::try_from(mark.len() + 1).unwrap_or(0));
    let mut payload = batch.number.to_be_bytes().to_vec();
    payload.extend(length.to_be_bytes());
    payload.extend(mark.unwrap_or_default());
    payload.resize(MARK - record::HEADER, 0);
    payload
}

/// Returns the mark in `payload`, if it has one and it is of batch `n`.
fn mark_of(payload: &[u8], n: u64) -> Option<Vec<u8>> {
    let (number, rest) = payload.split_first_chunk::<8>()?;
    let (length, mark) = rest.split_first_chunk::<2>()?;
    let length = usize::from(u16::from_be_bytes(*length)).checked_sub(1)?;
    let is_current = u64::from_be_bytes(*number) == n;
    mark.get(..length)
        .filter(|_| is_current)
        .map(<[u8]>::to_vec)
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
        Witness::open(root).unwrap().1.number
    }

    fn batch(number: u64) -> Acknowledged {
        Acknowledged {
            number,
            mark: Some(format!("mark {number}").into_bytes()),
        }
    }

    #[test]
    fn mark_is_returned_only_with_its_own_number() {
        let dir = tempfile::tempdir().unwrap();
        let open = || Witness::open(dir.path()).unwrap();
        let (witness, before) = open();
        assert_eq!(before, Acknowledged::default());
        for n in 1..=3 {
            witness.note(&batch(n)).unwrap();
            assert_eq!(open().1, batch(n));
        }
        // The third note is in the first slot; a version without marks writes only its number.
        witness
            .file
            .write_all_at(&encode(KEY, 4), SLOTS[1])
            .unwrap();
        let unmarked = Acknowledged {
            number: 4,
            mark: None,
        };
        assert_eq!(open().1, unmarked);
    }

    #[test]
    fn damaged_slot_leaves_no_mark() {
        let dir = tempfile::tempdir().unwrap();
        let (witness, _) = Witness::open(dir.path()).unwrap();
        witness.note(&batch(1)).unwrap();
        witness.note(&batch(2)).unwrap();
        let sound = std::fs::read(dir.path().join(NAME)).unwrap();
        for at in SLOTS {
            let mut damaged = sound.clone();
            damaged[usize::try_from(at).unwrap() + 5] ^= 1;
            std::fs::write(dir.path().join(NAME), damaged).unwrap();
            assert_eq!(Witness::open(dir.path()).unwrap().1.mark, None);
        }
    }

    #[test]
    fn witness_returns_last_number_or_zero() {
        let dir = tempfile::tempdir().unwrap();
        let (witness, before) = Witness::open(dir.path()).unwrap();
        assert_eq!(before.number, 0);
        for n in [7, 8, 9] {
            witness.note(&batch(n)).unwrap();
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
            witness.note(&batch(n)).unwrap();
            let whole = std::fs::read(dir.path().join(NAME)).unwrap();
            let is_number = |at: &usize| at % 4096 < NUMBER && whole[*at] != before[*at];
            let last = (0..whole.len()).rfind(is_number).unwrap();
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
            witness.note(&batch(n)).unwrap();
        }
        assert_eq!(length(), before);
    }
}
