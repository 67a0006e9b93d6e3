//! Commands between the broker, their board and the runtime.
//!
//! - A status is staged with its record, so it is published only after the record is on disk.
//! - What the disk can't store is refused and not remembered; a known command is answered in any
//!   case.
//! - A stopping agent starts no operation; the next start resumes what is stored as executing.
//!
//! Not here: which command may start (`fleet::command`), bytes and topics (`fleet::mqtt`).

use watchkeeper_contract::rule::Severity;

use crate::fleet::command::{
    self, CommandId, CommandKey, InvalidCommandId, OperationName, Outcome, Reply, ReplyBody,
    UnknownOperation,
};
use crate::fleet::mqtt::link::Token;
use crate::fleet::mqtt::{RequestTopic, Topics, parse_request, payload};
use crate::fleet::outbox::{self, Class, Draft};
use crate::run::state::outbox::BatchOwner;
use crate::run::{Agent, AgentError};

impl Agent {
    pub(super) fn on_request(
        &mut self,
        topic: RequestTopic<'_>,
        payload: &[u8],
    ) -> Result<(), AgentError> {
        let (raw_operation, raw_id) = (topic.raw_operation, topic.raw_id);
        // An empty payload clears a retained request.
        if payload.is_empty() {
            self.commands.forget_refusal(raw_operation, raw_id);
            self.commands.push_reply(Reply {
                operation: raw_operation.to_owned(),
                id: raw_id.to_owned(),
                body: ReplyBody::Clear,
            });
            return Ok(());
        }
        match self.admit(topic.operation, topic.id) {
            Ok(key) => {
                let request = parse_request(key.operation, payload);
                self.commands
                    .handle(command::Input::Received { key, request });
                self.drain_board()
            }
            Err(reason) => {
                let report = command::refusal(raw_id.to_owned(), reason);
                self.commands.reject(raw_operation, raw_id, report);
                Ok(())
            }
        }
    }

    /// Returns the key of a request that is accepted, else the reason for the requester.
    fn admit(
        &self,
        operation: Result<OperationName, UnknownOperation>,
        id: Result<CommandId, InvalidCommandId>,
    ) -> Result<CommandKey, String> {
        let operation = operation.map_err(|unknown| unknown.to_string())?;
        let access = self.mqtt.commands();
        if !operation.is_allowed(access) {
            return Err(format!(
                "this box does not accept {operation} from its broker: mqtt.commands is \
                 \"{access}\""
            ));
        }
        let id = id.map_err(|invalid| invalid.to_string())?;
        let key = CommandKey { operation, id };
        // A known command is answered again in any case.
        if !self.commands.board.knows(&key) {
            self.check_storable()?;
        }
        Ok(key)
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
                    id: key.id.to_string(),
                    body: ReplyBody::Status,
                }),
                command::Output::Refuse { key, report } => {
                    self.commands
                        .reject(key.operation.as_str(), key.id.as_str(), report);
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
            let (operation, id) = (reply.operation.parse(), CommandId::new(&reply.id));
            let key = operation.ok().zip(id.ok());
            let key = key.map(|(operation, id)| CommandKey { operation, id });
            let known = key.filter(|key| self.commands.board.knows(key));
            let payload = match (known, reply.body) {
                (Some(key), body) => match self.commands.board.answer(&key) {
                    Some(report) if body == ReplyBody::Clear && report.status.is_terminal() => {
                        Vec::new()
                    }
                    // The present status counts.
                    Some(report) => payload::encode(&report),
                    // It is being stored; its own report follows.
                    None => continue,
                },
                (None, ReplyBody::Refusal(report)) => payload::encode(&report),
                (None, ReplyBody::Clear) => Vec::new(),
                (None, ReplyBody::Status) => continue,
            };
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

    /// Removes old commands.
    pub(in crate::run) fn prune_ledger(&mut self) -> Result<(), AgentError> {
        self.commands.handle(command::Input::Tick);
        self.drain_board()
    }

    fn queue_status(&mut self, key: &CommandKey, payload: Vec<u8>) -> Result<(), AgentError> {
        let topic = Topics::status_below(key.operation.as_str(), key.id.as_str());
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
