//! One source as the rest of the runtime holds it; [`worker`] is its thread.
//!
//! Invariants: a source is opened only while somebody is subscribed; frame numbers and presentation times keep growing
//! over reconnects; nothing here can bring down another source; closing or dropping the [`SourceHandle`] stops the thread
//! and closes what is open; a thread that hangs in a driver is waited for at most [`CLOSING`], and from the moment of closing
//! nobody hears of it any more.

mod worker;

use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::source::{
    Blindness, LossCause, SourceCounters, SourceSpec, SourceState, SourceStatus,
};
use watchkeeper_contract::time::{TimeQuality, Wall};

use self::worker::Worker;
use super::mailbox::{FrameReceiver, Hub, Outcome};
use super::rate::Meter;
use super::redact;
use super::supervise::{BackOff, Deadlines, State};
use crate::thread::Thread;

/// How long dropping a source waits for its thread, which may hang in a driver or a library.
pub const CLOSING: Duration = Duration::from_secs(5);

/// Something the journal should know about a source.
#[derive(Debug, Clone, PartialEq)]
pub enum SourceNotice {
    /// Frames stopped coming, or never came. Said once an outage, and again when it will not heal.
    Lost {
        /// Why.
        cause: LossCause,
        /// One sentence, free of credentials.
        message: String,
        /// When.
        at: Wall,
    },
    /// Frames come again.
    Back {
        /// How long they were missing.
        lasted: Duration,
        /// When they came back.
        at: Wall,
    },
    /// Nobody wants its frames any more, so what was told of it is over as far as anybody can say.
    Forgotten {
        /// When.
        at: Wall,
    },
    /// Frames come but show nothing.
    Blind {
        /// In which way.
        kind: Blindness,
        /// When it was noticed.
        at: Wall,
    },
    /// The picture is useful again.
    Seeing {
        /// How long it was not.
        lasted: Duration,
        /// When it was noticed.
        at: Wall,
    },
}

/// A notice, and who gives it.
#[derive(Debug, Clone, PartialEq)]
pub struct Noticed {
    /// The source.
    pub source: SourceId,
    /// Which of the sources that have had this name ([`Deps::run`]).
    pub run: u64,
    /// What happened.
    pub notice: SourceNotice,
}

/// What a source needs from outside.
#[derive(Clone)]
pub struct Deps {
    /// Reads the wall clock and its quality.
    pub wall: Arc<dyn Fn() -> Wall + Send + Sync>,
    /// Where notices go. A full channel loses the notice, which is logged and counted in [`SourceHandle::notices_lost`].
    pub notices: Option<SyncSender<Noticed>>,
    /// Tells this source from another one of its name, in its notices.
    pub run: u64,
    /// Decides the jitter of reconnects.
    pub seed: u64,
    /// Per-stage deadlines.
    pub deadlines: Deadlines,
    /// Pauses between attempts.
    pub back_off: BackOff,
}

impl std::fmt::Debug for Deps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Deps")
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}

impl Default for Deps {
    fn default() -> Self {
        Self {
            wall: Arc::new(system_wall),
            notices: None,
            run: 0,
            seed: 0,
            deadlines: Deadlines::default(),
            back_off: BackOff::default(),
        }
    }
}

/// The system clock; known to be wrong when it shows a time before this was written.
fn system_wall() -> Wall {
    const WRITTEN_MS: i64 = 1_760_000_000_000;
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let unix_ms = since.map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX));
    Wall {
        unix_ms,
        quality: if unix_ms < WRITTEN_MS {
            TimeQuality::Unsynced
        } else {
            TimeQuality::Estimated
        },
    }
}

/// Starts sources.
#[derive(Debug)]
pub struct Source;

