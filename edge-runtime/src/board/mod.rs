//! The sampler of the board: one thread that reads its sensors every [`INTERVAL`].
//!
//! - Owns the last reading and the history of an hour; readers get copies and never wait for a
//!   sensor. A driver that hangs holds up the thread alone, and the age of the reading shows it.
//! - Throttling and worn storage become events. Throttling of a single sample reaches the heat
//!   policy too, which is asked less often.
//! - Times of readings count from the start of the sampler.

mod events;

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use watchkeeper_board::history::{History, INTERVAL};
use watchkeeper_board::identity::Identity;
use watchkeeper_board::reading::{Board, Reading};
use watchkeeper_board::report::{report, unread};
use watchkeeper_contract::board::BoardReport;
use watchkeeper_contract::id::EventId;

use self::events::BoardEvents;
use crate::boot::Boot;
use crate::pipeline::box_event::{BoxRecord, box_event};
use crate::pipeline::recorder::Recorder;
use crate::thread::{Closing, Thread};

#[derive(Debug, Default)]
struct State {
    identity: Identity,
    reading: Reading,
    /// Whether `reading` is one of the board.
    is_read: bool,
    /// Whether heat slowed the board down in a sample since the policy was asked.
    was_throttled: bool,
    history: History,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    closing: Closing,
    origin: Instant,
}

/// Handle of the sampler's thread.
#[derive(Debug)]
pub struct BoardSampler {
    shared: Arc<Shared>,
    thread: Thread,
}

impl BoardSampler {
    /// Opens a board and samples it on its own thread, at once for the first time. So a driver that
    /// hangs does not hold up the start.
    ///
    /// # Errors
    /// When the system starts no thread.
    pub fn spawn<B: Board>(
        open: impl FnOnce() -> B + Send + 'static,
        recorder: Recorder,
        boot: Boot,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            closing: Closing::default(),
            origin: Instant::now(),
        });
        let own = Arc::clone(&shared);
        let thread = Thread::spawn("board".to_owned(), move || {
            let report = |records: Vec<BoxRecord>| {
                for record in records {
                    recorder.report(box_event(record, &boot));
                }
            };
            let mut board = open();
            own.state.lock().identity = board.identity().clone();
            let mut events = BoardEvents::default();
            let mut is_closing = false;
            while !is_closing {
                let reading = board.sample(own.origin.elapsed());
                own.state.lock().store(reading);
                report(events.handle(reading, &mut EventId::generate));
                is_closing = own.closing.wait(INTERVAL);
            }
            report(events.end().into_iter().collect());
        })?;
        Ok(Self { shared, thread })
    }

    /// Returns a copy of the last reading, and the time since it was taken.
    pub fn latest(&self) -> (Reading, Duration) {
        let reading = self.shared.state.lock().reading.clone();
        let age = self.shared.origin.elapsed().saturating_sub(reading.at);
        (reading, age)
    }

    /// Returns what [`latest`](Self::latest) does, with the thermal throttling of all samples since
    /// the previous call. For one caller: the heat policy.
    #[must_use]
    pub fn take(&self) -> (Reading, Duration) {
        let reading = self.shared.state.lock().take();
        let age = self.shared.origin.elapsed().saturating_sub(reading.at);
        (reading, age)
    }

    /// Builds the report of the API.
    pub fn report(&self) -> BoardReport {
        let state = self.shared.state.lock();
        let now = self.shared.origin.elapsed();
        if state.is_read {
            report(&state.identity, &state.reading, &state.history, now)
        } else {
            unread(&state.identity, now)
        }
    }

    /// Ends the thread and with it open events; waits at most `timeout`.
    pub fn shut_down(&self, timeout: Duration) {
        self.shared.closing.close();
        self.thread.join(timeout);
    }
}

impl State {
    fn store(&mut self, reading: &Reading) {
        self.history.add(reading);
        self.reading.clone_from(reading);
        self.is_read = true;
        self.was_throttled |= reading.throttling.thermal == Some(true);
    }

    fn take(&mut self) -> Reading {
        let mut reading = self.reading.clone();
        if std::mem::take(&mut self.was_throttled) {
            reading.throttling.thermal = Some(true);
        }
        reading
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
pub(crate) mod tests;
