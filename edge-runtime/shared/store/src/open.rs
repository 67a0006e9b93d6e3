//! Opening a store in any state.
//!
//! A run that ended by a kill or a power cut is not damage: redb returns to its last durable
//! commit. Of these steps, the second is taken only after *damage*, not after a refusal of the
//! system or a newer version ([`crate::format`]):
//!
//! 1. Open; redb proves the checksum of every page, and every record is read.
//! 2. Set the data folder aside, start empty, and copy records that can be read and prove
//!    themselves by their own checksum. The caller raises the alarm.
//!
//! Root folder: `lock`, `format`, `witness`, `data/records.redb`, `data.new/` while records are
//! copied, and at most [`KEPT_QUARANTINES`] folders `data.quarantine-N/`. At every instant `data`
//! exists, or a complete `data.new`.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use redb::{Builder, Database, ReadableDatabase, ReadableTable};

use crate::durable::{free_bytes, sync_folder};
use crate::error::StoreError;
use crate::format;
use crate::guard::{self, StoreFault, fault_to_error};
use crate::lock::FolderLock;
use crate::newer::NewerFormat;
use crate::options::Options;
use crate::private_folder::{make_private, sync_names};
use crate::record::{self, BadRecord};
use crate::table::{BATCHES, FILE, RECORDS, newer_record, split_key};
use crate::{CorruptRecord, salvage, witness};

/// Folder in which records are copied.
pub(crate) const NEW: &str = "data.new";

/// Prefix of the folders that are set aside, before their number.
const QUARANTINE: &str = "data.quarantine-";

/// Folders set aside that are kept for inspection; older ones are deleted.
const KEPT_QUARANTINES: usize = 3;

/// State in which a store was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenOutcome {
    /// As it was left.
    Clean,
    /// Sound, but the last acknowledged batches are missing.
    Truncated {
        /// Acknowledged batches that are missing.
        lost_batches: u64,
    },
    /// Beyond repair: set aside, and started again with the records that could still be read.
    /// Records were lost.
    Quarantined {
        /// Present location of the damaged files.
        to: PathBuf,
        why: String,
        /// Records that could still be read, and are in the new store.
        saved: u64,
    },
}

impl OpenOutcome {
    /// Returns whether nothing was wrong.
    pub fn is_clean(&self) -> bool {
        matches!(self, Self::Clean)
    }
}

/// Result of opening a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenReport {
    pub outcome: OpenOutcome,
    /// Damaged records; they have been removed.
    pub corrupt: Vec<CorruptRecord>,
    /// Number of sound records.
    pub records: u64,
    /// Bytes of their keys and payloads.
    pub live_bytes: u64,
    pub(crate) corrupt_raw: Vec<Vec<u8>>,
    /// Number of the last batch in the store.
    pub(crate) batches: u64,
}

impl OpenReport {
    pub(crate) fn empty() -> Self {
        Self {
            outcome: OpenOutcome::Clean,
            corrupt: Vec::new(),
            records: 0,
            live_bytes: 0,
            corrupt_raw: Vec::new(),
            batches: 0,
        }
    }

    /// Reads and adds every record of the database in `data`, up to one that a newer version wrote.
    pub(crate) fn count(
        &mut self,
        db: &dyn ReadableDatabase,
        data: &Path,
    ) -> Result<Option<NewerFormat>, redb::Error> {
        for item in db.begin_read()?.open_table(RECORDS)?.iter()? {
            let (full, raw) = item?;
            match record::decode(full.value(), raw.value()) {
                Err(BadRecord::Newer(found)) => {
                    return Ok(Some(newer_record(data, full.value(), found)));
                }
                decoded => self.add(full.value(), decoded),
            }
        }
        Ok(None)
    }

    /// Adds the record at the key `full` of the table.
    fn add(&mut self, full: &[u8], decoded: Result<&[u8], BadRecord>) {
        match decoded {
            Ok(number) if full == BATCHES => {
                self.batches = witness::number(number).unwrap_or_default();
            }
            Err(_) if full == BATCHES => {}
            Ok(payload) => {
                self.records += 1;
                self.live_bytes += (full.len() + payload.len()) as u64;
            }
            Err(bad) => {
                let (keyspace, key) = split_key(full);
                let why = bad.to_string();
                tracing::error!(keyspace, key = %key.escape_ascii(), why, "record is damaged");
                self.corrupt.push(CorruptRecord { keyspace, key, why });
                self.corrupt_raw.push(full.to_vec());
            }
        }
    }

    /// Compares with the number of the last acknowledged batch.
    pub(crate) fn compare(&mut self, acknowledged: u64) {
        let lost_batches = acknowledged.saturating_sub(self.batches);
        if lost_batches == 0 || matches!(self.outcome, OpenOutcome::Quarantined { .. }) {
            return;
        }
        tracing::error!(
            lost_batches,
            "acknowledged batches of the store are missing"
        );
        self.outcome = OpenOutcome::Truncated { lost_batches };
    }
}

