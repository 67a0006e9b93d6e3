//! Commands between the broker, the board and the runtime: hears requests, tells statuses, starts operations.
//!
//! Invariant: what the outside can make the box say is bounded. A status that is stored goes through the outbox; an answer that
//! needs no storing waits in [`crate::fleet::command::Replies`] and leaves a few at a time, so a broker full of requests costs time,
//! never the session. A refusal is cleared again, sooner or later ([`crate::fleet::command::Refusals`]).

use std::time::{Duration, Instant};

use futures_util::FutureExt;
use watchkeeper_contract::command::{CommandReport, CommandStatus};
use watchkeeper_contract::rule::Severity;
use watchkeeper_store::{Batch, Store as _};

use super::{Agent, AgentError, Rider};
use crate::fleet::command::{
    self, CommandId, CommandKey, OperationName, Reply, UnknownOperation, execute,
};
use crate::fleet::mqtt::link::Token;
use crate::fleet::mqtt::{Topics, parse_request, payload};
use crate::fleet::outbox::{self, Class, Draft};
use watchkeeper_client::clock::wall_now;

/// Requests that were not taken are logged once in so long, however many there are.
pub(super) const GRUMBLE_EVERY: Duration = Duration::from_secs(10);

impl Agent {
    /// A request came. `raw_operation` is the operation as the requester wrote it.
    pub(super) fn on_request(
        &mut self,
        operation: Result<OperationName, UnknownOperation>,
        raw_operation: &str,
        id: CommandId,
        payload: &[u8],
    ) -> Result<(), AgentError> {
        // An empty payload is a requester that cleans up.
        if payload.is_empty() {
            self.replies.take_back(raw_operation, &id);
            let status = Topics::status_below(raw_operation, &id);
            if self.refusals.taken_back(&status) {
                self.retained.set(self.topics.at(&status), Vec::new());
            }
            return Ok(());
        }
        match operation {
            Ok(operation) => {
                let request = parse_request(Ok(operation), payload);
                let key = CommandKey { operation, id };
                let input = command::Input::Received { key, request };
                self.board.handle(wall_now(), input);
                self.drain_board()
            }
            Err(unknown) => {
                let report = command::refusal(id.to_string(), unknown.to_string());
                self.refuse(raw_operation, id, report);
                Ok(())
            }
        }
    }

    /// Does what the board of commands wants done.
    pub(super) fn drain_board(&mut self) -> Result<(), AgentError> {
        while let Some(output) = self.board.poll() {
            match output {
                command::Output::Save {
                    key,
                    record,
                    report,
                } => {
                    self.log_status(&key, &report);
                    self.riders.push(command::rider(&key, Some(&record)));
                    self.riding
                        .push(Rider::Command(key.clone(), report.version));
                    self.queue_status(&key, payload::encode(&report))?;
                }
                command::Output::Reply { key } => {
                    let operation = key.operation.as_str().to_owned();
                    self.offer_reply(Reply {
                        operation,
                        id: key.id,
                        refusal: None,
                    });
                }
                command::Output::Refuse { key, report } => {
                    self.refuse(key.operation.as_str(), key.id, report);
                }
                command::Output::LeaveUnanswered { key } => {
                    self.grumble(
                        &key.to_string(),
                        "too many rejections are remembered already",
                    );
                }
                command::Output::Start {
                    key,
                    operation,
                    resumed,
                } => {
                    // What is stored as executing is resumed by the next start.
                    if !self.is_stopping {
                        let runtime = self.runtime.clone();
                        let seed = fastrand::u64(..);
                        let work = execute(runtime, key, operation, resumed, seed);
                        self.executing = Some(work.boxed());
                    }
                }
                command::Output::Forget { key } => {
                    self.riders.push(command::rider(&key, None));
                    // The retained status is cleared with it.
                    self.queue_status(&key, Vec::new())?;
                }
            }
        }
        Ok(())
    }

