//! The sampler of the board: one thread that reads its sensors every [`INTERVAL`].
//!
//! - Owns the last reading and the history of an hour; readers get copies and never wait for a
//!   sensor. A driver that hangs holds up the thread alone, and the age of the reading shows it.
//! - Throttling and worn storage become events.
//! - Times of readings count from the start of the sampler.

mod events;

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use watchkeeper_board::history::{History, INTERVAL};
use watchkeeper_board::identity::Identity;
use watchkeeper_board::reading::{Board, Reading};
use watchkeeper_board::report::report;
use watchkeeper_contract::board::BoardReport;
use watchkeeper_contract::id::EventId;

use self::events::BoardEvents;
use crate::pipeline::box_event::{BoxRecord, box_event};
use crate::pipeline::recorder::Recorder;
use crate::thread::Thread;

#[derive(Debug, Default)]
struct State {
    reading: Reading,
    history: History,
    is_closing: bool,
}

#[derive(Debug)]
struct Shared {
    identity: Identity,
    state: Mutex<State>,
    closing: Condvar,
    origin: Instant,
}

/// Identity of this run, for events.
#[derive(Debug, Clone)]
pub struct Run {
    pub boot_id: Arc<str>,
    pub started: Instant,
}

/// Handle of the sampler's thread.
#[derive(Debug)]
pub struct BoardSampler {
    shared: Arc<Shared>,
    thread: Thread,
}

impl BoardSampler {
    /// Starts to sample `board`, at once for the first time.
    ///
    /// # Errors
    /// When the system starts no thread.
    pub fn spawn(
        mut board: impl Board + Send + 'static,
        recorder: Recorder,
        run: Run,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            identity: board.identity().clone(),
            state: Mutex::default(),
            closing: Condvar::new(),
            origin: Instant::now(),
        });
        let own = Arc::clone(&shared);
        let thread = Thread::spawn("board".to_owned(), move || {
            let report = |records: Vec<BoxRecord>| {
                for record in records {
                    recorder.report(box_event(record, &run.boot_id, run.started));
                }
            };
            let mut events = BoardEvents::default();
            while !own.is_closing() {
                let reading = board.sample(own.origin.elapsed());
                own.store(reading);
                report(events.handle(reading, &mut EventId::generate));
                own.wait();
            }
            report(events.end().into_iter().collect());
        })?;
        Ok(Self { shared, thread })
    }

    /// Returns a copy of the last reading, and the time since it was taken.
    #[must_use]
    pub fn latest(&self) -> (Reading, Duration) {
        let reading = self.shared.state.lock().reading.clone();
        let age = self.shared.origin.elapsed().saturating_sub(reading.at);
        (reading, age)
    }

    /// Builds the report of the API.
    #[must_use]
    pub fn report(&self) -> BoardReport {
        let state = self.shared.state.lock();
        let now = self.shared.origin.elapsed();
        report(&self.shared.identity, &state.reading, &state.history, now)
    }

    /// Ends the thread and with it open events; waits at most `timeout`.
    pub fn shut_down(&self, timeout: Duration) {
        self.shared.state.lock().is_closing = true;
        self.shared.closing.notify_all();
        self.thread.join(timeout);
    }
}

impl Shared {
    fn is_closing(&self) -> bool {
        self.state.lock().is_closing
    }

    fn store(&self, reading: &Reading) {
        let mut state = self.state.lock();
        state.history.add(reading);
        state.reading.clone_from(reading);
    }

    /// Waits for the next sample, or for the end.
    fn wait(&self) {
        let until = Instant::now() + INTERVAL;
        let mut state = self.state.lock();
        while !state.is_closing {
            if self.closing.wait_until(&mut state, until).timed_out() {
                return;
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests;
