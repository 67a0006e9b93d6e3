//! The session with the broker: connects, subscribes, receives, and ends.
//!
//! - Every session subscribes again and publishes everything retained again: no broker state is
//!   assumed.
//! - Requests are subscribed to only where `mqtt.commands` accepts any.
//! - An end is logged once for a row of the same reason.
//! - Of two agents with one name the one with the smaller session number reports it.
//!
//! Not here: when to connect (`fleet::mqtt::session`), what a request does (`commands`).

use std::time::Instant;

use serde::Deserialize;
use watchkeeper_config::CommandAccess;

use crate::fleet::mqtt::link::{LinkEvent, Refused, Token};
use crate::fleet::mqtt::{Inbound, payload, session};
use crate::fleet::outbox;
use crate::run::{Agent, AgentError, Report};

/// The members of a retained `state` that [`Agent::on_state`] reads.
#[derive(Deserialize)]
struct SeenState {
    s: String,
    #[serde(default)]
    boot_id: String,
    session: u64,
}

impl SeenState {
    /// Whether it is older than `session`, or its agent has ended, as a last will says.
    fn is_stale(&self, session: u64) -> bool {
        self.session < session || self.s != "online"
    }

    /// Whether another agent than `boot_id` publishes it, in `session` or a later one.
    fn is_of_another_agent(&self, session: u64, boot_id: &str) -> bool {
        self.session >= session && self.s == "online" && self.boot_id != boot_id
    }
}

impl Agent {
    pub(in crate::run) fn connect_when_due(&mut self, now: Instant) -> Result<(), AgentError> {
        if self.mqtt.broker.is_none() {
            return Ok(());
        }
        self.mqtt.session.handle(now, session::Input::Tick);
        while let Some(session::Output::Connect { session }) = self.mqtt.session.poll() {
            // An unreadable file may be fixed meanwhile: this attempt failed like any other.
            if let Err(error) = self.mqtt.open_link(session, self.next_seq()) {
                return self.lose_link(&error);
            }
        }
        Ok(())
    }

    pub(in crate::run) fn on_link(&mut self, event: LinkEvent) -> Result<(), AgentError> {
        match event {
            LinkEvent::Up => self.on_connected(),
            LinkEvent::Acked(token) => self.on_acked(token),
            LinkEvent::SubscriptionRefused => {
                tracing::error!(
                    "the broker refused a subscription: no commands will arrive; check its ACL"
                );
                Ok(())
            }
            LinkEvent::Message { topic, payload } => self.on_message(&topic, &payload),
            LinkEvent::Down { reason } => self.lose_link(&reason),
        }
    }

    pub(super) fn lose_link(&mut self, reason: &str) -> Result<(), AgentError> {
        self.mqtt.link = None;
        self.mqtt.shares_name = false;
        // Only the first of a row with one reason: an absent broker must not fill the log.
        if self.is_stopping || self.mqtt.lost_reason.as_deref() == Some(reason) {
            tracing::debug!(reason, "still no session with the broker");
        } else {
            tracing::warn!(
                reason,
                "no session with the broker; messages wait in the outbox"
            );
            self.reports.write(&Report::Unreachable {
                reason: reason.to_owned(),
            });
        }
        self.mqtt.lost_reason = Some(reason.to_owned());
        self.mqtt
            .session
            .handle(Instant::now(), session::Input::Lost);
        self.feed_outbox(outbox::Input::LinkDown)
    }

    /// A message that is not in the outbox was refused: ends the session where its queue is full.
    pub(super) fn on_refused(&mut self, topic: &str, refused: Refused) -> Result<(), AgentError> {
        match refused {
            Refused::QueueFull => self.lose_link(&refused.to_string()),
            Refused::TooLarge { .. } => {
                tracing::error!(topic, %refused, "message not sent");
                Ok(())
            }
        }
    }

