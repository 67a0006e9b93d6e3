//! What schedules remember over restarts: one JSON file, replaced whole.
//!
//! - A damaged file is moved aside: the schedules begin as new ones.
//! - A file that the disk does not give is never replaced: its state would be lost.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use watchkeeper_store::durable;
use watchkeeper_store::private_folder::make_private;

use super::due::CronState;
use super::trigger::TriggerState;

const FILE: &str = "schedules.json";

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct StoredSchedules {
    /// Number of the last journal record that was considered.
    #[serde(default)]
    pub(super) cursor: Option<u64>,
    #[serde(default)]
    pub(super) schedules: BTreeMap<String, StoredSchedule>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct StoredSchedule {
    pub(super) cron: CronState,
    #[serde(default)]
    pub(super) trigger: TriggerState,
    #[serde(default)]
    pub(super) last: Option<LastRun>,
}

/// The last job of a schedule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct LastRun {
    pub(super) due: Timestamp,
    pub(super) job: String,
    /// Whether its end was dealt with.
    #[serde(rename = "is_settled")]
    pub(super) is_finished: bool,
}

#[derive(Debug)]
pub(super) struct ScheduleFile(PathBuf);

impl ScheduleFile {
    pub(super) fn new(home: &Path) -> Self {
        Self(home.join(FILE))
    }

    /// Reads the state; that of new schedules if there is no file.
    ///
    /// # Errors
    /// I/O errors. The file must not be written then.
    pub(super) fn read(&self) -> io::Result<StoredSchedules> {
        let bytes = match fs::read(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            read => read?,
        };
        if bytes.is_empty() {
            return Ok(StoredSchedules::default());
        }
        serde_json::from_slice(&bytes).or_else(|error| {
            let aside = self.0.with_extension("damaged");
            fs::rename(&self.0, &aside)?;
            let aside = aside.display();
            tracing::error!(%error, %aside, "jobs: the state of the schedules is damaged");
            Ok(StoredSchedules::default())
        })
    }

    /// Stores the state; durable on return.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn write(&self, state: &StoredSchedules) -> io::Result<()> {
        if let Some(folder) = self.0.parent() {
            make_private(folder)?;
        }
        durable::replace(&self.0, &serde_json::to_vec_pretty(state)?)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use super::*;

    #[test]
    fn unreadable_state_is_an_error_and_damaged_one_is_moved() {
        let home = tempfile::tempdir().unwrap();
        let file = ScheduleFile::new(home.path());
        assert_eq!(file.read().unwrap(), StoredSchedules::default());
        // What the disk does not give: here a folder.
        fs::create_dir(&file.0).unwrap();
        file.read().unwrap_err();
        fs::remove_dir(&file.0).unwrap();
        fs::write(&file.0, "{").unwrap();
        assert_eq!(file.read().unwrap(), StoredSchedules::default());
        assert!(file.0.with_extension("damaged").exists() && !file.0.exists());
    }
}
