//! Opening a store, whatever the last run left behind.
//!
//! A run that ended without closing, by a kill or a power cut, is no damage: redb goes back to its last durable commit by itself. The
//! ladder for the rest, climbed only when the rung before met *damage* (a refusal of the system is an error, and so is what a newer
//! version wrote; see [`crate::format`]):
//! 1. open, have redb prove the checksum of every page, and read every record;
//! 2. set the whole data folder aside, begin empty, and take over what can still be read and proves itself by its own checksum. The
//!    caller raises the alarm.
//!
//! Layout of the root folder: `lock`, `format`, `witness`, `data/records.redb`, `data.new/` while records are taken over, and
//! `data.quarantine-N/`, of which at most [`KEPT_QUARANTINES`] stay. At every instant either `data` is there, or `data.new` is and is
//! complete.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use redb::{Builder, Database, ReadableDatabase, ReadableTable};

use crate::disk::{RECORDS, fault_to_error, split_key};
use crate::durable::sync_folder;
use crate::error::StoreError;
use crate::format::{self, NewerFormat};
use crate::guard::{self, Fault};
use crate::lock::FolderLock;
use crate::record::{self, BadRecord};
use crate::{CorruptRecord, salvage, witness};

/// Name of the database in the data folder.
pub(crate) const FILE: &str = "records.redb";

/// Folder of records that are taken over.
const NEW: &str = "data.new";

/// What the folders that are set aside are called, before their number.
const QUARANTINE: &str = "data.quarantine-";

/// Folders set aside that are kept for a person to look at; older ones are deleted.
const KEPT_QUARANTINES: usize = 3;

/// Bounds of a store.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Memory that the database may use for its cache, in bytes.
    pub cache_bytes: u64,
    /// Bytes that must stay free on the disk; a write that would go below is refused before the database sees it.
    pub min_free_bytes: u64,
    /// At opening, the file is made smaller when it takes more than this many times the live bytes…
    pub compact_ratio: f64,
    /// …and more than this many bytes.
    pub compact_floor_bytes: u64,
}

impl Options {
    /// [`Self::cache_bytes`] as redb wants it.
    pub(crate) fn cache_bytes(&self) -> usize {
        usize::try_from(self.cache_bytes).unwrap_or(usize::MAX)
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cache_bytes: 16 << 20,
            min_free_bytes: 16 << 20,
            compact_ratio: 4.0,
            compact_floor_bytes: 32 << 20,
        }
    }
}

/// In which state a store was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenOutcome {
    /// As it was left.
    Clean,
    /// Sound, but not as far as it was acknowledged: the last batches are gone.
    Truncated {
        /// Acknowledged batches that are missing.
        lost_batches: u64,
    },
    /// Beyond repair: set aside, and begun anew with what could still be read. Records were lost.
    Quarantined {
        /// Where the damaged files are now.
        to: PathBuf,
        /// What was found.
        why: String,
        /// Records that could still be read, and are in the new store.
        saved: u64,
    },
}

impl OpenOutcome {
    /// Whether nothing was wrong.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        matches!(self, Self::Clean)
    }
}

/// What a compaction at opening gained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compaction {
    /// Bytes on disk before.
    pub before: u64,
    /// Bytes on disk after.
    pub after: u64,
}

/// What opening a store found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenReport {
    /// In which state it was.
    pub outcome: OpenOutcome,
    /// Damaged records; they have been taken out.
    pub corrupt: Vec<CorruptRecord>,
    /// Sound records.
    pub records: u64,
    /// Bytes of their keys and payloads.
    pub live_bytes: u64,
    /// Set when the file was made smaller.
    pub compaction: Option<Compaction>,
    pub(crate) corrupt_raw: Vec<Vec<u8>>,
    /// Number of the last batch that is there.
    pub(crate) batches: u64,
}

