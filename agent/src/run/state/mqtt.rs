//! The session with the broker, and what the box retains there.
//!
//! Invariant: everything retained goes through [`Retained`], so that a new session restores it.

use std::time::Instant;

use watchkeeper_client::clock::wall_now;
use watchkeeper_config::{CommandAccess, SecretSource};
use watchkeeper_contract::id::{BoxId, EventSeq, SiteId, SourceId};
use watchkeeper_contract::time::Wall;

use crate::connectors::secrets;
use crate::fleet::command::OperationName;
use crate::fleet::mqtt::broker::{Broker, Will};
use crate::fleet::mqtt::link::{Link, LinkEvent, Refused, Token};
use crate::fleet::mqtt::payload::{
    self, BirthMessage, CapabilityMessage, HealthMessage, Presence, SCHEMA, ServiceState,
    StateMessage,
};
use crate::fleet::mqtt::session::Session;
use crate::fleet::mqtt::{Retained, Topics};

/// Names of the box, and of this run of its agent.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) site: SiteId,
    pub(crate) box_id: BoxId,
    pub(crate) boot_id: String,
}

impl Identity {
    /// Sentence for a box whose name another agent has too.
    pub(crate) fn shared_name(&self) -> String {
        let Self { site, box_id, .. } = self;
        format!("another agent publishes as {site}/{box_id}; give each box its own box.id")
    }
}

/// State of the connection to the broker.
pub(crate) struct Mqtt {
    pub(crate) identity: Identity,
    pub(crate) topics: Topics,
    /// Absent if no broker is configured.
    pub(crate) broker: Option<Broker>,
    pub(crate) session: Session,
    pub(crate) session_start: Wall,
    pub(crate) link: Option<Link>,
    /// Reason of the last disconnect; absent during a session.
    pub(crate) lost_reason: Option<String>,
    /// Whether another agent published as this box in this session.
    pub(crate) shares_name: bool,
    pub(crate) retained: Retained,
    /// Whether everything retained but the state is cleared at exit.
    pub(crate) clears_at_exit: bool,
    /// Whether the broker acknowledged the state `stopped`.
    pub(crate) is_stopped_acked: bool,
}

impl Mqtt {
    /// A connection that was not opened yet.
    pub(crate) fn new(
        identity: Identity,
        broker: Option<Broker>,
        session: Session,
        retained: Retained,
        now: Wall,
    ) -> Self {
        Self {
            topics: Topics::new(&identity.site, &identity.box_id),
            identity,
            broker,
            session,
            session_start: now,
            link: None,
            lost_reason: None,
            shares_name: false,
            retained,
            clears_at_exit: false,
            is_stopped_acked: false,
        }
    }

    /// Commands that the box accepts.
    pub(crate) fn commands(&self) -> CommandAccess {
        let broker = self.broker.as_ref();
        broker.map_or(CommandAccess::Off, |broker| broker.settings.commands)
    }

    /// Number of the session, where one is up.
    pub(crate) fn session_id(&self) -> Option<u64> {
        self.session.up()
    }

    pub(crate) fn is_up(&self) -> bool {
        self.session.up().is_some()
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.broker.as_ref().and_then(|_| self.session.deadline())
    }

    /// The next event of the link; pending forever without one. Dropping this future loses nothing.
    pub(crate) async fn next_event(&mut self) -> LinkEvent {
        match &mut self.link {
            Some(link) => link.next().await,
            None => std::future::pending().await,
        }
    }

    /// Opens the link of `session`, with a last will that names `next_seq`.
    ///
    /// # Errors
    /// One sentence about a file of the password that is unusable.
    pub(crate) fn open_link(&mut self, session: u64, next_seq: EventSeq) -> Result<(), String> {
        let Some(mut broker) = self.broker.clone() else {
            return Ok(());
        };
        if let Some(path) = &broker.settings.password_file {
            let source = SecretSource::File(path.clone());
            broker.settings.password = Some(secrets::read("mqtt.password_file", &source, None)?);
        }
        tracing::debug!(session, host = %broker.settings.host, port = broker.settings.port, "connecting");
        self.session_start = wall_now();
        let offline = self.state_message(Presence::Offline, session, next_seq, self.session_start);
        let will = Will {
            topic: self.topics.state(),
            payload: payload::encode(&offline),
        };
        self.link = Some(Link::open(broker, will));
        Ok(())
    }

    /// Publishes where a link exists, and reports whether it did.
    pub(crate) fn publish(
        &mut self,
        token: Token,
        topic: String,
        payload: Vec<u8>,
        retain: bool,
    ) -> Result<bool, Refused> {
        match &mut self.link {
            Some(link) => link
                .publish_tracked(token, topic, payload, retain)
                .map(|()| true),
            None => Ok(false),
        }
    }

    pub(crate) fn state_message(
        &self,
        presence: Presence,
        session: u64,
        next_seq: EventSeq,
        at: Wall,
    ) -> StateMessage {
        StateMessage {
            schema: SCHEMA,
            s: presence,
            boot_id: self.identity.boot_id.clone(),
            session,
            seq0: next_seq.0,
            ts: at.unix_ms,
            ts_quality: at.quality,
        }
    }

    /// Retains `online` and the operations that the box accepts.
    pub(crate) fn set_online(&mut self, session: u64, next_seq: EventSeq) {
        let online = self.state_message(Presence::Online, session, next_seq, self.session_start);
        self.retained
            .set(self.topics.state(), payload::encode(&online));
        for operation in OperationName::allowed(self.commands()) {
            let message = CapabilityMessage::of(operation);
            self.retained
                .set(self.topics.capability(operation), payload::encode(&message));
        }
    }

    pub(crate) fn set_birth(
        &mut self,
        session: u64,
        sources: Vec<SourceId>,
        runtime_version: Option<String>,
    ) {
        let message = BirthMessage {
            schema: SCHEMA,
            site: self.identity.site.clone(),
            r#box: self.identity.box_id.clone(),
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            runtime_version,
            boot_id: self.identity.boot_id.clone(),
            session,
            cams: sources,
            commands: self.commands(),
            operations: OperationName::allowed(self.commands())
                .map(OperationName::as_str)
                .collect(),
            ts: self.session_start.unix_ms,
            ts_quality: self.session_start.quality,
        };
        self.retained
            .set(self.topics.birth(), payload::encode(&message));
    }

    /// Retains the agent's own health: degraded by `reasons`.
    pub(crate) fn set_agent_health(&mut self, reasons: &[String]) {
        let health = HealthMessage {
            schema: SCHEMA,
            s: match reasons.is_empty() {
                false => ServiceState::Degraded,
                true => ServiceState::Up,
            },
            why: reasons.to_vec(),
            pid: Some(std::process::id()),
            boot_id: Some(self.identity.boot_id.clone()),
        };
        self.retained
            .set(self.topics.health("agent"), payload::encode(&health));
    }
}
