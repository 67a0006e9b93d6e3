//! Which event is asked about when: the queue in front of the model.
//!
//! ```text
//!  handle(Record) ─► waiting ─► Keep(waiting) ─► handle(Saved) ─► its turn ─► Keep(asked) ─► handle(Saved) ─► Ask ─► handle(Answered) ─► Keep(done), Tell
//!                      └── too many, too old, settled by the box itself: Keep(done), Tell without an answer
//! ```
//!
//! Invariants:
//! - at most [`Limits::waiting`] events wait, and one is asked about at a time;
//! - the most severe goes first, of those the one that came first; where one too many waits, the least severe is given up, of those the one that came first;
//! - an event is asked about at most once, over restarts too: it is only asked about when "asked" is stored, and one that was is not taken again as long as
//!   it is among the last [`Limits::remembered`] that were; one that goes on for longer than that many others take may be asked about once more;
//! - every event that was taken gets exactly one [`Output::Tell`].
//!
//! Not here: the store, the model, the clock (callers pass `now`).

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use watchkeeper_contract::event::{Event, EventBody, Phase, Verdict};
use watchkeeper_contract::id::{EventId, EventSeq};
use watchkeeper_contract::rule::Severity;

use super::{Answer, Case};

/// Bounds of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most events that wait.
    pub waiting: usize,
    /// Longest time for which one waits, from when it happened. What comes later is of no use to whoever was told of the event.
    pub patience: Duration,
    /// Events that are remembered after they were asked about, so that one whose record comes again is not: those of days, with the usual budget.
    pub remembered: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            waiting: 32,
            patience: Duration::from_secs(600),
            remembered: 256,
        }
    }
}

/// How far an event is, as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub enum Kept {
    /// It waits for its turn.
    Waiting(Box<Case>),
    /// It is about to be asked about, or is.
    Asked(Box<Case>),
    /// It has its word.
    Done,
}

/// What happens to the queue.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// A record of the journal.
    Record {
        /// It.
        event: Box<Event>,
        /// How old it is by now: one that comes late has waited already.
        age: Duration,
    },
    /// What was to be kept of an event, up to this version, is on stable storage.
    Saved {
        /// Which event.
        id: EventId,
        /// [`Output::Keep`]'s.
        version: u32,
    },
    /// What came of asking. An error is the sentence that says why there is no answer.
    Answered {
        /// Which event.
        id: EventId,
        /// The answer.
        answer: Box<Result<Answer, String>>,
    },
    /// A deadline passed.
    Tick,
}

/// What the shell has to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// Keep this of an event, in the order of the outputs and together with what follows up to the next one; then answer [`Input::Saved`].
    Keep {
        /// Which event.
        id: EventId,
        /// Rises with every change of an event.
        version: u32,
        /// What; `None` forgets it.
        kept: Option<Kept>,
    },
    /// Ask a model about this event, then answer [`Input::Answered`].
    Ask(Box<Case>),
    /// Tell what came of it.
    Tell(Box<Case>, Box<Result<Answer, String>>),
}

#[derive(Debug, PartialEq, Eq)]
enum Stage {
    Waiting {
        since: Instant,
    },
    /// Its mark is being stored; it is asked about when this version is.
    Marked {
        at: u32,
    },
    Asked,
}

#[derive(Debug)]
struct Slot {
    case: Case,
    stage: Stage,
    version: u32,
    saved: u32,
}

impl Slot {
    fn seq(&self) -> EventSeq {
        self.case.event.seq
    }

    fn severity(&self) -> Severity {
        self.case.event.severity
    }

    fn kept(&self) -> Kept {
        let case = Box::new(self.case.clone());
        match self.stage {
            Stage::Waiting { .. } => Kept::Waiting(case),
            Stage::Marked { .. } | Stage::Asked => Kept::Asked(case),
        }
    }
}

/// The state machine. Feed it with [`Queue::handle`], then drain [`Queue::poll`].
#[derive(Debug)]
pub struct Queue {
    limits: Limits,
    /// Whether events are taken at all.
    is_on: bool,
    slots: BTreeMap<EventId, Slot>,
    done: VecDeque<EventId>,
    outputs: VecDeque<Output>,
}

impl Queue {
    /// A queue that goes on where the store left off. Where it `is_on`, events are taken; else what waited is given up. `age` says how long ago an event
    /// happened: one that waited while the agent was away has waited for that, too.
    #[must_use]
    pub fn new(
        limits: Limits,
        is_on: bool,
        now: Instant,
        restored: impl IntoIterator<Item = (EventId, Kept)>,
        age: impl Fn(&Event) -> Duration,
    ) -> Self {
        let mut queue = Self {
            limits,
            is_on,
            slots: BTreeMap::new(),
            done: VecDeque::new(),
            outputs: VecDeque::new(),
        };
        let mut asked = Vec::new();
        for (id, kept) in restored {
            let (case, stage) = match kept {
                Kept::Waiting(case) => {
                    let since = now.checked_sub(age(&case.event)).unwrap_or(now);
                    (*case, Stage::Waiting { since })
                }
                Kept::Asked(case) => {
                    asked.push(id);
                    (*case, Stage::Asked)
                }
                Kept::Done => {
                    queue.done.push_back(id);
                    continue;
                }
            };
            let slot = Slot {
                case,
                stage,
                version: 1,
                saved: 1,
            };
            queue.slots.insert(id, slot);
        }
        for id in asked {
            queue.close(id, no("the agent ended before an answer came"));
        }
        if !is_on {
            let waiting: Vec<EventId> = queue.slots.keys().copied().collect();
            for id in waiting {
                queue.close(id, no("second opinions were turned off"));
            }
        }
        queue.plan(now);
        queue
    }

