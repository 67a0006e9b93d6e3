//! The board of commands: what was asked, what was answered, what runs. Sans-IO.
//!
//! Invariants:
//! - a command starts only after its `executing` is stored, so that a restart knows what it was doing;
//! - a known id is answered again with its present status and never run twice;
//! - exactly one terminal status; an expired command never starts;
//! - one command runs at a time, in the order in which they were accepted;
//! - a reason is at most [`MAX_REASON`] bytes long, whoever wrote it: a report always fits into a message;
//! - a finished command is not forgotten for its age before the box has known the time for that long.
//!
//! ```text
//!  Received ─► Save(accepted) ─ Saved ─► Save(executing) ─ Saved ─► Start ─ Finished ─► Save(successful|failed)
//!      │                            └─► Save(expired)
//!      └─► Reply(rejected), not remembered
//! ```

use std::collections::{BTreeMap, VecDeque};

use watchkeeper_contract::command::{CommandReport, CommandRequest, CommandStatus, Operation};
use watchkeeper_contract::time::{TimeQuality, Wall};

use super::ledger::Record;

/// Finished commands that are remembered.
pub const LEDGER_ENTRIES: usize = 4096;
/// Days for which they are remembered.
pub const LEDGER_DAYS: i64 = 30;
/// Commands that may be open at a time.
pub const MAX_OPEN: usize = 32;
/// Longest reason of a rejection or a failure, in bytes.
pub(super) const MAX_REASON: usize = 1024;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// What happens to the board.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// A request came.
    Received {
        /// Its id.
        id: String,
        /// What was asked for, or why it is not understood.
        request: Result<Box<CommandRequest>, String>,
    },
    /// A record is on stable storage.
    Saved {
        /// Which command.
        id: String,
        /// Which of its versions.
        version: u32,
    },
    /// The operation that was started came to its end.
    Finished {
        /// Which command.
        id: String,
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
        /// What is known now.
        record: Box<Record>,
        /// What is told.
        report: CommandReport,
    },
    /// Tell this without storing anything.
    Reply {
        /// What is told.
        report: CommandReport,
    },
    /// Begin the operation; answer [`Input::Finished`].
    Start {
        /// Which command.
        id: String,
        /// What to do.
        operation: Operation,
        /// Whether it may have been done, in part or whole, before a restart.
        resumed: bool,
    },
    /// Forget a finished command, in the store too.
    Forget {
        /// Which command.
        id: String,
        /// Its operation, for the topic of its status.
        operation: Operation,
    },
}

/// The state machine.
#[derive(Debug, Default)]
pub struct CommandBoard {
    ledger: BTreeMap<String, Record>,
    /// Accepted and stored, oldest first.
    queue: VecDeque<String>,
    /// The command that runs, or whose `executing` is being stored.
    running: Option<String>,
    outputs: VecDeque<Output>,
}

impl CommandBoard {
    /// A board that goes on where the ledger left off.
    #[must_use]
    pub fn new(now: Wall, ledger: BTreeMap<String, Record>) -> Self {
        let mut board = Self {
            ledger,
            ..Self::default()
        };
        let mut open: Vec<(i64, String, bool)> = board
            .ledger
            .iter()
            .filter(|(_, r)| !r.status.is_terminal())
            .map(|(id, r)| {
                (
                    r.changed_ms,
                    id.clone(),
                    r.status == CommandStatus::Executing,
                )
            })
            .collect();
        // What was executing was accepted before everything that waits.
        open.sort_by(|a, b| (!a.2, a.0, &a.1).cmp(&(!b.2, b.0, &b.1)));
        for (_, id, was_executing) in open {
            if was_executing && board.running.is_none() {
                board.resume(now, id);
            } else {
                board.queue.push_back(id);
            }
        }
        board.start_next(now);
        board
    }

    /// Takes one input; drain [`Self::poll`] afterwards.
    pub fn handle(&mut self, now: Wall, input: Input) {
        match input {
            Input::Received { id, request } => self.receive(now, id, request),
            Input::Saved { id, version } => self.saved(now, id, version),
            Input::Finished { id, outcome } => {
                if self.running.as_ref() == Some(&id) {
                    let status = match outcome {
                        Ok(result) => CommandStatus::Successful { result },
                        Err(reason) => CommandStatus::Failed {
                            reason: clipped(reason),
                        },
                    };
                    self.change(now, &id, status);
                }
            }
            Input::Tick => self.forget_old(now),
        }
        if cfg!(debug_assertions) {
            self.check();
        }
    }

    /// The next thing to do, until there is nothing left.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Commands that are not finished, with what was last told about them.
    pub fn open(&self) -> impl Iterator<Item = (&Operation, CommandReport)> {
        self.ledger
            .iter()
            .filter(|(_, record)| !record.status.is_terminal())
            .map(|(id, record)| (&record.request.operation, report(id, record)))
    }

    /// Sweeps the invariants that hold between any two calls.
    ///
    /// # Panics
    /// When one does not hold, which is a fault of this file.
    pub fn check(&self) {
        for id in self.queue.iter().chain(&self.running) {
            assert!(self.ledger.contains_key(id), "{id} is queued and not known");
        }
        if let Some(running) = &self.running {
            assert!(!self.queue.contains(running), "{running} runs and waits");
        }
        let open = self
            .ledger
            .values()
            .filter(|r| !r.status.is_terminal())
            .count();
        assert!(open <= MAX_OPEN, "{open} commands are open");
    }

