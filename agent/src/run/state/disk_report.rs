//! Decides when a disk that refuses is reported: in the health at once, to channels at most once an
//! hour.
//!
//! - A channel gets one notice for a refusal, and the next one after [`NOTICE_INTERVAL`] at the
//!   earliest. A disk at its limit refuses and accepts in turn.
//! - A refusal that begins within the interval and outlasts it is noticed at its end.

use std::time::{Duration, Instant};

use super::outbox::DiskRefusal;

/// Minimum time between two notices.
const NOTICE_INTERVAL: Duration = Duration::from_secs(3600);

/// Latest report about the disk.
#[derive(Debug, Default)]
pub(crate) struct DiskReport {
    /// The refusal in the retained health.
    reported: Option<DiskRefusal>,
    /// Whether channels got a notice for the present refusal.
    is_noticed: bool,
    noticed: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) health: bool,
    pub(crate) notice: bool,
}

impl DiskReport {
    /// Takes the present state of the disk at `now`, and returns what it changes.
    pub(crate) fn update(&mut self, now: Instant, refusal: Option<DiskRefusal>) -> Due {
        let is_recent = |at: Instant| now.saturating_duration_since(at) < NOTICE_INTERVAL;
        self.is_noticed &= refusal.is_some();
        let is_due = refusal.is_some() && !self.is_noticed;
        let notice = is_due && !self.noticed.is_some_and(is_recent);
        if notice {
            (self.is_noticed, self.noticed) = (true, Some(now));
        }
        // Not the reason itself, whose free bytes change all the time.
        let kind = |refusal: &Option<DiskRefusal>| refusal.as_ref().map(|r| r.is_read_only);
        let health = kind(&refusal) != kind(&self.reported);
        self.reported = refusal;
        Due { health, notice }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_is_noticed_once_an_hour_and_health_follows_each() {
        let start = Instant::now();
        let refusal = Some(DiskRefusal {
            why: "full".to_owned(),
            since: start,
            is_read_only: false,
        });
        let mut report = DiskReport::default();
        let mut due = |seconds: u64, refusal: &Option<DiskRefusal>| {
            let now = start + Duration::from_secs(seconds);
            let due = report.update(now, refusal.clone());
            (due.health, due.notice)
        };
        assert_eq!(due(0, &None), (false, false));
        assert_eq!(due(1, &refusal), (true, true));
        assert_eq!(due(2, &refusal), (false, false));
        assert_eq!(due(3, &None), (true, false));
        assert_eq!(due(4, &refusal), (true, false));
        assert_eq!(due(5, &None), (true, false));
        assert_eq!(due(6, &refusal), (true, false));
        assert_eq!(due(3600, &refusal), (false, false));
        // The refusal lasts, and no channel knows of it yet.
        assert_eq!(due(3601, &refusal), (false, true));
        assert_eq!(due(9000, &refusal), (false, false));
        assert_eq!(due(9001, &None), (true, false));
        assert_eq!(due(9002, &refusal), (true, true));
    }
}