    fn on_connected(&mut self) -> Result<(), AgentError> {
        self.mqtt
            .session
            .handle(Instant::now(), session::Input::Connected);
        let Some(session) = self.mqtt.session_id() else {
            return Ok(());
        };
        tracing::info!(session, "connected to the broker");
        self.mqtt.lost_reason = None;
        self.reports.write(&Report::Connected);
        self.start_session(session)?;
        self.feed_outbox(outbox::Input::LinkUp { session })
    }

    /// Subscribes, and publishes again everything that is retained.
    fn start_session(&mut self, session: u64) -> Result<(), AgentError> {
        self.mqtt.set_online(session, self.next_seq());
        self.set_agent_health();
        self.set_birth(session);
        self.mqtt.retained.begin_session();
        self.commands.replies.begin_session();
        self.commands.push_open();
        match self.queue_session_start() {
            Ok(()) => Ok(()),
            Err(error) => self.on_refused("start of the session", error),
        }
    }

    fn queue_session_start(&mut self) -> Result<(), Refused> {
        let Some(link) = &self.mqtt.link else {
            return Ok(());
        };
        link.subscribe(self.mqtt.topics.state())?;
        if self.mqtt.commands() != CommandAccess::Off {
            link.subscribe(self.mqtt.topics.requests())?;
        }
        for (topic, text) in self.monitor.ring.drain() {
            link.publish_at_most_once(topic, payload::mark_late(text))?;
        }
        Ok(())
    }

    fn on_acked(&mut self, token: Token) -> Result<(), AgentError> {
        match token {
            Token::Entry(id) => match self.mqtt.session_id() {
                Some(session) => self.feed_outbox(outbox::Input::Acked { session, id }),
                None => Ok(()),
            },
            Token::FinalState => {
                self.mqtt.is_stopped_acked = true;
                Ok(())
            }
            Token::Retained(ticket) => match self.mqtt.retained.acked(ticket) {
                Some(_) => self.forget_cleared(),
                None => Ok(()),
            },
            Token::Reply => {
                self.commands.replies.acked();
                Ok(())
            }
        }
    }

    fn on_message(&mut self, topic: &str, payload: &[u8]) -> Result<(), AgentError> {
        match self.mqtt.topics.parse(topic) {
            Some(Inbound::Request(request)) => self.on_request(request, payload),
            Some(Inbound::State) => {
                self.on_state(payload);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Publishes our `state` again where the broker shows one that does not hold.
    ///
    /// Of two agents that are online only the greater session number does so: they must not
    /// overwrite each other forever. The other one reports it.
    fn on_state(&mut self, seen: &[u8]) {
        let (Some(session), Ok(seen)) = (
            self.mqtt.session_id(),
            serde_json::from_slice::<SeenState>(seen),
        ) else {
            return;
        };
        let is_stale = seen.is_stale(session);
        if is_stale && !self.is_stopping {
            tracing::debug!("the broker showed an old state; publishing the present one again");
            self.mqtt.retained.repeat(&self.mqtt.topics.state());
        }
        let is_shared = seen.is_of_another_agent(session, &self.mqtt.identity.boot_id);
        if is_shared && !self.mqtt.shares_name {
            tracing::error!("{}", self.mqtt.identity.shared_name());
        }
        if is_shared || is_stale {
            self.mqtt.shares_name = is_shared;
            self.update_agent_health();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_of_an_ended_or_another_agent_is_told_apart() {
        let seen = |s: &str, boot_id: &str, session| SeenState {
            s: s.to_owned(),
            boot_id: boot_id.to_owned(),
            session,
        };
        for (seen, is_stale, is_of_another) in [
            (seen("online", "own", 5), false, false),
            (seen("offline", "own", 5), true, false),
            (seen("offline", "before", 4), true, false),
            (seen("online", "other", 4), true, false),
            (seen("online", "other", 5), false, true),
            (seen("online", "other", 6), false, true),
            (seen("stopped", "other", 6), true, false),
        ] {
            assert_eq!(seen.is_stale(5), is_stale, "{} {}", seen.s, seen.session);
            let other = seen.is_of_another_agent(5, "own");
            assert_eq!(other, is_of_another, "{} {}", seen.s, seen.session);
        }
    }
}
