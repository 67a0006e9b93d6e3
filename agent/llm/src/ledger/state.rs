//! State of the ledger: pure, without a store and without a clock.
//!
//! Owns the sums of calls by day, month, job and class, and what is kept of single calls.
//! - A reserved call counts in full until it is settled, in the day and month of its reservation.
//! - Every list is bounded; the oldest records go first.
//! - Not here: the limits themselves (`budget`), and how a change is written (`on_disk`).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use watchkeeper_contract::time::Wall;

use crate::attempt_error::AttemptErrorKind;
use crate::budget::{
    BudgetClock, CallClass, ClassCalls, Economy, HourlyCalls, Limits, Moved, Period, Refusal,
    RefusalCause, Spending, rule_money,
};
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
/// Maximum bytes of the name of a job or rule. A job's name is a key of the store.
const MAX_NAME: usize = 120;

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
    pub class: CallClass,
    /// Pipeline and rule of a second opinion, such as `gate/door`.
    pub rule: Option<String>,
    pub provider: String,
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
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallRecord {
    /// Milliseconds since 1970, by the clock of the budget.
    pub at_ms: i64,
    pub job: String,
    /// Provider of the model; empty in a ledger of an older version.
    #[serde(default)]
    pub provider: String,
    pub model: String,
    pub outcome: CallOutcome,
    pub usage: Usage,
    pub cost: Money,
}

/// A call that is reserved and not settled.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a call that is not settled counts in full"]
pub struct Ticket {
    pub(super) seq: u64,
    job: String,
    class: CallClass,
    /// Account of its rule in the day.
    rule: Option<String>,
    worst: Money,
    day: u64,
    month: u64,
    /// Epochs of the day and month of the reservation; dates may be corrected.
    epochs: (u64, u64),
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct JobTotals {
    /// Sequence number of its newest call.
    pub(super) last: u64,
    pub(super) totals: Totals,
}

/// Refusals by class and cause.
pub type Refusals = BTreeMap<CallClass, BTreeMap<RefusalCause, u64>>;

/// The head record, written with the sums.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    pub(super) clock: BudgetClock,
    pub(super) minutes: HourlyCalls,
    pub(super) day: Spending,
    pub(super) month: Spending,
    pub(super) next: u64,
    /// Of the current day.
    #[serde(default)]
    pub(super) refused: Refusals,
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub calls_in_hour: u32,
    /// Calls of the hour by class and rule, the most first.
    pub hour: Vec<ClassCalls>,
    /// Spent of the day's budget.
    pub day: Money,
    /// Spending of each class from the day's budget.
    pub day_by_class: BTreeMap<CallClass, Money>,
    /// Spending of second opinions and chains of each rule from the day's budget.
    pub day_by_rule: BTreeMap<String, Money>,
    /// Ceiling of second opinions and chains of one rule.
    pub rule_day: Money,
    pub refused: Refusals,
    /// Why a user's call of the lowest price would be refused now.
    pub refusal: Option<Refusal>,
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

impl Report {
    /// Returns the number of refusals of the day.
    pub fn refused_today(&self) -> u64 {
        self.refused.values().flat_map(BTreeMap::values).sum()
    }
}

impl State {
    pub(super) fn limits(&self) -> Limits {
        self.limits
    }

