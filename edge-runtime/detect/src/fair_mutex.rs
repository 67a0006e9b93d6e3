//! A mutex that is granted in the order of arrival.
//!
//! A plain mutex lets the thread that has just unlocked it lock it again before a waiting one, so
//! that one busy camera could starve the others.
//!
//! - Tickets are served in the order in which they were drawn, each once.
//! - Dropping the guard serves the next ticket, also during a panic.

use std::ops::{Deref, DerefMut};

use parking_lot::{Condvar, Mutex, MutexGuard};

/// A ticket lock.
#[derive(Debug, Default)]
pub struct FairMutex<T> {
    queue: Mutex<Queue>,
    moved: Condvar,
    /// Locked only by the thread whose ticket is served.
    value: Mutex<T>,
}

#[derive(Debug, Default)]
struct Queue {
    next_ticket: u64,
    serving: u64,
}

/// Access to the value; dropping it serves the next ticket.
#[derive(Debug)]
pub struct FairMutexGuard<'a, T> {
    // Fields drop in this order: the value is unlocked before the next ticket is served.
    value: MutexGuard<'a, T>,
    _call: CallNext<'a, T>,
}

#[derive(Debug)]
struct CallNext<'a, T>(&'a FairMutex<T>);

impl<T> FairMutex<T> {
    pub fn new(value: T) -> Self {
        Self {
            queue: Mutex::default(),
            moved: Condvar::new(),
            value: Mutex::new(value),
        }
    }

    /// Blocks until all earlier callers have dropped their guards.
    pub fn lock(&self) -> FairMutexGuard<'_, T> {
        let mut queue = self.queue.lock();
        let ticket = queue.next_ticket;
        queue.next_ticket += 1;
        while queue.serving != ticket {
            self.moved.wait(&mut queue);
        }
        drop(queue);
        let call = CallNext(self);
        FairMutexGuard {
            value: self.value.lock(),
            _call: call,
        }
    }

    /// Number of guards and waiting threads.
    pub fn queue_len(&self) -> u64 {
        let queue = self.queue.lock();
        queue.next_ticket - queue.serving
    }
}

impl<T> Drop for CallNext<'_, T> {
    fn drop(&mut self) {
        self.0.queue.lock().serving += 1;
        self.0.moved.notify_all();
    }
}

impl<T> Deref for FairMutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for FairMutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    fn wait_until(good: impl Fn() -> bool) {
        while !good() {
            thread::yield_now();
        }
    }

    #[test]
    fn turns_come_in_the_order_of_arrival() {
        let order = Arc::new(FairMutex::new(Vec::new()));
        let first = order.lock();
        let threads: Vec<_> = (0..6)
            .map(|i| {
                let mine = order.clone();
                let thread = thread::spawn(move || mine.lock().push(i));
                wait_until(|| order.queue_len() == i + 2);
                thread
            })
            .collect();
        drop(first);
        for thread in threads {
            thread.join().expect("no panic");
        }
        assert_eq!(*order.lock(), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn one_that_comes_back_at_once_waits_behind_the_others() {
        let seen = Arc::new(FairMutex::new(Vec::new()));
        let mut greedy = seen.lock();
        greedy.push("greedy");
        let patient = seen.clone();
        let thread = thread::spawn(move || patient.lock().push("patient"));
        wait_until(|| seen.queue_len() == 2);
        drop(greedy);
        seen.lock().push("greedy");
        thread.join().expect("no panic");
        assert_eq!(*seen.lock(), ["greedy", "patient", "greedy"]);
    }

    #[test]
    fn panic_during_a_turn_does_not_stop_the_queue() {
        let shared = Arc::new(FairMutex::new(0));
        let other = shared.clone();
        let broken = thread::spawn(move || {
            let _turn = other.lock();
            panic!("as intended by this test");
        });
        assert!(broken.join().is_err());
        *shared.lock() += 1;
        assert_eq!(*shared.lock(), 1);
    }
}
