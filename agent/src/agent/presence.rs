//! What the box shows of itself: state, birth, health, sources, alarms, telemetry.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::time::Instant;

use serde::Deserialize;
use watchkeeper_contract::command::Operation;
use watchkeeper_contract::time::Wall;
use watchkeeper_store::{Keyspace, NewerFormat, Op, Store, StoreError};

use super::{Agent, AgentError, StatusReport};
use crate::clock::wall_now;
use crate::mqtt::link::Will;
use crate::mqtt::payload::{
    self, AgentMessage, BirthMessage, CapabilityMessage, CountsMessage, FramesMessage,
    HealthMessage, Presence, SCHEMA, ServiceState, SourceStateMessage, StateMessage,
};
use crate::mqtt::{CommandId, OperationName};
use crate::outbox;

/// Open and cleared alarms: key topic, value one version byte and the payload, which is empty once cleared.
const ALARMS: Keyspace = Keyspace::new("alarms");
const ALARM_VERSION: u8 = 1;
/// Alarm topics restored at most: one per source name that ever had an outage.
const MAX_ALARMS: usize = 1024;

/// The change that remembers what `topic` shall hold.
pub(super) fn alarm_rider(topic: &str, payload: &[u8]) -> Op {
    Op::Put {
        keyspace: ALARMS,
        key: topic.as_bytes().to_vec(),
        value: [&[ALARM_VERSION], payload].concat(),
    }
}

/// Alarms as they were when the agent went down, from the store in `folder`.
pub(super) fn restore_alarms(
    store: &dyn Store,
    folder: &Path,
) -> Result<BTreeMap<String, Vec<u8>>, StoreError> {
    let page = store.scan(ALARMS, Bound::Unbounded, MAX_ALARMS)?;
    let versions = page.entries.iter().filter_map(|entry| entry.value.first());
    if let Some(found) = versions.copied().find(|v| *v > ALARM_VERSION) {
        return Err(NewerFormat::new(folder, "an alarm", found, ALARM_VERSION).into());
    }
    let sound = page.entries.into_iter().filter_map(|entry| {
        let topic = String::from_utf8(entry.key).ok()?;
        let payload = entry.value.strip_prefix(&[ALARM_VERSION])?.to_vec();
        Some((topic, payload))
    });
    Ok(sound.collect())
}

/// Level of the topics about `operation`.
pub(super) fn operation_name(operation: &Operation) -> &'static str {
    match operation {
        Operation::Snapshot { .. } => OperationName::Snapshot,
        Operation::Deploy { .. } => OperationName::Deploy,
        Operation::Stop { .. } => OperationName::Stop,
    }
    .as_str()
}

/// The members of somebody's `state` that matter here.
#[derive(Deserialize)]
struct SeenState {
    s: String,
    session: u64,
}

impl Agent {
    pub(super) fn state_message(&self, s: Presence, session: u64, at: Wall) -> StateMessage {
        StateMessage {
            schema: SCHEMA,
            s,
            boot_id: self.identity.boot_id.clone(),
            session,
            seq0: self.next_seq().0,
            ts: at.unix_ms,
            ts_quality: at.quality,
        }
    }

    pub(super) fn will(&self, session: u64) -> Will {
        let message = self.state_message(Presence::Offline, session, self.session_began);
        Will {
            topic: self.topics.state(),
            payload: payload::encode(&message),
        }
    }

    /// A new session: subscribes, and everything that is retained goes out again.
    pub(super) fn greet(&mut self, session: u64) -> Result<(), AgentError> {
        let online = self.state_message(Presence::Online, session, self.session_began);
        self.retained
            .set(self.topics.state(), payload::encode(&online));
        for operation in OperationName::ALL {
            let message = CapabilityMessage::of(operation);
            self.retained
                .set(self.topics.capability(operation), payload::encode(&message));
        }
        let health = HealthMessage {
            schema: SCHEMA,
            s: ServiceState::Up,
            why: Vec::new(),
            pid: Some(std::process::id()),
            boot_id: Some(self.identity.boot_id.clone()),
        };
        self.retained
            .set(self.topics.health("agent"), payload::encode(&health));
        self.set_birth(session);
        self.retained.repeat_all();
        let takes_requests = self.takes_requests();
        let Some(link) = &self.link else {
            return Ok(());
        };
        let mut queued = link.subscribe(self.topics.state());
        if takes_requests {
            queued = queued.and_then(|()| link.subscribe(self.topics.requests()));
        }
        for (operation, report) in self.board.open() {
            if let Ok(id) = CommandId::new(&report.id) {
                let topic = self.topics.status(operation_name(operation), &id);
                queued =
                    queued.and_then(|()| link.publish_retained(&topic, payload::encode(&report)));
            }
        }
        for (topic, text) in self.ring.drain() {
            let text = payload::mark_late(text);
            queued = queued.and_then(|()| link.publish_fleeting(topic, text));
        }
        match queued {
            Ok(()) => Ok(()),
            Err(error) => self.refused("what a session begins with", error),
        }
    }

