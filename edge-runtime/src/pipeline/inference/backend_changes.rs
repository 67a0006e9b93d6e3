//! Threads and checks of changes of back ends.
//!
//! - A candidate is loaded by a child process first ([`first_load`](super::first_load)).
//! - Each change has a thread, which ends with the last pipeline of its model.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use watchkeeper_detect::BackendChoice;
use watchkeeper_detect::change::{ChangeHost, ChangeTask};
use watchkeeper_models::Zoo;

use super::change_events::ChangeEvents;
use super::first_load::FirstLoads;
use super::settings::ModelSettings;
use crate::thread::Thread;

/// Runs the changes of the daemon's models.
pub struct BackendChanges {
    first_loads: Arc<FirstLoads>,
    settings: ModelSettings,
    events: Arc<ChangeEvents>,
    threads: Mutex<Vec<Thread>>,
}

impl BackendChanges {
    pub(super) fn new(
        first_loads: Arc<FirstLoads>,
        settings: ModelSettings,
        events: ChangeEvents,
    ) -> Self {
        Self {
            first_loads,
            settings,
            events: Arc::new(events),
            threads: Mutex::default(),
        }
    }

    /// Waits at most `timeout` for the ends of all changes, whose models must be closed before.
    pub(super) fn shut_down(&self, timeout: Duration) {
        let until = Instant::now() + timeout;
        for thread in std::mem::take(&mut *self.threads.lock()) {
            thread.join(until.saturating_duration_since(Instant::now()));
        }
    }
}

impl ChangeHost for BackendChanges {
    fn spawn(&self, task: ChangeTask) {
        let events = Arc::clone(&self.events);
        let name = format!("change-{}", task.model());
        let spawned = Thread::spawn(name, move || task.run(&*events));
        let mut threads = self.threads.lock();
        threads.retain(|thread| !thread.is_finished());
        match spawned {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                tracing::warn!(%error, "no thread for the change of a back end; it stays");
            }
        }
    }

    fn check(&self, model: &str, backend: BackendChoice) -> Result<(), String> {
        let zoo = Zoo::with_dirs(self.settings.models_dirs.iter().cloned());
        let checked = self.first_loads.check_backend(backend, model, &zoo);
        checked.map_err(|error| error.to_string())
    }
}