/// Creates the root folder if needed, takes its lock, and makes its name durable, where `held` is
/// one that this process has already. After an error no record was changed.
pub(crate) fn take_folder(
    root: &Path,
    options: &Options,
    held: Option<&File>,
) -> Result<FolderLock, StoreError> {
    if !root.is_dir() {
        // Private: the records may hold credentials.
        make_private(root).map_err(|e| not_writable(root, e))?;
    }
    // First: a lock file on a full disk would lose the process id of its holder.
    check_free(root, options.min_free_bytes)?;
    let lock = FolderLock::take(root, held)?;
    sync_names(root).map_err(|e| StoreError::from_io(root, "sync the folders above", e))?;
    Ok(lock)
}

/// Reports a folder that can't be created like one that can't be written.
fn not_writable(root: &Path, source: io::Error) -> StoreError {
    match StoreError::from_io(root, "create the folder", source) {
        StoreError::Io { path, source, .. } => StoreError::NotWritable { path, source },
        other => other,
    }
}

/// Refuses when fewer than `needed` bytes are free for this process.
pub(crate) fn check_free(path: &Path, needed: u64) -> Result<(), StoreError> {
    let free = free_bytes(path).map_err(|e| StoreError::from_io(path, "ask for free space", e))?;
    if free < needed {
        return Err(StoreError::Full {
            path: path.to_owned(),
            free,
            needed,
        });
    }
    Ok(())
}

/// Takes the steps of this module, then compacts where it is worth it. Calls `begin_changes` before
/// a reader of the same file could notice a change.
pub(crate) fn open(
    root: &Path,
    options: &Options,
    begin_changes: impl FnOnce(),
) -> Result<(Database, PathBuf, OpenReport), StoreError> {
    let data = root.join("data");
    format::check(root)?;
    finish_interrupted(root, &data).map_err(|e| StoreError::from_io(root, "tidy up", e))?;
    let (mut db, report) = open_or_restart(root, &data, options)?;
    sync_dir(&data)?;
    format::mark(root)?;
    begin_changes();

    let size = || {
        let file = data.join(FILE);
        fs::metadata(&file)
            .map(|m| m.len())
            .map_err(|e| StoreError::from_io(&file, "measure", e))
    };
    let before = size()?;
    if is_worth_it(before, report.live_bytes, options) {
        match guard::call(|| Ok(db.compact()?)) {
            Ok(_) => {
                let after = size()?;
                tracing::info!(path = %data.display(), before, after, "store compacted");
            }
            // No reason to fail: what was committed stays so, and the file is only large. The
            // handle takes no more writes after a failure; a new one does.
            Err(fault) => {
                tracing::warn!(path = %data.display(), ?fault, "store could not be compacted");
                close(db);
                let (reopened, mut checked) = open_or_restart(root, &data, options)?;
                if checked.outcome.is_clean() {
                    checked.outcome = report.outcome;
                }
                return Ok((reopened, data, checked));
            }
        }
    }
    Ok((db, data, report))
}

/// Closes the file. Writes that can't be made durable any more were not acknowledged, or the next
/// opening finds them.
fn close(db: Database) {
    if let Err(fault) = guard::call(|| Ok(db.close()?)) {
        tracing::warn!(?fault, "the database did not close");
    }
}

fn is_worth_it(on_disk: u64, live: u64, options: &Options) -> bool {
    on_disk > options.compact_floor_bytes && on_disk as f64 > options.compact_ratio * live as f64
}

fn open_or_restart(
    root: &Path,
    data: &Path,
    options: &Options,
) -> Result<(Database, OpenReport), StoreError> {
    match attempt(data, options) {
        Ok(opened) => Ok(opened),
        Err(StoreFault::Damage(why)) => {
            tracing::error!(path = %data.display(), why, "store is damaged");
            start_again(root, data, options, why)
        }
        // A sector that can't be read is damage too, and a retry does not repair it. Nothing is set
        // aside before a new store could be written on the same disk.
        Err(StoreFault::Io(e)) if is_unreadable(&e) => {
            tracing::error!(path = %data.display(), why = %e, "store can't be read");
            start_again(root, data, options, e.to_string())
        }
        Err(fault @ (StoreFault::Io(_) | StoreFault::Newer(_))) => {
            Err(fault_to_error(data, "open", fault))
        }
    }
}

/// Returns whether a device, or a file system with checksums, reports a lost block like this.
fn is_unreadable(e: &io::Error) -> bool {
    use rustix::io::Errno;
    let lost = [Errno::IO, Errno::UCLEAN, Errno::BADMSG].map(|errno| errno.raw_os_error());
    e.raw_os_error().is_some_and(|errno| lost.contains(&errno))
}