    fn set_birth(&mut self, session: u64) {
        let message = BirthMessage {
            schema: SCHEMA,
            site: self.identity.site.clone(),
            r#box: self.identity.box_id.clone(),
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            runtime_version: self.runtime_version.clone(),
            boot_id: self.identity.boot_id.clone(),
            session,
            cams: self.known_sources.iter().cloned().collect(),
            operations: OperationName::ALL.map(OperationName::as_str).to_vec(),
            ts: self.session_began.unix_ms,
            ts_quality: self.session_began.quality,
        };
        self.retained
            .set(self.topics.birth(), payload::encode(&message));
    }

    /// The broker shows a `state` that is not ours: the will of a dead session came late. Only the greater session number
    /// mends it, so that two agents with one name do not overwrite each other for ever.
    pub(super) fn mend_state(&mut self, seen: &[u8]) {
        let Some(session) = self.session.up() else {
            return;
        };
        let is_stale = serde_json::from_slice::<SeenState>(seen).is_ok_and(|seen| {
            seen.session < session || (seen.session == session && seen.s != "online")
        });
        if is_stale && !self.is_stopping {
            tracing::debug!("the broker showed an old state; writing the present one again");
            self.retained.repeat(&self.topics.state());
        }
    }

    /// Publishes what changed among the retained topics.
    pub(super) fn flush_retained(&mut self) -> Result<(), AgentError> {
        if self.session.up().is_none() {
            return Ok(());
        }
        while let Some(link) = &self.link
            && let Some((topic, text)) = self.retained.next()
        {
            let topic = topic.to_owned();
            let published = link.publish_retained(&topic, text.to_vec());
            // Also what is too large: it would be next for ever.
            self.retained.published(&topic);
            if let Err(error) = published {
                self.refused(&topic, error)?;
            }
        }
        Ok(())
    }

    /// The runtime said how it is.
    pub(super) fn on_status(&mut self, report: &StatusReport) -> Result<(), AgentError> {
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
        self.retained
            .set(self.topics.health("runtime"), payload::encode(&health));
        match &report.health {
            Ok(_) => self.runtime_silent_since = None,
            Err(reason) => self.set_sources_unknown(reason),
        }
        if let Ok(health) = &report.health {
            self.runtime_version = Some(health.version.clone());
            if report
                .question
                .cursor
                .is_some_and(|cursor| cursor > health.last_seq)
            {
                self.follow_new_journal()?;
            }
        }
        if let Some(sources) = &report.sources {
            let before = std::mem::take(&mut self.known_sources);
            self.known_sources = sources.iter().map(|s| s.spec.id.clone()).collect();
            for source in sources {
                let message = SourceStateMessage::of(source);
                let topic = self.topics.source_state(&source.spec.id);
                self.retained.set(topic, payload::encode(&message));
            }
            let gone: Vec<_> = before
                .difference(&self.known_sources)
                .map(|id| self.topics.source_state(id))
                .collect();
            self.retained
                .clear_where(|topic| gone.iter().any(|g| g == topic));
        }
        if let Some(session) = self.session.up() {
            self.set_birth(session);
        }
        let now = Instant::now();
        if self.telemetry_due <= now && report.question.with_pipelines {
            self.telemetry_due = now + self.telemetry_every;
            self.measure(report, now);
        }
        Ok(())
    }

    /// Nobody knows how the sources are while the runtime keeps silent.
    fn set_sources_unknown(&mut self, reason: &str) {
        let since = *self
            .runtime_silent_since
            .get_or_insert_with(|| wall_now().unix_ms);
        let text = payload::encode(&SourceStateMessage::unknown(reason, since));
        for source in &self.known_sources {
            self.retained
                .set(self.topics.source_state(source), text.clone());
        }
    }

    /// The runtime's journal ends before our cursor: its files were lost and it counts from the beginning.
    fn follow_new_journal(&mut self) -> Result<(), AgentError> {
        tracing::error!("the runtime's journal began anew; following it from its beginning");
        self.tell_outbox(outbox::Input::JournalBeganAnew)?;
        let after = self.outbox.cursor().unwrap_or_default();
        self.feed = Some(self.runtime.follow_events(after));
        Ok(())
    }

    fn measure(&mut self, report: &StatusReport, now: Instant) {
        let at = wall_now();
        let mut messages = vec![(
            self.topics.agent_measurements(),
            payload::encode(&AgentMessage {
                ts: at.unix_ms,
                outbox: self.outbox.stats(),
                cursor: self.outbox.cursor(),
                telemetry_dropped: self.ring.dropped(),
                open_commands: self.board.open().count(),
            }),
        )];
        for source in report.sources.iter().flatten() {
            let topic = self.topics.source_frames(&source.spec.id);
            messages.push((topic, payload::encode(&FramesMessage::of(source, at))));
        }
        for pipeline in report.pipelines.iter().flatten() {
            let topic = self
                .topics
                .pipeline_counts(&pipeline.spec.source, &pipeline.spec.id);
            messages.push((topic, payload::encode(&CountsMessage::of(pipeline, at))));
        }
        let link = self.link.as_ref().filter(|_| self.session.up().is_some());
        for (topic, text) in messages {
            match link {
                // QoS 0: what does not fit is gone.
                Some(link) => drop(link.publish_fleeting(topic, text)),
                None => self.ring.offer(now, topic, text),
            }
        }
    }
}
