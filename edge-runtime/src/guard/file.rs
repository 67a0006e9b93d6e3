//! The guard with its file, which is written outside the store.
//!
//! - A file that can't be written is logged and costs only the protection.
//! - It is written outside the lock of the guard, so no one but the writer waits for the disk.
//! - A record of a newer version is refused, an unreadable one is ignored.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use serde::Deserialize;
use watchkeeper_contract::id::{EventId, PipelineId};
use watchkeeper_store::durable::replace;
use watchkeeper_store::{NewerFormat, machine_boot};

use super::policy::CrashLoopGuard;
use super::record::{FORMAT, Held, Record};

/// Name of the file in the state folder.
pub(super) const NAME: &str = "starts.json";

/// The guard with its file. A file that can't be written is logged and costs only the protection.
#[derive(Debug)]
pub struct GuardFile {
    folder: PathBuf,
    limit: u32,
    guard: Mutex<CrashLoopGuard>,
    /// Whether [`Self::beat`] changed the record since the last write.
    is_changed: AtomicBool,
    /// Held over a write, so that the newest record is written last.
    writing: Mutex<()>,
}

impl GuardFile {
    /// Reads the record of the last run in `folder`, and records the start of this one.
    ///
    /// # Errors
    /// When the record is of a newer version. An unreadable one is ignored.
    pub fn open(folder: &Path, limit: u32) -> Result<Self, NewerFormat> {
        let previous = match read(&folder.join(NAME)) {
            Ok(GuardContent::Record(record)) => record,
            Ok(GuardContent::Newer(found)) => {
                let what = format!("the file {NAME}");
                return Err(NewerFormat::new(folder, what, found, FORMAT));
            }
            Err(error) => {
                tracing::warn!(%error, "can't read {NAME}; early deaths are counted from zero");
                Record::default()
            }
        };
        let machine = machine_boot();
        let guard = CrashLoopGuard::new(previous, &machine, Instant::now());
        if guard.record().early_deaths > 0 {
            tracing::warn!(
                deaths = guard.record().early_deaths,
                "the last run died within a minute of its start"
            );
        }
        let this = Self {
            folder: folder.to_owned(),
            limit,
            guard: Mutex::new(guard),
            is_changed: AtomicBool::default(),
            writing: Mutex::default(),
        };
        this.change(|_| ());
        Ok(this)
    }

    /// Decides about the pipelines to start, with their fingerprints, and writes the record.
    /// Returns new holds, and released ones: of edited pipelines, and of absent ones if `wanted`
    /// `is_complete`.
    pub fn judge(
        &self,
        wanted: &BTreeMap<PipelineId, String>,
        is_complete: bool,
        new_id: &mut dyn FnMut() -> EventId,
    ) -> (Vec<PipelineId>, Vec<(PipelineId, Held)>) {
        self.change(|guard| {
            let released = guard.release_changed(wanted, is_complete);
            let newly = guard.judge(wanted, self.limit, new_id);
            (newly, released)
        })
    }

    /// The hold of a pipeline, if there is one.
    pub fn held(&self, id: &PipelineId) -> Option<Held> {
        self.guard.lock().held(id).cloned()
    }

    pub fn held_events(&self) -> BTreeSet<EventId> {
        self.guard.lock().held_events()
    }

    /// Like [`CrashLoopGuard::release`], and writes the record.
    pub fn release(&self, id: &PipelineId) -> Option<Held> {
        self.held(id)?;
        self.change(|guard| guard.release(id))
    }

    /// Like [`CrashLoopGuard::due_retries`], now.
    pub fn due_retries(&self) -> Vec<PipelineId> {
        self.guard.lock().due_retries(Instant::now())
    }

    /// Like [`CrashLoopGuard::beat`]; [`Self::save`] writes a changed record. Never waits for the
    /// disk: the watchdog waits for this call.
    pub fn beat(&self, running: &BTreeMap<PipelineId, String>) {
        if self.guard.lock().beat(Instant::now(), running) {
            self.is_changed.store(true, Ordering::Relaxed);
        }
    }

    /// Writes what [`Self::beat`] changed; called regularly.
    pub fn save(&self) {
        if self.is_changed.swap(false, Ordering::Relaxed) {
            self.write();
        }
    }

    /// Marks the regular end of the run.
    pub fn stopped(&self) {
        self.change(CrashLoopGuard::stopped);
    }

    fn change<T>(&self, change: impl FnOnce(&mut CrashLoopGuard) -> T) -> T {
        let answer = change(&mut self.guard.lock());
        self.write();
        answer
    }

    fn write(&self) {
        let _writing = self.writing.lock();
        let record = self.guard.lock().record().clone();
        let json = serde_json::to_vec_pretty(&record).map_err(io::Error::from);
        let written = json.and_then(|json| replace(&self.folder.join(NAME), &json));
        if let Err(error) = written {
            tracing::warn!(%error, "can't write {NAME}; a crash loop would not be detected");
        }
    }
}

/// The content of the file.
#[derive(Debug)]
pub(super) enum GuardContent {
    Record(Record),
    /// Written in the format of a newer version.
    Newer(u16),
}

pub(super) fn read(path: &Path) -> io::Result<GuardContent> {
    /// Read first: a record of another format may have any other field.
    #[derive(Deserialize)]
    struct Format {
        format: u16,
    }
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(GuardContent::Record(Record::default()));
        }
        Err(error) => return Err(error),
    };
    let Format { format } = serde_json::from_slice(&bytes)?;
    if format > FORMAT {
        return Ok(GuardContent::Newer(format));
    }
    Ok(GuardContent::Record(serde_json::from_slice(&bytes)?))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::super::policy::EARLY;
    use super::super::record::Stage;
    use super::*;

    #[test]
    fn beat_does_not_wait_for_a_write_and_is_saved_later() {
        let folder = tempfile::tempdir().unwrap();
        let file = GuardFile::open(folder.path(), 3).unwrap();
        let long_ago = Instant::now().checked_sub(EARLY).unwrap();
        *file.guard.lock() = CrashLoopGuard::new(Record::default(), "boot-1", long_ago);
        let stage = || match read(&folder.path().join(NAME)).unwrap() {
            GuardContent::Record(record) => record.stage,
            GuardContent::Newer(format) => panic!("format {format}"),
        };
        // A disk that stalls in the middle of a write.
        let writing = file.writing.lock();
        file.beat(&BTreeMap::new());
        drop(writing);
        assert_eq!(stage(), Stage::Starting);
        file.save();
        assert_eq!(stage(), Stage::Healthy);
    }
}
