//! Threads and checks of changes of back ends.
//!
//! - A candidate is loaded by a child process first ([`first_load`](super::first_load)).
//! - Each change has a thread, which ends with the last pipeline of its model.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use watchkeeper_detect::change::{ChangeHost, ChangeReporter, ChangeTask};
use watchkeeper_detect::{BackendChoice, ChangeReport};
use watchkeeper_models::Zoo;

use super::change_events::ChangeEvents;
use super::fastest::Fastest;
use super::first_load::FirstLoads;
use super::settings::ModelSettings;
use crate::thread::Thread;

/// Runs the changes of the daemon's models.
pub struct BackendChanges {
    first_loads: Arc<FirstLoads>,
    settings: ModelSettings,
    reporter: Arc<Reporter>,
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
            reporter: Arc::new(Reporter {
                events,
                fastest: OnceLock::new(),
            }),
            threads: Mutex::default(),
        }
    }

    /// Has results of changes kept with the measurements.
    pub(super) fn keep_results(&self, fastest: Arc<Fastest>) {
        // Set once, when the models are made.
        self.reporter.fastest.set(fastest).ok();
    }

    /// Waits at most `timeout` for the ends of all changes, whose models must be closed before.
    pub(super) fn shut_down(&self, timeout: Duration) {
        let until = Instant::now() + timeout;
        for thread in std::mem::take(&mut *self.threads.lock()) {
            thread.join(until.saturating_duration_since(Instant::now()));
        }
    }
}

/// Reports changes as events, and keeps their results.
struct Reporter {
    events: ChangeEvents,
    fastest: OnceLock<Arc<Fastest>>,
}

impl ChangeReporter for Reporter {
    fn report(&self, report: &ChangeReport) {
        if let Some(fastest) = self.fastest.get() {
            fastest.note_change(report);
        }
        self.events.report(report);
    }

    fn is_stopping(&self) -> bool {
        self.events.is_stopping()
    }

    fn lower_priority(&self) {
        self.events.lower_priority();
    }
}

impl ChangeHost for BackendChanges {
    fn spawn(&self, task: ChangeTask) {
        let reporter = Arc::clone(&self.reporter);
        let name = format!("change-{}", task.model());
        let spawned = Thread::spawn(name, move || task.run(&*reporter));
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
