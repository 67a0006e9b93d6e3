//! The queue in front of the model: which event is asked about next. Sans-IO.
//!
//! ```text
//!  Record ─► Save(waiting) ─ Saved ─► Save(asked) ─ Saved ─► Ask ─ Answered ─► Save(done), Publish
//!                  ├── answer about one scene: Save(done), Publish with that answer
//!                  └── queue full, too old, settled by the box: Save(done), Publish without answer
//! ```
//!
//! Invariants:
//! - At most [`Limits::waiting`] events wait, and one is asked about at a time.
//! - The most severe event goes first, among those the oldest. A full queue drops the least severe,
//!   among those the oldest.
//! - "Asked" is durable before the question. None of the last [`Limits::remembered`] is asked
//!   again.
//! - Every accepted event gets exactly one [`Output::Publish`].
//! - An event of a scene with one of the last [`MAX_ANSWERS`] answers gets that one. A restart
//!   forgets them.
//!
//! Not here: the store, the model, the clock (callers pass `now`).

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use watchkeeper_contract::event::{Event, EventBody, Phase, Verdict};
use watchkeeper_contract::id::{EventId, EventSeq};
use watchkeeper_contract::rule::Severity;

use super::scene::is_same_scene;
use super::{Answer, Case, NoAnswer};

/// Answers that later events of their scenes may share.
const MAX_ANSWERS: usize = 16;

/// Bounds of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum of waiting events.
    pub waiting: usize,
    /// Longest wait since the event happened; a later opinion does not help its recipients.
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

/// Progress of an event in the queue; the stored form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "stage", content = "case", rename_all = "snake_case")]
pub enum Progress {
    /// It waits for its question.
    Waiting(Box<Case>),
    /// It was asked about; the answer may still arrive.
    Asked(Box<Case>),
    /// Its result was published.
    Done,
}

/// Event that the shell reports.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// A record of the journal.
    Record {
        event: Box<Event>,
        /// Age of the record: a late one has waited already.
        age: Duration,
    },
    /// [`Output::Save`] of an event is durable up to `version`.
    Saved { id: EventId, version: u32 },
    /// The model answered, or the error names why it did not.
    Answered {
        id: EventId,
        answer: Box<Result<Answer, NoAnswer>>,
    },
    /// A deadline passed.
    Tick,
}

/// Action for the shell.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// Store this in one batch with the outputs up to the next `Save`, then answer
    /// [`Input::Saved`].
    Save {
        id: EventId,
        /// Rises with every change of the event.
        version: u32,
        /// `None` deletes the record.
        progress: Option<Progress>,
    },
    /// Ask a model, then answer [`Input::Answered`].
    Ask(Box<Case>),
    /// Publish the result.
    Publish(Box<Case>, Box<Result<Answer, NoAnswer>>),
}

