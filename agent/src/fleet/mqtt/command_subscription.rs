//! Whether requests are listened to. Sans-IO.
//!
//! A broker sends what is retained anew in every session. A request that is far too large to be read ends the session, so
//! while it waits there no session would stand and no event would leave the box. After [`FLOODS_BORNE`] such sessions in a row
//! requests are not subscribed to for a while; then they are tried again, in the session that stands. The first that breaks by
//! it makes the box deaf again.
//!
//! Invariants: deafness has an end of its own, [`Hearing::deadline`]; no session has to break for it. Only sessions that listened
//! say anything about what waits there: an attempt that was refused in between neither adds a flood nor takes one away.

use std::time::{Duration, Instant};

/// Sessions that may die of a request which is too large to read, one after the other.
const FLOODS_BORNE: u32 = 3;
/// What ends a session which has listened for this long is not what was retained when it began.
const HARMLESS_AFTER: Duration = Duration::from_secs(60);

/// Whether requests are listened to, and until when they are not.
#[derive(Debug)]
pub struct Hearing {
    pause: Duration,
    floods: u32,
    deaf_until: Option<Instant>,
    listens_since: Option<Instant>,
}

impl Hearing {
    /// One that listens; deafness lasts for `pause`.
    #[must_use]
    pub fn new(pause: Duration) -> Self {
        Self {
            pause,
            floods: 0,
            deaf_until: None,
            listens_since: None,
        }
    }

    /// Whether requests are to be subscribed to.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.deaf_until.is_none()
    }

    /// How long deafness lasts.
    #[must_use]
    pub fn pause(&self) -> Duration {
        self.pause
    }

    /// When [`Self::wake`] is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.deaf_until
    }

    /// A session stands.
    pub fn begin_session(&mut self, now: Instant) {
        self.listens_since = self.is_open().then_some(now);
    }

    /// A session, or the attempt at one, is over, by a packet over all bounds or by something else. True when deafness begins.
    pub fn end_session(&mut self, now: Instant, is_flooded: bool) -> bool {
        let Some(since) = self.listens_since.take() else {
            return false;
        };
        let is_harmless = now.saturating_duration_since(since) >= HARMLESS_AFTER;
        if !is_flooded || is_harmless {
            self.floods = 0;
        }
        if is_flooded {
            self.floods = self.floods.saturating_add(1);
        }
        let begins = self.floods >= FLOODS_BORNE && self.is_open();
        if begins {
            self.deaf_until = Some(now + self.pause);
        }
        begins
    }

    /// Ends deafness when its time is over. True when it ends: requests are to be subscribed to now.
    pub fn wake(&mut self, now: Instant) -> bool {
        let ends = self.deaf_until.is_some_and(|until| until <= now);
        if ends {
            self.deaf_until = None;
            self.floods = FLOODS_BORNE - 1;
            self.listens_since = Some(now);
        }
        ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_secs(3600);

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    /// One that was just made deaf, and when.
    fn deafened() -> (Hearing, Instant) {
        let mut hearing = Hearing::new(PAUSE);
        let mut now = Instant::now();
        for session in 1..=FLOODS_BORNE {
            hearing.begin_session(now);
            now += seconds(1);
            assert_eq!(hearing.end_session(now, true), session == FLOODS_BORNE);
        }
        (hearing, now)
    }

    #[test]
    fn deafness_ends_by_its_own_deadline_in_the_session_that_stands() {
        let (mut hearing, now) = deafened();
        hearing.begin_session(now);
        assert!(!hearing.is_open());
        assert_eq!(hearing.deadline(), Some(now + PAUSE));
        assert!(!hearing.wake(now + PAUSE - seconds(1)));
        assert!(hearing.wake(now + PAUSE));
        assert!(hearing.is_open());
        assert_eq!(hearing.deadline(), None);
    }

    #[test]
    fn what_still_waits_after_the_pause_deafens_at_once() {
        let (mut hearing, now) = deafened();
        hearing.begin_session(now);
        assert!(hearing.wake(now + PAUSE));
        assert!(hearing.end_session(now + PAUSE + seconds(1), true));
    }

    #[test]
    fn a_box_that_hears_again_bears_as_much_as_before() {
        let (mut hearing, now) = deafened();
        hearing.begin_session(now);
        assert!(hearing.wake(now + PAUSE));
        assert!(!hearing.end_session(now + PAUSE + HARMLESS_AFTER, true));
    }

    #[test]
    fn attempts_that_never_stood_change_nothing() {
        let mut hearing = Hearing::new(PAUSE);
        let mut now = Instant::now();
        for session in 1..=FLOODS_BORNE {
            hearing.begin_session(now);
            now += seconds(1);
            assert_eq!(hearing.end_session(now, true), session == FLOODS_BORNE);
            // The broker refuses every second one.
            assert!(!hearing.end_session(now, false));
        }
        assert!(!hearing.is_open());
    }

    #[test]
    fn sessions_that_broke_for_another_reason_or_long_after_they_began_do_not_add_up() {
        let mut hearing = Hearing::new(PAUSE);
        let mut now = Instant::now();
        for (lasted, is_flooded) in [
            (1, true),
            (1, true),
            (1, false),
            (1, true),
            (90, true),
            (1, true),
        ] {
            hearing.begin_session(now);
            now += seconds(lasted);
            assert!(!hearing.end_session(now, is_flooded));
        }
    }
}