    fn advance(&mut self, now: Instant, wall: Wall) {
        let before = self.head.clock.ms();
        let moved = self.head.clock.advance(now, wall);
        let ms = self.head.clock.ms();
        let minutes = &mut self.head.minutes;
        minutes.advance(before, ms, moved == Moved::Corrected);
        if self.head.day.set_date(day(ms), moved) {
            self.head.refused.clear();
        }
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

    fn check(&self, entry: &Entry, rule: Option<&str>) -> Result<(), Refusal> {
        let (head, limits, class) = (&self.head, &self.limits, entry.class);
        let ms = head.clock.ms();
        let (needed, limit) = (entry.tokens, limits.tokens_per_call);
        if needed > limit {
            return Err(Refusal::Tokens { needed, limit });
        }
        let money = [
            (Period::Day, &head.day, limits.day),
            (Period::Month, &head.month, limits.month),
        ];
        let money = money.into_iter().map(|(period, spending, limit)| {
            spending.check(period, class, entry.worst, limit, rest_of(period, ms))
        });
        let hour = head.minutes.check(ms, class, rule, limits.calls_per_hour);
        let of_rule = rule.map_or(Ok(()), |rule| {
            let rest = rest_of(Period::Day, ms);
            head.day
                .check_rule(class, rule, entry.worst, limits.day, rest)
        });
        // The refusal that holds for longest: after any shorter wait it would come next.
        let refused = [hour, of_rule]
            .into_iter()
            .chain(money)
            .filter_map(Result::err);
        refused.max_by_key(Refusal::wait).map_or(Ok(()), Err)
    }

    pub(super) fn reserve(
        &mut self,
        now: Instant,
        wall: Wall,
        entry: &Entry,
    ) -> Result<(Ticket, Change), Refusal> {
        self.advance(now, wall);
        let rule = entry.rule.as_deref().map(cut);
        match self.check(entry, rule.as_deref()) {
            Ok(()) => Ok(self.record_reservation(entry, rule.as_deref())),
            Err(refusal) => {
                let causes = self.head.refused.entry(entry.class).or_default();
                *causes.entry(refusal.cause()).or_default() += 1;
                Err(refusal)
            }
        }
    }

    fn record_reservation(&mut self, entry: &Entry, rule: Option<&str>) -> (Ticket, Change) {
        let (ms, class) = (self.head.clock.ms(), entry.class);
        let seq = self.head.next;
        self.head.next += 1;
        self.head.minutes.add(ms, class, rule);
        let ticket = Ticket {
            seq,
            job: cut(&entry.job),
            class,
            rule: rule.map(|rule| self.head.day.account(rule).to_owned()),
            worst: entry.worst,
            day: day(ms),
            month: month(ms),
            epochs: (self.head.day.epoch, self.head.month.epoch),
        };
        let record = CallRecord {
            at_ms: ms,
            job: ticket.job.clone(),
            provider: entry.provider.clone(),
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
        self.head.day.add(class, entry.worst);
        if let Some(rule) = &ticket.rule {
            self.head.day.add_to_rule(rule, entry.worst);
        }
        self.head.month.add(class, entry.worst);
        let mut change = changed(&ticket);
        self.evict(&mut change);
        (ticket, change)
    }

    /// Takes back a reservation that was not stored, as if no call had been asked for.
    pub(super) fn undo(&mut self, ticket: Ticket, entry: &Entry) {
        let rule = entry.rule.as_deref().map(cut);
        self.head.minutes.remove(ticket.class, rule.as_deref());
        let job = self.jobs.get_mut(&ticket.job).map(|job| &mut job.totals);
        let days = self.days.get_mut(&ticket.day);
        let months = self.months.get_mut(&ticket.month);
        for totals in [job, days, months].into_iter().flatten() {
            totals.calls = totals.calls.saturating_sub(1);
        }
        self.calls.remove(&ticket.seq);
        self.settle(ticket, CallOutcome::Open, Usage::default(), Money::ZERO);
    }

    pub(super) fn settle(
        &mut self,
        ticket: Ticket,
        outcome: CallOutcome,
        usage: Usage,
        cost: Money,
    ) -> Change {
        if let Some(rule) = ticket
            .rule
            .as_ref()
            .filter(|_| self.head.day.epoch == ticket.epochs.0)
        {
            self.head.day.correct_rule(rule, ticket.worst, cost);
        }
        let corrected = |spent: Money| spent.less(ticket.worst) + cost;
        let (day, month) = (&mut self.head.day, &mut self.head.month);
        for (spending, epoch) in [(day, ticket.epochs.0), (month, ticket.epochs.1)] {
            if spending.epoch == epoch {
                spending.correct(ticket.class, ticket.worst, cost);
            }
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
        let cheapest = Entry {
            job: String::new(),
            class: CallClass::Person,
            rule: None,
            provider: String::new(),
            model: String::new(),
            tokens: 0,
            worst: Money(1),
        };
        let jobs = self.jobs.iter();
        Report {
            calls_in_hour: self.head.minutes.total(),
            hour: self.head.minutes.by_class(),
            day: self.head.day.spent,
            day_by_class: self.head.day.by_class().clone(),
            day_by_rule: self.head.day.by_rule().clone(),
            rule_day: rule_money(self.limits.day),
            refused: self.head.refused.clone(),
            refusal: self.check(&cheapest, None).err(),
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
        if out.len() + c.len_utf8() > MAX_NAME {
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

/// Returns the time from `ms` to the end of its day or month, in UTC.
fn rest_of(period: Period, ms: i64) -> Duration {
    // A month has 31 days at most.
    let starts = (1..=31).map(|days| (ms.div_euclid(DAY_MS) + days) * DAY_MS);
    let mut starts =
        starts.skip_while(|start| period == Period::Month && month(*start) == month(ms));
    let rest = starts.next().map_or(DAY_MS, |start| start - ms);
    Duration::from_millis(rest.max(0).unsigned_abs())
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
