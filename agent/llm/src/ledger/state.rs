//! State of the ledger: pure, without a store and without a clock.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use watchkeeper_contract::time::Wall;

use crate::attempt_error::AttemptErrorKind;
use crate::budget::{BudgetClock, Economy, Limits, Moved, Period, Refusal};
use crate::money::Money;
use crate::usage::Usage;

/// Maximum calls that are kept one by one.
pub(super) const MAX_CALLS: usize = 500;
/// Maximum jobs that are kept.
pub(super) const MAX_JOBS: usize = 500;
/// Maximum days that are kept.
pub(super) const MAX_DAYS: usize = 400;
/// Maximum months that are kept.
pub(super) const MAX_MONTHS: usize = 60;
/// Maximum bytes of a job's name, which is a key of the store.
const MAX_JOB: usize = 120;

const MINUTE_MS: i64 = 60_000;
const DAY_MS: i64 = 86_400_000;

/// Sums over calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    pub calls: u64,
    pub usage: Usage,
    /// Money; calls that are not settled count at their highest cost.
    pub cost: Money,
}

/// A call to reserve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub job: String,
    pub model: String,
    /// Estimated tokens of the prompt, and maximum tokens of the output.
    pub tokens: u64,
    /// Highest cost of the call.
    pub worst: Money,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallOutcome {
    /// Unknown, perhaps still: counted in full.
    Open,
    Answered,
    Failed(AttemptErrorKind),
    NotMade,
}

/// One call in the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallRecord {
    /// Milliseconds since 1970, by the clock of the budget.
    pub at_ms: i64,
    pub job: String,
    pub model: String,
    pub outcome: CallOutcome,
    pub usage: Usage,
    pub cost: Money,
}

/// A call that is reserved and not settled.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a call that is not settled counts in full"]
pub struct Ticket {
    seq: u64,
    job: String,
    worst: Money,
    day: u64,
    month: u64,
    /// Epochs of the day and month of the reservation; dates may be corrected.
    epochs: (u64, u64),
}

/// Sums of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct JobTotals {
    /// Sequence number of its newest call.
    pub(super) last: u64,
    pub(super) totals: Totals,
}

/// What counts against a limit now. Kept apart from the sums of a date: a date may be corrected,
/// and what was spent must not vanish.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CurrentPeriod {
    pub(super) date: u64,
    pub(super) spent: Money,
    #[serde(skip)]
    pub(super) epoch: u64,
}

impl CurrentPeriod {
    /// Changes to `date`; only time that passed starts a new period.
    fn set_date(&mut self, date: u64, moved: Moved) {
        if date != self.date {
            self.date = date;
            if moved == Moved::Passed {
                self.spent = Money::ZERO;
                self.epoch += 1;
            }
        }
    }
}

/// The head record, written beside the sums.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    pub(super) clock: BudgetClock,
    /// Attempts by minute since 1970.
    pub(super) minutes: BTreeMap<i64, u32>,
    pub(super) day: CurrentPeriod,
    pub(super) month: CurrentPeriod,
    pub(super) next: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct State {
    pub(super) limits: Limits,
    pub(super) head: Head,
    pub(super) calls: BTreeMap<u64, CallRecord>,
    pub(super) jobs: BTreeMap<String, JobTotals>,
    pub(super) days: BTreeMap<u64, Totals>,
    pub(super) months: BTreeMap<u64, Totals>,
}

/// Records that a change touched, and those to delete.
#[derive(Debug, Default)]
pub(super) struct Change {
    pub(super) call: u64,
    pub(super) job: String,
    pub(super) day: u64,
    pub(super) month: u64,
    pub(super) evicted_calls: Vec<u64>,
    pub(super) evicted_jobs: Vec<String>,
    pub(super) evicted_days: Vec<u64>,
    pub(super) evicted_months: Vec<u64>,
}

