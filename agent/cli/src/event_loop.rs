//! The async runtime of the commands that need one.

use tokio::runtime::{Builder, Runtime};

use super::exit::Failure;

/// Creates a runtime that works on this thread.
pub(super) fn new() -> Result<Runtime, Failure> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Failure::failed(format!("can't start: {error}")))
}