#[derive(Debug, PartialEq, Eq)]
enum Stage {
    Waiting {
        since: Instant,
    },
    /// "Asked" is being stored; the question follows once version `at` is durable.
    Storing {
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

    fn progress(&self) -> Progress {
        let case = Box::new(self.case.clone());
        match self.stage {
            Stage::Waiting { .. } => Progress::Waiting(case),
            Stage::Storing { .. } | Stage::Asked => Progress::Asked(case),
        }
    }
}

/// State machine of the queue. Call [`Queue::handle`], then drain [`Queue::poll`].
#[derive(Debug)]
pub struct Queue {
    limits: Limits,
    /// Whether second opinions are enabled.
    is_on: bool,
    slots: BTreeMap<EventId, Slot>,
    done: VecDeque<EventId>,
    /// The latest answers with their events, the newest last.
    answers: VecDeque<(Event, Answer)>,
    outputs: VecDeque<Output>,
}

impl Queue {
    /// Resumes from the store. Unless `is_on`, every waiting event ends without an answer.
    ///
    /// `age` returns the age of an event: the time without an agent counts as waiting.
    pub fn new(
        limits: Limits,
        is_on: bool,
        now: Instant,
        restored: impl IntoIterator<Item = (EventId, Progress)>,
        age: impl Fn(&Event) -> Duration,
    ) -> Self {
        let mut queue = Self {
            limits,
            is_on,
            slots: BTreeMap::new(),
            done: VecDeque::new(),
            answers: VecDeque::new(),
            outputs: VecDeque::new(),
        };
        let mut asked = Vec::new();
        for (id, progress) in restored {
            let (case, stage) = match progress {
                Progress::Waiting(case) => {
                    let since = now.checked_sub(age(&case.event)).unwrap_or(now);
                    (*case, Stage::Waiting { since })
                }
                Progress::Asked(case) => {
                    asked.push(id);
                    (*case, Stage::Asked)
                }
                Progress::Done => {
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

    /// Handles one input; drain [`Self::poll`] afterwards.
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
                let asked = self.slots.get(&id).filter(|s| s.stage == Stage::Asked);
                if let Some(event) = asked.map(|slot| slot.case.event.clone()) {
                    self.close(id, (*answer).clone());
                    self.remember(event, *answer);
                }
            }
            Input::Tick => {}
        }
        self.plan(now);
    }

    /// Next action, `None` when all are done.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Input::Tick`] is due.
    pub fn deadline(&self) -> Option<Instant> {
        let waiting = self.slots.values().filter_map(|slot| match slot.stage {
            Stage::Waiting { since } => Some(since + self.limits.max_wait),
            Stage::Storing { .. } | Stage::Asked => None,
        });
        waiting.min()
    }

    /// Whether the queue accepts this record: its event is queued, or it asks for an opinion.
    pub fn wants(&self, event: &Event) -> bool {
        let is_over = matches!(event.phase, Phase::End | Phase::Clip | Phase::Assessed);
        let asks = event.decision.verdict == Verdict::Escalate && !is_over;
        // A chain asks the model itself, where it names one.
        let is_rule = matches!(&event.body, EventBody::Rule(rule) if rule.decide.is_none());
        self.slots.contains_key(&event.id)
            || (self.is_on && asks && is_rule && !self.done.contains(&event.id))
    }

    fn take(&mut self, since: Instant, event: &Event) {
        if let Some(slot) = self.slots.get_mut(&event.id) {
            // A later record of the event: the opinion is weighed against the newer decision.
            if slot.case.event.decision != event.decision {
                slot.case.event.decision = event.decision.clone();
                slot.case.event.evidence = event.evidence.clone();
                let is_waiting = matches!(slot.stage, Stage::Waiting { .. });
                if is_waiting && event.decision.verdict != Verdict::Escalate {
                    self.close(event.id, no_answer("it was decided meanwhile"));
                } else {
                    self.save(event.id);
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
        self.save(event.id);
    }

    /// Remembers the answer about `event` for others of its scene. A missing one is not shared.
    fn remember(&mut self, event: Event, answer: Result<Answer, NoAnswer>) {
        let Ok(answer) = answer else {
            return;
        };
        self.answers.push_back((event, answer));
        while self.answers.len() > MAX_ANSWERS {
            self.answers.pop_front();
        }
    }

    /// Ends stored events of scenes that have an answer. Their own records are published by then.
    fn share_answers(&mut self) {
        let share = |event: &Event| {
            let mut answers = self.answers.iter();
            let found = answers.rfind(|(asked, _)| is_same_scene(asked, event));
            found.map(|(asked, answer)| answer.share(asked.id))
        };
        let stored = self.waiting().filter(|(_, slot)| slot.saved > 0);
        let shared = stored.filter_map(|(id, slot)| Some((*id, share(&slot.case.event)?)));
        let shared: Vec<(EventId, Answer)> = shared.collect();
        for (id, answer) in shared {
            self.close(id, Ok(answer));
        }
    }

    fn save(&mut self, id: EventId) {
        if let Some(slot) = self.slots.get_mut(&id) {
            slot.version = slot.version.saturating_add(1);
            self.outputs.push_back(Output::Save {
                id,
                version: slot.version,
                progress: Some(slot.progress()),
            });
        }
    }

    /// Ends an event with its result and remembers it as done.
    fn close(&mut self, id: EventId, answer: Result<Answer, NoAnswer>) {
        let Some(slot) = self.slots.remove(&id) else {
            return;
        };
        self.outputs.push_back(Output::Save {
            id,
            version: slot.version.saturating_add(1),
            progress: Some(Progress::Done),
        });
        self.done.push_back(id);
        while self.done.len() > self.limits.remembered
            && let Some(old) = self.done.pop_front()
        {
            self.outputs.push_back(Output::Save {
                id: old,
                version: u32::MAX,
                progress: None,
            });
        }
        let case = Box::new(slot.case);
        self.outputs
            .push_back(Output::Publish(case, Box::new(answer)));
    }

    /// Number of waiting events.
    pub fn waiting_count(&self) -> usize {
        self.waiting().count()
    }

    fn waiting(&self) -> impl Iterator<Item = (&EventId, &Slot)> {
        let slots = self.slots.iter();
        slots.filter(|(_, slot)| matches!(slot.stage, Stage::Waiting { .. }))
    }

    /// Shares answers, drops events that are late or beyond the limit, then advances the next one.
    fn plan(&mut self, now: Instant) {
        self.share_answers();
        let is_late = |slot: &Slot| match slot.stage {
            Stage::Waiting { since } => now >= since + self.limits.max_wait,
            Stage::Storing { .. } | Stage::Asked => false,
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
                slot.stage = Stage::Storing {
                    at: slot.version.saturating_add(1),
                };
                self.save(id);
            }
        }
        for slot in self.slots.values_mut() {
            if let Stage::Storing { at } = slot.stage
                && slot.saved >= at
            {
                slot.stage = Stage::Asked;
                let case = Box::new(slot.case.clone());
                self.outputs.push_back(Output::Ask(case));
            }
        }
    }
}

/// Builds the error that replaces an answer.
fn no_answer(why: &str) -> Result<Answer, NoAnswer> {
    Err(why.into())
}

#[cfg(test)]
mod tests;
