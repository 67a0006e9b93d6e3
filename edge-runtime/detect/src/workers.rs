//! Processor time of the threads that a back end starts for a network.
//!
//! - Runs on one [`Workers`] do not overlap, so what its threads take during a run is of that run.
//! - [`worker_time`] is to these threads what the clock of a thread is to that thread: the sum of
//!   the runs that it asked for.
//! - A kernel without `/proc/…/schedstat` counts none.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

const TASKS: &str = "/proc/self/task";
/// Begins the name of each thread of rten.
const RTEN: &str = "rten-";

thread_local! {
    static SPENT: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Processor time of the runs that the calling thread asked for, on threads of the networks.
#[must_use]
pub fn worker_time() -> Duration {
    SPENT.get()
}

/// The threads of a network, by their clocks.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    clocks: Vec<File>,
}

impl Workers {
    /// The threads that `load` starts. They have the name of this thread, which a thread without a
    /// name of its own inherits, or the name that rten gives. Includes threads of these names that
    /// others start meanwhile.
    pub(crate) fn started_by<T>(load: impl FnOnce() -> T) -> (T, Self) {
        let before: BTreeSet<String> = tasks().collect();
        let loaded = load();
        let name = |task: &str| fs::read_to_string(format!("{TASKS}/{task}/comm"));
        let own = fs::read_to_string("/proc/thread-self/comm").unwrap_or_default();
        let is_worker =
            |task: &String| name(task).is_ok_and(|name| name == own || name.starts_with(RTEN));
        let started = tasks().filter(|task| !before.contains(task) && is_worker(task));
        let clocks =
            started.filter_map(|task| File::open(format!("{TASKS}/{task}/schedstat")).ok());
        let clocks = clocks.collect();
        (loaded, Self { clocks })
    }

    /// Runs the network, and adds what its threads took to [`worker_time`] of this thread.
    pub(crate) fn meter<T>(&self, run: impl FnOnce() -> T) -> T {
        let before = self.time();
        let done = run();
        let spent = self.time().saturating_sub(before);
        SPENT.set(SPENT.get() + spent);
        done
    }

    fn time(&self) -> Duration {
        self.clocks.iter().filter_map(processor_time).sum()
    }
}

/// Ids of the threads of this process.
fn tasks() -> impl Iterator<Item = String> {
    let tasks = fs::read_dir(TASKS).into_iter().flatten().flatten();
    tasks.filter_map(|task| task.file_name().into_string().ok())
}

/// The first number of `schedstat`: nanoseconds on a processor.
fn processor_time(clock: &File) -> Option<Duration> {
    let mut text = [0; 64];
    let read = clock.read_at(&mut text, 0).ok()?;
    let text = str::from_utf8(text.get(..read)?).ok()?;
    let spent = text.split(' ').next()?.parse().ok()?;
    Some(Duration::from_nanos(spent))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Instant;

    use super::*;

    fn work(time: Duration) {
        let began = Instant::now();
        while began.elapsed() < time {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn time_of_a_run_is_that_of_the_threads_that_were_started() {
        let (sender, jobs) = mpsc::sync_channel::<mpsc::SyncSender<()>>(1);
        let ((), workers) = Workers::started_by(|| {
            let worker = thread::Builder::new().name("rten-0".to_owned());
            let body = move || {
                while let Ok(done) = jobs.recv() {
                    work(Duration::from_millis(20));
                    done.send(()).ok();
                }
            };
            worker.spawn(body).expect("a thread");
            // The thread names itself once it runs.
            run_on(&sender);
        });
        assert_eq!(workers.clocks.len(), 1);
        let before = worker_time();
        workers.meter(|| run_on(&sender));
        assert!(worker_time() > before);
        let after = worker_time();
        Workers::default().meter(|| work(Duration::from_millis(5)));
        assert_eq!(worker_time(), after);
        // Another thread asked for nothing.
        let other = thread::spawn(worker_time).join();
        assert_eq!(other.ok(), Some(Duration::ZERO));
    }

    fn run_on(worker: &mpsc::SyncSender<mpsc::SyncSender<()>>) {
        let (done, end) = mpsc::sync_channel(1);
        worker.send(done).expect("a worker");
        end.recv().expect("an end");
    }
}
