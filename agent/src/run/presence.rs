//! What the box shows of itself: state, birth, health, sources, alarms, telemetry.
//!
//! Owns when each is written. Invariants: what is retained is written through [`Retained`](crate::fleet::mqtt::Retained), so that a new session shows all of it; telemetry is never
//! waited for and never kept for long. Not here: events of the journal, which go through the outbox.

use std::time::Instant;

use serde::Deserialize;
use watchkeeper_contract::id::ChannelId;
use watchkeeper_contract::source::SourceStatus;
use watchkeeper_contract::time::Wall;

use super::{Agent, AgentError, StatusReport};
use crate::fleet::command::{OperationName, Reply};
use crate::fleet::mqtt::broker::Will;
use crate::fleet::mqtt::link::Token;
use crate::fleet::mqtt::payload::{
    self, AgentMessage, BirthMessage, CapabilityMessage, ChannelCounts, CountsMessage,
    FramesMessage, HealthMessage, Presence, SCHEMA, ServiceState, SinkCounts, SourceStateMessage,
    StateMessage,
};
use crate::fleet::outbox;
use crate::notify::{health::ChannelHealth, service::Service as Telling};
use watchkeeper_client::clock::wall_now;

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
        self.tell_own_health();
        self.set_birth(session);
        self.retained.begin_session();
        self.replies.begin_session();
        let open: Vec<_> = self.board.open().cloned().collect();
        for key in open {
            self.offer_reply(Reply {
                operation: key.operation.as_str().to_owned(),
                id: key.id,
                refusal: None,
            });
        }
        self.hearing.begin_session(Instant::now());
        let Some(link) = &self.link else {
            return Ok(());
        };
        let mut queued = link.subscribe(self.topics.state());
        if self.hearing.is_open() {
            queued = queued.and_then(|()| link.subscribe(self.topics.requests()));
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

    /// How the agent itself is.
    pub(super) fn tell_own_health(&mut self) {
        let is_deaf = !self.hearing.is_open();
        let deaf = is_deaf.then(|| self.why_deaf());
        let why: Vec<String> = deaf
            .into_iter()
            .chain(self.channel_troubles.clone())
            .collect();
        let health = HealthMessage {
            schema: SCHEMA,
            s: match why.is_empty() {
                false => ServiceState::Degraded,
                true => ServiceState::Up,
            },
            why,
            pid: Some(std::process::id()),
            boot_id: Some(self.identity.boot_id.clone()),
        };
        self.retained
            .set(self.topics.health("agent"), payload::encode(&health));
    }

    /// How each channel fares.
    pub(super) fn fares(&self) -> Vec<(ChannelId, ChannelHealth)> {
        self.telling
            .as_ref()
            .map(Telling::fares)
            .unwrap_or_default()
    }

    /// Tells which channels don't work, where that has changed.
    fn tell_channels(&mut self) {
        let troubles = self
            .fares()
            .into_iter()
            .filter_map(|(_, fare)| fare.trouble);
        let troubles: Vec<String> = troubles.collect();
        if troubles != self.channel_troubles {
            self.channel_troubles = troubles;
            self.tell_own_health();
        }
    }

    /// Why no requests are taken, and what to do.
    pub(super) fn why_deaf(&self) -> String {
        format!(
            "a request that is too large to be read waits at the broker and ended every session; no commands are taken for \
             {} s at a time; clear the retained message below {}",
            self.hearing.pause().as_secs(),
            self.topics.requests()
        )
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
            cams: self.sources.listed().cloned().collect(),
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

    /// Publishes what changed among the retained topics, as far as there is room.
    pub(super) fn flush_retained(&mut self) -> Result<(), AgentError> {
        while self.session.up().is_some()
            && let Some(link) = &mut self.link
            && let Some(next) = self.retained.take_next()
        {
            let token = Token::Retained(next.ticket);
            if let Err(error) = link.publish_tracked(token, next.topic.clone(), next.payload, true)
            {
                // What is too large never gets there: it must not stand in the way.
                self.retained.acked(next.ticket);
                self.refused(&next.topic, error)?;
            }
        }
        Ok(())
    }

    /// The broker knows that nothing is on `topic`: what need not be remembered any more is not.
    pub(super) fn forget_cleared(&mut self, topic: &str) -> Result<(), AgentError> {
        if let Some(below) = self.topics.below(topic) {
            self.refusals.gone(below);
        }
        let (retained, topics) = (&self.retained, &self.topics);
        let changed = self.sources.settle(|source| {
            let state = retained.is_cleared(&topics.source_state(source));
            let alarm = retained.is_cleared(&topics.outage_alarm(source));
            (state, alarm)
        });
        for source in changed {
            self.carry(self.sources.rider(&source))?;
        }
        Ok(())
    }

    /// The runtime said how it is.
    pub(super) fn on_status(&mut self, report: &StatusReport) -> Result<(), AgentError> {
        self.tell_channels();
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
            self.show_sources(sources)?;
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

    /// The runtime told its sources.
    fn show_sources(&mut self, statuses: &[SourceStatus]) -> Result<(), AgentError> {
        let look = self.sources.look(Instant::now(), statuses);
        for source in look.new {
            self.carry(self.sources.rider(&source))?;
        }
        for status in statuses {
            let topic = self.topics.source_state(&status.spec.id);
            let message = SourceStateMessage::of(status);
            self.retained.set(topic, payload::encode(&message));
        }
        for source in look.gone {
            let topic = self.topics.source_state(&source);
            self.retained.set(topic, Vec::new());
        }
        for source in look.healed {
            tracing::warn!(%source, "the record that ends its outage never came; it is well, so its alarm is cleared");
            let topic = self.topics.outage_alarm(&source);
            self.retained.set(topic, Vec::new());
            self.carry(self.sources.rider(&source))?;
        }
        Ok(())
    }

    /// Nobody knows how the sources are while the runtime keeps silent.
    fn set_sources_unknown(&mut self, reason: &str) {
        self.sources.lose_sight();
        let since = *self
            .runtime_silent_since
            .get_or_insert_with(|| wall_now().unix_ms);
        let text = payload::encode(&SourceStateMessage::unknown(reason, since));
        for source in self.sources.listed() {
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
                sinks: report
                    .health
                    .as_ref()
                    .ok()
                    .map(|h| SinkCounts::of(&h.effects)),
                channels: self.fares().into_iter().map(ChannelCounts::of).collect(),
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
