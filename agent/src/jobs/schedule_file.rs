//! What schedules remember over restarts: one JSON file, replaced whole.
//!
//! A damaged file is moved aside: the schedules begin as new ones.

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

/// State of all schedules.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct StoredSchedules {
    /// Number of the last journal record that was considered.
    #[serde(default)]
    pub(super) cursor: Option<u64>,
    #[serde(default)]
    pub(super) schedules: BTreeMap<String, StoredSchedule>,
}

/// State of one schedule.
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
    pub(super) is_settled: bool,
}

/// The file of the schedules' state.
#[derive(Debug)]
pub(super) struct ScheduleFile(PathBuf);

impl ScheduleFile {
    pub(super) fn new(home: &Path) -> Self {
        Self(home.join(FILE))
    }

    pub(super) fn read(&self) -> StoredSchedules {
        let bytes = match fs::read(&self.0) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => {
                tracing::error!(%error, "jobs: the state of the schedules can't be read");
                Vec::new()
            }
        };
        if bytes.is_empty() {
            return StoredSchedules::default();
        }
        serde_json::from_slice(&bytes).unwrap_or_else(|error| {
            let aside = self.0.with_extension("damaged");
            fs::rename(&self.0, &aside).ok();
            let aside = aside.display();
            tracing::error!(%error, %aside, "jobs: the state of the schedules is damaged");
            StoredSchedules::default()
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
