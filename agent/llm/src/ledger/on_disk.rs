//! Records of the ledger on disk.
//!
//! - Keyspaces: `llm_head` (one record: clock, attempts of the hour, what counts against the
//!   limits, refusals of the day), `llm_calls`, `llm_days`, `llm_months` (keys are numbers) and
//!   `llm_jobs` (key: the job's name). A value is one version byte and JSON.
//! - An unreadable record is skipped. Without the head, the sums of the newest day and month count
//!   against the limits, so damage gives no money back.
//! - A newer version's record is refused.

use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use watchkeeper_store::{Batch, Keyspace, NewerFormat, Store, StoreError, log_key, log_seq, pages};

use super::state::{CallRecord, Change, Head, JobTotals, State, Totals};
use crate::budget::{BudgetClock, Limits, Spending};

const HEAD: Keyspace = Keyspace::new("llm_head");
const CALLS: Keyspace = Keyspace::new("llm_calls");
const JOBS: Keyspace = Keyspace::new("llm_jobs");
const DAYS: Keyspace = Keyspace::new("llm_days");
const MONTHS: Keyspace = Keyspace::new("llm_months");
const HEAD_KEY: &[u8] = b"head";
const VERSION: u8 = 1;
const PAGE: usize = 256;

fn encode(value: &impl Serialize) -> Vec<u8> {
    let mut out = vec![VERSION];
    // Plain data with string keys: serde_json can't fail on it.
    out.extend(serde_json::to_vec(value).unwrap_or_default());
    out
}

/// Returns the batch that writes the head of `state`.
pub(super) fn head_batch(state: &State) -> Batch {
    Batch::new().put(HEAD, HEAD_KEY, &encode(&state.head))
}

/// Returns the batch that writes `change` of `state`.
pub(super) fn batch(state: &State, change: &Change) -> Batch {
    let mut batch = head_batch(state);
    if let Some(call) = state.calls.get(&change.call) {
        batch = batch.put(CALLS, &log_key(change.call), &encode(call));
    }
    if let Some(job) = state.jobs.get(&change.job) {
        batch = batch.put(JOBS, change.job.as_bytes(), &encode(job));
    }
    if let Some(day) = state.days.get(&change.day) {
        batch = batch.put(DAYS, &log_key(change.day), &encode(day));
    }
    if let Some(month) = state.months.get(&change.month) {
        batch = batch.put(MONTHS, &log_key(change.month), &encode(month));
    }
    for seq in &change.evicted_calls {
        batch = batch.delete(CALLS, &log_key(*seq));
    }
    for job in &change.evicted_jobs {
        batch = batch.delete(JOBS, job.as_bytes());
    }
    for day in &change.evicted_days {
        batch = batch.delete(DAYS, &log_key(*day));
    }
    for month in &change.evicted_months {
        batch = batch.delete(MONTHS, &log_key(*month));
    }
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
    each(store, folder, CALLS, |key, call: CallRecord| {
        state.calls.extend(number(key).map(|seq| (seq, call)));
    })?;
    each(store, folder, JOBS, |key, job: JobTotals| {
        state.jobs.extend(text(key).map(|name| (name, job)));
    })?;
    each(store, folder, DAYS, |key, totals: Totals| {
        state.days.extend(number(key).map(|day| (day, totals)));
    })?;
    each(store, folder, MONTHS, |key, totals: Totals| {
        state
            .months
            .extend(number(key).map(|month| (month, totals)));
    })?;
    let mut head = None;
    each(store, folder, HEAD, |_, found: Head| head = Some(found))?;
    state.head = head.unwrap_or_else(|| head_of(&state));
    // A number is never used twice, even after damage.
    let last = state.calls.last_key_value().map_or(0, |(seq, _)| seq + 1);
    state.head.next = state.head.next.max(last);
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
    keyspace: Keyspace,
    mut take: impl FnMut(&[u8], T),
) -> Result<(), StoreError> {
    for page in pages(store, keyspace, PAGE) {
        let page = page?;
        for entry in page.entries {
            if let Some(found) = entry.value.first().filter(|v| **v > VERSION) {
                let key = String::from_utf8_lossy(&entry.key).into_owned();
                let what = format!("record {key:?} of {}", keyspace.name());
                return Err(NewerFormat::new(folder, what, found, VERSION).into());
            }
            let json = entry.value.strip_prefix(&[VERSION]);
            match json.map(serde_json::from_slice) {
                Some(Ok(value)) => take(&entry.key, value),
                Some(Err(_)) | None => {
                    let keyspace = keyspace.name();
                    tracing::warn!(keyspace, key = ?entry.key, "a record of the LLM ledger can't be read and is skipped");
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;

    pub(in crate::ledger) fn damage_head(store: &dyn Store) {
        let batch = Batch::new().put(HEAD, HEAD_KEY, &[VERSION, b'{']);
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
        let batch = Batch::new().put(HEAD, HEAD_KEY, &encode(&head));
        store.commit(batch).expect("commit");
    }

    /// Writes the head of a newer version.
    pub(in crate::ledger) fn newer_head(store: &dyn Store) {
        let batch = Batch::new().put(HEAD, HEAD_KEY, &[VERSION + 1, b'{']);
        store.commit(batch).expect("commit");
    }
}
