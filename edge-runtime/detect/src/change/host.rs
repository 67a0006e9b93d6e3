//! What the program around this crate does for changes.

use super::task::ChangeTask;
use crate::backend::BackendChoice;

/// Threads, checks and reports of changes.
pub trait ChangeHost: Send + Sync {
    /// Runs the task on a thread of its own.
    fn spawn(&self, task: ChangeTask);

    /// Checks that `backend` loads `model`, before this process does.
    ///
    /// # Errors
    /// One sentence.
    fn check(&self, model: &str, backend: BackendChoice) -> Result<(), String>;
}
