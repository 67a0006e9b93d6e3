//! Measures the longest time without an answer while an attack runs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::Report;

/// Pause between two questions.
const INTERVAL: Duration = Duration::from_millis(200);

/// A thread that asks again and again until it is dropped.
#[derive(Debug)]
pub(super) struct SilenceWatch {
    over: Arc<AtomicBool>,
    longest: Arc<Mutex<Duration>>,
    thread: Option<JoinHandle<()>>,
}

impl SilenceWatch {
    /// Starts asking; `answers` asks once and returns whether an answer came.
    pub(super) fn start(mut answers: impl FnMut() -> bool + Send + 'static) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let longest = Arc::new(Mutex::new(Duration::ZERO));
        let (until, kept) = (Arc::clone(&over), Arc::clone(&longest));
        let thread = std::thread::spawn(move || {
            let mut last = Instant::now();
            while !until.load(Ordering::Relaxed) {
                let answered = answers();
                let mut longest = kept.lock().unwrap_or_else(PoisonError::into_inner);
                *longest = last.elapsed().max(*longest);
                drop(longest);
                if answered {
                    last = Instant::now();
                }
                std::thread::sleep(INTERVAL);
            }
        });
        Self {
            over,
            longest,
            thread: Some(thread),
        }
    }

    /// Stops asking and adds the longest silence to `report`.
    pub(super) fn end(mut self, report: &mut Report) {
        self.stop();
        report.silence(*self.longest.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn stop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

impl Drop for SilenceWatch {
    fn drop(&mut self) {
        self.stop();
    }
}
