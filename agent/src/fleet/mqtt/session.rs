//! State machine of the session with the broker: when to connect, and the session's number. The
//! shell opens and closes connections.
//!
//! - Session numbers strictly rise, over restarts too: the count of starts is stored before the
//!   first connect.
//! - There is at most one session.
//! - The back-off between attempts is bounded, with jitter from a given seed.
//! - The number is part of the last will and of `state`, so a receiver can recognise a late will.
//!
//! ```text
//!  Waiting{until} ─ Tick ─► Connecting ─ Connected ─► Up ─ Lost ─► Waiting
//!        ▲                     └──── Lost ────────────────────────────┘
//! ```

use std::time::{Duration, Instant};

use watchkeeper_client::backoff::Backoff;

/// Back-off after the first failure.
const RETRY_FIRST: Duration = Duration::from_millis(500);
/// Longest back-off: a fleet must not storm a broker that comes back.
const RETRY_CEILING: Duration = Duration::from_secs(30);
/// A session of this length resets the back-off.
const GOOD_SESSION: Duration = Duration::from_secs(5);
/// Session numbers reserved for one start of the agent.
const SESSIONS_PER_START: u64 = 1_000_000;

/// Events that the shell reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// The broker accepted the session that is being opened.
    Connected,
    /// The session or the attempt ended.
    Lost,
    /// A deadline passed.
    Tick,
}

/// Actions for the shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// Open a connection for this session.
    Connect { session: u64 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting { until: Instant },
    Connecting { session: u64 },
    Up { session: u64, since: Instant },
}

#[derive(Debug)]
pub struct Session {
    state: State,
    backoff: Backoff,
    next: u64,
    output: Option<Output>,
}

impl Session {
    /// A session that connects at once. `starts` counts the starts of the agent, this one included.
    pub fn new(now: Instant, starts: u64, seed: u64) -> Self {
        Self {
            state: State::Waiting { until: now },
            backoff: Backoff::new(RETRY_FIRST, RETRY_CEILING, seed),
            next: starts.saturating_mul(SESSIONS_PER_START).saturating_add(1),
            output: None,
        }
    }

    pub fn up(&self) -> Option<u64> {
        match self.state {
            State::Up { session, .. } => Some(session),
            State::Waiting { .. } | State::Connecting { .. } => None,
        }
    }

    /// Handles one input; drain [`Self::poll`] afterwards.
    pub fn handle(&mut self, now: Instant, input: Input) {
        match (input, self.state) {
            (Input::Connected, State::Connecting { session }) => {
                self.state = State::Up {
                    session,
                    since: now,
                };
            }
            (Input::Lost, State::Up { since, .. }) => {
                if now.saturating_duration_since(since) >= GOOD_SESSION {
                    self.backoff.reset();
                }
                self.wait(now);
            }
            (Input::Lost, State::Connecting { .. }) => self.wait(now),
            (Input::Tick, State::Waiting { until }) if now >= until => {
                let session = self.next;
                self.next += 1;
                self.state = State::Connecting { session };
                self.output = Some(Output::Connect { session });
            }
            (Input::Connected, State::Waiting { .. } | State::Up { .. })
            | (Input::Lost, State::Waiting { .. })
            | (Input::Tick, _) => {}
        }
    }

    /// Next action, `None` when all are done.
    pub fn poll(&mut self) -> Option<Output> {
        self.output.take()
    }

    /// When [`Input::Tick`] is due.
    pub fn deadline(&self) -> Option<Instant> {
        match self.state {
            State::Waiting { until } => Some(until),
            State::Connecting { .. } | State::Up { .. } => None,
        }
    }

    fn wait(&mut self, now: Instant) {
        self.state = State::Waiting {
            until: now + self.backoff.next_delay(),
        };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn session_number_rises_after_a_loss() {
        let now = Instant::now();
        let mut session = Session::new(now, 3, 1);
        session.handle(now, Input::Tick);
        assert_eq!(session.poll(), Some(Output::Connect { session: 3_000_001 }));
        session.handle(now, Input::Connected);
        assert_eq!(session.up(), Some(3_000_001));
        session.handle(now, Input::Lost);
        assert_eq!(session.poll(), None, "not before its time");
        let due = session.deadline().expect("waits");
        session.handle(due, Input::Tick);
        assert_eq!(session.poll(), Some(Output::Connect { session: 3_000_002 }));
    }

    #[test]
    fn good_session_resets_the_backoff() {
        let now = Instant::now();
        let mut session = Session::new(now, 1, 1);
        let mut at = now;
        for _ in 0..10 {
            session.handle(at, Input::Tick);
            session.handle(at, Input::Lost);
            at = session.deadline().expect("waits");
        }
        session.handle(at, Input::Tick);
        session.handle(at, Input::Connected);
        let end = at + GOOD_SESSION;
        session.handle(end, Input::Lost);
        assert!(session.deadline().expect("waits") <= end + RETRY_FIRST);
    }

    proptest! {
        #[test]
        fn numbers_rise_and_backoff_is_bounded(
            seed: u64,
            steps in proptest::collection::vec((0_u8..3, 0_u64..40), 0..200),
        ) {
            let mut now = Instant::now();
            let mut session = Session::new(now, 1, seed);
            let mut last = 0;
            for (kind, seconds) in steps {
                now += Duration::from_secs(seconds);
                let input = [Input::Connected, Input::Lost, Input::Tick][usize::from(kind)];
                session.handle(now, input);
                if let Some(Output::Connect { session }) = session.poll() {
                    prop_assert!(session > last);
                    last = session;
                }
                if let Some(due) = session.deadline() {
                    prop_assert!(due <= now + RETRY_CEILING);
                }
            }
        }
    }
}
