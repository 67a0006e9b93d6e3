//! The switch of the heartbeat: pauses and resumes it without a restart.
//!
//! Owns the file `heartbeat.paused` in the agent's folder: while it exists, no check and no look at
//! a frame begins, over restarts too.
//! - A change is in the audit log before it is made, and durable on return. A failed one is in the
//!   log as such.
//! - An unreadable file counts as paused since an unknown time.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use serde_json::json;
use watchkeeper_store::durable;
use watchkeeper_store::private_folder::make_private;

use crate::trace::Trace;

const FILE: &str = "heartbeat.paused";

/// Whether the heartbeat runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct HeartbeatStatus {
    /// Seconds between two heartbeats; absent if none is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_s: Option<u64>,
    pub paused: bool,
    /// Time since which it is paused, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub since: Option<Timestamp>,
}

impl HeartbeatStatus {
    /// One sentence for users.
    pub fn sentence(&self) -> String {
        let Some(interval_s) = self.interval_s else {
            return "The heartbeat is off; set agent.heartbeat.interval_min in the configuration."
                .to_owned();
        };
        if !self.paused {
            return format!("The heartbeat runs every {} min.", interval_s.div_ceil(60));
        }
        let since = self.since.map(|at| at.to_zoned(TimeZone::system()));
        let since = since.map(|at| format!(" since {}", at.strftime("%F %R")));
        format!(
            "The heartbeat is paused{}: a camera that is out is not reported, and no frame is \
             looked at. Resume it with `watchkeeper heartbeat resume`.",
            since.unwrap_or_default()
        )
    }
}

/// Shows and sets the switch from a session.
pub trait HeartbeatControl: Send + Sync {
    /// Pauses or resumes the heartbeat, or leaves it unchanged; returns its status.
    ///
    /// # Errors
    /// A sentence for the user.
    fn set(&self, paused: Option<bool>) -> BoxFuture<'_, Result<HeartbeatStatus, String>>;
}

/// The switch in the agent's folder.
#[derive(Debug, Clone)]
pub struct HeartbeatSwitch {
    folder: PathBuf,
    interval: Option<Duration>,
}

impl HeartbeatSwitch {
    /// The switch in `folder`, of a heartbeat with this interval.
    pub fn new(folder: &Path, interval: Option<Duration>) -> Self {
        Self {
            folder: folder.to_path_buf(),
            interval,
        }
    }

    pub fn status(&self) -> HeartbeatStatus {
        let read = fs::read_to_string(self.folder.join(FILE));
        let is_absent = matches!(&read, Err(error) if error.kind() == io::ErrorKind::NotFound);
        HeartbeatStatus {
            interval_s: self.interval.map(|interval| interval.as_secs()),
            paused: !is_absent,
            since: read.ok().and_then(|text| text.trim().parse().ok()),
        }
    }

    /// Pauses or resumes the heartbeat, and records it by `trace`.
    ///
    /// # Errors
    /// I/O errors; the switch is then unchanged, unless only its folder could not be synced.
    pub fn set(&self, paused: bool, trace: &Trace, now: Timestamp) -> io::Result<HeartbeatStatus> {
        let before = self.status();
        if before.paused == paused {
            return Ok(before);
        }
        let decision = if paused { "paused" } else { "resumed" };
        trace.note(now, "monitoring", json!({"decision": decision}))?;
        if let Err(error) = self.write(paused, now) {
            let sentence = format!("the heartbeat could not be {decision}: {error}");
            trace.note_or_log(now, "failed", json!({"sentence": sentence}));
            return Err(error);
        }
        Ok(self.status())
    }

    fn write(&self, paused: bool, now: Timestamp) -> io::Result<()> {
        make_private(&self.folder)?;
        let path = self.folder.join(FILE);
        if paused {
            return durable::replace(&path, now.to_string().as_bytes());
        }
        fs::remove_file(&path)?;
        durable::sync_folder(&self.folder)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use watchkeeper_config::AuditConfig;

    use super::*;
    use crate::audit::AuditLog;
    use crate::trace::AGENT;

    #[test]
    fn switch_holds_over_restarts_and_is_audited() {
        let dir = tempfile::tempdir().unwrap();
        let interval = Some(Duration::from_secs(900));
        let open = || HeartbeatSwitch::new(dir.path(), interval);
        let trace = Trace::new(dir.path(), AGENT);
        let now = Timestamp::UNIX_EPOCH;
        assert!(!open().status().paused);
        for _ in 0..2 {
            let status = open().set(true, &trace, now).unwrap();
            assert_eq!((status.paused, status.since), (true, Some(now)));
        }
        assert!(open().status().sentence().contains("paused since 1970"));
        fs::write(dir.path().join(FILE), b"\xff").unwrap();
        assert!(open().status().paused, "damage does not resume it");
        assert!(!open().set(false, &trace, now).unwrap().paused);
        assert_eq!(
            open().status().sentence(),
            "The heartbeat runs every 15 min."
        );
        let audited = trace.latest(9).unwrap();
        let decisions: Vec<_> = audited.iter().map(|e| &e["of"]["decision"]).collect();
        assert_eq!(decisions, ["paused", "resumed"]);
    }

    #[test]
    fn change_that_fails_is_audited_as_failed() {
        let dir = tempfile::tempdir().unwrap();
        let trace = Trace::new(dir.path(), AGENT);
        // No file can be removed where a folder is.
        fs::create_dir(dir.path().join(FILE)).unwrap();
        let switch = HeartbeatSwitch::new(dir.path(), None);
        assert!(switch.set(false, &trace, Timestamp::UNIX_EPOCH).is_err());
        let log = AuditLog::of_decisions(dir.path(), AuditConfig::default());
        let audited = log.latest(9).unwrap();
        let kinds: Vec<_> = audited.iter().map(|entry| &entry["what"]).collect();
        assert_eq!(kinds, ["monitoring", "failed"]);
    }
}
