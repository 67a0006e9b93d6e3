//! The thread that writes accepted effects, and its end.
//!
//! - At its end, also after a panic, the accepted effects that are not on disk count as failed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use super::spool::Numbers;
use super::state::{BROKEN, Shared};

/// Pause before a failed write is retried.
const DISK_RETRY: Duration = Duration::from_secs(1);

/// Runs the thread; a panic refuses further effects.
pub(super) fn run_catching_panics(shared: &Shared, writer: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(writer)).is_err() {
        tracing::error!("{BROKEN}");
        shared.state.lock().is_broken = true;
        shared.fail_unwritten();
    }
}

/// Writes accepted effects until the queue is closed and empty.
pub(super) fn run_writer(shared: &Shared, mut numbers: Numbers) {
    loop {
        let mut state = shared.state.lock();
        let accepted = loop {
            match state.queue.pop_front() {
                Some(accepted) => break accepted,
                None if state.is_closing => return,
                None => shared.wake.wait(&mut state),
            }
        };
        drop(state);
        let waiting = loop {
            let written = numbers.write(
                &shared.folder,
                &accepted.draft,
                &accepted.body,
                shared.limits.min_free_bytes,
            );
            let error = match written {
                Ok(waiting) => break waiting,
                Err(error) => error.to_string(),
            };
            let mut state = shared.state.lock();
            // Logged once per failure.
            if state.disk_error.is_none() {
                tracing::error!(error, "can't store an effect; retrying every second");
            }
            state.disk_error = Some(error);
            if !state.is_closing {
                shared.wake.wait_for(&mut state, DISK_RETRY);
            }
            if state.is_closing {
                drop(state);
                return shared.fail_unwritten();
            }
        };
        let number = waiting.number;
        let mut state = shared.state.lock();
        state.disk_error = None;
        // The size of the file counts, not that of the body.
        state.held_bytes = state.held_bytes.saturating_sub(accepted.bytes()) + waiting.bytes;
        state.queue_bytes = state.queue_bytes.saturating_sub(accepted.bytes());
        state.waiting.insert(number, waiting);
        // Under the lock: a reader that sees the number finds the effect.
        shared.last.send_replace(number);
    }
}

impl Shared {
    /// Counts the accepted effects that are not on disk as failed. Called at the end of the thread.
    fn fail_unwritten(&self) {
        let mut failures = self.failures.lock();
        let mut state = self.state.lock();
        state.queue.clear();
        state.queue_bytes = 0;
        let lost = state.held.saturating_sub(state.waiting.len());
        state.held -= lost;
        state.held_bytes = state.waiting.values().map(|waiting| waiting.bytes).sum();
        drop(state);
        if lost > 0 {
            tracing::error!(lost, "the writer ended before all effects were stored");
            failures.count_or_log(&self.folder, lost as u64);
            self.state.lock().failed = failures.summary();
        }
    }
}
