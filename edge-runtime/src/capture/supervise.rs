//! When a source is opened, given up and tried again.
//!
//! Sans-IO: time is an argument, [`Supervisor::poll`] says what to do next, [`Supervisor::deadline`] when to ask again
//! at the latest. All deadlines are monotonic.
//!
//! ```text
//!            wanted                 connected               frame
//!   Idle ───────────▶ Connecting ─────────────▶ Opening ───────────▶ Live ──end──▶ Ended
//!    ▲                  ▲    │ error, deadline     │ error, deadline   │ error, stall, end of a live stream
//!    │ nobody wants it  │    ▼                     ▼                   ▼
//!    └──────────────────┴── Waiting(back-off) ◀────┴───────────────────┘     error that can't heal ──▶ Failed
//! ```
//!
//! A recording is different in two ways once it has shown a picture. It may leave out quiet minutes, so it has [`Deadlines::gap`] for
//! the next one and not the short time of a camera. And when it breaks it has failed: opened again it would begin anew, and everything in
//! it would count twice.
//!
//! `Ended` and `Failed` stay when nobody wants frames any more, so that a person who looks later still sees why; the next
//! one who wants frames begins anew.
//!
//! Invariants: the first attempt goes through the same states with the same deadlines as the hundredth; a source that
//! is wanted and neither ended nor failed always has a deadline; one outage gives exactly one `Lost`, and after it exactly
//! one `Back` (frames came) or `Forgotten` (nobody wants them any more). A source that failed stays lost when nobody wants
//! it: its outage goes on until frames come.
//!
//! Back-off: 0.5 s, doubling up to 30 s, each shortened by up to a fifth by a seeded jitter so that a fleet does not
//! knock in step. During the first [`BackOff::quick_phase`] of an outage no pause is longer than
//! [`BackOff::quick_max`] (1.5 s), so that a camera that was away for seconds and refuses connections meanwhile is asked again
//! within 1.5 s of its return, and seen after what it takes to connect and until its next key frame. After a rejected password, pauses are never shorter than [`BackOff::after_rejection`]:
//! cameras lock accounts. Leaving and coming back is no way around that: how often it failed and when it may be asked again
//! outlast an absence of [`BackOff::forgiven_after`]. The pauses start over only after [`BackOff::steady_after`] of live pictures, so a source that
//! dies right after its first frame is not hammered.

use std::time::{Duration, Instant};

use watchkeeper_contract::source::LossCause;

use super::timeline::LONGEST_GAP;

/// Longest time between two pictures of a live source that says nothing else ([`SourceSpec::stall_s`]).
///
/// [`SourceSpec::stall_s`]: watchkeeper_contract::source::SourceSpec::stall_s
pub const DEFAULT_STALL: Duration = Duration::from_secs(5);

/// How long each stage may last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// From opening until the stream is set up.
    pub connect: Duration,
    /// From there until the first decoded picture: longer than the distance of key frames on most cameras.
    pub first_frame: Duration,
    /// Between two pictures of a live source.
    pub stall: Duration,
    /// Between two pictures of a recording: longer than any gap that is believed of one.
    pub gap: Duration,
}

impl Deadlines {
    /// The same for a source that may go for `stall` without a picture: its first one may take as long.
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
            gap: LONGEST_GAP + DEFAULT_STALL,
        }
    }
}

/// Pauses between attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackOff {
    pub first: Duration,
    pub max: Duration,
    /// Longest pause at the beginning of an outage.
    pub quick_max: Duration,
    /// How long that beginning lasts.
    pub quick_phase: Duration,
    /// Shortest pause after a rejected password.
    pub after_rejection: Duration,
    /// Live time after which the pauses start over.
    pub steady_after: Duration,
    /// Time without anybody who wants frames after which the pauses start over.
    pub forgiven_after: Duration,
}

impl Default for BackOff {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(500),
            max: Duration::from_secs(30),
            quick_max: Duration::from_millis(1500),
            quick_phase: Duration::from_secs(30),
            after_rejection: Duration::from_secs(10),
            steady_after: Duration::from_secs(5),
            forgiven_after: Duration::from_secs(60),
        }
    }
}

