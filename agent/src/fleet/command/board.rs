//! The board of commands: what was asked, what was answered, what runs. Sans-IO.
//!
//! Invariants:
//! - a command is its operation and its id ([`CommandKey`]): the same id on another operation is another command;
//! - a command starts only after its `executing` is stored, so that a restart knows what it was doing;
//! - a known command is answered again with its present status and never run twice;
//! - exactly one terminal status; a command that was rejected or whose time is over never starts later;
//! - nothing is told before it is stored: [`CommandBoard::answer`] keeps silent about what is on its way to the store;
//! - one command runs at a time, in the order in which they were accepted;
//! - whether a command's time is over is judged only by a clock that was set, on receipt and again before it starts;
//! - a reason is at most [`MAX_REASON`] bytes long, whoever wrote it: a report always fits into a message;
//! - a finished command is not forgotten for its age before a time source has vouched for the clock for that long.
//!
//! ```text
//!  Received ─► Save(accepted) ─ Saved ─► Save(executing) ─ Saved ─► Start ─ Finished ─► Save(successful|failed)
//!      │                            ├─► Save(expired)
//!      │                            └─► Save(rejected), when the clock was not set in time
//!      ├─► Save(expired)
//!      ├─► Save(rejected), when it is understood and can't be taken now
//!      └─► Refuse, when it is not understood: not remembered, the same id may be used for the corrected request
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use watchkeeper_contract::command::{CommandReport, CommandRequest, CommandStatus, Operation};
use watchkeeper_contract::time::{TimeQuality, Wall};

use super::{CommandKey, Record};

/// Finished commands that are remembered, apart from rejected ones.
pub const LEDGER_ENTRIES: usize = 4096;
/// Rejected commands that are remembered, apart so that they never push out what was done. While they are so many, one more
/// that would be rejected is left unanswered: a rejection that is forgotten might be carried out later.
pub const REJECTED_ENTRIES: usize = 1024;
/// Days for which they are remembered.
pub const LEDGER_DAYS: i64 = 30;
/// Commands that may be open at a time.
pub const MAX_OPEN: usize = 32;
/// How long after its start the board waits for the clock to be set, where a command depends on it. A box without a battery
/// clock learns the time within seconds of finding a network; one that never does must not hold up its commands for ever.
pub const CLOCK_PATIENCE: Duration = Duration::from_secs(300);
/// Longest reason of a rejection or a failure, in bytes.
pub(super) const MAX_REASON: usize = 1024;

pub(super) const DAY_MS: i64 = 24 * 60 * 60 * 1000;

const CLOCK_UNSET: &str = "the clock of this box is not set, so expires_at can't be judged; set the clock or leave it out";

/// What happens to the board.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// A request came.
    Received {
        /// Which command.
        key: CommandKey,
        /// What was asked for, or why it is not understood.
        request: Result<Box<CommandRequest>, String>,
    },
    /// A record is on stable storage.
    Saved {
        /// Which command.
        key: CommandKey,
        /// Which of its versions.
        version: u32,
    },
    /// The operation that was started came to its end.
    Finished {
        /// Which command.
        key: CommandKey,
        /// What it answered, or why it failed.
        outcome: Result<serde_json::Value, String>,
    },
    /// Time passed.
    Tick,
}

/// What the shell has to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// Store the record and queue the report, whole or not at all; answer [`Input::Saved`].
    Save {
        /// Which command.
        key: CommandKey,
        /// What is known now.
        record: Box<Record>,
        /// What is told.
        report: CommandReport,
    },
    /// Tell what [`CommandBoard::answer`] says when the answer leaves.
    Reply {
        /// Which command.
        key: CommandKey,
    },
    /// Tell this without storing anything.
    Refuse {
        /// Which command.
        key: CommandKey,
        /// What is told.
        report: CommandReport,
    },
    /// Nothing can be told: too many rejections are remembered already. The request may come again.
    LeaveUnanswered {
        /// Which command.
        key: CommandKey,
    },
    /// Begin the operation; answer [`Input::Finished`].
    Start {
        /// Which command.
        key: CommandKey,
        /// What to do.
        operation: Operation,
        /// Whether it may have been done, in part or whole, before a restart.
        resumed: bool,
    },
    /// Forget a finished command, in the store too.
    Forget {
        /// Which command.
        key: CommandKey,
    },
}

