//! Circuit breaker of the subscription to command requests. Sans-IO.
//!
//! A broker sends retained messages in every session. A retained request over the packet limit ends
//! the session each time, and no event would leave the box. After [`MAX_OVERSIZED`] such sessions
//! in a row the breaker pauses the subscription, then subscribes again in the current session. If
//! that ends the session once more, the next pause starts at once.
//!
//! - A pause ends at [`SubscriptionBreaker::deadline`]; the session goes on meanwhile.
//! - Only sessions with a subscription count. A refused connect between them changes nothing.

use std::time::{Duration, Instant};

/// Consecutive sessions that a request over the packet limit may end.
const MAX_OVERSIZED: u32 = 3;
/// A session with a subscription for this long was not ended by a retained request.
const STABLE_AFTER: Duration = Duration::from_secs(60);

/// Decides whether the box subscribes to requests.
#[derive(Debug)]
pub struct SubscriptionBreaker {
    pause: Duration,
    oversized: u32,
    paused_until: Option<Instant>,
    subscribed_since: Option<Instant>,
}

impl SubscriptionBreaker {
    /// A closed breaker, whose pauses last `pause`.
    #[must_use]
    pub fn new(pause: Duration) -> Self {
        Self {
            pause,
            oversized: 0,
            paused_until: None,
            subscribed_since: None,
        }
    }

    /// Whether the box should be subscribed to requests.
    #[must_use]
    pub fn can_subscribe(&self) -> bool {
        self.paused_until.is_none()
    }

    /// Length of a pause.
    #[must_use]
    pub fn pause(&self) -> Duration {
        self.pause
    }

    /// When [`Self::resume`] is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.paused_until
    }

    /// Records that the broker accepted a session.
    pub fn begin_session(&mut self, now: Instant) {
        self.subscribed_since = self.can_subscribe().then_some(now);
    }

    /// Records the end of a session or of an attempt. `is_oversized`: a packet over the limit ended
    /// it. True when a pause starts.
    pub fn end_session(&mut self, now: Instant, is_oversized: bool) -> bool {
        let Some(since) = self.subscribed_since.take() else {
            return false;
        };
        let was_stable = now.saturating_duration_since(since) >= STABLE_AFTER;
        if !is_oversized || was_stable {
            self.oversized = 0;
        }
        if is_oversized {
            self.oversized = self.oversized.saturating_add(1);
        }
        let is_paused = self.oversized >= MAX_OVERSIZED && self.can_subscribe();
        if is_paused {
            self.paused_until = Some(now + self.pause);
        }
        is_paused
    }

    /// Ends the pause when its time has passed. True when it ends: subscribe now.
    pub fn resume(&mut self, now: Instant) -> bool {
        let has_ended = self.paused_until.is_some_and(|until| until <= now);
        if has_ended {
            self.paused_until = None;
            self.oversized = MAX_OVERSIZED - 1;
            self.subscribed_since = Some(now);
        }
        has_ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_secs(3600);

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    /// A breaker that just started a pause, and the time.
    fn paused_breaker() -> (SubscriptionBreaker, Instant) {
        let mut breaker = SubscriptionBreaker::new(PAUSE);
        let mut now = Instant::now();
        for session in 1..=MAX_OVERSIZED {
            breaker.begin_session(now);
            now += seconds(1);
            assert_eq!(breaker.end_session(now, true), session == MAX_OVERSIZED);
        }
        (breaker, now)
    }

    #[test]
    fn pause_ends_at_its_deadline_within_the_session() {
        let (mut breaker, now) = paused_breaker();
        breaker.begin_session(now);
        assert!(!breaker.can_subscribe());
        assert_eq!(breaker.deadline(), Some(now + PAUSE));
        assert!(!breaker.resume(now + PAUSE - seconds(1)));
        assert!(breaker.resume(now + PAUSE));
        assert!(breaker.can_subscribe());
        assert_eq!(breaker.deadline(), None);
    }

    #[test]
    fn oversized_request_after_a_pause_pauses_at_once() {
        let (mut breaker, now) = paused_breaker();
        breaker.begin_session(now);
        assert!(breaker.resume(now + PAUSE));
        assert!(breaker.end_session(now + PAUSE + seconds(1), true));
    }

    #[test]
    fn stable_session_resets_the_breaker() {
        let (mut breaker, now) = paused_breaker();
        breaker.begin_session(now);
        assert!(breaker.resume(now + PAUSE));
        assert!(!breaker.end_session(now + PAUSE + STABLE_AFTER, true));
    }

    #[test]
    fn failed_attempts_change_nothing() {
        let mut breaker = SubscriptionBreaker::new(PAUSE);
        let mut now = Instant::now();
        for session in 1..=MAX_OVERSIZED {
            breaker.begin_session(now);
            now += seconds(1);
            assert_eq!(breaker.end_session(now, true), session == MAX_OVERSIZED);
            // The broker refuses every second attempt.
            assert!(!breaker.end_session(now, false));
        }
        assert!(!breaker.can_subscribe());
    }

    #[test]
    fn other_or_late_session_ends_do_not_add_up() {
        let mut breaker = SubscriptionBreaker::new(PAUSE);
        let mut now = Instant::now();
        for (lasted, is_oversized) in [
            (1, true),
            (1, true),
            (1, false),
            (1, true),
            (90, true),
            (1, true),
        ] {
            breaker.begin_session(now);
            now += seconds(lasted);
            assert!(!breaker.end_session(now, is_oversized));
        }
    }
}
