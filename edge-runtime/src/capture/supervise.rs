//! State machine that decides when a source is opened, retried and given up.
//!
//! Sans-IO: time is an argument, [`Supervisor::poll`] returns the next action,
//! [`Supervisor::deadline`] the latest time of the next call.
//!
//! ```text
//!           wanted                 connected               frame
//!   Idle ──────────▶ Connecting ─────────────▶ Opening ──────────▶ Live ──end──▶ Ended
//!    ▲                 ▲    │ error, deadline     │ same             │ error, stall, end if live
//!    │ unwanted        │    ▼                     ▼                  ▼
//!    └─────────────────┴── Waiting (back-off) ◀───┴──────────────────┘   no retry ──▶ Failed
//! ```
//!
//! `Ended` and `Failed` stay visible until the next subscriber starts the source again.

use std::time::{Duration, Instant};

use watchkeeper_contract::source::LossCause;

use super::timeline::MAX_GAP;

/// Default of [`SourceSpec::stall_s`], the longest time between two pictures of a live source.
///
/// [`SourceSpec::stall_s`]: watchkeeper_contract::source::SourceSpec::stall_s
pub const DEFAULT_STALL: Duration = Duration::from_secs(5);

/// Max durations of the stages of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// From opening until the stream is set up.
    pub connect: Duration,
    /// From there to the first decoded picture: longer than most cameras' key frame interval.
    pub first_frame: Duration,
    /// Between two pictures of a live source.
    pub stall: Duration,
    /// Between two pictures of a recording, which may leave out quiet minutes: longer than any
    /// credible gap.
    pub gap: Duration,
}

impl Deadlines {
    /// Replaces the stall deadline; the first picture may take as long.
    #[must_use]
    pub fn with_stall(self, stall: Duration) -> Self {
        Self {
            stall,
            first_frame: self.first_frame.max(stall),
            ..self
        }
    }
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_frame: Duration::from_secs(10),
            stall: DEFAULT_STALL,
            gap: MAX_GAP + DEFAULT_STALL,
        }
    }
}

/// Pauses between attempts.
///
/// They double from `first` to `max`. A seeded jitter shortens each by up to a fifth, so that a
/// fleet does not reconnect in step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackOff {
    pub first: Duration,
    pub max: Duration,
    /// Max pause in the `quick_phase`: a camera that refuses connections for some seconds is
    /// retried within 1.5 s of its return.
    pub quick_max: Duration,
    /// Duration of that phase, from the start of an outage.
    pub quick_phase: Duration,
    /// Min pause after a rejected password, for a new subscriber too: cameras lock accounts.
    pub after_rejection: Duration,
    /// Live time after which the pauses start over: a source that dies after its first frame is not
    /// hammered.
    pub steady_after: Duration,
    /// Time without subscribers after which the pauses start over.
    pub forgiven_after: Duration,
}

impl Default for BackOff {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(500),
            max: Duration::from_secs(10),
            quick_max: Duration::from_millis(1500),
            quick_phase: Duration::from_secs(30),
            after_rejection: Duration::from_secs(10),
            steady_after: Duration::from_secs(5),
            forgiven_after: Duration::from_secs(60),
        }
    }
}

/// An observation about a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// Whether there is a subscriber.
    Wanted(bool),
    /// The stream is set up; pictures should follow.
    Connected,
    /// A picture was decoded.
    Frame { recording: bool },
    /// The stream ended: regular for a recording, an outage of a live source.
    End { recording: bool },
    Error {
        cause: LossCause,
        /// One sentence, without credentials.
        message: String,
        /// Whether another attempt could succeed.
        is_retryable: bool,
    },
}

/// The next step of the shell around the supervisor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Open the source; `attempt` counts from 1 within an outage.
    Open { attempt: u32 },
    /// Close the feed, if one is open.
    Close,
    /// Report that the source was lost, that its first attempt failed, or another cause of that.
    Lost { cause: LossCause, message: String },
    /// Report that frames come again.
    Back { lasted: Duration },
    /// Report that no subscriber is left to observe the end of the outage.
    Forgotten,
    /// The first frame of this attempt came.
    Live,
    /// The recording was played to its end.
    Ended,
    /// No further attempt will be made.
    Failed { cause: LossCause, message: String },
}

/// State of a source; see the diagram in the module's documentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Without a subscriber.
    Idle,
    /// Being set up.
    Connecting {
        attempt: u32,
        until: Instant,
    },
    /// Set up, waiting for the first picture.
    Opening {
        attempt: u32,
        until: Instant,
    },
    Live {
        since: Instant,
        /// Deadline of the next picture.
        until: Instant,
        recording: bool,
    },
    /// Pausing before the next attempt.
    Waiting {
        /// Number of the next attempt; the first of an outage is 1.
        attempt: u32,
        until: Instant,
        /// Cause of the last failure.
        cause: LossCause,
        message: String,
    },
    Ended,
    Failed {
        cause: LossCause,
        message: String,
    },
}

