//! State machine of all commands of the box. Sans-IO.
//!
//! - A command is its operation and its id ([`CommandKey`]).
//! - A command starts only after `executing` is stored, so a restart knows what was running.
//! - A known command gets its present status as reply and never runs twice.
//! - A command has exactly one terminal status. A rejected or expired one never starts.
//! - [`CommandBoard::answer`] reports only what is stored.
//! - One command runs at a time, in the order of acceptance.
//! - Expiry is judged only by a clock that was set, on receipt and again before the start.
//! - A reason has at most [`MAX_REASON`] bytes, so a report always fits into a message.
//! - A finished command ages only while the clock is synchronised.
//!
//! ```text
//!  Received ─► Save(accepted) ─ Saved ─► Save(executing) ─ Saved ─► Start ─ Finished ─► Save(end)
//!      │                            ├─► Save(expired)
//!      │                            └─► Save(rejected): the clock was not set in time
//!      ├─► Save(expired)
//!      ├─► Save(rejected): valid, but too many commands are open
//!      └─► Refuse: invalid and not stored; a corrected request may reuse the id
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use watchkeeper_contract::command::{CommandReport, CommandRequest, CommandStatus, Operation};
use watchkeeper_contract::time::{TimeQuality, Wall};

use super::{CommandKey, Record};

/// Finished commands that the ledger keeps, without rejected ones.
pub const LEDGER_ENTRIES: usize = 4096;
/// Rejected commands that the ledger keeps, counted apart so that they never evict executed ones.
/// When it is full, a further rejection gets no reply: a forgotten rejection could be executed
/// later.
pub const REJECTED_ENTRIES: usize = 1024;
/// Days that the ledger keeps a finished command.
pub const LEDGER_DAYS: i64 = 30;
/// Open commands at a time.
pub const MAX_OPEN: usize = 32;
/// How long after its start the board waits for the clock where a command depends on it. A box
/// without a battery clock gets the time within seconds of network access. A clock that is never
/// set must not block commands forever.
pub const CLOCK_TIMEOUT: Duration = Duration::from_secs(300);
/// Longest reason of a rejection or failure, in bytes.
pub(super) const MAX_REASON: usize = 1024;

pub(super) const DAY_MS: i64 = 24 * 60 * 60 * 1000;

const CLOCK_UNSET: &str = "the clock of this box is not set, so expires_at can't be checked; \
                           set the clock or omit expires_at";

/// Events that the shell reports.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// A request arrived.
    Received {
        key: CommandKey,
        /// The request, or why it is invalid.
        request: Result<Box<CommandRequest>, String>,
    },
    /// A record is on stable storage.
    Saved {
        key: CommandKey,
        /// Version of the stored record.
        version: u32,
    },
    /// The started operation ended.
    Finished {
        key: CommandKey,
        /// Result of the operation, or why it failed.
        outcome: Result<serde_json::Value, String>,
    },
    Tick,
}

/// Actions for the shell.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// Store the record and queue the report in one batch; answer with [`Input::Saved`].
    Save {
        key: CommandKey,
        record: Box<Record>,
        report: CommandReport,
    },
    /// Publish the report that [`CommandBoard::answer`] returns when the reply leaves.
    Reply { key: CommandKey },
    /// Publish this report without storing it.
    Refuse {
        key: CommandKey,
        report: CommandReport,
    },
    /// Publish nothing: the ledger of rejections is full. The request may arrive again.
    LeaveUnanswered { key: CommandKey },
    /// Start the operation; answer with [`Input::Finished`].
    Start {
        key: CommandKey,
        operation: Operation,
        /// Whether it may have been executed, partly or fully, before a restart.
        resumed: bool,
    },
    /// Delete the record of a finished command.
    Forget { key: CommandKey },
}

/// Whether a command may still start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expiry {
    /// Not expired, or without expiry.
    Ahead,
    Over,
    /// Unknown, because the clock was never set, or not since the start.
    Unknown,
}

/// State machine of the commands.
#[derive(Debug, Default)]
pub struct CommandBoard {
    ledger: BTreeMap<CommandKey, Record>,
    /// Accepted and stored commands, oldest first.
    queue: VecDeque<CommandKey>,
    /// The command that runs, or whose `executing` or terminal status is being stored.
    running: Option<CommandKey>,
    /// Commands whose last change is being stored.
    unsaved: BTreeSet<CommandKey>,
    /// Order of the next received command.
    next_order: u64,
    /// Wall time of the board's start in Unix milliseconds; used only while the clock is not set.
    began_ms: i64,
    outputs: VecDeque<Output>,
}