    fn receive(&mut self, now: Wall, id: String, request: Result<Box<CommandRequest>, String>) {
        if let Some(known) = self.ledger.get(&id) {
            let report = report(&id, known);
            self.outputs.push_back(Output::Reply { report });
            return;
        }
        let request = match request.and_then(|request| self.admit(now, request)) {
            Ok(request) => *request,
            Err(reason) => {
                let status = CommandStatus::Rejected {
                    reason: clipped(reason),
                };
                let report = CommandReport {
                    id,
                    status,
                    version: 1,
                };
                self.outputs.push_back(Output::Reply { report });
                return;
            }
        };
        let status = if is_expired(now, &request) {
            CommandStatus::Expired
        } else {
            CommandStatus::Accepted
        };
        let record = Record {
            request,
            status: CommandStatus::Accepted,
            version: 0,
            changed_ms: now.unix_ms,
            changed_unsynced: now.quality == TimeQuality::Unsynced,
        };
        self.ledger.insert(id.clone(), record);
        self.change(now, &id, status);
        self.forget_old(now);
    }

    fn admit(
        &self,
        now: Wall,
        request: Box<CommandRequest>,
    ) -> Result<Box<CommandRequest>, String> {
        let open = self
            .ledger
            .values()
            .filter(|r| !r.status.is_terminal())
            .count();
        if open >= MAX_OPEN {
            return Err(format!(
                "{MAX_OPEN} commands are open already; wait until one is finished"
            ));
        }
        if request.expires_at.is_some() && now.quality == TimeQuality::Unsynced {
            return Err(
                "the clock of this box is not set, so expires_at can't be judged; set the clock or leave it out"
                    .to_owned(),
            );
        }
        Ok(request)
    }

    fn saved(&mut self, now: Wall, id: String, version: u32) {
        let Some(record) = self.ledger.get(&id).filter(|r| r.version == version) else {
            return;
        };
        match &record.status {
            CommandStatus::Accepted => self.queue.push_back(id),
            CommandStatus::Executing => {
                let operation = record.request.operation.clone();
                self.outputs.push_back(Output::Start {
                    id,
                    operation,
                    resumed: false,
                });
                return;
            }
            CommandStatus::Successful { .. }
            | CommandStatus::Failed { .. }
            | CommandStatus::Rejected { .. }
            | CommandStatus::Expired => {
                if self.running.as_ref() == Some(&id) {
                    self.running = None;
                }
            }
        }
        self.start_next(now);
    }

    fn start_next(&mut self, now: Wall) {
        while self.running.is_none() {
            let Some(id) = self.queue.pop_front() else {
                return;
            };
            let expired = self
                .ledger
                .get(&id)
                .is_some_and(|r| is_expired(now, &r.request));
            if expired {
                self.change(now, &id, CommandStatus::Expired);
            } else {
                self.running = Some(id.clone());
                self.change(now, &id, CommandStatus::Executing);
            }
        }
    }

    /// Goes on with a command that was executing when the box went down. Every operation may be repeated.
    fn resume(&mut self, now: Wall, id: String) {
        let Some(record) = self.ledger.get(&id) else {
            return;
        };
        let operation = record.request.operation.clone();
        let expired = is_expired(now, &record.request);
        self.running = Some(id.clone());
        if expired {
            let reason = "the box restarted while it ran, and its time was over then".to_owned();
            self.change(now, &id, CommandStatus::Failed { reason });
        } else {
            self.outputs.push_back(Output::Start {
                id,
                operation,
                resumed: true,
            });
        }
    }

    fn change(&mut self, now: Wall, id: &str, status: CommandStatus) {
        let Some(record) = self.ledger.get_mut(id) else {
            return;
        };
        record.status = status;
        record.version = record.version.saturating_add(1);
        record.changed_ms = now.unix_ms;
        record.changed_unsynced = now.quality == TimeQuality::Unsynced;
        self.outputs.push_back(Output::Save {
            record: Box::new(record.clone()),
            report: report(id, record),
        });
    }

    /// Keeps the ledger within its bounds; the oldest finished commands go first.
    ///
    /// A clock that was never set says nothing about age: while it is not set nothing is too old, and what was finished
    /// before it was set ages from the first moment at which it is. Else a box that starts in 1970 would forget, at its
    /// first contact with a time server, what it has just done, and do it again for a request that is retained.
    fn forget_old(&mut self, now: Wall) {
        let knows_time = now.quality != TimeQuality::Unsynced;
        if knows_time {
            for record in self.ledger.values_mut().filter(|r| r.changed_unsynced) {
                record.changed_ms = now.unix_ms;
                record.changed_unsynced = false;
            }
        }
        let mut finished: Vec<(i64, String)> = self
            .ledger
            .iter()
            .filter(|(id, r)| r.status.is_terminal() && self.running.as_ref() != Some(*id))
            .map(|(id, r)| (r.changed_ms, id.clone()))
            .collect();
        finished.sort();
        let too_many = finished.len().saturating_sub(LEDGER_ENTRIES);
        for (index, (changed_ms, id)) in finished.into_iter().enumerate() {
            let too_old =
                knows_time && now.unix_ms.saturating_sub(changed_ms) > LEDGER_DAYS * DAY_MS;
            if index >= too_many && !too_old {
                break;
            }
            if let Some(record) = self.ledger.remove(&id) {
                let operation = record.request.operation;
                self.outputs.push_back(Output::Forget { id, operation });
            }
        }
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

fn report(id: &str, record: &Record) -> CommandReport {
    CommandReport {
        id: id.to_owned(),
        status: record.status.clone(),
        version: record.version,
    }
}

fn is_expired(now: Wall, request: &CommandRequest) -> bool {
    request
        .expires_at
        .is_some_and(|at| now.unix_ms >= at.as_millisecond())
}

#[cfg(test)]
mod tests;
