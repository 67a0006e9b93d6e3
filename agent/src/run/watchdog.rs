//! What the agent tells systemd: ready, alive, stopping.

use std::time::{Duration, Instant};

use sd_notify::NotifyState;

/// How often a turn comes round where no watchdog wants to be fed.
const IDLE: Duration = Duration::from_secs(3600);

/// Feeds the service manager's watchdog, where there is one.
#[derive(Debug)]
pub struct Watchdog {
    every: Option<Duration>,
    due: Instant,
}

impl Watchdog {
    /// The watchdog that systemd asked for in the environment. It is fed three times per interval.
    #[must_use]
    pub fn from_env(now: Instant) -> Self {
        Self {
            every: sd_notify::watchdog_enabled().map(|interval| interval / 3),
            due: now,
        }
    }

    /// When the next turn has to be finished at the latest.
    #[must_use]
    pub fn due(&self) -> Instant {
        match self.every {
            Some(_) => self.due,
            None => self.due + IDLE,
        }
    }

    /// A turn of the loop is finished.
    pub fn fed(&mut self, now: Instant) {
        match self.every {
            Some(every) if now >= self.due => {
                self.due = now + every;
                notify(&NotifyState::Watchdog);
            }
            Some(_) => {}
            None => self.due = now,
        }
    }

    /// Everything is up.
    pub fn ready(&self) {
        notify(&NotifyState::Ready);
    }

    /// The end begins.
    pub fn stopping(&self) {
        notify(&NotifyState::Stopping);
    }
}

fn notify(state: &NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(std::slice::from_ref(state)) {
        tracing::debug!(%error, "the service manager can't be told");
    }
}
