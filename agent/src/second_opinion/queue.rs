//! Which event is asked about when: the queue in front of the model.
//!
//! ```text
//!  Record ─► waiting ─► Keep(waiting), Saved ─► Keep(asked), Saved ─► Ask ─► Answered ─► Keep(done), Tell
//!              └── queue full, too old, settled by the box: Keep(done), Tell without an answer
//! ```
//!
//! Invariants:
//! - At most [`Limits::waiting`] events wait, and one is asked about at a time.
//! - The most severe, then the oldest goes first; a full queue drops the least severe, then oldest.
//! - "Asked" is durable before the question; none of the last [`Limits::remembered`] is asked again.
//! - Every event taken gets exactly one [`Output::Tell`].
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
    /// Maximum of waiting events.
    pub waiting: usize,
    /// Longest wait since the event happened; a later opinion is of no use to those notified.
    pub max_wait: Duration,
    /// Events remembered as done, so that a repeated record is not asked about again.
    pub remembered: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            waiting: 32,
            max_wait: Duration::from_secs(600),
            remembered: 256,
        }
    }
}

/// Progress of an event, as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub enum Kept {
    /// Waits to be asked about.
    Waiting(Box<Case>),
    /// Is asked about now, or may have been.
    Asked(Box<Case>),
    /// Has its result.
    Done,
}

/// What happens to the queue.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// A record of the journal.
    Record {
        event: Box<Event>,
        /// Its age: a late record has waited already.
        age: Duration,
    },
    /// [`Output::Keep`] of an event is durable up to `version`.
    Saved { id: EventId, version: u32 },
    /// The model answered, or an error names why not.
    Answered {
        id: EventId,
        answer: Box<Result<Answer, String>>,
    },
    /// A deadline passed.
    Tick,
}

/// What the shell has to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// Store this in one batch with the outputs up to the next `Keep`; then answer
    /// [`Input::Saved`].
    Keep {
        id: EventId,
        /// Rises with every change of the event.
        version: u32,
        /// `None` deletes the record.
        kept: Option<Kept>,
    },
    /// Ask a model, then answer [`Input::Answered`].
    Ask(Box<Case>),
    /// Publish the result.
    Tell(Box<Case>, Box<Result<Answer, String>>),
}

#[derive(Debug, PartialEq, Eq)]
enum Stage {
    Waiting {
        since: Instant,
    },
    /// "Asked" is being stored; the question follows once version `at` is durable.
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
    /// Whether second opinions are enabled.
    is_on: bool,
    slots: BTreeMap<EventId, Slot>,
    done: VecDeque<EventId>,
    outputs: VecDeque<Output>,
}

impl Queue {
    /// Resumes from the store. Unless `is_on`, waiting events are given up.
    ///
    /// `age` returns the age of an event: the time without an agent counts as waiting.
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
            queue.close(id, no_answer("the agent ended before an answer came"));
        }
        if !is_on {
            let waiting: Vec<EventId> = queue.slots.keys().copied().collect();
            for id in waiting {
                queue.close(id, no_answer("second opinions were turned off"));
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
                // An unexpected answer must not cause a second result.
                if self.slots.get(&id).is_some_and(|s| s.stage == Stage::Asked) {
                    self.close(id, *answer);
                }
            }
            Input::Tick => {}
        }
        self.plan(now);
    }

    /// The next output.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Input::Tick`] is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let waiting = self.slots.values().filter_map(|slot| match slot.stage {
            Stage::Waiting { since } => Some(since + self.limits.max_wait),
            Stage::Marked { .. } | Stage::Asked => None,
        });
        waiting.min()
    }

    /// Whether the queue takes this record: it belongs to a case, or asks for an opinion.
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
            // A later record of the event: the opinion is weighed against its decision.
            if slot.case.event.decision != event.decision {
                slot.case.event.decision = event.decision.clone();
                slot.case.event.evidence = event.evidence.clone();
                let is_waiting = matches!(slot.stage, Stage::Waiting { .. });
                if is_waiting && event.decision.verdict != Verdict::Escalate {
                    self.close(event.id, no_answer("the box has decided meanwhile"));
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

    /// Ends an event with its result, and remembers it as done.
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

    /// Number of waiting events.
    #[must_use]
    pub fn waiting_count(&self) -> usize {
        self.waiting().count()
    }

    fn waiting(&self) -> impl Iterator<Item = (&EventId, &Slot)> {
        let slots = self.slots.iter();
        slots.filter(|(_, slot)| matches!(slot.stage, Stage::Waiting { .. }))
    }

    /// Drops what is late or too much, then moves the next event on.
    fn plan(&mut self, now: Instant) {
        let is_late = |slot: &Slot| match slot.stage {
            Stage::Waiting { since } => now >= since + self.limits.max_wait,
            Stage::Marked { .. } | Stage::Asked => false,
        };
        let late = self.waiting().filter(|(_, slot)| is_late(slot));
        let late: Vec<EventId> = late.map(|(id, _)| *id).collect();
        for id in late {
            self.close(id, no_answer("it waited too long"));
        }
        while self.waiting().count() > self.limits.waiting {
            let least = self.waiting().min_by_key(|(_, s)| (s.severity(), s.seq()));
            let Some(id) = least.map(|(id, _)| *id) else {
                break;
            };
            self.close(id, no_answer("too many events wait"));
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

/// The error that stands for an answer.
fn no_answer(why: &str) -> Result<Answer, String> {
    Err(why.to_owned())
}

#[cfg(test)]
mod tests;
