//! End times of pauses: `<state>/pauses.json`.
//!
//! - An end time is on stable storage before its pause is.
//! - End times are instants, so a change of daylight saving time moves nothing.
//! - No pause ends by a clock that is not synchronised or estimated.
//! - Reading an end time waits for no disk.
//! - An end time without a pause has no effect: a crash between the two loses at most the pause.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use parking_lot::Mutex;
use watchkeeper_contract::id::PipelineId;
use watchkeeper_contract::time::TimeQuality;
use watchkeeper_store::durable;

/// The end times of paused pipelines.
#[derive(Debug)]
pub struct TimedPauses {
    path: PathBuf,
    until: Mutex<BTreeMap<PipelineId, Timestamp>>,
    /// Serialises changes, each with its write. Locked before `until`.
    changes: Mutex<()>,
}

impl TimedPauses {
    /// Opens the file in the state folder `state`. An unreadable file is logged, and its pipelines
    /// stay paused until a user resumes them.
    #[must_use]
    pub fn open(state: &Path) -> Self {
        let path = state.join("pauses.json");
        let until = read(&path).unwrap_or_else(|why| {
            tracing::error!(path = %path.display(), why, "the end times of pauses are lost; resume paused pipelines by hand");
            BTreeMap::new()
        });
        Self {
            path,
            until: Mutex::new(until),
            changes: Mutex::default(),
        }
    }

    /// When this pipeline resumes by itself.
    pub fn until(&self, id: &PipelineId) -> Option<Timestamp> {
        self.until.lock().get(id).copied()
    }

    /// Sets or removes the end time of a pause; durable on return.
    ///
    /// # Errors
    /// When the file can't be written; nothing has changed then.
    pub fn set(&self, id: &PipelineId, until: Option<Timestamp>) -> io::Result<()> {
        let _change = self.changes.lock();
        if self.until(id) == until {
            return Ok(());
        }
        let mut changed = self.until.lock().clone();
        match until {
            Some(until) => changed.insert(id.clone(), until),
            None => changed.remove(id),
        };
        let text = serde_json::to_vec(&changed).map_err(io::Error::other)?;
        durable::replace(&self.path, &text)?;
        *self.until.lock() = changed;
        Ok(())
    }

    /// The pipelines whose pauses end by `now`.
    pub fn due(&self, now: Timestamp, quality: TimeQuality) -> Vec<PipelineId> {
        if quality == TimeQuality::Unsynced {
            return Vec::new();
        }
        let all = self.until.lock();
        let due = all.iter().filter(|(_, until)| **until <= now);
        due.map(|(id, _)| id.clone()).collect()
    }
}

fn read(path: &Path) -> Result<BTreeMap<PipelineId, Timestamp>, String> {
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|e| e.to_string()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn pause_is_due_after_restart_by_a_trusted_clock() {
        let state = tempfile::tempdir().unwrap();
        let [gate, yard] = ["gate", "yard"].map(|id| PipelineId::new(id).unwrap());
        let until = at("2026-03-29T08:00:00+02:00");
        TimedPauses::open(state.path())
            .set(&gate, Some(until))
            .unwrap();
        let pauses = TimedPauses::open(state.path());
        pauses.set(&yard, Some(at("2026-03-30T00:00:00Z"))).unwrap();
        assert_eq!(pauses.until(&gate), Some(until));
        for (now, quality, due) in [
            ("2026-03-29T05:59:59Z", TimeQuality::Synced, false),
            ("2026-03-29T06:00:00Z", TimeQuality::Estimated, true),
            ("2026-03-29T06:00:00Z", TimeQuality::Unsynced, false),
        ] {
            let found = pauses.due(at(now), quality);
            assert_eq!(found, Vec::from_iter(due.then(|| gate.clone())), "{now}");
        }
        pauses.set(&gate, None).unwrap();
        let later = TimedPauses::open(state.path());
        assert_eq!(
            (later.until(&gate), later.until(&yard).is_some()),
            (None, true)
        );
    }

    #[test]
    fn end_time_is_read_while_another_one_is_written() {
        let state = tempfile::tempdir().unwrap();
        let gate = PipelineId::new("gate").unwrap();
        let pauses = TimedPauses::open(state.path());
        // Held while the disk writes.
        let _change = pauses.changes.lock();
        assert_eq!(pauses.until(&gate), None);
    }

    #[test]
    fn damaged_file_and_failed_write_change_nothing() {
        let state = tempfile::tempdir().unwrap();
        let gate = PipelineId::new("gate").unwrap();
        fs::write(state.path().join("pauses.json"), "{\"gate\": 7").unwrap();
        assert_eq!(TimedPauses::open(state.path()).until(&gate), None);
        let nowhere = TimedPauses::open(&state.path().join("gone"));
        assert!(
            nowhere
                .set(&gate, Some(at("2026-03-30T00:00:00Z")))
                .is_err()
        );
        assert_eq!(nowhere.until(&gate), None);
    }
}
