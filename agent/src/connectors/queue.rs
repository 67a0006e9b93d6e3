//! Decides which effect is executed when. One lane per step. Sans-IO.
//!
//! ```text
//!  handle(Listed) ─► lane of its step ─► Execute ─► handle(Finished) ─► Report ─► handle(Reported)
//!                                           ▲             │ transient               (next of lane)
//!                                           └── back-off ◄┘
//! ```
//!
//! - Effects of one step run one after the other, by number. A failing step delays no other step.
//! - At most [`Limits::active`] effects run at a time; the lane that waited longest is next.
//! - Every listed effect is reported: as done, or as given up after [`Limits::tries`],
//!   [`Limits::age`] or [`MAX_UNANSWERED`] tries that may each have been received.
//! - No effect is retried before its pause is over.
//! - Not here: the runtime, the network, the clock (callers pass `now`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use watchkeeper_contract::id::PipelineId;
use watchkeeper_contract::spool::{EffectNumber, EffectOutcome};

use super::fault::{Fault, Retry};
use watchkeeper_client::backoff::Backoff;

/// Longest `Retry-After` that is respected.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3600);
/// Tries of one effect that may have been received each, and the pause between two of them.
const MAX_UNANSWERED: u32 = 5;
const UNANSWERED_PAUSE: Duration = Duration::from_secs(60);

/// Bounds of concurrency, attempts and pauses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Effects that run at the same time.
    pub active: usize,
    /// Attempts per effect.
    pub tries: u32,
    /// Age at which an effect is given up.
    pub age: Duration,
    /// First pause after a failed attempt.
    pub first: Duration,
    /// Longest pause between attempts.
    pub ceiling: Duration,
}

impl Default for Limits {
    /// Pauses from one second to five minutes: about 300 attempts in a day.
    fn default() -> Self {
        Self {
            active: 8,
            tries: 500,
            age: Duration::from_secs(86_400),
            first: Duration::from_secs(1),
            ceiling: Duration::from_secs(300),
        }
    }
}

/// Step of a pipeline, whose effects run one after the other.
pub(crate) type LaneName = (PipelineId, String);

/// A waiting effect, without its contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedEffect {
    pub number: EffectNumber,
    pub lane: LaneName,
    /// Age when it was listed.
    pub age: Duration,
}

/// Input of [`Queue::handle`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// The runtime listed these effects. Known ones are ignored.
    Listed(Vec<ListedEffect>),
    /// Result of [`Output::Execute`].
    Finished(EffectNumber, Result<(), Fault>),
    /// The effect could not be fetched from the runtime; not counted as an attempt.
    Unread(EffectNumber),
    /// The runtime does not have the effect any more.
    Gone(EffectNumber),
    /// The runtime confirmed the outcome.
    Reported(EffectNumber),
    /// The runtime has a new spool: all known numbers are invalid.
    Restarted,
    /// A deadline passed.
    Tick,
}

/// Work for the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Execute; then feed [`Input::Finished`], [`Input::Unread`] or [`Input::Gone`].
    Execute(EffectNumber),
    /// Report to the runtime, with retries; then feed [`Input::Reported`] or [`Input::Gone`].
    Report(EffectNumber, EffectOutcome),
}

#[derive(Debug)]
struct Item {
    lane: LaneName,
    born: Instant,
    tries: u32,
    /// How many of them the receiver may have acted on.
    unanswered: u32,
    last: Option<String>,
}

#[derive(Debug)]
struct Lane {
    numbers: BTreeSet<EffectNumber>,
    /// Whether its first effect is being executed or reported.
    is_busy: bool,
    due: Instant,
    backoff: Backoff,
}

/// The state machine. Feed it with [`Queue::handle`], then drain [`Queue::poll`].
#[derive(Debug)]
pub struct Queue {
    limits: Limits,
    seed: u64,
    items: BTreeMap<EffectNumber, Item>,
    lanes: BTreeMap<LaneName, Lane>,
    active: usize,
    outputs: VecDeque<Output>,
}

impl Queue {
    /// Empty queue; `seed` fixes the jitter of its pauses.
    pub fn new(limits: Limits, seed: u64) -> Self {
        Self {
            limits,
            seed,
            items: BTreeMap::new(),
            lanes: BTreeMap::new(),
            active: 0,
            outputs: VecDeque::new(),
        }
    }

    /// Takes one input; drain [`Self::poll`] afterwards.
    pub fn handle(&mut self, now: Instant, input: Input) {
        match input {
            Input::Listed(listed) => {
                for listed in listed {
                    self.take(now, listed);
                }
            }
            Input::Finished(number, result) => self.finished(now, number, result),
            Input::Unread(number) => self.pause(now, number, None),
            Input::Gone(number) | Input::Reported(number) => self.forget(now, number),
            Input::Restarted => {
                // Results of active effects come back under unknown numbers and are ignored.
                self.items.clear();
                self.lanes.clear();
                self.active = 0;
                self.outputs.clear();
            }
            Input::Tick => {}
        }
        self.plan(now);
    }