    /// Takes one input; drain [`Self::poll`] afterwards.
    pub fn handle(&mut self, now: Instant, input: Input) {
        match input {
            Input::Record { event, age } => self.take(now.checked_sub(age).unwrap_or(now), &event),
            Input::Saved { id, version } => {
                if let Some(slot) = self.slots.get_mut(&id) {
                    slot.saved = slot.saved.max(version);
                }
            }
            Input::Answered { id, answer } => {
                // One that nobody asked for can't be told twice.
                if self.slots.get(&id).is_some_and(|s| s.stage == Stage::Asked) {
                    self.close(id, *answer);
                }
            }
            Input::Tick => {}
        }
        self.plan(now);
    }

    /// The next thing to do, until there is nothing left.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Input::Tick`] is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let waiting = self.slots.values().filter_map(|slot| match slot.stage {
            Stage::Waiting { since } => Some(since + self.limits.patience),
            Stage::Marked { .. } | Stage::Asked => None,
        });
        waiting.min()
    }

    /// Whether a record means anything here: one of a case, or one that asks for an opinion.
    #[must_use]
    pub fn wants(&self, event: &Event) -> bool {
        let is_over = matches!(event.phase, Phase::End | Phase::Clip);
        let asks = event.decision.verdict == Verdict::Escalate && !is_over;
        let is_rule = matches!(event.body, EventBody::Rule(_));
        self.slots.contains_key(&event.id)
            || (self.is_on && asks && is_rule && !self.done.contains(&event.id))
    }

    fn take(&mut self, since: Instant, event: &Event) {
        if let Some(slot) = self.slots.get_mut(&event.id) {
            // The same event, later: what the box thinks by now is what the opinion is put to.
            if slot.case.event.decision != event.decision {
                slot.case.event.decision = event.decision.clone();
                slot.case.event.evidence = event.evidence.clone();
                let is_waiting = matches!(slot.stage, Stage::Waiting { .. });
                if is_waiting && event.decision.verdict != Verdict::Escalate {
                    self.close(event.id, no("the box has made up its mind since"));
                } else {
                    self.keep(event.id);
                }
            }
            return;
        }
        if !self.wants(event) {
            return;
        }
        let slot = Slot {
            case: Case::of(event),
            stage: Stage::Waiting { since },
            version: 0,
            saved: 0,
        };
        self.slots.insert(event.id, slot);
        self.keep(event.id);
    }

    fn keep(&mut self, id: EventId) {
        if let Some(slot) = self.slots.get_mut(&id) {
            slot.version = slot.version.saturating_add(1);
            self.outputs.push_back(Output::Keep {
                id,
                version: slot.version,
                kept: Some(slot.kept()),
            });
        }
    }

    /// Gives an event its word. It is remembered, so that it does not get another.
    fn close(&mut self, id: EventId, answer: Result<Answer, String>) {
        let Some(slot) = self.slots.remove(&id) else {
            return;
        };
        self.outputs.push_back(Output::Keep {
            id,
            version: slot.version.saturating_add(1),
            kept: Some(Kept::Done),
        });
        self.done.push_back(id);
        while self.done.len() > self.limits.remembered
            && let Some(old) = self.done.pop_front()
        {
            self.outputs.push_back(Output::Keep {
                id: old,
                version: u32::MAX,
                kept: None,
            });
        }
        let case = Box::new(slot.case);
        self.outputs.push_back(Output::Tell(case, Box::new(answer)));
    }

    /// How many events wait for their turn.
    #[must_use]
    pub fn waits(&self) -> usize {
        self.waiting().count()
    }

    fn waiting(&self) -> impl Iterator<Item = (&EventId, &Slot)> {
        let slots = self.slots.iter();
        slots.filter(|(_, slot)| matches!(slot.stage, Stage::Waiting { .. }))
    }

    /// Does what has become possible.
    fn plan(&mut self, now: Instant) {
        let is_late = |slot: &Slot| match slot.stage {
            Stage::Waiting { since } => now >= since + self.limits.patience,
            Stage::Marked { .. } | Stage::Asked => false,
        };
        let late = self.waiting().filter(|(_, slot)| is_late(slot));
        let late: Vec<EventId> = late.map(|(id, _)| *id).collect();
        for id in late {
            self.close(id, no("it waited for too long"));
        }
        while self.waiting().count() > self.limits.waiting {
            let least = self.waiting().min_by_key(|(_, s)| (s.severity(), s.seq()));
            let Some(id) = least.map(|(id, _)| *id) else {
                break;
            };
            self.close(id, no("too many events wait for one"));
        }
        let is_busy = |slot: &Slot| !matches!(slot.stage, Stage::Waiting { .. });
        if !self.slots.values().any(is_busy) {
            let stored = self.waiting().filter(|(_, slot)| slot.saved > 0);
            let order = |slot: &Slot| (std::cmp::Reverse(slot.severity()), slot.seq());
            let next = stored.min_by_key(|(_, slot)| order(slot));
            if let Some(id) = next.map(|(id, _)| *id)
                && let Some(slot) = self.slots.get_mut(&id)
            {
                slot.stage = Stage::Marked {
                    at: slot.version.saturating_add(1),
                };
                self.keep(id);
            }
        }
        for slot in self.slots.values_mut() {
            if let Stage::Marked { at } = slot.stage
                && slot.saved >= at
            {
                slot.stage = Stage::Asked;
                let case = Box::new(slot.case.clone());
                self.outputs.push_back(Output::Ask(case));
            }
        }
    }
}

/// No answer, and why.
fn no(why: &str) -> Result<Answer, String> {
    Err(why.to_owned())
}

#[cfg(test)]
mod tests;