/// Whether a command may still start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expiry {
    /// Its time is not over, or it has none.
    Ahead,
    Over,
    /// The clock was never set.
    Unknown,
}

/// The state machine.
#[derive(Debug, Default)]
pub struct CommandBoard {
    ledger: BTreeMap<CommandKey, Record>,
    /// Accepted and stored, oldest first.
    queue: VecDeque<CommandKey>,
    /// The command that runs, or whose `executing` or end is being stored.
    running: Option<CommandKey>,
    /// Commands whose last change is on its way to the store.
    unsaved: BTreeSet<CommandKey>,
    /// Place of the next command that is taken in.
    next_order: u64,
    /// Wall time at which the board began, in milliseconds since 1970; compared only while the clock is not set.
    began_ms: i64,
    outputs: VecDeque<Output>,
}

impl CommandBoard {
    /// A board that goes on where the ledger left off.
    #[must_use]
    pub fn new(now: Wall, ledger: BTreeMap<CommandKey, Record>) -> Self {
        let last = ledger.values().map(|record| record.order).max();
        let mut board = Self {
            next_order: last.unwrap_or(0).saturating_add(1),
            began_ms: now.unix_ms,
            ledger,
            ..Self::default()
        };
        let open = board.ledger.iter().filter(|(_, r)| is_open(r));
        let mut open: Vec<_> = open
            .map(|(key, r)| {
                let waits = r.status != CommandStatus::Executing;
                // What was executing was accepted before everything that waits. Older builds stored no order, only times.
                (waits, r.order, r.changed_ms, key.clone())
            })
            .collect();
        open.sort();
        for (waits, _, _, key) in open {
            if !waits && board.running.is_none() {
                board.resume(now, key);
            } else {
                board.queue.push_back(key);
            }
        }
        board.start_next(now);
        board
    }

    /// Takes one input; drain [`Self::poll`] afterwards.
    pub fn handle(&mut self, now: Wall, input: Input) {
        match input {
            Input::Received { key, request } => self.receive(now, key, request),
            Input::Saved { key, version } => self.saved(now, key, version),
            Input::Finished { key, outcome } => {
                if self.running.as_ref() == Some(&key) {
                    let status = match outcome {
                        Ok(result) => CommandStatus::Successful { result },
                        Err(reason) => CommandStatus::Failed {
                            reason: clipped(reason),
                        },
                    };
                    self.change(now, &key, status);
                }
            }
            Input::Tick => {
                self.start_next(now);
                self.forget_old(now);
            }
        }
        if cfg!(debug_assertions) {
            self.check();
        }
    }

    /// The next thing to do, until there is nothing left.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Commands that are not finished.
    pub fn open(&self) -> impl Iterator<Item = &CommandKey> {
        let open = self.ledger.iter().filter(|(_, record)| is_open(record));
        open.map(|(key, _)| key)
    }

    /// Whether a command of this name is remembered.
    #[must_use]
    pub fn knows(&self, key: &CommandKey) -> bool {
        self.ledger.contains_key(key)
    }

    /// What may be told about a command now. Nothing while its last change is being stored: the report of that follows.
    #[must_use]
    pub fn answer(&self, key: &CommandKey) -> Option<CommandReport> {
        let record = self.ledger.get(key)?;
        (!self.unsaved.contains(key)).then(|| report(key, record))
    }

    /// Whether the next command only waits for the clock to be set; [`Input::Tick`] looks again.
    #[must_use]
    pub fn waits_for_clock(&self) -> bool {
        self.running.is_none() && !self.queue.is_empty()
    }

    /// Sweeps the invariants that hold between any two calls.
    ///
    /// # Panics
    /// When one does not hold, which is a fault of this file.
    pub fn check(&self) {
        for key in self.queue.iter().chain(&self.running) {
            assert!(self.knows(key), "{key} is queued and not known");
        }
        if let Some(running) = &self.running {
            assert!(!self.queue.contains(running), "{running} runs and waits");
        }
        let open = self.open().count();
        assert!(open <= MAX_OPEN, "{open} commands are open");
        for (key, record) in &self.ledger {
            assert_eq!(record.request.is_some(), is_open(record), "{key}");
        }
    }

