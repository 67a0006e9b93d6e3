//! Threads that are waited for, but not for ever.
//!
//! A thread may hang in somebody else's code: a camera's driver, a name server, a decoder. Invariant: whoever waits for
//! one of ours says how long; one that has not ended by then is left to itself, which is logged with its name.

use std::any::Any;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, TryRecvError};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;

use crate::capture::redact;

/// Characters of what a panic said that are repeated.
const MOST_SAID: usize = 200;

/// What a panic said, for a message that people read: not all of it, and without credentials.
#[must_use]
pub fn said(panic: &(dyn Any + Send)) -> String {
    let said = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let said = redact::uri(said.unwrap_or("it said nothing"));
    said.chars().take(MOST_SAID).collect()
}

/// A thread of ours.
#[derive(Debug)]
pub struct Thread {
    name: String,
    running: Mutex<Option<Running>>,
    /// Whether it was waited for in vain.
    left: AtomicBool,
}

#[derive(Debug)]
struct Running {
    handle: JoinHandle<()>,
    /// Nothing is ever sent; the other end is gone when the thread has ended, also by a panic.
    ended: Receiver<()>,
}

impl Thread {
    /// Starts a thread of this name.
    ///
    /// # Errors
    /// When the system gives none.
    pub fn spawn(name: String, body: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let (alive, ended) = mpsc::sync_channel(0);
        let handle = std::thread::Builder::new()
            .name(name.clone())
            .spawn(move || {
                let _alive = alive;
                body();
            })?;
        let running = Mutex::new(Some(Running { handle, ended }));
        let left = AtomicBool::new(false);
        Ok(Self {
            name,
            running,
            left,
        })
    }

    /// Waits until it has ended, at most for `patience`, unless it has been waited for in vain already. False when it still runs.
    pub fn join_once(&self, patience: Duration) -> bool {
        let patience = if self.left.load(Ordering::Relaxed) {
            Duration::ZERO
        } else {
            patience
        };
        self.join(patience)
    }

    /// Whether it has ended; nobody waits.
    pub fn is_finished(&self) -> bool {
        let running = self.running.lock();
        let ended = running.as_ref().map(|thread| thread.ended.try_recv());
        ended.is_none_or(|said| said == Err(TryRecvError::Disconnected))
    }

    /// Waits until it has ended, at most for `patience`. False when it still runs; it may be asked again.
    pub fn join(&self, patience: Duration) -> bool {
        let mut running = self.running.lock();
        let Some(thread) = running.take() else {
            return true;
        };
        if thread.ended.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
            if !self.left.swap(true, Ordering::Relaxed) {
                tracing::warn!(thread = self.name, "still running; left to itself");
            }
            *running = Some(thread);
            return false;
        }
        if thread.handle.join().is_err() {
            tracing::error!(thread = self.name, "had panicked");
        }
        true
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_thread_that_hangs_is_left_and_can_be_waited_for_again() {
        let (release, released) = mpsc::channel::<()>();
        let thread = Thread::spawn("hangs".to_owned(), move || {
            assert!(released.recv().is_err(), "never sent");
        });
        let thread = thread.unwrap();
        assert!(!thread.join(Duration::from_millis(1)));
        assert!(!thread.join_once(LONG), "it is waited for no more");
        assert!(!thread.is_finished());
        drop(release);
        assert!(thread.join(LONG));
        assert!(thread.is_finished());
        assert!(thread.join(Duration::ZERO), "it stays ended");
    }

    #[test]
    fn a_thread_that_panicked_has_ended() {
        let thread = Thread::spawn("panics".to_owned(), || panic!("on purpose")).unwrap();
        assert!(thread.join(LONG));
    }
}
