//! The ledger: what each call, job, day and month cost. It survives a restart.
//!
//! - [`Ledger::reserve`] writes the highest cost of a call to stable storage before it is made;
//!   [`Ledger::settle`] replaces it by the true one. A crash between the two leaves the larger
//!   figure.
//! - Money that is reserved or spent in a day or month never exceeds its limit, nor what a class of
//!   calls uses its ceiling.
//! - A refusal is counted by class and cause.
//! - Readers never wait for the disk; writers wait for each other.
//! - The ledger is bounded. Damage of a record loses that record and resets no budget.

mod on_disk;
mod state;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use watchkeeper_contract::time::Wall;
use watchkeeper_store::{Store, StoreError};

pub use state::{CallOutcome, CallRecord, Entry, Refusals, Report, Ticket, Totals};

use crate::budget::{Economy, Limits, Refusal};
use crate::money::Money;
use crate::usage::Usage;
use state::State;

/// Why a ledger entry was not made.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("the ledger of LLM calls can't be written, so none is made: {0}")]
    Store(#[from] StoreError),
}

/// Least interval between two writes of refusals alone.
const REFUSALS_INTERVAL: Duration = Duration::from_secs(60);

/// The ledger on a store. [`Ledger::reserve`] and [`Ledger::settle`] block for a sync.
#[derive(Debug)]
pub struct Ledger {
    store: Arc<dyn Store>,
    /// Locked for moments only, never over a write.
    state: Mutex<State>,
    /// When counts of refusals were last written by themselves. Locked before `state` and over each
    /// change with its write, so that an earlier figure never overwrites a later one.
    writer: Mutex<Option<Instant>>,
}

impl Ledger {
    /// Reads the ledger from the store in `folder`.
    ///
    /// # Errors
    /// When the store can't be read, or holds a newer version's records.
    pub fn open(store: Arc<dyn Store>, folder: &Path, limits: Limits) -> Result<Self, StoreError> {
        let state = on_disk::restore(store.as_ref(), folder, limits)?;
        let state = Mutex::new(state);
        Ok(Self {
            store,
            state,
            writer: Mutex::default(),
        })
    }

    pub fn limits(&self) -> Limits {
        self.state.lock().limits()
    }

    /// Reserves the highest cost of a call. A ticket that is never settled counts in full.
    ///
    /// # Errors
    /// When the budget does not allow the call, or the store can't be written.
    pub fn reserve(&self, now: Instant, wall: Wall, entry: &Entry) -> Result<Ticket, LedgerError> {
        let mut refusals_written = self.writer.lock();
        let reserved = {
            let mut state = self.state.lock();
            let reserved = state.reserve(now, wall, entry);
            reserved.map(|(ticket, change)| (ticket, on_disk::batch(&state, &change)))
        };
        let (ticket, batch) = match reserved {
            Ok(reserved) => reserved,
            Err(refusal) => {
                self.write_refusals(&mut refusals_written, now);
                return Err(refusal.into());
            }
        };
        if let Err(error) = self.store.commit(batch) {
            self.state.lock().undo(ticket, entry);
            return Err(error.into());
        }
        Ok(ticket)
    }

    /// Writes the counts of refusals, once a minute at most, so that many refusals delay no caller.
    /// Every reservation writes them too.
    fn write_refusals(&self, written: &mut Option<Instant>, now: Instant) {
        let is_recent = |at: Instant| now.saturating_duration_since(at) < REFUSALS_INTERVAL;
        if written.is_some_and(is_recent) {
            return;
        }
        *written = Some(now);
        let batch = on_disk::head_batch(&self.state.lock());
        // The call is refused even if the count of refusals can't be written.
        if let Err(error) = self.store.commit(batch) {
            tracing::debug!(%error, "can't write the count of refused LLM calls");
        }
    }

    /// Settles a call at its true cost, on stable storage on return.
    ///
    /// # Errors
    /// When the store can't be written; then the larger figure stays on disk.
    pub fn settle(
        &self,
        ticket: Ticket,
        outcome: CallOutcome,
        usage: Usage,
        cost: Money,
    ) -> Result<(), StoreError> {
        let _writing = self.writer.lock();
        let batch = {
            let mut state = self.state.lock();
            let change = state.settle(ticket, outcome, usage, cost);
            on_disk::batch(&state, &change)
        };
        self.store.commit(batch)
    }

    /// Returns whether money is to be saved at `now`.
    pub fn economy(&self, now: Instant, wall: Wall) -> Economy {
        self.state.lock().economy(now, wall)
    }

    pub fn report(&self, now: Instant, wall: Wall) -> Report {
        self.state.lock().report(now, wall)
    }
}

#[cfg(test)]
mod tests;
