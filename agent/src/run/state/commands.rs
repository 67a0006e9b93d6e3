//! Commands: their board, the replies that wait, the operation in progress.
//!
//! Invariant: requests cannot make the box publish without bound. A stored status is sent through
//! the outbox. A reply that needs no record waits in [`Replies`], which limits those in flight.

use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use watchkeeper_client::RuntimeClient;
use watchkeeper_client::clock::wall_now;
use watchkeeper_contract::command::{CommandReport, CommandStatus, Operation};

use crate::fleet::command::{
    CommandBoard, CommandId, CommandKey, Input, Outcome, Replies, Reply, ReplyBody, execute,
};
use crate::future_slot::take_output;
use crate::log_limiter::LogLimiter;

/// Period in which at most one refused request is logged, however many arrive.
const REFUSAL_LOG_PERIOD: Duration = Duration::from_secs(10);
/// Period in which old commands are removed from the ledger.
const LEDGER_PERIOD: Duration = Duration::from_secs(3600);

/// State of commands.
pub(crate) struct Commands {
    pub(crate) board: CommandBoard,
    pub(crate) replies: Replies,
    refusal_log: LogLimiter,
    /// Requests refused since the agent's start.
    refused: u64,
    executing: Option<BoxFuture<'static, Outcome>>,
    ledger_due: Instant,
}

impl Commands {
    pub(crate) fn new(board: CommandBoard, now: Instant) -> Self {
        Self {
            board,
            replies: Replies::default(),
            refusal_log: LogLimiter::new(REFUSAL_LOG_PERIOD),
            refused: 0,
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
        let seed = fastrand::u64(..);
        self.executing = Some(execute(runtime, key, operation, resumed, seed).boxed());
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
                id: key.id,
                body: ReplyBody::Status,
            });
        }
    }

    /// Logs a rejected request and queues its report.
    pub(crate) fn reject(&mut self, operation: &str, id: CommandId, report: CommandReport) {
        if let CommandStatus::Rejected { reason } = &report.status {
            self.log_refusal(&format!("{operation}/{id}"), reason);
        }
        self.push_reply(Reply {
            operation: operation.to_owned(),
            id,
            body: ReplyBody::Refusal(report),
        });
    }

    /// Requests refused since the agent's start.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }

    /// Counts a refused request, and logs it at a limited rate: every client that may write
    /// requests can cause it.
    pub(crate) fn log_refusal(&mut self, command: &str, reason: &str) {
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