impl Source {
    /// Starts the thread of a source. Nothing is opened before the first [`SourceHandle::subscribe`]; an address that
    /// can't be read shows as [`SourceState::Failed`].
    #[must_use]
    pub fn spawn(spec: SourceSpec, deps: Deps) -> SourceHandle {
        let shown = SourceSpec {
            uri: redact::uri(&spec.uri),
            ..spec.clone()
        };
        let shared = Arc::new(Shared {
            hub: Arc::new(Hub::default()),
            board: Mutex::new(Board {
                state: State::Idle,
                since: (deps.wall)(),
                blind: None,
                size: None,
                nominal_fps: None,
                counters: SourceCounters::default(),
                meter: Meter::default(),
                notices_lost: 0,
            }),
        });
        let run = deps.run;
        let worker = Worker::new(spec, deps, shared.clone());
        let name = format!("source-{}", shown.id);
        let thread = match Thread::spawn(name, || worker.run()) {
            Ok(thread) => Some(thread),
            Err(error) => {
                let (cause, message) = (LossCause::Other, format!("no thread: {error}"));
                shared.board.lock().state = State::Failed {
                    cause,
                    message: message.clone(),
                };
                shared.hub.finish(Outcome::Failed { cause, message }, 0);
                None
            }
        };
        SourceHandle {
            shown,
            run,
            shared,
            thread,
        }
    }
}

struct Shared {
    hub: Arc<Hub>,
    board: Mutex<Board>,
}

/// What status answers are made of.
struct Board {
    state: State,
    since: Wall,
    blind: Option<Blindness>,
    size: Option<[u32; 2]>,
    nominal_fps: Option<f64>,
    counters: SourceCounters,
    meter: Meter,
    notices_lost: u64,
}

/// A running source. Dropping it stops it.
pub struct SourceHandle {
    shown: SourceSpec,
    run: u64,
    shared: Arc<Shared>,
    thread: Option<Thread>,
}

impl std::fmt::Debug for SourceHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SourceHandle")
            .field("spec", &self.shown)
            .finish_non_exhaustive()
    }
}

impl SourceHandle {
    /// Subscribes to the frames. The first subscriber opens the source; when the last one leaves it is closed, and the
    /// next one starts a recording from its beginning.
    #[must_use]
    pub fn subscribe(&self) -> FrameReceiver {
        self.shared.hub.subscribe()
    }

    /// What was asked for, credentials replaced by `***`.
    #[must_use]
    pub fn spec(&self) -> &SourceSpec {
        &self.shown
    }

    /// [`Deps::run`] of this source.
    #[must_use]
    pub fn run(&self) -> u64 {
        self.run
    }

    /// Tells the source to stop, and does not wait: its subscribers learn at once that it is gone.
    pub fn close(&self) {
        self.shared.hub.close();
    }

    /// Stops the source and waits for its thread, at most for `patience`. False when it hangs: then it is left to itself.
    pub fn close_within(&self, patience: Duration) -> bool {
        self.close();
        self.thread
            .as_ref()
            .is_none_or(|thread| thread.join(patience))
    }

    /// How the source is doing.
    #[must_use]
    pub fn status(&self) -> SourceStatus {
        let now = Instant::now();
        let board = self.shared.board.lock();
        let state = match &board.state {
            State::Idle => SourceState::Idle,
            State::Connecting { attempt, .. } | State::Opening { attempt, .. } => {
                SourceState::Connecting { attempt: *attempt }
            }
            State::Live { .. } => SourceState::Live { blind: board.blind },
            State::Waiting {
                until,
                cause,
                message,
                ..
            } => SourceState::Lost {
                cause: *cause,
                message: message.clone(),
                retry_in_s: until.saturating_duration_since(now).as_secs_f64(),
            },
            State::Ended => SourceState::Ended,
            State::Failed { cause, message } => SourceState::Failed {
                cause: *cause,
                message: message.clone(),
            },
        };
        SourceStatus {
            spec: self.shown.clone(),
            state,
            since: board.since,
            size: board.size,
            nominal_fps: board.nominal_fps,
            counters: SourceCounters {
                fps: board.meter.fps(now),
                ..board.counters
            },
        }
    }

    /// Notices that were lost because nobody took them from the channel.
    #[must_use]
    pub fn notices_lost(&self) -> u64 {
        self.shared.board.lock().notices_lost
    }
}

impl Drop for SourceHandle {
    fn drop(&mut self) {
        self.close_within(CLOSING);
    }
}

#[cfg(test)]
mod tests;