    /// Sends the answers that there is room for.
    pub(super) fn flush_replies(&mut self) -> Result<(), AgentError> {
        while self.session.up().is_some()
            && let Some(reply) = self.replies.take_next()
        {
            let topic = self.topics.status(&reply.operation, &reply.id);
            let known = reply.operation.parse().ok().map(|operation| CommandKey {
                operation,
                id: reply.id.clone(),
            });
            let known = known.filter(|key| self.board.knows(key));
            // What became of it since it was asked for counts; where that is being stored, the report of it follows.
            let report = match known {
                Some(key) => self.board.answer(&key),
                None if self.may_refuse(&reply) => reply.refusal,
                None => None,
            };
            let (Some(report), Some(link)) = (report, &mut self.link) else {
                continue;
            };
            match link.publish_tracked(Token::Reply, topic.clone(), payload::encode(&report), true)
            {
                Ok(()) => self.replies.sent(),
                Err(error) => self.refused(&topic, error)?,
            }
        }
        Ok(())
    }

    /// Whether this refusal may be told. From now on it counts as standing at the broker, until it is cleared.
    fn may_refuse(&mut self, reply: &Reply) -> bool {
        let status = Topics::status_below(&reply.operation, &reply.id);
        match self.refusals.stands(&status, wall_now()) {
            Ok(oldest) => {
                self.retained.leave(&self.topics.at(&status));
                if let Some(oldest) = oldest {
                    self.retained.set(self.topics.at(&oldest), Vec::new());
                }
                true
            }
            Err(command::TooMany) => {
                let name = format!("{}/{}", reply.operation, reply.id);
                self.grumble(&name, "too many refusals wait to be cleared");
                false
            }
        }
    }

    /// Clears the refusals that have stood for long enough, and stores what is not stored yet.
    pub(super) fn age_refusals(&mut self) -> Result<(), AgentError> {
        for status in self.refusals.age(wall_now()) {
            self.retained.set(self.topics.at(&status), Vec::new());
        }
        match self.refusals.is_changed() {
            true => self.tell_outbox(outbox::Input::Carry),
            false => Ok(()),
        }
    }

    /// Stores before the end what nothing has carried along.
    pub(super) fn keep_refusals(&mut self) {
        let mut batch = Batch::new();
        for op in self.refusals.riders() {
            batch.push(op);
        }
        // At worst a refusal stands for longer than it should.
        if let Err(error) = self.store.write(batch) {
            tracing::warn!(%error, "what was refused last is not remembered");
        }
    }

    fn refuse(&mut self, operation: &str, id: CommandId, report: CommandReport) {
        if let CommandStatus::Rejected { reason } = &report.status {
            self.grumble(&format!("{operation}/{id}"), reason);
        }
        self.offer_reply(Reply {
            operation: operation.to_owned(),
            id,
            refusal: Some(report),
        });
    }

    pub(super) fn offer_reply(&mut self, reply: Reply) {
        let name = format!("{}/{}", reply.operation, reply.id);
        if !self.replies.push(reply) {
            self.grumble(&name, "too many requests wait for an answer already");
        }
    }

    /// Says that a request was not taken. Anybody who may write requests can cause this, as often as he likes.
    fn grumble(&mut self, command: &str, reason: &str) {
        if let Some(unsaid) = self.grumbles.may_speak(Instant::now()) {
            tracing::warn!(command, reason, unsaid, "request not taken");
        }
    }

    fn log_status(&mut self, key: &CommandKey, report: &CommandReport) {
        match &report.status {
            CommandStatus::Rejected { reason } => self.grumble(&key.to_string(), reason),
            CommandStatus::Expired => self.grumble(&key.to_string(), "its time is over"),
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

    fn queue_status(&mut self, key: &CommandKey, payload: Vec<u8>) -> Result<(), AgentError> {
        let topic = Topics::status_below(key.operation.as_str(), &key.id);
        // It may have said `rejected`, before the request was corrected.
        self.refusals.gone(&topic);
        self.retained.leave(&self.topics.at(&topic));
        self.tell_outbox(outbox::Input::Own(Draft {
            class: Class::Assured,
            severity: Severity::Info,
            topic,
            retain: true,
            seq: None,
            payload,
        }))
    }
}
