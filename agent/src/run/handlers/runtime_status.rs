//! A status report of the runtime: retains it, publishes telemetry.
//!
//! Telemetry is never waited for: QoS 0 within a session, a bounded ring without one.

use std::time::Instant;

use watchkeeper_client::clock::wall_now;

use crate::fleet::mqtt::payload::{
    self, AgentMessage, BoardMessage, ChannelCounts, CountsMessage, FramesMessage, SinkCounts,
};
use crate::run::state::runtime_status::StatusReport;
use crate::run::{Agent, AgentError};

impl Agent {
    pub(in crate::run) fn on_runtime_status(
        &mut self,
        report: &StatusReport,
    ) -> Result<(), AgentError> {
        self.update_agent_health();
        self.set_runtime_health(report);
        match &report.health {
            Ok(health) => {
                self.monitor.silent_since_ms = None;
                self.monitor.version = Some(health.version.clone());
            }
            Err(reason) => self.set_sources_unknown(reason),
        }
        if let Some(sources) = &report.sources {
            self.set_sources(sources)?;
        }
        if let Some(session) = self.mqtt.session_id() {
            self.set_birth(session);
        }
        let now = Instant::now();
        if self.monitor.take_telemetry_due(now, report) {
            self.publish_telemetry(report, now);
        }
        Ok(())
    }

    fn publish_telemetry(&mut self, report: &StatusReport, now: Instant) {
        let messages = self.telemetry(report);
        let link = self.mqtt.link.as_ref().filter(|_| self.mqtt.is_up());
        for (topic, text) in messages {
            match link {
                // A full queue drops it.
                Some(link) => drop(link.publish_at_most_once(topic, text)),
                None => self.monitor.ring.offer(now, topic, text),
            }
        }
    }

    /// Topics and payloads of the agent, of the board, of each source and of each pipeline.
    fn telemetry(&self, report: &StatusReport) -> Vec<(String, Vec<u8>)> {
        let at = wall_now();
        let (topics, outbox) = (&self.mqtt.topics, self.outbox.core());
        let health = report.health.as_ref().ok();
        let channels = self.channels.health().into_iter();
        let agent = AgentMessage {
            ts: at.unix_ms,
            outbox: outbox.stats(),
            cursor: outbox.cursor(),
            telemetry_dropped: self.monitor.ring.dropped(),
            open_commands: self.commands.board.open().count(),
            sinks: health.map(|health| SinkCounts::of(&health.effects)),
            channels: channels.map(ChannelCounts::of).collect(),
        };
        let mut messages = vec![(topics.agent_measurements(), payload::encode(&agent))];
        if let Some(board) = &report.board {
            let message = payload::encode(&BoardMessage::of(board, at));
            messages.push((topics.board_measurements(), message));
        }
        for source in report.sources.iter().flatten() {
            let topic = topics.source_frames(&source.spec.id);
            messages.push((topic, payload::encode(&FramesMessage::of(source, at))));
        }
        for pipeline in report.pipelines.iter().flatten() {
            let topic = topics.pipeline_counts(&pipeline.spec.source, &pipeline.spec.id);
            messages.push((topic, payload::encode(&CountsMessage::of(pipeline, at))));
        }
        messages
    }
}