    fn receive(
        &mut self,
        now: Wall,
        key: CommandKey,
        request: Result<Box<CommandRequest>, String>,
    ) {
        if self.knows(&key) {
            self.outputs.push_back(Output::Reply { key });
            return;
        }
        let request = match request {
            Ok(request) => request,
            Err(reason) => {
                let report = refusal(key.id.to_string(), reason);
                self.outputs.push_back(Output::Refuse { key, report });
                return;
            }
        };
        let status = self.admit(now, &request);
        let is_rejected = matches!(status, CommandStatus::Rejected { .. });
        if is_rejected && self.rejected() >= REJECTED_ENTRIES {
            self.outputs.push_back(Output::LeaveUnanswered { key });
            return;
        }
        let record = Record {
            request: Some(request),
            status: CommandStatus::Accepted,
            version: 0,
            order: self.next_order,
            changed_ms: now.unix_ms,
            is_dated: false,
        };
        self.next_order = self.next_order.saturating_add(1);
        self.ledger.insert(key.clone(), record);
        self.change(now, &key, status);
        self.forget_old(now);
    }

    /// The first status of a request that is understood.
    fn admit(&self, now: Wall, request: &CommandRequest) -> CommandStatus {
        match expiry(now, request) {
            Expiry::Over => return CommandStatus::Expired,
            Expiry::Unknown if !self.clock_may_come(now) => return clock_unset(),
            Expiry::Ahead | Expiry::Unknown => {}
        }
        if self.open().count() < MAX_OPEN {
            return CommandStatus::Accepted;
        }
        let reason = format!(
            "{MAX_OPEN} commands are open already; wait until one is finished and ask again under another id"
        );
        CommandStatus::Rejected { reason }
    }

    fn rejected(&self) -> usize {
        let all = self.ledger.values();
        all.filter(|record| is_rejected(record)).count()
    }

    /// Whether it is early enough to hope that the clock is set soon.
    fn clock_may_come(&self, now: Wall) -> bool {
        let passed = u128::from(now.unix_ms.abs_diff(self.began_ms));
        passed < CLOCK_PATIENCE.as_millis()
    }

    fn saved(&mut self, now: Wall, key: CommandKey, version: u32) {
        let Some(record) = self.ledger.get(&key).filter(|r| r.version == version) else {
            return;
        };
        self.unsaved.remove(&key);
        match (&record.status, &record.request) {
            (CommandStatus::Accepted, _) => self.queue.push_back(key),
            (CommandStatus::Executing, Some(request)) => {
                let operation = request.operation.clone();
                self.outputs.push_back(Output::Start {
                    key,
                    operation,
                    resumed: false,
                });
                return;
            }
            _ => {
                if self.running.as_ref() == Some(&key) {
                    self.running = None;
                }
            }
        }
        self.start_next(now);
    }

    /// Starts the next command in the order of acceptance. One whose time can't be judged yet holds up those behind it: of
    /// two deployments the later one counts.
    fn start_next(&mut self, now: Wall) {
        while self.running.is_none() {
            let Some(key) = self.queue.front().cloned() else {
                return;
            };
            let status = match self.expiry_of(now, &key) {
                Expiry::Unknown if self.clock_may_come(now) => return,
                Expiry::Unknown => clock_unset(),
                Expiry::Over => CommandStatus::Expired,
                Expiry::Ahead => {
                    self.running = Some(key.clone());
                    CommandStatus::Executing
                }
            };
            self.queue.pop_front();
            self.change(now, &key, status);
        }
    }

    /// Goes on with a command that was executing when the box went down. Every operation may be repeated.
    fn resume(&mut self, now: Wall, key: CommandKey) {
        let Some(request) = self.ledger.get(&key).and_then(|r| r.request.as_ref()) else {
            return;
        };
        let operation = request.operation.clone();
        let late = match expiry(now, request) {
            Expiry::Ahead => None,
            Expiry::Over => Some("its time was over then"),
            Expiry::Unknown => Some("its clock was not set then, so expires_at can't be judged"),
        };
        self.running = Some(key.clone());
        match late {
            Some(why) => {
                let reason = format!("the box restarted while it ran, and {why}");
                self.change(now, &key, CommandStatus::Failed { reason });
            }
            None => self.outputs.push_back(Output::Start {
                key,
                operation,
                resumed: true,
            }),
        }
    }

