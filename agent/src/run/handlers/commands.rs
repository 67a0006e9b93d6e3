//! Commands between the broker, their board and the runtime.
//!
//! - A status is staged with its record, so it is published only after the record is on disk.
//! - What the disk can't store is refused and not remembered; a known command is answered in any
//!   case.
//! - A stopping agent starts no operation; the next start resumes what is stored as executing.
//!
//! Not here: which command may start (`fleet::command`), bytes and topics (`fleet::mqtt`).

use watchkeeper_client::clock::wall_now;
use watchkeeper_contract::rule::Severity;

use crate::fleet::command::{
    self, CommandId, CommandKey, OperationName, Outcome, Reply, UnknownOperation,
};
use crate::fleet::mqtt::link::Token;
use crate::fleet::mqtt::{Topics, parse_request, payload};
use crate::fleet::outbox::{self, Class, Draft};
use crate::run::state::outbox::BatchOwner;
use crate::run::{Agent, AgentError};

impl Agent {
    /// Handles a request. `raw_operation` is the operation as the requester wrote it.
    pub(super) fn on_request(
        &mut self,
        operation: Result<OperationName, UnknownOperation>,
        raw_operation: &str,
        id: CommandId,
        payload: &[u8],
    ) -> Result<(), AgentError> {
        // An empty payload clears a retained request.
        if payload.is_empty() {
            self.commands.replies.withdraw(raw_operation, &id);
            let status = Topics::status_below(raw_operation, &id);
            if self.commands.refusals.withdraw(&status) {
                self.clear_retained(&status);
            }
            return Ok(());
        }
        let operation = operation.map_err(|unknown| unknown.to_string());
        let operation = operation.and_then(|operation| self.allow(operation));
        // A known command is answered again in any case.
        let is_known = |operation: &OperationName| {
            let (operation, id) = (*operation, id.clone());
            self.commands.board.knows(&CommandKey { operation, id })
        };
        match operation.and_then(|operation| match is_known(&operation) {
            true => Ok(operation),
            false => self.check_storable(operation),
        }) {
            Ok(operation) => {
                let request = parse_request(Ok(operation), payload);
                let key = CommandKey { operation, id };
                self.commands
                    .handle(command::Input::Received { key, request });
                self.drain_board()
            }
            Err(reason) => {
                let report = command::refusal(id.to_string(), reason);
                self.commands.reject(raw_operation, id, report);
                Ok(())
            }
        }
    }

    /// Returns `operation` if `mqtt.commands` allows it, else the reason.
    fn allow(&self, operation: OperationName) -> Result<OperationName, String> {
        let access = self.mqtt.commands();
        match operation.is_allowed(access) {
            true => Ok(operation),
            false => Err(format!(
                "this box does not accept {operation} from its broker: mqtt.commands is \
                 \"{access}\""
            )),
        }
    }

    pub(in crate::run) fn on_command_finished(
        &mut self,
        Outcome { key, result }: Outcome,
    ) -> Result<(), AgentError> {
        let outcome = result;
        self.commands
            .handle(command::Input::Finished { key, outcome });
        self.drain_board()
    }

    /// Executes the board's outputs.
    pub(in crate::run) fn drain_board(&mut self) -> Result<(), AgentError> {
        while let Some(output) = self.commands.board.poll() {
            match output {
                command::Output::Save {
                    key,
                    record,
                    report,
                } => {
                    self.commands.log_status(&key, &report);
                    let owner = BatchOwner::Command(key.clone(), report.version);
                    let op = command::store_op(&key, Some(&record));
                    self.outbox.stage_for(owner, [op]);
                    self.queue_status(&key, payload::encode(&report))?;
                }
                command::Output::Reply { key } => self.commands.push_reply(Reply {
                    operation: key.operation.as_str().to_owned(),
                    id: key.id,
                    refusal: None,
                }),
                command::Output::Refuse { key, report } => {
                    self.commands.reject(key.operation.as_str(), key.id, report);
                }
                command::Output::LeaveUnanswered { key } => {
                    let reason = "too many rejected commands are remembered";
                    self.commands.log_refusal(&key.to_string(), reason);
                }
                command::Output::Start {
                    key,
                    operation,
                    resumed,
                } => {
                    // A command stored as executing resumes after the next start.
                    if !self.is_stopping {
                        let runtime = self.runtime.clone();
                        self.commands
                            .start_executing(runtime, key, operation, resumed);
                    }
                }
                command::Output::Forget { key } => {
                    self.outbox.stage(command::store_op(&key, None));
                    // An empty payload clears the retained status.
                    self.queue_status(&key, Vec::new())?;
                }
            }
        }
        Ok(())
    }

