//! Retained topics of the box: birth, health of both daemons, states of sources, alarms.
//!
//! - A topic is published when it changed, and again in each session.
//! - A removed source stays known until the broker acknowledged that its topics are cleared.

use watchkeeper_client::clock::wall_now;
use watchkeeper_contract::source::SourceStatus;

use crate::fleet::mqtt::link::Token;
use crate::fleet::mqtt::payload::{self, HealthMessage, SCHEMA, ServiceState, SourceStateMessage};
use crate::run::state::runtime_status::StatusReport;
use crate::run::{Agent, AgentError};

impl Agent {
    pub(super) fn set_birth(&mut self, session: u64) {
        let sources = self.monitor.sources.listed().cloned().collect();
        self.mqtt
            .set_birth(session, sources, self.monitor.version.clone());
    }

    /// Publishes retained topics that changed, as many as fit.
    pub(in crate::run) fn flush_retained(&mut self) -> Result<(), AgentError> {
        while self.mqtt.is_up()
            && let Some(link) = &mut self.mqtt.link
            && let Some(next) = self.mqtt.retained.take_next()
        {
            let token = Token::Retained(next.ticket);
            if let Err(error) = link.publish_tracked(token, next.topic.clone(), next.payload, true)
            {
                // An oversized message never arrives: it must not block the others.
                self.mqtt.retained.acked(next.ticket);
                self.on_refused(&next.topic, error)?;
            }
        }
        Ok(())
    }

    /// The broker cleared a topic: forgets the records of sources that were kept until then.
    pub(super) fn forget_cleared(&mut self) -> Result<(), AgentError> {
        let (retained, topics) = (&self.mqtt.retained, &self.mqtt.topics);
        let changed = self.monitor.sources.forget_cleared(|source| {
            let state = retained.is_cleared(&topics.source_state(source));
            let alarm = retained.is_cleared(&topics.outage_alarm(source));
            (state, alarm)
        });
        for source in changed {
            self.save(self.monitor.sources.save_op(&source))?;
        }
        Ok(())
    }

    /// Updates the agent's health where a problem besides the disk changed: the free bytes in that
    /// sentence change all the time.
    pub(super) fn update_agent_health(&mut self) {
        let problems = self.problems_besides_disk();
        if self.problems.replace_published(problems) {
            self.set_agent_health();
        }
    }

    pub(super) fn set_agent_health(&mut self) {
        let problems = self.problems();
        self.mqtt.set_agent_health(&problems);
    }

    pub(super) fn set_runtime_health(&mut self, report: &StatusReport) {
        if let Ok(health) = &report.health {
            let alarm = health.storage.as_ref().map(payload::storage_alarm);
            let alarm = alarm.as_ref().map(payload::encode).unwrap_or_default();
            let topic = self.mqtt.topics.storage_alarm();
            self.mqtt.retained.set(topic, alarm);
        }
        let health = match &report.health {
            Ok(health) => HealthMessage {
                schema: SCHEMA,
                s: health.state.into(),
                why: health.reasons.clone(),
                pid: Some(health.pid),
                boot_id: Some(health.boot_id.clone()),
            },
            Err(reason) => HealthMessage {
                schema: SCHEMA,
                s: ServiceState::Down,
                why: vec![reason.clone()],
                pid: None,
                boot_id: None,
            },
        };
        let topic = self.mqtt.topics.health("runtime");
        self.mqtt.retained.set(topic, payload::encode(&health));
    }

    pub(super) fn set_sources(&mut self, statuses: &[SourceStatus]) -> Result<(), AgentError> {
        let changes = self
            .monitor
            .sources
            .update(std::time::Instant::now(), statuses);
        self.channels.set_cameras(statuses);
        for source in changes.new {
            self.save(self.monitor.sources.save_op(&source))?;
        }
        for status in statuses {
            let topic = self.mqtt.topics.source_state(&status.spec.id);
            let message = SourceStateMessage::of(status);
            self.mqtt.retained.set(topic, payload::encode(&message));
        }
        for source in changes.gone {
            let topic = self.mqtt.topics.source_state(&source);
            self.mqtt.retained.set(topic, Vec::new());
        }
        for source in changes.recovered {
            tracing::warn!(%source, "stale outage alarm cleared");
            let topic = self.mqtt.topics.outage_alarm(&source);
            self.mqtt.retained.set(topic, Vec::new());
            self.save(self.monitor.sources.save_op(&source))?;
        }
        Ok(())
    }

    /// Sets the state of every source to unknown, for `reason`, while the runtime does not answer.
    pub(super) fn set_sources_unknown(&mut self, reason: &str) {
        self.monitor.sources.set_unknown();
        let since_ms = *self
            .monitor
            .silent_since_ms
            .get_or_insert_with(|| wall_now().unix_ms);
        let text = payload::encode(&SourceStateMessage::unknown(reason, since_ms));
        for source in self.monitor.sources.listed() {
            let topic = self.mqtt.topics.source_state(source);
            self.mqtt.retained.set(topic, text.clone());
        }
    }
}
