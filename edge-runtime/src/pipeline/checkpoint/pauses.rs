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

type EndTimes = BTreeMap<PipelineId, Timestamp>;

/// The end times of paused pipelines.
#[derive(Debug)]
pub struct TimedPauses {
    path: PathBuf,
    /// `None` until the file can be read.
    until: Mutex<Option<EndTimes>>,
    /// Serialises changes, each with its write. Locked before `until`.
    changes: Mutex<()>,
}

impl TimedPauses {
    /// Opens the file in the state folder `state`. One that can't be read is logged, and its
    /// pipelines stay paused until a user resumes them. A damaged one is kept under another name.
    #[must_use]
    pub fn open(state: &Path) -> Self {
        let path = state.join("pauses.json");
        let until = read(&path).inspect_err(|why| {
            tracing::error!(path = %path.display(), %why, "the end times of pauses can't be read; resume paused pipelines by hand");
        });
        Self {
            path,
            until: Mutex::new(until.ok()),
            changes: Mutex::default(),
        }
    }

    /// When this pipeline resumes by itself.
    pub fn until(&self, id: &PipelineId) -> Option<Timestamp> {
        self.until.lock().as_ref()?.get(id).copied()
    }

    /// Sets or removes the end time of a pause; durable on return.
    ///
    /// # Errors
    /// When the file can't be read or written; nothing has changed then.
    pub fn set(&self, id: &PipelineId, until: Option<Timestamp>) -> io::Result<()> {
        let _change = self.changes.lock();
        let known = self.until.lock().clone();
        let mut changed = known.map_or_else(|| read(&self.path), Ok)?;
        if changed.get(id).copied() == until {
            return Ok(());
        }
        match until {
            Some(until) => changed.insert(id.clone(), until),
            None => changed.remove(id),
        };
        let text = serde_json::to_vec(&changed).map_err(io::Error::other)?;
        durable::replace(&self.path, &text)?;
        *self.until.lock() = Some(changed);
        Ok(())
    }

    /// The pipelines whose pauses end by `now`.
    pub fn due(&self, now: Timestamp, quality: TimeQuality) -> Vec<PipelineId> {
        if quality == TimeQuality::Unsynced {
            return Vec::new();
        }
        let all = self.until.lock();
        let due = all.iter().flatten().filter(|(_, until)| **until <= now);
        due.map(|(id, _)| id.clone()).collect()
    }
}

/// Reads the end times. A damaged file is moved to `pauses.json.damaged` first.
fn read(path: &Path) -> io::Result<EndTimes> {
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(EndTimes::new()),
        read => read?,
    };
    serde_json::from_slice(&bytes).or_else(|why| {
        fs::rename(path, path.with_extension("json.damaged"))?;
        tracing::error!(path = %path.display(), %why, "damaged; moved to pauses.json.damaged");
        Ok(EndTimes::new())
    })
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
        let file = state.path().join("pauses.json");
        fs::write(&file, "{\"gate\": 7").unwrap();
        assert_eq!(TimedPauses::open(state.path()).until(&gate), None);
        assert!(file.with_extension("json.damaged").exists());
        let nowhere = TimedPauses::open(&state.path().join("gone"));
        assert!(
            nowhere
                .set(&gate, Some(at("2026-03-30T00:00:00Z")))
                .is_err()
        );
        assert_eq!(nowhere.until(&gate), None);
    }

    #[test]
    fn change_after_a_failed_read_keeps_the_other_end_times() {
        let state = tempfile::tempdir().unwrap();
        let [gate, yard] = ["gate", "yard"].map(|id| PipelineId::new(id).unwrap());
        let (file, moved) = (state.path().join("pauses.json"), state.path().join("moved"));
        let until = Some(at("2026-03-30T00:00:00Z"));
        TimedPauses::open(state.path()).set(&gate, until).unwrap();
        fs::rename(&file, &moved).unwrap();
        fs::create_dir(&file).unwrap();
        let pauses = TimedPauses::open(state.path());
        assert!(pauses.set(&yard, until).is_err());
        assert!(pauses.set(&gate, None).is_err());
        fs::remove_dir(&file).unwrap();
        fs::rename(&moved, &file).unwrap();
        pauses.set(&yard, until).unwrap();
        assert_eq!((pauses.until(&gate), pauses.until(&yard)), (until, until));
    }
}
