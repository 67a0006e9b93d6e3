//! What was spent: for each call, job, day and month; it survives a restart.
//!
//! Invariants:
//! - before a call is made, the most it can cost is booked and on stable storage ([`Ledger::reserve`]); what it did cost takes its place before anybody
//!   sees the answer ([`Ledger::settle`]). A crash between the two leaves the larger figure;
//! - money that was booked in a day or month never exceeds its limit;
//! - what is remembered is bounded; damage of a record loses that record and resets no budget.

mod on_disk;
mod state;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use watchkeeper_contract::time::Wall;
use watchkeeper_store::{Store, StoreError};

pub use state::{CallRecord, Entry, Outcome, Report, Ticket, Totals};

use crate::budget::{Economy, Limits, Refusal};
use crate::money::Money;
use crate::usage::Usage;
use state::State;

/// Why a call is not booked.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The budget does not allow it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// It can't be written down.
    #[error("the ledger of model calls can't be written, so none is made: {0}")]
    Store(#[from] StoreError),
}

/// The ledger on a store. Calls block for a sync of the store.
#[derive(Debug)]
pub struct Ledger {
    store: Arc<dyn Store>,
    state: Mutex<State>,
}

impl Ledger {
    /// Reads the ledger back from the store in `folder`.
    ///
    /// # Errors
    /// When the store can't be read or holds what a newer version wrote.
    pub fn open(store: Arc<dyn Store>, folder: &Path, limits: Limits) -> Result<Self, StoreError> {
        let state = on_disk::restore(store.as_ref(), folder, limits)?;
        let state = Mutex::new(state);
        Ok(Self { store, state })
    }

    /// What may be spent.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.state.lock().limits()
    }

    /// Books a call that is about to be made. The ticket is to be settled; one that never is, is counted in full.
    ///
    /// # Errors
    /// When the budget does not allow it, or it can't be written.
    pub fn reserve(&self, now: Instant, wall: Wall, entry: &Entry) -> Result<Ticket, LedgerError> {
        let mut state = self.state.lock();
        let (ticket, change) = state.reserve(now, wall, entry)?;
        // Written under the lock, so that a later figure is never overwritten by an earlier one.
        if let Err(error) = self.store.commit(on_disk::batch(&state, &change)) {
            state.settle(ticket, Outcome::NotMade, Usage::default(), Money::ZERO);
            return Err(error.into());
        }
        Ok(ticket)
    }

    /// Books what a call did cost. It is on stable storage on return.
    ///
    /// # Errors
    /// When it can't be written; then the larger figure stands on the disk.
    pub fn settle(
        &self,
        ticket: Ticket,
        outcome: Outcome,
        usage: Usage,
        cost: Money,
    ) -> Result<(), LedgerError> {
        let mut state = self.state.lock();
        let change = state.settle(ticket, outcome, usage, cost);
        self.store.commit(on_disk::batch(&state, &change))?;
        Ok(())
    }

    /// Whether money is to be saved at `now`.
    #[must_use]
    pub fn economy(&self, now: Instant, wall: Wall) -> Economy {
        self.state.lock().economy(now, wall)
    }

    /// What was spent, for people and telemetry.
    #[must_use]
    pub fn report(&self, now: Instant, wall: Wall) -> Report {
        self.state.lock().report(now, wall)
    }
}

#[cfg(test)]
mod tests;