/// Remedy in the message about a recording that failed.
const NO_REPLAY: &str = "a recording is not retried, because its frames would be counted twice; \
    resume its pipelines to play it from the beginning";

/// Least time between two changes of the reported cause: causes may alternate.
const CAUSE_INTERVAL: Duration = Duration::from_secs(60);

/// State machine of one source.
///
/// - Every attempt has the same states and deadlines.
/// - A wanted source that has neither ended nor failed always has a deadline.
/// - One outage gives a `Lost`, another one for another cause, each [`CAUSE_INTERVAL`] at most, and
///   a `Back` or `Forgotten`. Without subscribers, that of a failed source lasts until frames come.
/// - A recording that breaks after its first picture fails: played again, it would be counted
///   twice.
#[derive(Debug)]
pub struct Supervisor {
    deadlines: Deadlines,
    back_off: BackOff,
    jitter: fastrand::Rng,
    wanted: bool,
    state: State,
    /// Whether the recording was played to its end once: a snapshot of it changes no state.
    has_ended: bool,
    /// Start of the current outage, its reported cause, and when that replaced another one.
    outage: Option<(Instant, LossCause, Option<Instant>)>,
    /// Exponent of the next pause.
    failures: u32,
    /// Time since which there is no subscriber.
    unwanted_since: Option<Instant>,
    /// End of the pause after a rejected password, and the message about it.
    rejected: Option<(Instant, String)>,
    actions: std::collections::VecDeque<Action>,
}

impl Supervisor {
    /// Creates the supervisor of a source without subscribers. `seed` decides the jitter.
    pub fn new(deadlines: Deadlines, back_off: BackOff, seed: u64) -> Self {
        Self {
            deadlines,
            back_off,
            jitter: fastrand::Rng::with_seed(seed),
            wanted: false,
            state: State::Idle,
            has_ended: false,
            outage: None,
            failures: 0,
            unwanted_since: None,
            rejected: None,
            actions: std::collections::VecDeque::new(),
        }
    }

    /// Returns the current state.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Returns the latest time of the next [`Self::tick`].
    pub fn deadline(&self) -> Option<Instant> {
        match &self.state {
            State::Connecting { until, .. }
            | State::Opening { until, .. }
            | State::Live { until, .. }
            | State::Waiting { until, .. } => Some(*until),
            State::Idle | State::Ended | State::Failed { .. } => None,
        }
    }

    /// Returns the next action, in order.
    pub fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Applies an observation.
    pub fn handle(&mut self, now: Instant, input: Input) {
        match input {
            Input::Wanted(true) => {
                if !std::mem::replace(&mut self.wanted, true) {
                    self.start(now);
                }
            }
            Input::Wanted(false) => {
                if std::mem::replace(&mut self.wanted, false) {
                    self.actions.push_back(Action::Close);
                    self.unwanted_since = Some(now);
                    match self.state {
                        State::Failed { .. } => {}
                        State::Ended => self.end_outage(),
                        _ => {
                            self.state = match self.has_ended {
                                true => State::Ended,
                                false => State::Idle,
                            };
                            self.end_outage();
                        }
                    }
                }
            }
            Input::Connected => {
                if let State::Connecting { attempt, .. } = self.state {
                    self.state = State::Opening {
                        attempt,
                        until: now + self.deadlines.first_frame,
                    };
                }
            }
            Input::Frame { recording } => self.handle_frame(now, recording),
            Input::End { recording } => self.handle_end(now, recording),
            Input::Error {
                cause,
                message,
                is_retryable,
            } => {
                if self.is_open() {
                    self.fail(now, cause, message, is_retryable);
                }
            }
        }
    }

    /// Applies the passage of time.
    pub fn tick(&mut self, now: Instant) {
        let seconds = |d: Duration| d.as_secs_f32();
        match self.state {
            State::Waiting { attempt, until, .. } if now >= until => self.open(now, attempt),
            State::Connecting { until, .. } if now >= until => {
                let message = format!(
                    "no answer within {:.0} s; \
                     check that the camera is on and the address is right",
                    seconds(self.deadlines.connect)
                );
                self.fail(now, LossCause::Timeout, message, true);
            }
            State::Opening { until, .. } if now >= until => {
                let message = format!(
                    "connected, but no picture could be decoded within {:.0} s; \
                     shorten the camera's key frame interval",
                    seconds(self.deadlines.first_frame)
                );
                self.fail(now, LossCause::NoKeyframe, message, true);
            }
            State::Live {
                until, recording, ..
            } if now >= until => {
                let message = format!("no picture for {:.0} s", seconds(self.max_gap(recording)));
                self.fail(now, LossCause::Stalled, message, true);
            }
            _ => {}
        }
    }

    fn is_open(&self) -> bool {
        matches!(
            self.state,
            State::Connecting { .. } | State::Opening { .. } | State::Live { .. }
        )
    }

