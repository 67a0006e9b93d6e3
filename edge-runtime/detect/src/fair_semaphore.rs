//! A value that streams use in turns, in the order of fair deadlines ([`Turns`]).
//!
//! A mutex lets the thread that has just unlocked it lock it again before a waiting one. So one
//! busy camera could starve the others.
//!
//! - Requests with equal deadlines are served in the order of their arrival, each once.
//! - Dropping a [`Permit`] ends its turn, also during a panic.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::turns::{ClaimedRate, Turns};

/// Turns a second that a stream asks for until its rate is known.
const DEFAULT_RATE: f64 = 10.0;

/// Lowest and highest rate of a stream, in turns a second.
const RATES: (f64, f64) = (0.1, 1000.0);

/// One stream's claim to turns at shared networks.
#[derive(Debug)]
pub struct Claim {
    id: u64,
    weight: f64,
    /// Turns a second, as the bits of an `f64`.
    rate: AtomicU64,
}

impl Claim {
    /// A claim of its own with a weight over 0; 1 is usual.
    #[must_use]
    pub fn new(weight: f64) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            weight,
            rate: AtomicU64::new(DEFAULT_RATE.to_bits()),
        }
    }

    /// Sets how many turns a second the stream wants.
    pub fn set_rate(&self, rate: f64) {
        if rate.is_finite() {
            let rate = rate.clamp(RATES.0, RATES.1);
            self.rate.store(rate.to_bits(), Ordering::Relaxed);
        }
    }

    fn claimed(&self) -> ClaimedRate {
        ClaimedRate {
            rate: f64::from_bits(self.rate.load(Ordering::Relaxed)),
            weight: self.weight,
        }
    }
}

impl Default for Claim {
    fn default() -> Self {
        Self::new(1.0)
    }
}

/// A value whose waiting streams are served by their deadlines.
#[derive(Debug)]
pub(crate) struct FairSemaphore<T> {
    turns: Mutex<Turns>,
    moved: Condvar,
    /// Start of the time that the turns count in.
    started: Instant,
    value: T,
}

/// A turn at the value, which ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Permit<'a, T> {
    at: &'a FairSemaphore<T>,
    ticket: u64,
}

impl<T> FairSemaphore<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            turns: Mutex::default(),
            moved: Condvar::new(),
            started: Instant::now(),
            value,
        }
    }

    /// The value without a turn.
    pub(crate) fn value(&self) -> &T {
        &self.value
    }

    /// Blocks until it is the turn of `claim`, in parallel to at most `lanes - 1` other streams.
    pub(crate) fn acquire(&self, claim: &Claim, lanes: usize) -> Permit<'_, T> {
        let mut turns = self.turns.lock();
        turns.set_lanes(lanes);
        let ticket = turns.request(claim.id, claim.claimed(), self.now());
        while !turns.is_served(ticket) {
            self.moved.wait(&mut turns);
        }
        Permit { at: self, ticket }
    }

    /// Number of permits and waiting threads.
    #[cfg(test)]
    fn queue_len(&self) -> usize {
        self.turns.lock().len()
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }
}

impl<T> Drop for Permit<'_, T> {
    fn drop(&mut self) {
        let now = self.at.now();
        self.at.turns.lock().end(self.ticket, now);
        self.at.moved.notify_all();
    }
}

impl<T> Deref for Permit<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.at.value
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
    fn equal_streams_are_served_in_the_order_of_arrival() {
        let (order, claim) = (
            Arc::new(FairSemaphore::new(Mutex::new(Vec::new()))),
            Claim::default(),
        );
        let first = order.acquire(&claim, 1);
        let threads: Vec<_> = (0..6)
            .map(|i| {
                let mine = order.clone();
                let thread =
                    thread::spawn(move || mine.acquire(&Claim::default(), 1).lock().push(i));
                wait_until(|| order.queue_len() == i + 2);
                thread
            })
            .collect();
        drop(first);
        for thread in threads {
            thread.join().expect("no panic");
        }
        assert_eq!(*order.value().lock(), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn one_that_comes_back_at_once_waits_behind_the_others() {
        let (seen, claim) = (
            Arc::new(FairSemaphore::new(Mutex::new(Vec::new()))),
            Claim::default(),
        );
        let greedy = seen.acquire(&claim, 1);
        greedy.lock().push("greedy");
        let patient = seen.clone();
        let thread =
            thread::spawn(move || patient.acquire(&Claim::default(), 1).lock().push("patient"));
        wait_until(|| seen.queue_len() == 2);
        drop(greedy);
        seen.acquire(&claim, 1).lock().push("greedy");
        thread.join().expect("no panic");
        assert_eq!(*seen.value().lock(), ["greedy", "patient", "greedy"]);
    }

    #[test]
    fn panic_during_a_turn_does_not_stop_the_queue() {
        let (shared, claim) = (
            Arc::new(FairSemaphore::new(Mutex::new(0))),
            Claim::default(),
        );
        let other = shared.clone();
        let broken = thread::spawn(move || {
            let _turn = other.acquire(&Claim::default(), 1);
            panic!("as intended by this test");
        });
        assert!(broken.join().is_err());
        *shared.acquire(&claim, 1).lock() += 1;
        assert_eq!(*shared.value().lock(), 1);
    }
}
