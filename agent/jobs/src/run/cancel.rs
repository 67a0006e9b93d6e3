//! The request to end a job: a marker in its folder.
//!
//! - It is durable: the process that runs the job, or revises its plan, finds it within a tick.
//! - It holds until it is withdrawn, so that no process resumes the job automatically.

use watchkeeper_store::durable;

use super::error::{JobFolderError, io_error};
use super::folder::JobFolder;
use crate::target;

const CANCELLED: &str = "cancelled";

impl JobFolder {
    /// Asks the process that runs the job to end, durably. Returns false if none runs it.
    ///
    /// # Errors
    /// If the request can't be written.
    pub fn cancel(&self) -> Result<bool, JobFolderError> {
        let is_running = self.is_running()?;
        if is_running {
            self.record_cancel()?;
        }
        Ok(is_running)
    }

    /// Records that the job must end, and that no process resumes it automatically. Durable on
    /// return.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn record_cancel(&self) -> Result<(), JobFolderError> {
        let path = self.path.join(CANCELLED);
        durable::replace(&path, b"").map_err(io_error(&path))
    }

    /// Whether [`Self::record_cancel`] was called and [`Self::withdraw_cancel`] was not.
    pub fn is_cancel_recorded(&self) -> bool {
        self.path.join(CANCELLED).exists()
    }

    /// Lets a job that does not run be resumed again.
    ///
    /// # Errors
    /// If it runs, or the disk refuses.
    pub fn withdraw_cancel(&self) -> Result<(), JobFolderError> {
        let _lock = self.lock_exclusive()?;
        let path = self.path.join(CANCELLED);
        target::remove(&path).map_err(io_error(&path))?;
        durable::sync_folder(&self.path).map_err(io_error(&self.path))
    }
}