/// Sets the data folder aside and starts with the records that can be read of it.
fn start_again(
    root: &Path,
    data: &Path,
    options: &Options,
    why: String,
) -> Result<(Database, OpenReport), StoreError> {
    let failed = |fault| fault_to_error(data, "start again", fault);
    let aside = |e| StoreError::from_io(data, "move damaged files aside", e);
    let new = root.join(NEW);
    let fresh = make(&new, options).map_err(failed)?;
    salvage::save(&data.join(FILE), &fresh, options).map_err(failed)?;
    guard::call(|| Ok(fresh.close()?)).map_err(failed)?;
    sync_dir(&new)?;
    // Before the moves: the new name is durable while the old one is.
    sync_dir(root)?;

    let to = next_free(root, QUARANTINE).map_err(aside)?;
    fs::rename(data, &to).map_err(aside)?;
    fs::rename(&new, data).map_err(aside)?;
    sync_dir(root)?;
    let (db, mut report) = attempt(data, options).map_err(failed)?;
    let saved = report.records;
    tracing::error!(to = %to.display(), saved, "store was set aside and started again");
    report.outcome = OpenOutcome::Quarantined { to, why, saved };
    Ok((db, report))
}

/// Completes a restart that was cut between its two moves, and removes an incomplete copy. The
/// witness still knows of the loss: the copy has no batch number.
fn finish_interrupted(root: &Path, data: &Path) -> io::Result<()> {
    let new = root.join(NEW);
    if !new.exists() {
        return Ok(());
    }
    if data.exists() {
        return fs::remove_dir_all(&new);
    }
    fs::rename(&new, data)
}

/// Makes an empty database. It gets its name once it is whole: redb refuses a file that a cut left
/// half made. The caller makes the name durable.
fn make(data: &Path, options: &Options) -> Result<Database, StoreFault> {
    fs::create_dir_all(data).map_err(StoreFault::Io)?;
    let unfinished = data.join("unfinished.redb");
    match fs::remove_file(&unfinished) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(StoreFault::Io(e)),
        _ => {}
    }
    let db = guard::call(|| {
        let mut builder = Builder::new();
        builder.set_cache_size(options.cache_bytes());
        let db = builder.create(&unfinished)?;
        let transaction = db.begin_write()?;
        transaction.open_table(RECORDS)?;
        transaction.commit()?;
        Ok(db)
    })?;
    fs::rename(&unfinished, data.join(FILE)).map_err(StoreFault::Io)?;
    Ok(db)
}

/// Opens the database and reads every record once, so that damage is found now.
fn attempt(data: &Path, options: &Options) -> Result<(Database, OpenReport), StoreFault> {
    let file = data.join(FILE);
    if !file.exists() {
        return Ok((make(data, options)?, OpenReport::empty()));
    }
    let mut report = OpenReport::empty();
    forget_cached(&file).map_err(StoreFault::Io)?;
    let (db, newer) = guard::call(|| {
        let db = Builder::new()
            .set_cache_size(options.cache_bytes())
            .set_check_integrity_on_open(true)
            .open(&file)?;
        let newer = report.count(&db, data)?;
        Ok((db, newer))
    })?;
    if let Some(newer) = newer {
        close(db);
        return Err(StoreFault::Newer(newer));
    }
    Ok((db, report))
}

/// Reads the file from the device, and not from the kernel's cache.
///
/// The kernel marks a write that the device refused as done and keeps it readable while memory
/// lasts (see the paper that the crate names). A start after such a failure would prove
/// and acknowledge pages that are nowhere.
fn forget_cached(file: &Path) -> io::Result<()> {
    let file = File::open(file)?;
    // Writes of a killed run that are only in the kernel's cache reach the device first.
    file.sync_all()?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    Ok(())
}

/// Returns a name `<prefix>N` with the next number, and deletes the oldest folders over the bound.
fn next_free(root: &Path, prefix: &str) -> io::Result<PathBuf> {
    let mut taken: Vec<(u32, PathBuf)> = Vec::new();
    for file in fs::read_dir(root)? {
        let file = file?;
        if let Some(n) = file
            .file_name()
            .to_str()
            .and_then(|name| name.strip_prefix(prefix))
            .and_then(|n| n.parse().ok())
        {
            taken.push((n, file.path()));
        }
    }
    taken.sort_unstable();
    let next = taken.last().map_or(1, |(n, _)| n.saturating_add(1));
    let surplus = (taken.len() + 1).saturating_sub(KEPT_QUARANTINES);
    for (_, old) in taken.iter().take(surplus) {
        fs::remove_dir_all(old)?;
    }
    Ok(root.join(format!("{prefix}{next}")))
}

/// Makes the names in a folder durable.
fn sync_dir(path: &Path) -> Result<(), StoreError> {
    sync_folder(path).map_err(|e| StoreError::from_io(path, "sync the folder", e))
}
