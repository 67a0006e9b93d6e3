//! A child process of this program that opens libraries and models in the place of the daemon.
//!
//! - What crashes or hangs there does not harm the daemon: the child has the limits of a model's
//!   check, and a timeout.
//! - The answer is one line of JSON on standard output.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::de::DeserializeOwned;
use watchkeeper_models::model_check::{self, Outcome};

use super::settings::ModelSettings;

/// Name of the child in the list of processes.
const CHILD_NAME: &str = "watchkeeper-runtime";

#[derive(Debug, Clone)]
pub struct ChildProgram {
    program: PathBuf,
    /// Set when the daemon stops; ends the child.
    is_stopping: Arc<AtomicBool>,
}

/// Why a child has no answer. One clause each.
#[derive(Debug, thiserror::Error)]
pub(super) enum ChildError {
    #[error("a process for it can't be started: {0}; {remedy}", remedy =
        model_check::start_remedy(.0))]
    Start(#[from] io::Error),
    #[error("the folder {0:?} is not UTF-8, which settings of a process must be; rename it")]
    Folder(PathBuf),
    #[error("{0}")]
    Refused(String),
    #[error("the process that opened it ended: {0}")]
    Ended(String),
    #[error("the process for it printed no answer; install this program again")]
    NoAnswer,
}

impl ChildProgram {
    /// `is_stopping` ends the children of `program`.
    pub fn new(program: impl Into<PathBuf>, is_stopping: Arc<AtomicBool>) -> Self {
        Self {
            program: program.into(),
            is_stopping,
        }
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    /// The flag that ends the children.
    pub(super) fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_stopping)
    }

    /// Names this build of the program: its version, and size and time of its file. Two builds may
    /// have one version, and differ in what they can load.
    pub(super) fn stamp(&self) -> String {
        let file = std::fs::metadata(&self.program);
        let file = file.map(|file| (file.size(), file.mtime(), file.mtime_nsec()));
        format!("{} {:?}", env!("CARGO_PKG_VERSION"), file.ok())
    }

    /// The command that runs a subcommand with these settings.
    ///
    /// # Errors
    /// The folder whose path is not UTF-8.
    pub(super) fn command(
        &self,
        subcommand: &str,
        settings: &ModelSettings,
        args: &[&str],
    ) -> Result<Command, PathBuf> {
        let settings = settings.to_json()?;
        let mut command = Command::new(&self.program);
        command
            .arg0(CHILD_NAME)
            .arg(subcommand)
            .args(["--settings", &settings])
            .args(args);
        Ok(command)
    }

    /// Runs a subcommand with the settings of this daemon and reads its answer.
    ///
    /// # Errors
    /// [`ChildError`].
    pub(super) fn ask<T: DeserializeOwned>(
        &self,
        subcommand: &str,
        settings: &ModelSettings,
        args: &[&str],
        timeout: Duration,
    ) -> Result<T, ChildError> {
        let command = self.command(subcommand, settings, args);
        let mut command = command.map_err(ChildError::Folder)?;
        let is_stopping = || self.is_stopping();
        match model_check::run_for_answer(&mut command, timeout, &is_stopping)? {
            (Outcome::Loaded, answer) => {
                model_check::json_answer(&answer).ok_or(ChildError::NoAnswer)
            }
            (Outcome::Refused(why), _) => Err(ChildError::Refused(why)),
            (Outcome::Ended(ending), _) => Err(ChildError::Ended(ending.to_string())),
            (Outcome::Interrupted(why), _) => Err(ChildError::Ended(why.to_string())),
        }
    }
}
