//! A source: its handle here, its thread in [`worker`], their common state in [`shared`].
//!
//! - A source is open only while it has a subscriber.
//! - Frame numbers and presentation times grow over reconnects.
//! - Sources are isolated: no fault of one reaches another.
//! - A source whose hardware decoder failed decodes on the processor until it is replaced.
//! - Closing or dropping the [`SourceHandle`] stops the thread, with a timeout of [`CLOSE_TIMEOUT`]
//!   for one that hangs in a driver. A closed source sends no more notices.

mod shared;
mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use watchkeeper_contract::privacy::PrivacyStatus;
use watchkeeper_contract::source::{SourceCounters, SourceSpec, SourceState, SourceStatus};

pub use self::shared::Deps;
use self::shared::{LeftOut, Shared, StatusBoard};
use self::worker::Worker;
use super::mailbox::{FrameReceiver, Hub};
use super::privacy;
use super::rate::Meter;
use super::redact;
use super::supervise::State;
use super::view::UsualView;
use crate::thread::Thread;

/// Timeout of dropping a source whose thread may hang in a driver or a library.
pub const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub struct Source;

impl Source {
    /// Starts the thread of a source.
    ///
    /// Nothing is opened before the first [`SourceHandle::subscribe`]. An invalid address shows as
    /// [`SourceState::Failed`].
    #[must_use]
    pub fn spawn(spec: SourceSpec, deps: Deps) -> SourceHandle {
        let public_spec = SourceSpec {
            uri: redact::uri(&spec.uri),
            ..spec.clone()
        };
        let full_spec = spec.clone();
        let shared = Arc::new(Shared {
            // Nothing shows what a mask covers.
            hub: Arc::new(Hub::new(deps.privacy.is_none().then(Arc::default))),
            board: Mutex::new(StatusBoard {
                state: State::Idle,
                lost: None,
                since: (deps.wall)(),
                blind: None,
                known_view: None,
                size: None,
                nominal_fps: None,
                decoder: None,
                left_out: LeftOut::default(),
                counters: SourceCounters::default(),
                meter: Meter::default(),
            }),
            has_broken_down: AtomicBool::new(false),
        });
        let privacy = deps.privacy.as_deref().map(privacy::describe);
        let run = deps.run;
        let worker = Worker::new(spec, deps.clone(), shared.clone());
        let name = format!("source-{}", public_spec.id);
        let thread = match Thread::spawn(name, || worker.run()) {
            Ok(thread) => Some(thread),
            Err(error) => {
                shared.give_up(&public_spec.id, &deps, format!("no thread: {error}"));
                None
            }
        };
        SourceHandle {
            public_spec,
            full_spec,
            privacy,
            run,
            shared,
            thread,
        }
    }
}

/// Handle of a running source; dropping it stops the source.
pub struct SourceHandle {
    public_spec: SourceSpec,
    full_spec: SourceSpec,
    privacy: Option<PrivacyStatus>,
    run: u64,
    shared: Arc<Shared>,
    thread: Option<Thread>,
}

impl SourceHandle {
    /// Subscribes to the frames.
    ///
    /// The first subscriber opens the source. It closes when the last one leaves; the next one
    /// starts a recording from its beginning.
    #[must_use]
    pub fn subscribe(&self) -> FrameReceiver {
        self.shared.hub.subscribe()
    }

    /// Returns the spec, with credentials replaced by `***`.
    pub fn spec(&self) -> &SourceSpec {
        &self.public_spec
    }

    /// Returns the spec with its credentials, for replacing the source; never shown.
    pub(crate) fn full_spec(&self) -> &SourceSpec {
        &self.full_spec
    }

    /// Whether the thread ended by an internal error or never started; only a replacement helps.
    pub fn has_broken_down(&self) -> bool {
        self.shared.has_broken_down.load(Ordering::Relaxed)
    }

    /// Returns [`Deps::run`] of this source.
    #[must_use]
    pub fn run(&self) -> u64 {
        self.run
    }

    /// The usual view of the camera, for the next process.
    pub fn known_view(&self) -> Option<Arc<UsualView>> {
        self.shared.board.lock().known_view.clone()
    }

    /// Closes the source without waiting; its subscribers learn of it at once.
    pub fn close(&self) {
        self.shared.hub.close();
    }

    /// Stops the source and waits at most `timeout` for its thread. Returns false if it hangs.
    pub fn close_within(&self, timeout: Duration) -> bool {
        self.close();
        self.thread
            .as_ref()
            .is_none_or(|thread| thread.join(timeout))
    }

    /// Returns the current status.
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
            spec: self.public_spec.clone(),
            state,
            since: board.since,
            size: board.size,
            nominal_fps: board.nominal_fps,
            note: board.left_out.sentence(),
            privacy: self.privacy.clone(),
            decoder: board.decoder.clone(),
            counters: SourceCounters {
                fps: board.meter.fps(now),
                ..board.counters
            },
        }
    }
}

impl Drop for SourceHandle {
    /// Waits for the thread, unless a join has already timed out.
    fn drop(&mut self) {
        self.close();
        if let Some(thread) = &self.thread {
            thread.join_once(CLOSE_TIMEOUT);
        }
    }
}

#[cfg(test)]
mod tests;