    /// Opens the source for its first subscriber, unless it has just rejected the password.
    fn start(&mut self, now: Instant) {
        let away = self.unwanted_since.take();
        if away.is_some_and(|at| now.saturating_duration_since(at) >= self.back_off.forgiven_after)
        {
            self.failures = 0;
        }
        match self.rejected.take() {
            Some((until, message)) if now < until => {
                self.rejected = Some((until, message.clone()));
                self.state = State::Waiting {
                    attempt: 1,
                    until,
                    cause: LossCause::Authentication,
                    message,
                };
            }
            _ => self.open(now, 1),
        }
    }

    /// Ends an outage whose end cannot be observed.
    fn end_outage(&mut self) {
        if self.outage.take().is_some() {
            self.actions.push_back(Action::Forgotten);
        }
    }

    fn open(&mut self, now: Instant, attempt: u32) {
        self.state = State::Connecting {
            attempt,
            until: now + self.deadlines.connect,
        };
        self.actions.push_back(Action::Open { attempt });
    }

    /// Returns the max time to the next picture.
    fn max_gap(&self, recording: bool) -> Duration {
        if recording {
            self.deadlines.gap
        } else {
            self.deadlines.stall
        }
    }

    fn handle_frame(&mut self, now: Instant, recording: bool) {
        let until = now + self.max_gap(recording);
        match &mut self.state {
            State::Live {
                since, until: due, ..
            } => {
                *due = until;
                if now.saturating_duration_since(*since) >= self.back_off.steady_after {
                    self.failures = 0;
                }
            }
            State::Connecting { .. } | State::Opening { .. } => {
                self.state = State::Live {
                    since: now,
                    until,
                    recording,
                };
                self.actions.push_back(Action::Live);
                if let Some((began, ..)) = self.outage.take() {
                    self.actions.push_back(Action::Back {
                        lasted: now.saturating_duration_since(began),
                    });
                }
            }
            State::Idle | State::Waiting { .. } | State::Ended | State::Failed { .. } => {}
        }
    }

    fn handle_end(&mut self, now: Instant, recording: bool) {
        if !self.is_open() {
            return;
        }
        let had_pictures = matches!(self.state, State::Live { .. });
        match (recording, had_pictures) {
            (true, true) => {
                self.actions.push_back(Action::Close);
                self.actions.push_back(Action::Ended);
                self.state = State::Ended;
                self.has_ended = true;
            }
            (true, false) => self.fail(
                now,
                LossCause::Codec,
                "it ended before a picture could be decoded; check that the video is complete"
                    .to_owned(),
                false,
            ),
            (false, _) => self.fail(
                now,
                LossCause::EndOfStream,
                "the camera ended the stream".to_owned(),
                true,
            ),
        }
    }

    fn fail(&mut self, now: Instant, cause: LossCause, message: String, is_retryable: bool) {
        let (message, is_retryable) = match self.state {
            State::Live {
                recording: true, ..
            } => (format!("{message}; {NO_REPLAY}"), false),
            _ => (message, is_retryable),
        };
        let attempt = match self.state {
            State::Connecting { attempt, .. } | State::Opening { attempt, .. } => attempt,
            _ => 0,
        };
        self.actions.push_back(Action::Close);
        let is_new = self.outage.is_none();
        let (began, reported, changed) = self.outage.get_or_insert((now, cause, None));
        let lasts = now.saturating_duration_since(*began);
        let is_due = changed.is_none_or(|at| now.saturating_duration_since(at) >= CAUSE_INTERVAL);
        let is_other = *reported != cause && is_due;
        if is_new || is_other {
            (*reported, *changed) = (cause, is_other.then_some(now));
            self.actions.push_back(Action::Lost {
                cause,
                message: message.clone(),
            });
        }
        if !is_retryable {
            self.actions.push_back(Action::Failed {
                cause,
                message: message.clone(),
            });
            self.state = State::Failed { cause, message };
            return;
        }
        let pause = self.pause(lasts, cause);
        if cause == LossCause::Authentication {
            self.rejected = Some((now + pause, message.clone()));
        }
        self.state = State::Waiting {
            attempt: attempt.saturating_add(1),
            until: now + pause,
            cause,
            message,
        };
    }

    /// Returns the pause before the next attempt, `outage` after the outage began.
    fn pause(&mut self, outage: Duration, cause: LossCause) -> Duration {
        let b = self.back_off;
        let doubled = b.first.saturating_mul(1 << self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        let longest = if outage < b.quick_phase {
            b.quick_max.min(b.max)
        } else {
            b.max
        };
        let mut pause = doubled.min(longest);
        if cause == LossCause::Authentication {
            // Makes up for the maximal jitter.
            pause = pause.max(b.after_rejection + b.after_rejection / 4);
        }
        pause - pause / 1000 * self.jitter.u32(..=200)
    }
}

#[cfg(test)]
mod tests;