    /// Next output; `None` when there is no more.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Input::Tick`] is due.
    pub fn deadline(&self) -> Option<Instant> {
        if self.active >= self.limits.active {
            return None;
        }
        let idle = self.lanes.values().filter(|lane| !lane.is_busy);
        idle.map(|lane| lane.due).min()
    }

    /// Number of effects that are listed and not reported.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    fn take(&mut self, now: Instant, listed: ListedEffect) {
        let ListedEffect { number, lane, age } = listed;
        if self.items.contains_key(&number) {
            return;
        }
        let seed = self.seed.wrapping_add(number.0);
        let limits = self.limits;
        let entry = self.lanes.entry(lane.clone()).or_insert_with(|| Lane {
            numbers: BTreeSet::new(),
            is_busy: false,
            due: now,
            backoff: Backoff::new(limits.first, limits.ceiling, seed),
        });
        entry.numbers.insert(number);
        let item = Item {
            lane,
            born: now.checked_sub(age).unwrap_or(now),
            tries: 0,
            unanswered: 0,
            last: None,
        };
        self.items.insert(number, item);
    }

    fn finished(&mut self, now: Instant, number: EffectNumber, result: Result<(), Fault>) {
        let Some(item) = self.items.get_mut(&number) else {
            return;
        };
        item.tries += 1;
        let Err(fault) = result else {
            return self.report(number, EffectOutcome::Done);
        };
        let retry_after = match fault.retry {
            Retry::Never => {
                return self.report(number, EffectOutcome::Failed { why: fault.why });
            }
            Retry::After(retry_after) => retry_after,
            Retry::Unanswered => {
                item.unanswered += 1;
                Some(UNANSWERED_PAUSE)
            }
        };
        item.last = Some(fault.why);
        if item.tries >= self.limits.tries || item.unanswered >= MAX_UNANSWERED {
            self.give_up(now, number);
        } else {
            self.pause(now, number, retry_after);
        }
    }

    fn report(&mut self, number: EffectNumber, outcome: EffectOutcome) {
        self.outputs.push_back(Output::Report(number, outcome));
    }

    fn give_up(&mut self, now: Instant, number: EffectNumber) {
        let Some(item) = self.items.get(&number) else {
            return;
        };
        let age = now.saturating_duration_since(item.born).as_secs();
        let tries = item.tries;
        let why = match &item.last {
            Some(last) => {
                format!("given up after {tries} tries at an age of {age} s; last error: {last}")
            }
            None => format!("given up before the first try at an age of {age} s"),
        };
        self.report(number, EffectOutcome::Failed { why });
    }

    /// Starts the back-off pause of the effect's lane.
    fn pause(&mut self, now: Instant, number: EffectNumber, retry_after: Option<Duration>) {
        if let Some(lane) = self.lane_of(number)
            && std::mem::take(&mut lane.is_busy)
        {
            let pause = lane.backoff.next_delay();
            lane.due = now + pause.max(retry_after.unwrap_or_default().min(MAX_RETRY_AFTER));
            self.active = self.active.saturating_sub(1);
        }
    }

    fn forget(&mut self, now: Instant, number: EffectNumber) {
        let Some(lane) = self.lane_of(number) else {
            return;
        };
        let was_first = lane.numbers.first() == Some(&number);
        lane.numbers.remove(&number);
        let is_empty = lane.numbers.is_empty();
        let was_busy = was_first && std::mem::take(&mut lane.is_busy);
        if was_busy {
            lane.backoff.reset();
            lane.due = now;
        }
        if let Some(item) = self.items.remove(&number)
            && is_empty
        {
            self.lanes.remove(&item.lane);
        }
        if was_busy {
            self.active = self.active.saturating_sub(1);
        }
    }

    fn lane_of(&mut self, number: EffectNumber) -> Option<&mut Lane> {
        let item = self.items.get(&number)?;
        self.lanes.get_mut(&item.lane)
    }

    /// Starts the effects of idle lanes that are due, within [`Limits::active`].
    fn plan(&mut self, now: Instant) {
        while self.active < self.limits.active {
            let idle = self
                .lanes
                .values_mut()
                .filter(|lane| !lane.is_busy && lane.due <= now);
            let Some(lane) = idle.min_by_key(|lane| lane.due) else {
                return;
            };
            let Some(number) = lane.numbers.first().copied() else {
                return;
            };
            lane.is_busy = true;
            self.active += 1;
            let born = self.items.get(&number).map(|item| item.born);
            let is_old =
                born.is_some_and(|born| now.saturating_duration_since(born) >= self.limits.age);
            if is_old {
                self.give_up(now, number);
            } else {
                self.outputs.push_back(Output::Execute(number));
            }
        }
    }
}

#[cfg(test)]
mod tests;