/// What was spent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub calls_in_hour: u32,
    /// Spent of the day's budget.
    pub day: Money,
    /// Spent of the month's budget.
    pub month: Money,
    pub limits: Limits,
    /// Sums by days since 1970.
    pub days: BTreeMap<u64, Totals>,
    /// Sums by months since 1970.
    pub months: BTreeMap<u64, Totals>,
    /// Sums by job.
    pub jobs: BTreeMap<String, Totals>,
    /// The newest calls, oldest first.
    pub calls: Vec<CallRecord>,
}

impl State {
    pub(super) fn limits(&self) -> Limits {
        self.limits
    }

    fn advance(&mut self, now: Instant, wall: Wall) {
        let before = self.head.clock.ms();
        let moved = self.head.clock.advance(now, wall);
        let ms = self.head.clock.ms();
        if moved == Moved::Corrected {
            // The past hour keeps its distance to the corrected clock.
            let shift = ms.div_euclid(MINUTE_MS) - before.div_euclid(MINUTE_MS);
            let minutes = std::mem::take(&mut self.head.minutes);
            self.head.minutes = minutes.into_iter().map(|(m, n)| (m + shift, n)).collect();
        }
        let from = ms.div_euclid(MINUTE_MS) - 60;
        self.head.minutes.retain(|minute, _| *minute >= from);
        self.head.day.set_date(day(ms), moved);
        self.head.month.set_date(month(ms), moved);
    }

    pub(super) fn economy(&mut self, now: Instant, wall: Wall) -> Economy {
        self.advance(now, wall);
        let saves = |spent, limit| spent >= self.limits.soft(limit);
        let (day, month) = (self.head.day.spent, self.head.month.spent);
        if saves(day, self.limits.day) || saves(month, self.limits.month) {
            Economy::Reduced
        } else {
            Economy::Full
        }
    }

    fn check(&self, entry: &Entry) -> Result<(), Refusal> {
        let limit = self.limits.calls_per_hour;
        let made: u32 = self.head.minutes.values().sum();
        if made >= limit {
            let oldest = self.head.minutes.keys().next().copied().unwrap_or_default();
            let free = (oldest + 61) * MINUTE_MS - self.head.clock.ms();
            let free_in = Duration::from_millis(free.max(0).unsigned_abs());
            return Err(Refusal::Calls { limit, free_in });
        }
        let (needed, limit) = (entry.tokens, self.limits.tokens_per_call);
        if needed > limit {
            return Err(Refusal::Tokens { needed, limit });
        }
        for (period, spent, limit) in [
            (Period::Day, self.head.day.spent, self.limits.day),
            (Period::Month, self.head.month.spent, self.limits.month),
        ] {
            let needed = entry.worst;
            // A free call always fits.
            if needed > Money::ZERO && spent + needed > limit {
                return Err(Refusal::Money {
                    period,
                    spent,
                    limit,
                    needed,
                });
            }
        }
        Ok(())
    }

    pub(super) fn reserve(
        &mut self,
        now: Instant,
        wall: Wall,
        entry: &Entry,
    ) -> Result<(Ticket, Change), Refusal> {
        self.advance(now, wall);
        self.check(entry)?;
        let ms = self.head.clock.ms();
        let seq = self.head.next;
        self.head.next += 1;
        *self
            .head
            .minutes
            .entry(ms.div_euclid(MINUTE_MS))
            .or_default() += 1;
        let ticket = Ticket {
            seq,
            job: cut(&entry.job),
            worst: entry.worst,
            day: day(ms),
            month: month(ms),
            epochs: (self.head.day.epoch, self.head.month.epoch),
        };
        let record = CallRecord {
            at_ms: ms,
            job: ticket.job.clone(),
            model: entry.model.chars().take(100).collect(),
            outcome: CallOutcome::Open,
            usage: Usage::default(),
            cost: entry.worst,
        };
        self.calls.insert(seq, record);
        let job = self.jobs.entry(ticket.job.clone()).or_default();
        job.last = seq;
        let days = self.days.entry(ticket.day).or_default();
        let months = self.months.entry(ticket.month).or_default();
        for totals in [&mut job.totals, days, months] {
            totals.calls += 1;
            totals.cost += entry.worst;
        }
        self.head.day.spent += entry.worst;
        self.head.month.spent += entry.worst;
        let mut change = changed(&ticket);
        self.evict(&mut change);
        Ok((ticket, change))
    }

