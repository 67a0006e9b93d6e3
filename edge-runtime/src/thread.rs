//! Threads that are joined with a timeout, and the request to end one.
//!
//! - A thread may hang in foreign code: a camera driver, a name server, a decoder. So every join
//!   has a timeout; a thread that has not ended by then is abandoned and logged by name.

use std::any::Any;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, TryRecvError};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use watchkeeper_config::redact;

/// Maximum length of a panic message.
const MAX_MESSAGE_CHARS: usize = 200;

/// The message of a panic for users: shortened, and without credentials.
pub fn panic_message(panic: &(dyn Any + Send)) -> String {
    let message = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let message = redact::uri(message.unwrap_or("no message"));
    message.chars().take(MAX_MESSAGE_CHARS).collect()
}

/// A named thread.
#[derive(Debug)]
pub struct Thread {
    name: String,
    running: Mutex<Option<Running>>,
    /// Whether a join has timed out.
    has_timed_out: AtomicBool,
}

#[derive(Debug)]
struct Running {
    handle: JoinHandle<()>,
    /// Nothing is sent; the sender is dropped when the thread ends, also by a panic.
    ended: Receiver<()>,
}

impl Thread {
    /// Starts a thread of this name.
    ///
    /// # Errors
    /// When the system starts none.
    pub fn spawn(name: String, body: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let (alive, ended) = mpsc::sync_channel(0);
        let handle = std::thread::Builder::new()
            .name(name.clone())
            .spawn(move || {
                let _alive = alive;
                body();
            })?;
        let running = Mutex::new(Some(Running { handle, ended }));
        let has_timed_out = AtomicBool::new(false);
        Ok(Self {
            name,
            running,
            has_timed_out,
        })
    }

    /// Waits at most `timeout` for its end, but not again after a join that timed out. Returns
    /// false while it runs.
    pub fn join_once(&self, timeout: Duration) -> bool {
        let timeout = if self.has_timed_out.load(Ordering::Relaxed) {
            Duration::ZERO
        } else {
            timeout
        };
        self.join(timeout)
    }

    /// Whether it has ended; does not wait.
    pub fn is_finished(&self) -> bool {
        // Held by a `join` that waits for the end.
        let Some(running) = self.running.try_lock() else {
            return false;
        };
        let ended = running.as_ref().map(|thread| thread.ended.try_recv());
        ended.is_none_or(|state| state == Err(TryRecvError::Disconnected))
    }

    /// Waits at most `timeout` for its end. Returns false while it runs; may be called again.
    pub fn join(&self, timeout: Duration) -> bool {
        let mut running = self.running.lock();
        let Some(thread) = running.take() else {
            return true;
        };
        if thread.ended.recv_timeout(timeout) == Err(RecvTimeoutError::Timeout) {
            if !self.has_timed_out.swap(true, Ordering::Relaxed) {
                tracing::warn!(
                    thread = self.name,
                    "the thread still runs; not waiting any longer"
                );
            }
            *running = Some(thread);
            return false;
        }
        if thread.handle.join().is_err() {
            tracing::error!(thread = self.name, "the thread panicked");
        }
        true
    }
}

/// The request to end a thread that works at intervals.
#[derive(Debug, Default)]
pub struct Closing {
    is_closing: Mutex<bool>,
    changed: Condvar,
}

impl Closing {
    /// Ends the wait of the thread, and all later ones.
    pub fn close(&self) {
        *self.is_closing.lock() = true;
        self.changed.notify_all();
    }

    /// Waits for `interval`, or until it is closed. Returns whether it is closed.
    pub fn wait(&self, interval: Duration) -> bool {
        let mut is_closing = self.is_closing.lock();
        let is_open = |is_closing: &mut bool| !*is_closing;
        self.changed
            .wait_while_for(&mut is_closing, is_open, interval);
        *is_closing
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn hanging_thread_can_be_joined_again() {
        let (release, released) = mpsc::channel::<()>();
        let thread = Thread::spawn("hangs".to_owned(), move || {
            assert!(released.recv().is_err(), "never sent");
        });
        let thread = thread.unwrap();
        assert!(!thread.join(Duration::from_millis(1)));
        assert!(!thread.join_once(LONG), "a second join does not wait");
        assert!(!thread.is_finished());
        drop(release);
        assert!(thread.join(LONG));
        assert!(thread.is_finished());
        assert!(thread.join(Duration::ZERO), "it stays ended");
    }

    #[test]
    fn closing_ends_a_wait_and_all_later_ones() {
        let closing = Closing::default();
        assert!(!closing.wait(Duration::from_millis(1)));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| closing.wait(LONG));
            closing.close();
            assert!(waiting.join().unwrap());
        });
        assert!(closing.wait(LONG));
    }

    #[test]
    fn panicked_thread_has_ended() {
        let thread = Thread::spawn("panics".to_owned(), || panic!("on purpose")).unwrap();
        assert!(thread.join(LONG));
    }
}