    /// Publishes pending replies, as many as fit.
    pub(in crate::run) fn flush_replies(&mut self) -> Result<(), AgentError> {
        while self.mqtt.is_up()
            && let Some(reply) = self.commands.replies.take_next()
        {
            let topic = self.mqtt.topics.status(&reply.operation, &reply.id);
            let key = reply.operation.parse().ok().map(|operation| CommandKey {
                operation,
                id: reply.id.clone(),
            });
            let known = key.filter(|key| self.commands.board.knows(key));
            // The present status counts. While it is being stored, its own report follows.
            let report = match known {
                Some(key) => self.commands.board.answer(&key),
                None if self.may_refuse(&reply) => reply.refusal,
                None => None,
            };
            let Some(report) = report else {
                continue;
            };
            let payload = payload::encode(&report);
            match self
                .mqtt
                .publish(Token::Reply, topic.clone(), payload, true)
            {
                Ok(true) => self.commands.replies.sent(),
                Ok(false) => {}
                Err(error) => self.on_refused(&topic, error)?,
            }
        }
        Ok(())
    }

    /// Removes old commands, clears old refusals, and stores what changed.
    pub(in crate::run) fn prune_ledger(&mut self) -> Result<(), AgentError> {
        self.commands.handle(command::Input::Tick);
        self.drain_board()?;
        for status in self.commands.refusals.age(wall_now()) {
            self.clear_retained(&status);
        }
        match self.commands.refusals.is_changed() {
            true => self.feed_outbox(outbox::Input::RequestChange),
            false => Ok(()),
        }
    }

    /// Stores the refusals that joined no batch yet.
    pub(super) fn store_refusals(&mut self) {
        let ops = self.commands.refusals.take_ops();
        // At worst a refusal stays retained for longer.
        if let Err(error) = self.outbox.write_now(ops) {
            tracing::warn!(%error, "the latest command refusals were not stored");
        }
    }

    /// Whether this refusal may be published; it counts as retained from now on.
    fn may_refuse(&mut self, reply: &Reply) -> bool {
        let status = Topics::status_below(&reply.operation, &reply.id);
        match self.commands.refusals.add(&status, wall_now()) {
            Ok(oldest) => {
                self.mqtt.retained.release(&self.mqtt.topics.at(&status));
                if let Some(oldest) = oldest {
                    self.clear_retained(&oldest);
                }
                true
            }
            Err(command::TooMany) => {
                let name = format!("{}/{}", reply.operation, reply.id);
                let reason = "too many refusals wait to be cleared at the broker";
                self.commands.log_refusal(&name, reason);
                false
            }
        }
    }

    /// Clears what is retained on `topic`, which is relative to the box's root.
    fn clear_retained(&mut self, topic: &str) {
        let topic = self.mqtt.topics.at(topic);
        self.mqtt.retained.set(topic, Vec::new());
    }

    fn queue_status(&mut self, key: &CommandKey, payload: Vec<u8>) -> Result<(), AgentError> {
        let topic = Topics::status_below(key.operation.as_str(), &key.id);
        // An earlier, invalid request of this id may have left `rejected` on the topic.
        self.commands.refusals.remove(&topic);
        self.mqtt.retained.release(&self.mqtt.topics.at(&topic));
        self.feed_outbox(outbox::Input::Own(Draft {
            class: Class::Assured,
            severity: Severity::Info,
            topic,
            retain: true,
            seq: None,
            payload,
        }))
    }
}
