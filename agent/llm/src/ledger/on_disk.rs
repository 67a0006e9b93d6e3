//! Records of the ledger on disk.
//!
//! - Keyspaces: `llm_head`, one record with clock, attempts of the hour, what counts against the
//!   limits, and refusals of the day. `llm_calls`, `llm_days`, `llm_months` have numbers as keys,
//!   `llm_jobs` the job's name. A value is one version byte and JSON.
//! - An unreadable record is skipped. Without the head, the sums of the newest day and month count
//!   against the limits, so damage gives no money back.
//! - A newer version's record is refused.

use std::path::Path;

use serde::de::DeserializeOwned;
use watchkeeper_store::{Batch, JsonRecords, Keyspace, Store, StoreError, log_key, log_seq};

use super::state::{CallRecord, Change, Head, JobTotals, State, Totals};
use crate::budget::{BudgetClock, Limits, Spending};

const HEAD: JsonRecords = records("llm_head");
const CALLS: JsonRecords = records("llm_calls");
const JOBS: JsonRecords = records("llm_jobs");
const DAYS: JsonRecords = records("llm_days");
const MONTHS: JsonRecords = records("llm_months");
const HEAD_KEY: &[u8] = b"head";

const fn records(keyspace: &'static str) -> JsonRecords {
    JsonRecords::new(Keyspace::new(keyspace), 1, keyspace)
}

/// Returns the batch that writes the head of `state`.
pub(super) fn head_batch(state: &State) -> Batch {
    Batch::from_iter([HEAD.put(HEAD_KEY, &state.head)])
}

/// Returns the batch that writes `change` of `state`.
pub(super) fn batch(state: &State, change: &Change) -> Batch {
    let mut batch = head_batch(state);
    if let Some(call) = state.calls.get(&change.call) {
        batch.push(CALLS.put(log_key(change.call), call));
    }
    if let Some(job) = state.jobs.get(&change.job) {
        batch.push(JOBS.put(change.job.as_str(), job));
    }
    if let Some(day) = state.days.get(&change.day) {
        batch.push(DAYS.put(log_key(change.day), day));
    }
    if let Some(month) = state.months.get(&change.month) {
        batch.push(MONTHS.put(log_key(change.month), month));
    }
    let evict = |records: JsonRecords| move |number: &u64| records.delete(log_key(*number));
    batch.extend(change.evicted_calls.iter().map(evict(CALLS)));
    batch.extend(
        change
            .evicted_jobs
            .iter()
            .map(|job| JOBS.delete(job.as_str())),
    );
    batch.extend(change.evicted_days.iter().map(evict(DAYS)));
    batch.extend(change.evicted_months.iter().map(evict(MONTHS)));
    batch
}

/// Reads the ledger from the store in `folder`; writes nothing.
pub(super) fn restore(
    store: &dyn Store,
    folder: &Path,
    limits: Limits,
) -> Result<State, StoreError> {
    let mut state = State {
        limits,
        ..State::default()
    };
    let number = |key: &[u8]| log_seq(key);
    let text = |key: &[u8]| String::from_utf8(key.to_vec()).ok();
    let mut next = 0;
    each(store, folder, CALLS, |key, call: Option<CallRecord>| {
        next = number(key).map_or(next, |seq| next.max(seq.saturating_add(1)));
        state.calls.extend(number(key).zip(call));
    })?;
    each(store, folder, JOBS, |key, job: Option<JobTotals>| {
        state.jobs.extend(text(key).zip(job));
    })?;
    each(store, folder, DAYS, |key, totals: Option<Totals>| {
        state.days.extend(number(key).zip(totals));
    })?;
    each(store, folder, MONTHS, |key, totals: Option<Totals>| {
        state.months.extend(number(key).zip(totals));
    })?;
    let mut head = None;
    each(store, folder, HEAD, |_, found: Option<Head>| head = found)?;
    state.head = head.unwrap_or_else(|| head_of(&state));
    // A number is never used twice, not even that of an unreadable record.
    state.head.next = state.head.next.max(next);
    Ok(state)
}

/// Rebuilds the head from the other records; of an empty ledger, a new head.
fn head_of(state: &State) -> Head {
    let newest = state.calls.values().map(|call| call.at_ms).max();
    let period = |date: Option<(&u64, &Totals)>| {
        date.map_or_else(Spending::default, |(date, totals)| {
            Spending::new(*date, totals.cost)
        })
    };
    if newest.is_some() {
        tracing::warn!(
            "the head record of the LLM ledger is missing; what was spent is taken from its sums"
        );
    }
    Head {
        clock: BudgetClock::from_ms(newest.unwrap_or(0), newest.is_some()),
        day: period(state.days.last_key_value()),
        month: period(state.months.last_key_value()),
        ..Head::default()
    }
}

fn each<T: DeserializeOwned>(
    store: &dyn Store,
    folder: &Path,
    records: JsonRecords,
    mut take: impl FnMut(&[u8], Option<T>),
) -> Result<(), StoreError> {
    records.for_each(store, folder, |key, value| {
        if value.is_none() {
            tracing::warn!(
                ?records,
                ?key,
                "a record of the LLM ledger can't be read and is skipped"
            );
        }
        take(&key, value);
    })
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;

    pub(in crate::ledger) fn damage_head(store: &dyn Store) {
        let batch = Batch::new().put(Keyspace::new("llm_head"), HEAD_KEY, b"\x01{");
        store.commit(batch).expect("commit");
    }

    /// Writes the head of a version without classes: two calls at `at_ms`, for nine cents.
    pub(in crate::ledger) fn older_head(store: &dyn Store, at_ms: i64) {
        let (minute, cents) = (at_ms / 60_000, 90_000_000);
        let head = serde_json::json!({
            "clock": {"at_ms": at_ms, "is_dated": true},
            "minutes": {minute.to_string(): 2},
            "day": {"date": super::super::state::day(at_ms), "spent": cents},
            "month": {"date": super::super::state::month(at_ms), "spent": cents},
            "next": 2,
        });
        let batch = Batch::from_iter([HEAD.put(HEAD_KEY, &head)]);
        store.commit(batch).expect("commit");
    }

    /// Makes the record of call `seq` unreadable.
    pub(in crate::ledger) fn damage_call(store: &dyn Store, seq: u64) {
        let batch = Batch::new().put(Keyspace::new("llm_calls"), &log_key(seq), b"\x01{");
        store.commit(batch).expect("commit");
    }

    /// Writes the head of a newer version.
    pub(in crate::ledger) fn newer_head(store: &dyn Store) {
        let batch = Batch::new().put(Keyspace::new("llm_head"), HEAD_KEY, b"\x02{");
        store.commit(batch).expect("commit");
    }
}