impl OpenReport {
    /// Compares with the number of the last batch that was acknowledged.
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

/// Key in the table of the number of the last batch. No keyspace has an empty name.
pub(crate) const BATCHES: &[u8] = b"\0batches";

/// Makes the root folder usable and takes its lock.
pub(crate) fn take_folder(root: &Path, options: &Options) -> Result<FolderLock, StoreError> {
    if !root.is_dir() {
        fs::create_dir_all(root).map_err(|e| not_writable(root, e))?;
        if let Some(above) = root.parent().filter(|p| !p.as_os_str().is_empty()) {
            sync_dir(above)?;
        }
    }
    let lock = FolderLock::take(root)?;
    check_free(root, options.min_free_bytes)?;
    Ok(lock)
}

/// A folder that can't be made is told as one that can't be written, whatever the system calls it.
fn not_writable(root: &Path, source: io::Error) -> StoreError {
    match StoreError::from_io(root, "create the folder", source) {
        StoreError::Io { path, source, .. } => StoreError::NotWritable { path, source },
        other => other,
    }
}

/// Refuses when fewer than `needed` bytes are free for this process.
pub(crate) fn check_free(path: &Path, needed: u64) -> Result<(), StoreError> {
    let stat = rustix::fs::statvfs(path)
        .map_err(|e| StoreError::from_io(path, "ask for free space", e.into()))?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    if free < needed {
        return Err(StoreError::Full {
            path: path.to_owned(),
            free,
            needed,
        });
    }
    Ok(())
}

/// Climbs the ladder, then compacts where it is worth it.
pub(crate) fn open(
    root: &Path,
    options: &Options,
) -> Result<(Database, PathBuf, OpenReport), StoreError> {
    let data = root.join("data");
    let earlier = format::check(root)?;
    finish_interrupted(root, &data).map_err(|e| StoreError::from_io(root, "tidy up", e))?;
    let (mut db, mut report) = match earlier {
        // One that has our file was begun anew already, and only the mark is missing.
        Some(why) if data.exists() && !data.join(FILE).exists() => {
            begin_anew(root, &data, options, why)?
        }
        _ => ladder(root, &data, options)?,
    };
    format::mark(root)?;
    sync_dir(root)?;
    sync_dir(&data)?;

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
                report.compaction = Some(Compaction { before, after });
            }
            // Not worth failing over: what was committed stays so, and the file is only large. The handle takes no more
            // writes after a failure, a new one does.
            Err(fault) => {
                tracing::warn!(path = %data.display(), ?fault, "store could not be compacted");
                close(db);
                let (reopened, mut checked) = ladder(root, &data, options)?;
                if checked.outcome.is_clean() {
                    checked.outcome = report.outcome;
                }
                return Ok((reopened, data, checked));
            }
        }
    }
    Ok((db, data, report))
}

/// Lets go of the file. What can't be made durable any more was not acknowledged, or is found by the next opening.
fn close(db: Database) {
    if let Err(fault) = guard::call(|| Ok(db.close()?)) {
        tracing::warn!(?fault, "the database did not close");
    }
}

fn is_worth_it(on_disk: u64, live: u64, options: &Options) -> bool {
    on_disk > options.compact_floor_bytes && on_disk as f64 > options.compact_ratio * live as f64
}

fn ladder(
    root: &Path,
    data: &Path,
    options: &Options,
) -> Result<(Database, OpenReport), StoreError> {
    match attempt(data, options) {
        Ok(opened) => Ok(opened),
        Err(Fault::Damage(why)) => {
            tracing::error!(path = %data.display(), why, "store is damaged");
            begin_anew(root, data, options, why)
        }
        // A sector that can't be read is damage too, and is not mended by trying again. Nothing is set aside before a new store could
        // be written on the same disk.
        Err(Fault::Io(e)) if is_unreadable(&e) => {
            tracing::error!(path = %data.display(), why = %e, "store can't be read");
            begin_anew(root, data, options, e.to_string())
        }
        Err(fault @ (Fault::Io(_) | Fault::Newer(_))) => Err(fault_to_error(data, "open", fault)),
    }
}

/// Whether this is how a device, or a file system that keeps checksums, says that a block is lost.
fn is_unreadable(e: &io::Error) -> bool {
    use rustix::io::Errno;
    let lost = [Errno::IO, Errno::UCLEAN, Errno::BADMSG].map(|errno| errno.raw_os_error());
    e.raw_os_error().is_some_and(|errno| lost.contains(&errno))
}

/// Sets the data folder aside and begins with what can be read of it.
fn begin_anew(
    root: &Path,
    data: &Path,
    options: &Options,
    why: String,
) -> Result<(Database, OpenReport), StoreError> {
    let failed = |fault| fault_to_error(data, "begin anew", fault);
    let aside = |e| StoreError::from_io(data, "move damaged files aside", e);
    let new = root.join(NEW);
    make(&new, options).map_err(failed)?;
    let fresh = guard::call(|| {
        let mut builder = Builder::new();
        builder.set_cache_size(options.cache_bytes());
        Ok(builder.open(new.join(FILE))?)
    });
    let fresh = fresh.map_err(failed)?;
    salvage::save(&data.join(FILE), &fresh, options).map_err(failed)?;
    guard::call(|| Ok(fresh.close()?)).map_err(failed)?;

    let to = next_free(root, QUARANTINE).map_err(aside)?;
    fs::rename(data, &to).map_err(aside)?;
    fs::rename(&new, data).map_err(aside)?;
    sync_dir(root)?;
    let (db, mut report) = attempt(data, options).map_err(failed)?;
    let saved = report.records;
    tracing::error!(to = %to.display(), saved, "store was set aside and begun anew");
    report.outcome = OpenOutcome::Quarantined { to, why, saved };
    Ok((db, report))
}