    pub(super) fn settle(
        &mut self,
        ticket: Ticket,
        outcome: CallOutcome,
        usage: Usage,
        cost: Money,
    ) -> Change {
        let corrected = |spent: Money| spent.less(ticket.worst) + cost;
        if self.head.day.epoch == ticket.epochs.0 {
            self.head.day.spent = corrected(self.head.day.spent);
        }
        if self.head.month.epoch == ticket.epochs.1 {
            self.head.month.spent = corrected(self.head.month.spent);
        }
        let job = self.jobs.get_mut(&ticket.job).map(|job| &mut job.totals);
        let days = self.days.get_mut(&ticket.day);
        let months = self.months.get_mut(&ticket.month);
        for totals in [job, days, months].into_iter().flatten() {
            totals.cost = corrected(totals.cost);
            totals.usage = totals.usage.plus(&usage);
        }
        if let Some(record) = self.calls.get_mut(&ticket.seq) {
            record.outcome = outcome;
            record.usage = usage;
            record.cost = cost;
        }
        changed(&ticket)
    }

    /// Evicts the oldest records above the bounds.
    fn evict(&mut self, change: &mut Change) {
        while self.calls.len() > MAX_CALLS {
            change
                .evicted_calls
                .extend(self.calls.pop_first().map(|(seq, _)| seq));
        }
        while self.days.len() > MAX_DAYS {
            change
                .evicted_days
                .extend(self.days.pop_first().map(|(day, _)| day));
        }
        while self.months.len() > MAX_MONTHS {
            change
                .evicted_months
                .extend(self.months.pop_first().map(|(month, _)| month));
        }
        while self.jobs.len() > MAX_JOBS {
            let oldest = self.jobs.iter().min_by_key(|(_, job)| job.last);
            let Some(name) = oldest.map(|(name, _)| name.clone()) else {
                break;
            };
            self.jobs.remove(&name);
            change.evicted_jobs.push(name);
        }
    }

    pub(super) fn report(&mut self, now: Instant, wall: Wall) -> Report {
        self.advance(now, wall);
        let jobs = self.jobs.iter();
        Report {
            calls_in_hour: self.head.minutes.values().sum(),
            day: self.head.day.spent,
            month: self.head.month.spent,
            limits: self.limits,
            days: self.days.clone(),
            months: self.months.clone(),
            jobs: jobs.map(|(name, job)| (name.clone(), job.totals)).collect(),
            calls: self.calls.values().cloned().collect(),
        }
    }
}

fn changed(ticket: &Ticket) -> Change {
    Change {
        call: ticket.seq,
        job: ticket.job.clone(),
        day: ticket.day,
        month: ticket.month,
        ..Change::default()
    }
}

fn cut(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if out.len() + c.len_utf8() > MAX_JOB {
            break;
        }
        out.push(c);
    }
    if out.is_empty() {
        "(unnamed)".to_owned()
    } else {
        out
    }
}

/// Returns days since 1970.
pub(super) fn day(ms: i64) -> u64 {
    ms.max(0).unsigned_abs() / DAY_MS.unsigned_abs()
}

/// Returns months since January 1970, in UTC.
pub(super) fn month(ms: i64) -> u64 {
    let Ok(time) = jiff::Timestamp::from_millisecond(ms.max(0)) else {
        return u64::MAX;
    };
    let date = jiff::tz::Offset::UTC.to_datetime(time).date();
    let months = (i64::from(date.year()) - 1970) * 12 + i64::from(date.month()) - 1;
    months.max(0).unsigned_abs()
}
