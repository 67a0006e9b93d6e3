//! Until when pipelines are paused: `<state>/pauses.json`.
//!
//! Invariants: a moment is on stable storage before the pause that it ends is; it is an instant, so a change to or from summer time moves nothing; nothing
//! is due by a clock that can't be right; a moment without a pause means nothing, so a crash between the two costs at most the pause.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use parking_lot::Mutex;
use watchkeeper_contract::id::PipelineId;
use watchkeeper_contract::time::TimeQuality;
use watchkeeper_store::durable;

/// The moments at which pipelines go on by themselves.
#[derive(Debug)]
pub struct Pauses {
    path: PathBuf,
    until: Mutex<BTreeMap<PipelineId, Timestamp>>,
}

impl Pauses {
    /// Those of the state folder `state`. A file that can't be read is told in the log: what was paused then stays paused until somebody resumes it.
    #[must_use]
    pub fn open(state: &Path) -> Self {
        let path = state.join("pauses.json");
        let until = read(&path).unwrap_or_else(|why| {
            tracing::error!(path = %path.display(), why, "until when pipelines are paused is lost; resume them");
            BTreeMap::new()
        });
        Self {
            path,
            until: Mutex::new(until),
        }
    }

    /// When this pipeline goes on by itself.
    #[must_use]
    pub fn until(&self, id: &PipelineId) -> Option<Timestamp> {
        self.until.lock().get(id).copied()
    }

    /// Notes until when a pipeline is paused, or that nobody knows; durable on return.
    ///
    /// # Errors
    /// When it can't be stored; then it is as it was.
    pub fn set(&self, id: &PipelineId, until: Option<Timestamp>) -> io::Result<()> {
        let mut all = self.until.lock();
        if all.get(id).copied() == until {
            return Ok(());
        }
        let mut changed = all.clone();
        match until {
            Some(until) => changed.insert(id.clone(), until),
            None => changed.remove(id),
        };
        let text = serde_json::to_vec(&changed).map_err(io::Error::other)?;
        durable::replace(&self.path, &text)?;
        *all = changed;
        Ok(())
    }

    /// The pipelines that are to go on by `now`.
    #[must_use]
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
    fn a_moment_is_due_once_it_is_past_by_a_clock_that_can_be_right_also_after_a_restart() {
        let state = tempfile::tempdir().unwrap();
        let [gate, yard] = ["gate", "yard"].map(|id| PipelineId::new(id).unwrap());
        let until = at("2026-03-29T08:00:00+02:00");
        Pauses::open(state.path()).set(&gate, Some(until)).unwrap();
        let pauses = Pauses::open(state.path());
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
        let later = Pauses::open(state.path());
        assert_eq!(
            (later.until(&gate), later.until(&yard).is_some()),
            (None, true)
        );
    }

    #[test]
    fn a_damaged_file_costs_no_start_and_what_can_not_be_stored_is_not_claimed() {
        let state = tempfile::tempdir().unwrap();
        let gate = PipelineId::new("gate").unwrap();
        fs::write(state.path().join("pauses.json"), "{\"gate\": 7").unwrap();
        assert_eq!(Pauses::open(state.path()).until(&gate), None);
        let nowhere = Pauses::open(&state.path().join("gone"));
        assert!(
            nowhere
                .set(&gate, Some(at("2026-03-30T00:00:00Z")))
                .is_err()
        );
        assert_eq!(nowhere.until(&gate), None);
    }
}
