//! Commands: their board, the replies that wait, the operation in progress.
//!
//! Invariant: requests can't make the box publish without bound. A stored status is sent through
//! the outbox. A reply that needs no record waits in [`Replies`], which limits those in flight.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use watchkeeper_assistant::trace::Trace;
use watchkeeper_client::RuntimeClient;
use watchkeeper_client::clock::wall_now;
use watchkeeper_contract::command::{CommandReport, CommandStatus, Operation};

use crate::fleet::command::{
    CommandBoard, CommandKey, Input, Outcome, Replies, Reply, ReplyBody, execute,
};
use crate::future_slot::take_output;
use crate::log_limiter::LogLimiter;

/// Period in which at most one refused request is logged, however many arrive.
const REFUSAL_LOG_PERIOD: Duration = Duration::from_secs(10);
/// Period in which old commands are removed from the ledger.
const LEDGER_PERIOD: Duration = Duration::from_secs(3600);

/// Refused commands that are counted once.
const MAX_KNOWN_REFUSED: usize = 4096;

pub(crate) struct Commands {
    pub(crate) board: CommandBoard,
    pub(crate) replies: Replies,
    trace: Trace,
    refusal_log: LogLimiter,
    /// Requests refused since the agent's start.
    refused: u64,
    /// Hashes of refused commands: a retained request arrives again in every session.
    known_refused: BTreeSet<u64>,
    executing: Option<BoxFuture<'static, Outcome>>,
    ledger_due: Instant,
}

impl Commands {
    pub(crate) fn new(board: CommandBoard, trace: Trace, now: Instant) -> Self {
        Self {
            board,
            replies: Replies::default(),
            trace,
            refusal_log: LogLimiter::new(REFUSAL_LOG_PERIOD),
            refused: 0,
            known_refused: BTreeSet::new(),
            executing: None,
            ledger_due: now + LEDGER_PERIOD,
        }
    }

    pub(crate) fn handle(&mut self, input: Input) {
        self.board.handle(wall_now(), input);
    }

    /// When old commands are removed next.
    pub(crate) fn deadline(&self) -> Instant {
        self.ledger_due
    }

    /// Sets the next deadline, where the present one passed or `may_know_time`.
    pub(crate) fn take_due(&mut self, now: Instant, may_know_time: bool) -> bool {
        let may_know_time = self.board.waits_for_clock() && may_know_time;
        let is_due = self.ledger_due <= now || may_know_time;
        if is_due {
            self.ledger_due = now + LEDGER_PERIOD;
        }
        is_due
    }

    /// Waits for the operation in progress. Dropping this future loses nothing.
    pub(crate) async fn finished(&mut self) -> Outcome {
        take_output(&mut self.executing).await
    }

    pub(crate) fn start_executing(
        &mut self,
        runtime: RuntimeClient,
        key: CommandKey,
        operation: Operation,
        resumed: bool,
    ) {
        let (seed, trace) = (fastrand::u64(..), self.trace.clone());
        let executing = async move {
            let what = describe_change(&operation);
            let outcome = execute(runtime, key, operation, resumed, seed).await;
            if let Some(what) = what {
                // No command waits for the disk of the audit log.
                drop(trace.note_or_log_in_background("command", audit_entry(&what, &outcome)));
            }
            outcome
        };
        self.executing = Some(executing.boxed());
    }

    /// Queues `reply`, or logs that the queue is full.
    pub(crate) fn push_reply(&mut self, reply: Reply) {
        let name = format!("{}/{}", reply.operation, reply.id);
        if !self.replies.push(reply) {
            self.log_refusal(&name, "too many replies are pending");
        }
    }

    /// Queues the present status of every open command, as a new session begins with.
    pub(crate) fn push_open(&mut self) {
        let open: Vec<_> = self.board.open().cloned().collect();
        for key in open {
            self.push_reply(Reply {
                operation: key.operation.as_str().to_owned(),
                id: key.id.to_string(),
                body: ReplyBody::Status,
            });
        }
    }

    /// Logs a rejected request and queues its report.
    pub(crate) fn reject(&mut self, operation: &str, id: &str, report: CommandReport) {
        if let CommandStatus::Rejected { reason } = &report.status {
            self.log_refusal(&format!("{operation}/{id}"), reason);
        }
        self.push_reply(Reply {
            operation: operation.to_owned(),
            id: id.to_owned(),
            body: ReplyBody::Refusal(report),
        });
    }

