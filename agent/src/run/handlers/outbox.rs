//! Feeds the outbox and executes its outputs: persist first, then publish.
//!
//! - An owner is notified once the batch with its operations is durable.
//! - A message that is too large for the broker is replaced by a loss record: it would end every
//!   session.

use std::time::Instant;

use watchkeeper_client::clock::wall_now;
use watchkeeper_contract::id::EventSeq;
use watchkeeper_contract::rule::Severity;
use watchkeeper_store::Op;

use crate::fleet::command;
use crate::fleet::mqtt::Topics;
use crate::fleet::mqtt::link::{Refused, Token};
use crate::fleet::mqtt::payload::{self, LossMessage};
use crate::fleet::outbox::{Class, Content, Draft, Input, OutboxId, Output};
use crate::run::state::outbox::{BatchOwner, WriteResult, Written};
use crate::run::{Agent, AgentError};

impl Agent {
    /// A batch is durable: notifies its owners, then the outbox.
    pub(in crate::run) fn on_stored(&mut self, stored: WriteResult) -> Result<(), AgentError> {
        let Written { batch, owners } = stored??;
        for owner in owners {
            match owner {
                BatchOwner::Command(key, version) => {
                    self.commands.handle(command::Input::Saved { key, version });
                }
                BatchOwner::Notice(stored) => {
                    self.job_notices.confirm(&stored.notice.id);
                    self.channels.send(stored);
                }
            }
        }
        self.feed_outbox(Input::Stored { batch })?;
        self.drain_board()
    }

    /// Passes one input to the outbox and executes its outputs.
    pub(super) fn feed_outbox(&mut self, input: Input) -> Result<(), AgentError> {
        self.outbox.handle(input);
        while let Some(output) = self.outbox.poll() {
            match output {
                Output::Persist(change) => {
                    self.outbox.start_write(&change);
                }
                Output::Publish { session, id, late } => self.publish_entry(session, id, late)?,
                Output::LinkStuck { session } => {
                    if self.mqtt.session_id() == Some(session) {
                        self.lose_link("the broker does not acknowledge")?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Stores `op` with the next batch, and asks for one.
    pub(super) fn save(&mut self, op: Op) -> Result<(), AgentError> {
        self.outbox.stage(op);
        self.feed_outbox(Input::RequestChange)
    }

    pub(in crate::run) fn tick_outbox(&mut self, now: Instant) -> Result<(), AgentError> {
        match self.outbox.core().deadline() {
            Some(due) if due <= now => self.feed_outbox(Input::Tick),
            Some(_) | None => Ok(()),
        }
    }

    /// The first sequence number of the journal that is not in the outbox yet.
    pub(super) fn next_seq(&self) -> EventSeq {
        let cursor = self.outbox.core().cursor().unwrap_or_default();
        EventSeq(cursor.0.saturating_add(1))
    }

    fn publish_entry(&mut self, session: u64, id: OutboxId, late: bool) -> Result<(), AgentError> {
        // The session may have ended meanwhile; the outbox keeps the entry then.
        if self.mqtt.session_id() != Some(session) {
            return Ok(());
        }
        let Some(content) = self.outbox.load(id)? else {
            return self.feed_outbox(Input::Damaged { id });
        };
        let draft = match content {
            Content::Message(draft) => draft,
            Content::Loss(loss) => Draft {
                class: Class::Assured,
                severity: Severity::Critical,
                topic: Topics::event_below(None, "loss"),
                retain: false,
                seq: None,
                payload: payload::encode(&LossMessage::of(id, &loss, wall_now())),
            },
        };
        // A command's report is a state, not an event: it is never late.
        let text = match late && draft.seq.is_some() {
            true => payload::mark_late(draft.payload),
            false => draft.payload,
        };
        let topic = self.mqtt.topics.at(&draft.topic);
        match self
            .mqtt
            .publish(Token::Entry(id), topic, text, draft.retain)
        {
            Ok(_) => Ok(()),
            Err(error @ Refused::QueueFull) => self.lose_link(&error.to_string()),
            Err(error @ Refused::TooLarge { .. }) => {
                // Every session would end over it: a loss record takes its place.
                tracing::error!(?id, %error, "message not sent; a loss record replaces it");
                self.feed_outbox(Input::Damaged { id })
            }
        }
    }
}
