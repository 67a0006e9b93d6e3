//! One source as the rest of the runtime holds it; [`worker`] is its thread.
//!
//! Invariants: a source is opened only while somebody is subscribed; frame numbers and presentation times keep growing
//! over reconnects; nothing here can bring down another source; closing or dropping the [`SourceHandle`] stops the thread
//! and closes what is open; a thread that hangs in a driver is waited for at most [`CLOSING`], and from the moment of closing
//! nobody hears of it any more.

mod shared;
mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use watchkeeper_contract::source::{SourceCounters, SourceSpec, SourceState, SourceStatus};

pub use self::shared::Deps;
use self::shared::{Shared, StatusBoard};
use self::worker::Worker;
use super::mailbox::{FrameReceiver, Hub};
use super::rate::Meter;
use super::redact;
use super::supervise::State;
use crate::thread::Thread;

/// How long dropping a source waits for its thread, which may hang in a driver or a library.
pub const CLOSING: Duration = Duration::from_secs(5);

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
            board: Mutex::new(StatusBoard {
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