/// What happened to a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// At least one subscriber wants frames (`true`) or none does (`false`).
    Wanted(bool),
    /// The stream is set up; pictures should follow.
    Connected,
    /// A picture was decoded.
    Frame {
        /// Whether the source is a recording.
        recording: bool,
    },
    /// The stream ended; regular for a recording, a loss for a live source.
    End {
        /// Whether the source is a recording.
        recording: bool,
    },
    Error {
        cause: LossCause,
        /// One sentence, free of credentials.
        message: String,
        /// Whether another attempt could succeed.
        heals: bool,
    },
}

/// What the shell does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Open the source; `attempt` counts from 1 within an outage.
    Open {
        /// Number of this attempt since frames last came.
        attempt: u32,
    },
    /// Close what is open, if anything is.
    Close,
    /// Tell that the source was lost, or that its first attempt failed.
    Lost { cause: LossCause, message: String },
    /// Tell that frames come again.
    Back {
        /// How long they were missing.
        lasted: Duration,
    },
    /// Tell that nobody looks any more, so that nobody will say when frames come again.
    Forgotten,
    /// The first frame of this attempt came.
    Live,
    /// The recording was played through.
    Ended,
    /// No further attempt will be made.
    Failed { cause: LossCause, message: String },
}

/// State of a source, see the diagram above.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Nobody wants frames.
    Idle,
    /// Being set up.
    Connecting {
        /// Number of this attempt.
        attempt: u32,
        /// When it is given up.
        until: Instant,
    },
    /// Set up, waiting for the first picture.
    Opening {
        /// Number of this attempt.
        attempt: u32,
        /// When it is given up.
        until: Instant,
    },
    Live {
        since: Instant,
        /// When it counts as stalled.
        until: Instant,
        /// Whether it is a recording.
        recording: bool,
    },
    /// Pausing before the next attempt.
    Waiting {
        /// Number of the next attempt.
        attempt: u32,
        /// When it is made.
        until: Instant,
        /// Why the last one failed.
        cause: LossCause,
        message: String,
    },
    Ended,
    Failed {
        cause: LossCause,
        message: String,
    },
}

/// What is said of a recording that broke.
const NOT_AGAIN: &str = "a recording is not played again by itself, because what it has shown would count twice: resume its pipelines to \
    play it from the beginning";

/// The state machine of one source.
#[derive(Debug)]
pub struct Supervisor {
    deadlines: Deadlines,
    back_off: BackOff,
    jitter: u64,
    wanted: bool,
    state: State,
    /// Start of the current outage.
    outage: Option<Instant>,
    /// Exponent of the next pause.
    failures: u32,
    /// Since when nobody wants frames.
    unwanted_since: Option<Instant>,
    /// The last time that a password was rejected, and until when it may not be tried again.
    rejected: Option<(Instant, String)>,
    actions: std::collections::VecDeque<Action>,
}

impl Supervisor {
    /// A source that nobody wants yet. The seed decides the jitter.
    #[must_use]
    pub fn new(deadlines: Deadlines, back_off: BackOff, seed: u64) -> Self {
        Self {
            deadlines,
            back_off,
            jitter: seed,
            wanted: false,
            state: State::Idle,
            outage: None,
            failures: 0,
            unwanted_since: None,
            rejected: None,
            actions: std::collections::VecDeque::new(),
        }
    }