    /// Requests refused since the agent's start.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }

    /// Lets the next refusal of a command whose request was cleared count again.
    pub(crate) fn forget_refusal(&mut self, operation: &str, id: &str) {
        self.known_refused
            .remove(&hash(&format!("{operation}/{id}")));
    }

    /// Counts a refused command once, and logs it at a limited rate: every client that may write
    /// requests can cause it. Beyond [`MAX_KNOWN_REFUSED`] each request counts.
    pub(crate) fn log_refusal(&mut self, command: &str, reason: &str) {
        let command_hash = hash(command);
        if self.known_refused.contains(&command_hash) {
            return;
        }
        if self.known_refused.len() < MAX_KNOWN_REFUSED {
            self.known_refused.insert(command_hash);
        }
        self.refused = self.refused.saturating_add(1);
        if let Some(suppressed) = self.refusal_log.admit(Instant::now()) {
            tracing::warn!(command, reason, suppressed, "command refused");
        }
    }

    pub(crate) fn log_status(&mut self, key: &CommandKey, report: &CommandReport) {
        match &report.status {
            CommandStatus::Rejected { reason } => self.log_refusal(&key.to_string(), reason),
            CommandStatus::Expired => self.log_refusal(&key.to_string(), "expired"),
            CommandStatus::Accepted => tracing::info!(command = %key, "command accepted"),
            CommandStatus::Executing => tracing::debug!(command = %key, "command executing"),
            CommandStatus::Successful { .. } => {
                tracing::info!(command = %key, "command successful");
            }
            CommandStatus::Failed { reason } => {
                tracing::warn!(command = %key, reason, "command failed");
            }
        }
    }
}

/// Describes what `operation` changes; `None` if nothing.
fn describe_change(operation: &Operation) -> Option<String> {
    match operation {
        Operation::Snapshot { .. } => None,
        Operation::Deploy { pipeline } => Some(format!("deploy pipeline {}", pipeline.id)),
        Operation::Stop { pipeline } => Some(format!("delete pipeline {pipeline}")),
        Operation::Review { event, .. } => Some(format!("answer the review of event {event}")),
    }
}

/// Entry of the audit log for a command that should `change` something.
fn audit_entry(change: &str, outcome: &Outcome) -> Value {
    let (key, why) = (&outcome.key, outcome.result.as_ref().err());
    let how = if why.is_some() { "failed" } else { "done" };
    json!({"sentence": format!("command {key} over MQTT, {change}: {how}"),
        "command": key.to_string(), "how": how, "why": why})
}

fn hash(command: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    command.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use watchkeeper_assistant::trace::{AGENT, Role, role};
    use watchkeeper_contract::id::PipelineId;

    use super::*;
    use crate::fleet::command::{CommandId, OperationName};

    #[test]
    fn command_that_stops_a_pipeline_is_audited() {
        let pipeline = PipelineId::new("gate").unwrap();
        let what = describe_change(&Operation::Stop { pipeline }).unwrap();
        let outcome = Outcome {
            key: CommandKey {
                operation: "stop".parse::<OperationName>().unwrap(),
                id: CommandId::new("c1").unwrap(),
            },
            result: Err("away".to_owned()),
        };
        let entry = audit_entry(&what, &outcome);
        assert_eq!(
            entry["sentence"],
            "command stop/c1 over MQTT, delete pipeline gate: failed"
        );
        assert_eq!(entry["why"], "away");
        assert_eq!(role("command", &entry), Role::Decision);
    }

    #[test]
    fn refused_command_counts_once_until_its_request_is_cleared() {
        let trace = Trace::new(std::path::Path::new("/none"), AGENT);
        let mut commands = Commands::new(CommandBoard::default(), trace, Instant::now());
        let reject = |commands: &mut Commands, id: &str| {
            let report = crate::fleet::command::refusal(id.to_owned(), "no".to_owned());
            commands.reject("reboot", id, report);
            commands.refused()
        };
        assert_eq!(reject(&mut commands, "a"), 1);
        commands.replies.begin_session();
        assert_eq!(reject(&mut commands, "a"), 1);
        let answered = commands.replies.take_next().unwrap();
        assert_eq!(answered.id, "a", "answered again");
        assert_eq!(reject(&mut commands, "b"), 2);
        commands.forget_refusal("reboot", "a");
        assert_eq!(reject(&mut commands, "a"), 3);
    }
}
