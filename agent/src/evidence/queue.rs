//! The chains that wait and those that run. No I/O.
//!
//! - At most [`MAX_WAITING`] wait and [`MAX_ACTIVE`] run, the most severe first, among equals the
//!   oldest. Above that the least severe is given up.
//! - An `escalate` event of a rule without a chain gets a chain of the language model alone. That
//!   is its second opinion, where second opinions are turned on.
//! - Second opinions about one scene run one after the other: the later one shares the answer.
//! - While the journal's backlog is read, none starts: a later record may decide the event.
//! - Only an event's `new` record adds a chain, so that no event has two.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use watchkeeper_client::clock::is_older;
use watchkeeper_contract::event::{Event, EventBody, Phase, Verdict};
use watchkeeper_contract::id::EventId;
use watchkeeper_contract::rule::Gates;
use watchkeeper_contract::time::Wall;
use watchkeeper_evidence::chain::Chain;
use watchkeeper_evidence::lookup::Lookups;
use watchkeeper_evidence::value::EventFacts;

use super::on_disk::{StoredChain, is_opinion};
use crate::second_opinion::scene::is_same_scene;

/// Chains that wait.
pub(crate) const MAX_WAITING: usize = 64;
/// Chains that run at a time.
pub(crate) const MAX_ACTIVE: usize = 4;
/// Age of an event after which no source is asked any more.
pub(crate) const MAX_AGE: Duration = Duration::from_secs(600);

/// A running chain, locked while it is changed and stored.
pub(super) type RunningChain = Arc<Mutex<StoredChain>>;

/// Initial state of a queue.
#[derive(Debug, Default)]
pub(super) struct QueueSetup {
    /// Chains that the last run left.
    pub restored: Vec<StoredChain>,
    pub lookups: Arc<Lookups>,
    pub has_opinions: bool,
    /// Whether events older than [`MAX_AGE`] are left to people: a first start reads all of the
    /// journal.
    pub skips_old: bool,
}

/// Chains that wait, and those that run.
#[derive(Debug)]
pub(super) struct Queue {
    lookups: Arc<Lookups>,
    has_opinions: bool,
    skips_old: bool,
    /// Whether the journal was read up to its end.
    is_caught_up: bool,
    waiting: BTreeMap<EventId, StoredChain>,
    /// Each with the record that began its event.
    running: Vec<(Event, RunningChain)>,
}

impl Queue {
    pub(super) fn new(setup: QueueSetup, now: Wall) -> Self {
        let has_opinions = setup.has_opinions;
        let restored = setup.restored.into_iter().map(|mut stored| {
            stored.chain.resume(now);
            if stored.is_opinion() && !has_opinions {
                stored.chain.give_up("second opinions were turned off");
            }
            (stored.event.id, stored)
        });
        Self {
            waiting: restored.collect(),
            lookups: setup.lookups,
            has_opinions,
            skips_old: setup.skips_old,
            is_caught_up: true,
            running: Vec::new(),
        }
    }

    /// Takes a record of an event without running chain. Returns the waiting chain that it adds or
    /// changes, to be stored.
    pub(super) fn take(&mut self, record: &Event, now: Wall) -> Option<StoredChain> {
        if let Some(stored) = self.waiting.get_mut(&record.id) {
            let is_changed = stored.follow(record);
            if is_changed && record.decision.verdict != Verdict::Escalate {
                stored.chain.give_up("it was decided meanwhile");
            }
            return is_changed.then(|| stored.clone());
        }
        let stored = self.new_chain(record, now)?;
        self.waiting.insert(record.id, stored.clone());
        self.give_up_surplus();
        Some(stored)
    }

    /// The chain of the event that `record` begins.
    fn new_chain(&self, record: &Event, now: Wall) -> Option<StoredChain> {
        let EventBody::Rule(rule) = &record.body else {
            return None;
        };
        let verdict = record.decision.verdict;
        let is_wanted = match rule.decide {
            Some(_) => matches!(verdict, Verdict::Escalate | Verdict::Review),
            None => self.has_opinions && verdict == Verdict::Escalate,
        };
        let is_too_old = self.skips_old && is_older(record.at, now, MAX_AGE);
        if record.phase != Phase::New || !is_wanted || is_too_old {
            return None;
        }
        let asks = record.decision.asks;
        let gates = asks.map_or_else(Gates::default, |asks| asks.gates);
        let facts = EventFacts::of(record);
        Some(StoredChain {
            chain: match &rule.decide {
                Some(spec) => Chain::new(spec, gates, self.lookups.configs(), facts),
                None => Chain::of_model(gates, facts),
            },
            event: record.clone(),
            answer: None,
            is_reported: false,
        })
    }

    pub(super) fn set_caught_up(&mut self, is_caught_up: bool) {
        self.is_caught_up = is_caught_up;
    }

    pub(super) fn running(&self, id: EventId) -> Option<RunningChain> {
        let found = self.running.iter().find(|(event, _)| event.id == id);
        found.map(|(_, chain)| Arc::clone(chain))
    }

    /// Whether more records may be read; those that are given up wait for their report too.
    pub(super) fn has_room(&self) -> bool {
        self.waiting.len() < 2 * MAX_WAITING
    }

    fn give_up_surplus(&mut self) {
        let open = self.waiting.values_mut();
        let open = open.filter(|stored| stored.chain.given_up().is_none());
        let mut open: Vec<&mut StoredChain> = open.collect();
        let Some(over) = open.len().checked_sub(MAX_WAITING) else {
            return;
        };
        open.sort_by_key(|stored| (stored.event.severity, stored.event.seq));
        for stored in open.into_iter().take(over) {
            let why = match stored.is_opinion() {
                true => "too many events wait",
                false => "too many events wait for their sources",
            };
            stored.chain.give_up(why);
        }
    }

    /// The chain to run now: one that was given up, else the most severe, among equals the oldest.
    /// It counts as running until its clones are dropped.
    pub(super) fn next(&mut self) -> Option<RunningChain> {
        self.running
            .retain(|(_, chain)| Arc::strong_count(chain) > 1);
        if self.running.len() >= MAX_ACTIVE {
            return None;
        }
        let order = |stored: &StoredChain| {
            let is_given_up = stored.chain.given_up().is_some();
            let event = &stored.event;
            (Reverse(is_given_up), Reverse(event.severity), event.seq)
        };
        let ready = self.waiting.values().filter(|stored| self.is_ready(stored));
        let id = ready.min_by_key(|stored| order(stored))?.event.id;
        let stored = self.waiting.remove(&id)?;
        let event = stored.event.clone();
        let chain = Arc::new(Mutex::new(stored));
        self.running.push((event, Arc::clone(&chain)));
        Some(chain)
    }

    /// Whether nothing can decide the event of `stored` first, and no second opinion about its
    /// scene runs.
    fn is_ready(&self, stored: &StoredChain) -> bool {
        if stored.chain.given_up().is_some() {
            return true;
        }
        let mut running = self.running.iter();
        let shares = |(event, _): &(Event, RunningChain)| is_same_scene(event, &stored.event);
        self.is_caught_up && !(stored.is_opinion() && running.any(shares))
    }

    /// Chains without a result: second opinions, or the others.
    pub(super) fn count(&self, opinions: bool) -> usize {
        let waiting = self.waiting.values().map(|stored| &stored.event);
        let running = self.running.iter().map(|(event, _)| event);
        let all = waiting.chain(running);
        all.filter(|event| is_opinion(event) == opinions).count()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests;