    /// What the source is doing.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// When [`Self::tick`] is due at the latest.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        match &self.state {
            State::Connecting { until, .. }
            | State::Opening { until, .. }
            | State::Live { until, .. }
            | State::Waiting { until, .. } => Some(*until),
            State::Idle | State::Ended | State::Failed { .. } => None,
        }
    }

    /// The next thing to do, in order.
    pub fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Takes in what happened.
    pub fn handle(&mut self, now: Instant, input: Input) {
        match input {
            Input::Wanted(true) => {
                if !std::mem::replace(&mut self.wanted, true) {
                    self.begin(now);
                }
            }
            Input::Wanted(false) => {
                if std::mem::replace(&mut self.wanted, false) {
                    self.actions.push_back(Action::Close);
                    self.unwanted_since = Some(now);
                    match self.state {
                        State::Failed { .. } => {}
                        State::Ended => self.forget(),
                        _ => {
                            self.state = State::Idle;
                            self.forget();
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
            Input::Frame { recording } => self.frame(now, recording),
            Input::End { recording } => self.end(now, recording),
            Input::Error {
                cause,
                message,
                heals,
            } => {
                if self.is_open() {
                    self.broke(now, cause, message, heals);
                }
            }
        }
    }

    /// Lets time pass.
    pub fn tick(&mut self, now: Instant) {
        let seconds = |d: Duration| d.as_secs_f32();
        match self.state {
            State::Waiting { attempt, until, .. } if now >= until => self.open(now, attempt),
            State::Connecting { until, .. } if now >= until => {
                let message = format!(
                    "no answer within {:.0} s; check that the camera is on and the address is right",
                    seconds(self.deadlines.connect)
                );
                self.broke(now, LossCause::Timeout, message, true);
            }
            State::Opening { until, .. } if now >= until => {
                let message = format!(
                    "connected, but no picture could be decoded within {:.0} s; shorten the camera's key frame interval",
                    seconds(self.deadlines.first_frame)
                );
                self.broke(now, LossCause::NoKeyframe, message, true);
            }
            State::Live {
                until, recording, ..
            } if now >= until => {
                let message = format!("no picture for {:.0} s", seconds(self.patience(recording)));
                self.broke(now, LossCause::Stalled, message, true);
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

    /// Somebody wants frames: opens the source, unless it has just rejected the password.
    fn begin(&mut self, now: Instant) {
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

    /// Ends an outage of which nobody will see the end.
    fn forget(&mut self) {
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

    /// How long the next picture of what is live may take.
    fn patience(&self, recording: bool) -> Duration {
        if recording {
            self.deadlines.gap
        } else {
            self.deadlines.stall
        }
    }

    fn frame(&mut self, now: Instant, recording: bool) {
        let until = now + self.patience(recording);
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
                if let Some(began) = self.outage.take() {
                    self.actions.push_back(Action::Back {
                        lasted: now.saturating_duration_since(began),
                    });
                }
            }
            State::Idle | State::Waiting { .. } | State::Ended | State::Failed { .. } => {}
        }
    }

    fn end(&mut self, now: Instant, recording: bool) {
        if !self.is_open() {
            return;
        }
        let had_pictures = matches!(self.state, State::Live { .. });
        match (recording, had_pictures) {
            (true, true) => {
                self.actions.push_back(Action::Close);
                self.actions.push_back(Action::Ended);
                self.state = State::Ended;
            }
            (true, false) => self.broke(
                now,
                LossCause::Codec,
                "it ended before a single picture could be decoded; check that it is a complete video"
                    .to_owned(),
                false,
            ),
            (false, _) => self.broke(
                now,
                LossCause::EndOfStream,
                "the camera ended the stream".to_owned(),
                true,
            ),
        }
    }

    fn broke(&mut self, now: Instant, cause: LossCause, message: String, heals: bool) {
        let (message, heals) = match self.state {
            State::Live {
                recording: true, ..
            } => (format!("{message}; {NOT_AGAIN}"), false),
            _ => (message, heals),
        };
        let attempt = match self.state {
            State::Connecting { attempt, .. } | State::Opening { attempt, .. } => attempt,
            _ => 0,
        };
        self.actions.push_back(Action::Close);
        let first_of_outage = self.outage.is_none();
        let began = *self.outage.get_or_insert(now);
        if first_of_outage {
            self.actions.push_back(Action::Lost {
                cause,
                message: message.clone(),
            });
        }
        if !heals {
            self.actions.push_back(Action::Failed {
                cause,
                message: message.clone(),
            });
            self.state = State::Failed { cause, message };
            return;
        }
        let pause = self.pause(now.saturating_duration_since(began), cause);
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

    /// The pause before the next attempt, `outage` into an outage.
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
            // What the jitter takes off at most is put on before.
            pause = pause.max(b.after_rejection + b.after_rejection / 4);
        }
        // splitmix64, Steele, Lea and Flood 2014.
        self.jitter = self.jitter.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.jitter;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let thousandths = ((z ^ (z >> 31)) % 201) as u32;
        pause - pause / 1000 * thousandths
    }
}

#[cfg(test)]
mod tests;