/// Completes a beginning anew that was cut between its two moves, and removes a copy that was not complete. That something was lost
/// is still known by the witness: the copy has no number of a batch.
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

/// Makes an empty database. It gets its name once it is whole: redb refuses a file that a cut left half made.
fn make(data: &Path, options: &Options) -> Result<(), Fault> {
    fs::create_dir_all(data).map_err(Fault::Io)?;
    let unfinished = data.join("unfinished.redb");
    match fs::remove_file(&unfinished) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(Fault::Io(e)),
        _ => {}
    }
    guard::call(|| {
        let mut builder = Builder::new();
        builder.set_cache_size(options.cache_bytes());
        let db = builder.create(&unfinished)?;
        let transaction = db.begin_write()?;
        transaction.open_table(RECORDS)?;
        transaction.commit()?;
        Ok(db.close()?)
    })?;
    fs::rename(&unfinished, data.join(FILE))
        .and_then(|()| sync_folder(data))
        .map_err(Fault::Io)
}

/// Opens and reads every record once, so that damage is found now and not in the middle of a night.
fn attempt(data: &Path, options: &Options) -> Result<(Database, OpenReport), Fault> {
    let file = data.join(FILE);
    if !file.exists() {
        make(data, options)?;
    }
    let mut report = OpenReport {
        outcome: OpenOutcome::Clean,
        corrupt: Vec::new(),
        records: 0,
        live_bytes: 0,
        compaction: None,
        corrupt_raw: Vec::new(),
        batches: 0,
    };
    forget_cached(&file).map_err(Fault::Io)?;
    let mut newer = None;
    let db = guard::call(|| {
        let db = Builder::new()
            .set_cache_size(options.cache_bytes())
            .set_check_integrity_on_open(true)
            .open(&file)?;
        for item in db.begin_read()?.open_table(RECORDS)?.iter()? {
            let (full, raw) = item?;
            let full = full.value();
            match record::decode(full, raw.value()) {
                Ok(number) if full == BATCHES => {
                    report.batches = witness::number(number).unwrap_or_default();
                }
                Err(BadRecord::Damaged(_)) if full == BATCHES => {}
                Ok(payload) => {
                    report.records += 1;
                    report.live_bytes += (full.len() + payload.len()) as u64;
                }
                Err(BadRecord::Newer(found)) => {
                    newer = Some(newer_record(data, full, found));
                    break;
                }
                Err(BadRecord::Damaged(why)) => {
                    let (keyspace, key) = split_key(full);
                    tracing::error!(keyspace, key = %key.escape_ascii(), why, "record is damaged");
                    report.corrupt.push(CorruptRecord { keyspace, key, why });
                    report.corrupt_raw.push(full.to_vec());
                }
            }
        }
        Ok(db)
    })?;
    if let Some(newer) = newer {
        close(db);
        return Err(Fault::Newer(newer));
    }
    Ok((db, report))
}

/// Has the file read from the device, and not from what the kernel keeps of it. A write that the device refused is marked as done there
/// and stays readable until the memory is wanted (the paper that the crate's documentation names), so a start after such a failure would
/// prove pages that are nowhere, and acknowledge them.
fn forget_cached(file: &Path) -> io::Result<()> {
    let file = fs::File::open(file)?;
    // A run that was killed may have left writes that are only in the kernel's cache: those reach the device first.
    file.sync_all()?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    Ok(())
}

/// What is said of a record of a newer format in the folder `data`.
pub(crate) fn newer_record(data: &Path, full: &[u8], found: u16) -> NewerFormat {
    let (keyspace, key) = split_key(full);
    let what = format!("record {} of {keyspace:?}", key.escape_ascii());
    NewerFormat::new(data.parent().unwrap_or(data), what, found, record::FORMAT)
}

/// A name `<prefix>N` with N over all that are there; deletes the oldest ones over the bound.
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
pub(crate) fn sync_dir(path: &Path) -> Result<(), StoreError> {
    sync_folder(path).map_err(|e| StoreError::from_io(path, "sync the folder", e))
}
