//! One source as the rest of the runtime holds it; [`worker`] is its thread.
//!
//! Invariants: a source is opened only while somebody is subscribed; frame numbers and presentation times keep growing
//! over reconnects; nothing here can bring down another source; closing or dropping the [`SourceHandle`] stops the thread
//! and closes what is open; a thread that hangs in a driver is waited for at most [`CLOSING`], and from the moment of closing
//! nobody hears of it any more.

mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::source::{
    Blindness, LossCause, SourceCounters, SourceSpec, SourceState, SourceStatus,
};
use watchkeeper_contract::time::{TimeQuality, Wall};

use self::worker::Worker;
use super::mailbox::{FrameReceiver, Hub, Outcome};
use super::notices::{NoticeSender, Noticed, SourceNotice};
use super::rate::Meter;
use super::redact;
use super::supervise::{BackOff, Deadlines, State};
use crate::thread::Thread;

/// How long dropping a source waits for its thread, which may hang in a driver or a library.
pub const CLOSING: Duration = Duration::from_secs(5);

/// What a source needs from outside.
#[derive(Clone)]
pub struct Deps {
    /// Reads the wall clock and its quality.
    pub wall: Arc<dyn Fn() -> Wall + Send + Sync>,
    /// Where notices go.
    pub notices: Option<NoticeSender>,
    /// Tells this source from another one of its name, in its notices; greater than that of every one before.
    pub run: u64,
    /// Decides the jitter of reconnects.
    pub seed: u64,
    /// Per-stage deadlines; [`SourceSpec::stall_s`] goes before the one between two pictures.
    pub deadlines: Deadlines,
    /// Pauses between attempts.
    pub back_off: BackOff,
}

impl Deps {
    /// Tells what happened to the source of this name, if anybody listens.
    fn tell(&self, source: &SourceId, notice: SourceNotice) {
        if let Some(notices) = &self.notices {
            notices.tell(Noticed {
                source: source.clone(),
                run: self.run,
                noticed_at: Instant::now(),
                notice,
            });
        }
    }
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
        let whole = spec.clone();
        let shared = Arc::new(Shared {
            hub: Arc::new(Hub::default()),
            board: Mutex::new(Board {
                state: State::Idle,
                lost: None,
                since: (deps.wall)(),
                blind: None,
                size: None,
                nominal_fps: None,
                counters: SourceCounters::default(),
                meter: Meter::default(),
            }),
            has_broken_down: AtomicBool::new(false),
        });
        let run = deps.run;
        let worker = Worker::new(spec, deps.clone(), shared.clone());
        let name = format!("source-{}", shown.id);
        let thread = match Thread::spawn(name, || worker.run()) {
            Ok(thread) => Some(thread),
            Err(error) => {
                shared.give_up(&shown.id, &deps, format!("no thread: {error}"));
                None
            }
        };
        SourceHandle {
            shown,
            whole,
            run,
            shared,
            thread,
        }
    }
}

struct Shared {
    hub: Arc<Hub>,
    board: Mutex<Board>,
    /// Whether its thread is gone.
    has_broken_down: AtomicBool,
}

impl Shared {
    /// The source has no thread: nobody will ever say anything of it again, so this is said to everybody.
    fn give_up(&self, source: &SourceId, deps: &Deps, message: String) {
        tracing::error!(%source, message);
        self.has_broken_down.store(true, Ordering::Relaxed);
        let (cause, at) = (LossCause::Other, (deps.wall)());
        let mut board = self.board.lock();
        board.since = at;
        board.state = State::Failed {
            cause,
            message: message.clone(),
        };
        drop(board);
        deps.tell(
            source,
            SourceNotice::Lost {
                cause,
                message: message.clone(),
                at,
            },
        );
        self.hub.give_up(Outcome::Failed { cause, message });
    }
}

/// What status answers are made of.
struct Board {
    state: State,
    /// Why it is lost, until frames come again.
    lost: Option<(LossCause, String)>,
    since: Wall,
    blind: Option<Blindness>,
    size: Option<[u32; 2]>,
    nominal_fps: Option<f64>,
    counters: SourceCounters,
    meter: Meter,
}

/// A running source. Dropping it stops it.
pub struct SourceHandle {
    shown: SourceSpec,
    whole: SourceSpec,
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

    /// What was asked for, with its credentials: to have another one in its place, and for nobody to see.
    pub(crate) fn whole(&self) -> &SourceSpec {
        &self.whole
    }

    /// Whether a fault of ours ended it, or it never began: only another one in its place will show anything.
    #[must_use]
    pub fn has_broken_down(&self) -> bool {
        self.shared.has_broken_down.load(Ordering::Relaxed)
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
                match &board.lost {
                    Some((cause, message)) => SourceState::Lost {
                        cause: *cause,
                        message: message.clone(),
                        retry_in_s: 0.0,
                    },
                    None => SourceState::Connecting { attempt: *attempt },
                }
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
            note: None,
            counters: SourceCounters {
                fps: board.meter.fps(now),
                ..board.counters
            },
        }
    }
}

impl Drop for SourceHandle {
    /// One that was waited for in vain is not waited for again.
    fn drop(&mut self) {
        self.close();
        if let Some(thread) = &self.thread {
            thread.join_once(CLOSING);
        }
    }
}

#[cfg(test)]
mod tests;
