//! Reports to the service manager (systemd): ready, alive, stopping.

use std::time::{Duration, Instant};

use sd_notify::NotifyState;

/// Interval of turns without a watchdog.
const IDLE_INTERVAL: Duration = Duration::from_secs(3600);

/// Feeds the watchdog of the service manager, if it requests one.
#[derive(Debug)]
pub struct Watchdog {
    /// Absent if the service manager has no watchdog.
    interval: Option<Duration>,
    due: Instant,
}

impl Watchdog {
    /// Reads the watchdog's interval from the environment; it is fed three times per interval.
    pub(crate) fn from_env(now: Instant) -> Self {
        Self {
            interval: sd_notify::watchdog_enabled().map(|interval| interval / 3),
            due: now,
        }
    }

    /// When the next turn must be finished.
    pub fn deadline(&self) -> Instant {
        match self.interval {
            Some(_) => self.due,
            None => self.due + IDLE_INTERVAL,
        }
    }

    /// Call once per finished turn of the loop.
    pub fn feed(&mut self, now: Instant) {
        match self.interval {
            Some(interval) if now >= self.due => {
                self.due = now + interval;
                notify(&NotifyState::Watchdog);
            }
            Some(_) => {}
            None => self.due = now,
        }
    }

    /// Reports that everything is up.
    pub fn ready(&self) {
        notify(&NotifyState::Ready);
    }

    /// Reports that the shutdown began.
    pub fn stopping(&self) {
        notify(&NotifyState::Stopping);
    }
}

fn notify(state: &NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(std::slice::from_ref(state)) {
        tracing::debug!(%error, "can't notify the service manager");
    }
}
