//! Reads a database as it is, without proof or repair: one that is verified later, and what can
//! still be read of a damaged one.
//!
//! redb reads a file only after proving or repairing all of it, and refuses one with a single bad
//! page. Here a backend that can't write hides the flag of an unclean end. Each record is proved by
//! its own checksum. The file is not changed.

use std::fs::File;
use std::io;
use std::ops::Bound;
use std::os::unix::fs::FileExt;
use std::path::Path;

use redb::{
    BackendError, Builder, ConcurrencyMode, Database, ReadOnlyDatabase, ReadableDatabase,
    ReadableTable, StorageBackend,
};

use crate::guard::{self, StoreFault};
use crate::options::Options;
use crate::record::{self, BadRecord};
use crate::table::{BATCHES, RECORDS, newer_record};

/// Offset of the byte with the current commit slot and the state of the file (redb,
/// `docs/design.md`, "god byte").
const STATE_AT: u64 = 9;
pub(crate) const PRIMARY_SLOT: u8 = 1;
const RECOVERY_REQUIRED: u8 = 2;

/// Bytes of records copied in one transaction.
const AT_ONCE: usize = 4 << 20;

/// A file that is only read, by one reader, with other state bits than it has.
#[derive(Debug)]
struct ReadOnlyFile {
    file: File,
    /// State bits that are flipped, to read the commit before the last.
    turned: u8,
}

impl StorageBackend for ReadOnlyFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, offset)?;
        let at = STATE_AT.checked_sub(offset).map(usize::try_from);
        if let Some(state) = at.and_then(Result::ok).and_then(|at| out.get_mut(at)) {
            *state = (*state & !RECOVERY_REQUIRED) ^ self.turned;
        }
        Ok(())
    }
    fn set_len(&self, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    fn sync_data(&self) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    fn write(&self, _offset: u64, _data: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    // The folder's lock is held: there is no other process.
    fn try_lock_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<bool, BackendError> {
        Ok(true)
    }
    fn try_lock_shared_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<bool, BackendError> {
        Ok(true)
    }
    fn lock_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<(), BackendError> {
        Ok(())
    }
    fn lock_shared_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<(), BackendError> {
        Ok(())
    }
    fn unlock_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<(), BackendError> {
        Ok(())
    }
    fn query_lock_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<bool, BackendError> {
        Ok(false)
    }
}

/// Returns whether the process that had the database `file` open has closed it.
pub(crate) fn is_closed(file: &File) -> bool {
    let mut state = [RECOVERY_REQUIRED];
    file.read_exact_at(&mut state, STATE_AT).is_ok() && state[0] & RECOVERY_REQUIRED == 0
}

/// Opens the database `file` as it is, with the state bits `turned` flipped.
pub(crate) fn open_as_it_is(
    file: File,
    turned: u8,
    options: &Options,
) -> Result<ReadOnlyDatabase, redb::Error> {
    let opened = Builder::new()
        .set_cache_size(options.cache_bytes())
        .set_concurrency_mode(ConcurrencyMode::SingleWriter)
        .open_read_only_with_backend(ReadOnlyFile { file, turned });
    Ok(opened?)
}

/// How far a pass came.
enum End {
    /// All of it was read.
    Whole,
    /// A page could not be read.
    Broken,
}

/// Copies what can be read of the damaged `file` to `db`.
///
/// Copies all records up to the first unreadable page, and all after the last one. They are of the
/// last commit, or where that can't be read at all, of the one before. Batch numbers are not
/// copied, as some are missing.
///
/// # Errors
/// When `db` can't be written, or a record is of a newer format. A file of which nothing can be
/// read is not an error.
pub(crate) fn save(file: &Path, db: &Database, options: &Options) -> Result<(), StoreFault> {
    for turned in [0, PRIMARY_SLOT] {
        for backwards in [false, true] {
            match pass(file, db, options, turned, backwards) {
                Ok(Ok(End::Whole)) => return Ok(()),
                Ok(Ok(End::Broken)) if backwards => return Ok(()),
                Ok(Ok(End::Broken)) => {}
                Ok(Err(why)) => {
                    tracing::warn!(file = %file.display(), turned, ?why, "can't be read");
                    break;
                }
                Err(unwritten) => return Err(unwritten),
            }
        }
    }
    Ok(())
}

/// Runs one pass. The outer error is about `db`, the inner one about the damaged file.
fn pass(
    file: &Path,
    db: &Database,
    options: &Options,
    turned: u8,
    backwards: bool,
) -> Result<Result<End, StoreFault>, StoreFault> {
    let data = file.parent().unwrap_or(file);
    let mut ours = Ok(());
    let read = guard::call(|| {
        let file = File::open(file).map_err(redb::Error::Io)?;
        let db_read = open_as_it_is(file, turned, options)?;
        let records = db_read.begin_read()?.open_table(RECORDS)?;
        let mut all = records.iter()?;
        let mut sound: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        let mut bytes = 0;
        loop {
            let next = guard::call(|| {
                let next = if backwards {
                    all.next_back()
                } else {
                    all.next()
                };
                Ok(next.transpose()?)
            });
            let end = match next {
                Ok(Some((full, raw))) => {
                    let (full, raw) = (full.value(), raw.value());
                    match record::decode(full, raw) {
                        Ok(_) if full != BATCHES => {
                            bytes += full.len() + raw.len();
                            sound.push((full.to_vec(), raw.to_vec()));
                        }
                        Err(BadRecord::Newer(found)) => {
                            ours = Err(StoreFault::Newer(newer_record(data, full, found)));
                            return Ok(End::Broken);
                        }
                        _ => {}
                    }
                    None
                }
                Ok(None) => Some(End::Whole),
                Err(_) => Some(End::Broken),
            };
            if end.is_some() || bytes > AT_ONCE {
                bytes = 0;
                let chunk = std::mem::take(&mut sound);
                ours = guard::call(|| put_raw(db, &chunk));
                if ours.is_err() {
                    return Ok(End::Broken);
                }
            }
            if let Some(end) = end {
                return Ok(end);
            }
        }
    });
    ours.map(|()| read)
}

fn put_raw(db: &Database, records: &[(Vec<u8>, Vec<u8>)]) -> Result<(), redb::Error> {
    let transaction = db.begin_write()?;
    {
        let mut table = transaction.open_table(RECORDS)?;
        for (full, raw) in records {
            table.insert(full.as_slice(), raw.as_slice())?;
        }
    }
    Ok(transaction.commit()?)
}
