//! Opening a store, whatever the last run left behind.
//!
//! The ladder, each rung only when the one before met *damage* (a refusal of the system is an error, and so is what a
//! newer version wrote; see [`crate::format`]):
//! 1. open and read every record;
//! 2. move sled's snapshot files aside and open again: sled replays its log. A torn snapshot otherwise fails every
//!    open (spacejam/sled #1533); measured, this brings every acknowledged record back;
//! 3. move the whole data folder aside and begin empty. The caller raises the alarm.
//!
//! Layout of the root folder: `lock`, `format`, `witness`, `data/` (sled's), `data.quarantine-N/`, `snapshots.quarantine-N/`, and while a
//! compaction runs `data.compact/` and `data.old/`. At most [`KEPT_QUARANTINES`] of each kind stay.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::compact;
use crate::durable::sync_folder;
use crate::error::StoreError;
use crate::format::{self, NewerFormat};
use crate::guard::{self, Fault};
use crate::lock::FolderLock;
use crate::record::{self, BadRecord};
use crate::sled_store::{fault_to_error, split_key};
use crate::{CorruptRecord, witness};

/// Folders set aside that are kept for a person to look at; older ones are deleted.
const KEPT_QUARANTINES: usize = 3;

/// How long an earlier handle of this very process may take to let go of sled's file.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(3);

/// Bounds of a store.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Memory that sled may use for its cache, in bytes.
    pub cache_bytes: u64,
    /// Bytes that must stay free on the disk; a write that would go below is refused before sled sees it.
    pub min_free_bytes: u64,
    /// At opening, the files are rewritten when they take more than this many times the live bytes…
    pub compact_ratio: f64,
    /// …and more than this many bytes.
    pub compact_floor_bytes: u64,
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
    /// Damaged and repaired; no acknowledged record is known to be missing.
    Recovered {
        /// What was done, as a sentence.
        what: String,
    },
    /// The log was damaged and ends before it should: the last batches are gone.
    Truncated {
        /// Acknowledged batches that are missing.
        lost_batches: u64,
    },
    /// Beyond repair: set aside, and begun empty. Records were lost.
    Quarantined {
        /// Where the damaged files are now.
        to: PathBuf,
        /// What was found.
        why: String,
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
    /// Set when the files were rewritten.
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
        tracing::error!(lost_batches, "the end of the store's log is missing");
        self.outcome = OpenOutcome::Truncated { lost_batches };
    }
}

/// Key in sled's tree of the number of the last batch. No keyspace has an empty name.
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
) -> Result<(sled::Db, PathBuf, OpenReport), StoreError> {
    let data = root.join("data");
    format::check(root)?;
    compact::finish_interrupted(root).map_err(|e| StoreError::from_io(root, "tidy up", e))?;
    let (mut db, mut report) = ladder(root, &data, options)?;
    sync_dir(root)?;
    sync_dir(&data)?;

    let before =
        guard::call(|| db.size_on_disk()).map_err(|f| fault_to_error(&data, "measure", f))?;
    // The copy would leave damaged records out before anybody has noted them; once they are taken out, the next opening compacts.
    let is_sound = report.corrupt.is_empty();
    if is_sound && compact::is_worth_it(before, report.live_bytes, options) {
        match compact::run(root, &db, options) {
            Ok(()) => {
                drop(db);
                compact::swap(root).map_err(|e| StoreError::from_io(root, "swap folders", e))?;
                let (reopened, checked) = ladder(root, &data, options)?;
                db = reopened;
                let after = guard::call(|| db.size_on_disk())
                    .map_err(|f| fault_to_error(&data, "measure", f))?;
                tracing::info!(path = %data.display(), before, after, "store compacted");
                report.compaction = Some(Compaction { before, after });
                if !checked.outcome.is_clean() {
                    report.outcome = checked.outcome;
                }
                report.corrupt = checked.corrupt;
                report.corrupt_raw = checked.corrupt_raw;
            }
            // Not worth failing over: the store works, it is only large.
            Err(fault) => {
                tracing::warn!(path = %data.display(), ?fault, "store could not be compacted");
                compact::discard(root).map_err(|e| StoreError::from_io(root, "tidy up", e))?;
            }
        }
    }
    Ok((db, data, report))
}