impl CommandBoard {
    /// Creates a board from the restored ledger.
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
                (waits, r.order, key.clone())
            })
            .collect();
        open.sort();
        for (waits, _, key) in open {
            if !waits && board.running.is_none() {
                board.resume(now, key);
            } else {
                board.queue.push_back(key);
            }
        }
        board.start_next(now);
        board
    }

    /// Handles one input; drain [`Self::poll`] afterwards.
    pub fn handle(&mut self, now: Wall, input: Input) {
        match input {
            Input::Received { key, request } => self.receive(now, key, request),
            Input::Saved { key, version } => self.saved(now, key, version),
            Input::Finished { key, outcome } => {
                if self.running.as_ref() == Some(&key) {
                    let status = match outcome {
                        Ok(result) => CommandStatus::Successful { result },
                        Err(reason) => CommandStatus::Failed {
                            reason: truncate_reason(reason),
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
        #[cfg(test)]
        self.check();
    }

    /// Next action, `None` when all are done.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Commands without a terminal status.
    pub fn open(&self) -> impl Iterator<Item = &CommandKey> {
        let open = self.ledger.iter().filter(|(_, record)| is_open(record));
        open.map(|(key, _)| key)
    }

    /// Whether the ledger contains the command.
    pub fn knows(&self, key: &CommandKey) -> bool {
        self.ledger.contains_key(key)
    }

    /// Present report of a command. `None` while its last change is being stored; that report
    /// follows.
    pub fn answer(&self, key: &CommandKey) -> Option<CommandReport> {
        let record = self.ledger.get(key)?;
        (!self.unsaved.contains(key)).then(|| report(key, record))
    }

    /// Whether the next command waits only for the clock; [`Input::Tick`] checks again.
    pub(crate) fn waits_for_clock(&self) -> bool {
        self.running.is_none() && !self.queue.is_empty()
    }

    /// Checks the invariants that hold between calls.
    ///
    /// # Panics
    /// Panics when one is violated, which is a defect of this module.
    #[cfg(test)]
    fn check(&self) {
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

    /// Initial status of a valid request.
    fn admit(&self, now: Wall, request: &CommandRequest) -> CommandStatus {
        match self.expiry(now, request) {
            Expiry::Over => return CommandStatus::Expired,
            Expiry::Unknown if !self.clock_may_come(now) => return clock_unset(),
            Expiry::Ahead | Expiry::Unknown => {}
        }
        if self.open().count() < MAX_OPEN {
            return CommandStatus::Accepted;
        }
        let reason = format!(
            "{MAX_OPEN} commands are open; wait until one is finished and retry with another id"
        );
        CommandStatus::Rejected { reason }
    }

    fn rejected(&self) -> usize {
        let all = self.ledger.values();
        all.filter(|record| is_rejected(record)).count()
    }

    /// Whether the clock may still be set in time.
    fn clock_may_come(&self, now: Wall) -> bool {
        let passed = u128::from(now.unix_ms.abs_diff(self.began_ms));
        passed < CLOCK_TIMEOUT.as_millis()
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

    /// Starts the next command in the order of acceptance. A command with unknown expiry blocks
    /// those after it: of two deployments the later one must win.
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

    /// Resumes a command that was executing when the box stopped. Every operation may be repeated.
    fn resume(&mut self, now: Wall, key: CommandKey) {
        let Some(request) = self.ledger.get(&key).and_then(|r| r.request.as_ref()) else {
            return;
        };
        let operation = request.operation.clone();
        let late = match expiry(now, request) {
            Expiry::Ahead => None,
            Expiry::Over => Some("it had expired by then"),
            Expiry::Unknown => Some("the clock was not set then, so expires_at can't be checked"),
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
        request.map_or(Expiry::Ahead, |request| self.expiry(now, request))
    }

    /// Judges whether a command may start. A clock that runs free after a start may be days behind
    /// until a time server answers, so that it shows only what is over.
    fn expiry(&self, now: Wall, request: &CommandRequest) -> Expiry {
        let may_be_behind = now.quality == TimeQuality::Estimated && self.clock_may_come(now);
        match expiry(now, request) {
            Expiry::Ahead if request.expires_at.is_some() && may_be_behind => Expiry::Unknown,
            judged => judged,
        }
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

    /// Keeps the ledger within its bounds; the oldest finished commands go first.
    ///
    /// Age counts only by a synchronised clock: a record written before ages from the first
    /// synchronised moment. Otherwise a box that starts in 1970, or a month behind, would forget a
    /// command at its first contact with a time server. A retained request would then execute it
    /// again.
    fn forget_old(&mut self, now: Wall) {
        let is_synced = now.quality == TimeQuality::Synced;
        if is_synced {
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
            let is_too_old = is_synced && age_ms > LEDGER_DAYS * DAY_MS;
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

/// Report that rejects command `id` for `reason`.
pub fn refusal(id: String, reason: String) -> CommandReport {
    CommandReport {
        id,
        status: CommandStatus::Rejected {
            reason: truncate_reason(reason),
        },
        version: 1,
    }
}

/// Cuts a reason at [`MAX_REASON`] bytes; the runtime's may repeat a whole request.
fn truncate_reason(mut reason: String) -> String {
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
