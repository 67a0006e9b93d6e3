//! What the serving network and the task of its change hand to each other.
//!
//! - The lock is held for moves of a value only, so the serving network never waits.
//! - An agreed network is prepared for several streams by the side that comes second: the stream
//!   that opens the network ([`Link::share`]), or the task ([`Link::offer`]).
//! - At most one golden frame, one agreed network and two signals wait here: a candidate takes over
//!   once, and the network returns from it once.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::golden::GoldenFrame;
use crate::network::Network;

/// A golden frame, or the bytes of one that is too large.
pub(super) type Golden = Result<GoldenFrame, usize>;

/// Signal from the serving network.
pub(super) enum Signal {
    /// The network took over the candidate; holds the former network, which the task drops.
    TookOver(Box<dyn Network>),
    /// The network went back to the former back end for this reason; holds the failed candidate.
    WentBack(String, Box<dyn Network>),
}

#[derive(Default)]
pub(super) struct Link {
    exchange: Mutex<Exchange>,
    moved: Condvar,
}

#[derive(Default)]
struct Exchange {
    wants_golden: bool,
    golden: Option<Golden>,
    agreed: Option<Box<dyn Network>>,
    signals: VecDeque<Signal>,
    /// Whether several streams use the network.
    is_shared: bool,
    is_closed: bool,
}

/// The side of the serving network.
impl Link {
    pub(super) fn has_agreed(&self) -> bool {
        self.exchange.lock().agreed.is_some()
    }

    pub(super) fn take_agreed(&self) -> Option<Box<dyn Network>> {
        self.exchange.lock().agreed.take()
    }

    pub(super) fn wants_golden(&self) -> bool {
        self.exchange.lock().wants_golden
    }

    pub(super) fn put_golden(&self, golden: Golden) {
        self.change(|exchange| {
            exchange.wants_golden = false;
            exchange.golden = Some(golden);
        });
    }

    /// Adds a signal. None is dropped here, because it holds a network.
    pub(super) fn signal(&self, signal: Signal) {
        self.change(|exchange| exchange.signals.push_back(signal));
    }

    /// Has the task prepare candidates for several streams. Takes the agreed network, if one waits:
    /// the caller prepares and offers it.
    pub(super) fn share(&self) -> Option<Box<dyn Network>> {
        let mut exchange = self.exchange.lock();
        exchange.is_shared = true;
        exchange.agreed.take()
    }

    /// Whether several streams use the network.
    pub(super) fn is_shared(&self) -> bool {
        self.exchange.lock().is_shared
    }

    /// Ends the task, because the network is dropped.
    pub(super) fn close(&self) {
        self.change(|exchange| exchange.is_closed = true);
    }

    fn change(&self, change: impl FnOnce(&mut Exchange)) {
        change(&mut self.exchange.lock());
        self.moved.notify_all();
    }
}

/// The side of the task.
impl Link {
    pub(super) fn is_closed(&self) -> bool {
        self.exchange.lock().is_closed
    }

    /// Waits; returns false at once when the network is dropped.
    pub(super) fn sleep(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        let mut exchange = self.exchange.lock();
        let is_open = |exchange: &mut Exchange| !exchange.is_closed;
        self.moved
            .wait_while_until(&mut exchange, is_open, until)
            .timed_out()
    }

    /// Waits for the next golden frame; `None` when the network is dropped.
    pub(super) fn next_golden(&self) -> Option<Golden> {
        let mut exchange = self.exchange.lock();
        exchange.wants_golden = true;
        let waits = |exchange: &mut Exchange| exchange.golden.is_none() && !exchange.is_closed;
        self.moved.wait_while(&mut exchange, waits);
        exchange.golden.take()
    }

    /// Lets the serving network take over `network` before its next frame. Returns it where it is
    /// prepared for one stream and several use the network.
    pub(super) fn offer(
        &self,
        network: Box<dyn Network>,
        is_prepared: bool,
    ) -> Option<Box<dyn Network>> {
        let mut exchange = self.exchange.lock();
        if exchange.is_shared && !is_prepared {
            return Some(network);
        }
        exchange.agreed = Some(network);
        None
    }

    /// Waits for the next signal; `None` when the network is dropped.
    pub(super) fn next_signal(&self) -> Option<Signal> {
        let mut exchange = self.exchange.lock();
        let waits = |exchange: &mut Exchange| exchange.signals.is_empty() && !exchange.is_closed;
        self.moved.wait_while(&mut exchange, waits);
        exchange.signals.pop_front()
    }
}