fn ladder(
    root: &Path,
    data: &Path,
    options: &Options,
) -> Result<(sled::Db, OpenReport), StoreError> {
    let first = match attempt(data, options) {
        Ok(opened) => return Ok(opened),
        Err(Fault::Damage(why)) => why,
        Err(fault @ (Fault::Io(_) | Fault::Newer(_))) => {
            return Err(fault_to_error(data, "open", fault));
        }
    };
    tracing::error!(path = %data.display(), why = first, "store is damaged");

    let aside = |e| StoreError::from_io(data, "move damaged files aside", e);
    if move_snapshots(root, data).map_err(aside)? {
        match attempt(data, options) {
            Ok((db, mut report)) => {
                report.outcome = OpenOutcome::Recovered {
                    what: format!(
                        "the snapshot was damaged ({first}); the log was replayed instead"
                    ),
                };
                return Ok((db, report));
            }
            Err(Fault::Damage(_)) => {}
            Err(fault @ (Fault::Io(_) | Fault::Newer(_))) => {
                return Err(fault_to_error(data, "open", fault));
            }
        }
    }

    let to = next_free(root, "data.quarantine-").map_err(aside)?;
    fs::rename(data, &to).map_err(aside)?;
    match attempt(data, options) {
        Ok((db, mut report)) => {
            tracing::error!(to = %to.display(), "store was set aside and begun empty");
            report.outcome = OpenOutcome::Quarantined { to, why: first };
            Ok((db, report))
        }
        Err(fault) => Err(fault_to_error(data, "open", fault)),
    }
}

/// Opens and reads every record once, so that damage is found now and not in the middle of a night.
fn attempt(data: &Path, options: &Options) -> Result<(sled::Db, OpenReport), Fault> {
    let db = open_released(data, options)?;
    let mut report = OpenReport {
        outcome: OpenOutcome::Clean,
        corrupt: Vec::new(),
        records: 0,
        live_bytes: 0,
        compaction: None,
        corrupt_raw: Vec::new(),
        batches: 0,
    };
    let mut newer = None;
    guard::call(|| {
        for item in db.iter() {
            let (full, value) = item?;
            match record::decode(&full, &value) {
                Ok(number) if full == BATCHES => {
                    report.batches = witness::number(number).unwrap_or_default();
                }
                Err(BadRecord::Damaged(_)) if full == BATCHES => {}
                Ok(payload) => {
                    report.records += 1;
                    report.live_bytes += (full.len() + payload.len()) as u64;
                }
                Err(BadRecord::Newer(found)) => {
                    newer = Some((split_key(&full), found));
                    return Ok(());
                }
                Err(BadRecord::Damaged(why)) => {
                    let (keyspace, key) = split_key(&full);
                    tracing::error!(keyspace, key = %key.escape_ascii(), why, "record is damaged");
                    report.corrupt.push(CorruptRecord { keyspace, key, why });
                    report.corrupt_raw.push(full.to_vec());
                }
            }
        }
        Ok(())
    })?;
    if let Some(((keyspace, key), found)) = newer {
        let what = format!("record {} of {keyspace:?}", key.escape_ascii());
        let root = data.parent().unwrap_or(data);
        let newer = NewerFormat::new(root, what, found, record::FORMAT);
        return Err(Fault::Newer(newer));
    }
    Ok((db, report))
}

pub(crate) fn sled_config(data: &Path, options: &Options) -> sled::Config {
    sled::Config::new()
        .path(data)
        .cache_capacity(options.cache_bytes)
        // Durability comes from our own sync; the flusher is left to clean segments, without waking the disk often.
        .flush_every_ms(Some(2_000))
}

/// sled gives its file back from a background thread after a handle is dropped; we hold the folder's lock, so a busy
/// file can only be an earlier handle of ours.
fn open_released(data: &Path, options: &Options) -> Result<sled::Db, Fault> {
    let deadline = Instant::now() + RELEASE_TIMEOUT;
    loop {
        match guard::call(|| sled_config(data, options).open()) {
            Err(Fault::Io(e))
                if e.to_string().contains("could not acquire lock")
                    && Instant::now() < deadline =>
            {
                std::thread::sleep(Duration::from_millis(20));
            }
            result => return result,
        }
    }
}

/// Moves sled's snapshot files aside; false when there were none.
fn move_snapshots(root: &Path, data: &Path) -> io::Result<bool> {
    let mut to = None;
    for file in fs::read_dir(data)? {
        let file = file?;
        if file.file_name().to_string_lossy().starts_with("snap.") {
            let folder = match &to {
                Some(folder) => folder,
                None => {
                    let folder = next_free(root, "snapshots.quarantine-")?;
                    fs::create_dir(&folder)?;
                    to.insert(folder)
                }
            };
            fs::rename(file.path(), folder.join(file.file_name()))?;
        }
    }
    Ok(to.is_some())
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
