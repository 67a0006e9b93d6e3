//! Says something once in a while, however often it happens. Pure: callers pass `now`.

use std::time::{Duration, Instant};

/// Lets one of a burst through and counts the others.
#[derive(Debug)]
pub struct Seldom {
    every: Duration,
    due: Option<Instant>,
    unsaid: u64,
}

impl Seldom {
    /// One that lets something through once per `every`.
    #[must_use]
    pub fn new(every: Duration) -> Self {
        Self {
            every,
            due: None,
            unsaid: 0,
        }
    }

    /// Whether it may be said now, and how often it went unsaid since it was said last.
    pub fn may_speak(&mut self, now: Instant) -> Option<u64> {
        if self.due.is_some_and(|due| now < due) {
            self.unsaid += 1;
            return None;
        }
        self.due = Some(now + self.every);
        Some(std::mem::take(&mut self.unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_said_once_and_counted() {
        let start = Instant::now();
        let mut seldom = Seldom::new(Duration::from_secs(10));
        let said: Vec<_> = (0..21)
            .filter_map(|second| seldom.may_speak(start + Duration::from_secs(second)))
            .collect();
        assert_eq!(said, [0, 9, 9]);
    }
}