    fn expiry_of(&self, now: Wall, key: &CommandKey) -> Expiry {
        let request = self.ledger.get(key).and_then(|r| r.request.as_ref());
        request.map_or(Expiry::Ahead, |request| expiry(now, request))
    }

    fn change(&mut self, now: Wall, key: &CommandKey, status: CommandStatus) {
        let Some(record) = self.ledger.get_mut(key) else {
            return;
        };
        if status.is_terminal() {
            record.request = None;
        }
        record.status = status;
        record.version = record.version.saturating_add(1);
        record.changed_ms = now.unix_ms;
        record.is_dated = now.quality == TimeQuality::Synced;
        self.unsaved.insert(key.clone());
        self.outputs.push_back(Output::Save {
            key: key.clone(),
            record: Box::new(record.clone()),
            report: report(key, record),
        });
    }

    /// Keeps the ledger within its bounds; of too many the oldest finished commands go first.
    ///
    /// A clock that nobody vouches for says nothing about age: nothing is too old by it, and what was finished by it ages
    /// from the first moment at which a time source vouches. Else a box that starts in 1970, or a month behind, would forget
    /// at its first contact with a time server what it has just done, and do it again for a request that is retained.
    fn forget_old(&mut self, now: Wall) {
        let knows_time = now.quality == TimeQuality::Synced;
        if knows_time {
            for record in self.ledger.values_mut().filter(|r| !r.is_dated) {
                record.changed_ms = now.unix_ms;
                record.is_dated = true;
            }
        }
        let finished = self
            .ledger
            .iter()
            .filter(|(key, record)| !is_open(record) && self.running.as_ref() != Some(*key));
        let mut finished: Vec<_> = finished
            .map(|(key, r)| (r.order, r.changed_ms, is_rejected(r), key.clone()))
            .collect();
        finished.sort();
        let kept = finished.iter().filter(|(_, _, rejected, _)| !rejected);
        let mut too_many = kept.count().saturating_sub(LEDGER_ENTRIES);
        for (_, changed_ms, is_rejected, key) in finished {
            let age_ms = now.unix_ms.saturating_sub(changed_ms);
            let is_too_old = knows_time && age_ms > LEDGER_DAYS * DAY_MS;
            let is_one_too_many = !is_rejected && too_many > 0;
            if !is_rejected {
                too_many = too_many.saturating_sub(1);
            }
            if is_too_old || is_one_too_many {
                self.ledger.remove(&key);
                self.unsaved.remove(&key);
                self.outputs.push_back(Output::Forget { key });
            }
        }
    }
}

/// The report that refuses command `id` for `reason`.
#[must_use]
pub fn refusal(id: String, reason: String) -> CommandReport {
    CommandReport {
        id,
        status: CommandStatus::Rejected {
            reason: clipped(reason),
        },
        version: 1,
    }
}

/// The reason, cut at [`MAX_REASON`]: those of others may repeat a whole request.
fn clipped(mut reason: String) -> String {
    if reason.len() > MAX_REASON {
        const CUT: &str = "…";
        reason.truncate(reason.floor_char_boundary(MAX_REASON - CUT.len()));
        reason.push_str(CUT);
    }
    reason
}

fn clock_unset() -> CommandStatus {
    CommandStatus::Rejected {
        reason: CLOCK_UNSET.to_owned(),
    }
}

fn report(key: &CommandKey, record: &Record) -> CommandReport {
    CommandReport {
        id: key.id.to_string(),
        status: record.status.clone(),
        version: record.version,
    }
}

fn is_open(record: &Record) -> bool {
    !record.status.is_terminal()
}

fn is_rejected(record: &Record) -> bool {
    matches!(record.status, CommandStatus::Rejected { .. })
}

fn expiry(now: Wall, request: &CommandRequest) -> Expiry {
    match request.expires_at {
        None => Expiry::Ahead,
        Some(_) if now.quality == TimeQuality::Unsynced => Expiry::Unknown,
        Some(at) if now.unix_ms >= at.as_millisecond() => Expiry::Over,
        Some(_) => Expiry::Ahead,
    }
}

#[cfg(test)]
mod tests;
