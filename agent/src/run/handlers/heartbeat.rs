//! The heartbeat: starts checks and reports their findings.
//!
//! Invariant: a state is stored after the report that it describes, so a crash in between repeats a
//! finding and loses none.

use std::time::Instant;

use watchkeeper_contract::id::SourceId;

use crate::fleet::mqtt::payload::heartbeat_draft;
use crate::fleet::outbox;
use crate::heartbeat::CheckInput;
use crate::heartbeat::on_disk;
use crate::notify::message::Notice;
use crate::run::state::heartbeat::{AgentFacts, FindingReport, HeartbeatEvent};
use crate::run::{Agent, AgentError};

impl Agent {
    pub(in crate::run) fn start_check_when_due(&mut self, now: Instant) {
        let deadline = self.heartbeat.as_ref().and_then(|task| task.deadline());
        if deadline.is_none_or(|due| now < due) {
            return;
        }
        if self
            .heartbeat
            .as_mut()
            .is_some_and(|task| task.put_off_while_paused(now))
        {
            return;
        }
        let stats = self.outbox.core().stats();
        let waiting = stats.events.entries + stats.assured.entries;
        let is_cut_off = self.mqtt.broker.is_some() && !self.mqtt.is_up();
        let facts = AgentFacts {
            undelivered: if is_cut_off { waiting as u64 } else { 0 },
            failing_channels: self.channels.failing(),
            opinions_without_answer: self.opinion_counts.lock().without_answer,
        };
        if let Some(task) = &mut self.heartbeat {
            task.start_check(now, self.runtime.clone(), facts);
        }
    }

    pub(in crate::run) fn on_heartbeat(&mut self, event: HeartbeatEvent) -> Result<(), AgentError> {
        match event {
            HeartbeatEvent::Checked(input) => self.on_checked(*input),
            HeartbeatEvent::Ready(report) => self.report_findings(*report),
            HeartbeatEvent::Looked { last } => self.on_looked(last),
        }
    }

    fn on_checked(&mut self, input: CheckInput) -> Result<(), AgentError> {
        let Some(task) = &mut self.heartbeat else {
            return Ok(());
        };
        task.plan_looks(&input);
        let mut state = task.state.clone();
        let findings = state.judge(&input);
        if !findings.is_empty() {
            task.start_asking(findings, input, state);
            return Ok(());
        }
        let stored = task.finish_check(input.at, state);
        task.start_looking(self.runtime.clone());
        self.save(on_disk::save_op(&stored))
    }

    fn report_findings(&mut self, report: FindingReport) -> Result<(), AgentError> {
        let FindingReport {
            at,
            findings,
            added,
            state,
        } = report;
        for finding in &findings {
            let reason = finding.sentence();
            tracing::info!(kind = finding.kind(), reason, "heartbeat");
            let id = ulid::Ulid::new().to_string();
            let draft = heartbeat_draft(finding, &id, at, added.as_ref());
            let payload = draft.payload.clone();
            let notice = Notice::of_finding(finding, id, at, added.as_ref(), payload);
            self.channels.stage(notice, &mut self.outbox);
            if self.mqtt.broker.is_some() {
                self.feed_outbox(outbox::Input::Own(draft))?;
            }
        }
        let Some(task) = &mut self.heartbeat else {
            return Ok(());
        };
        let stored = task.finish_check(at, state);
        task.start_looking(self.runtime.clone());
        self.save(on_disk::save_op(&stored))
    }

    /// Stores whose turn is next.
    fn on_looked(&mut self, last: Option<SourceId>) -> Result<(), AgentError> {
        let task = self.heartbeat.as_mut();
        let stored = task.and_then(|task| task.finish_looks(last));
        stored.map_or(Ok(()), |stored| self.save(on_disk::save_op(&stored)))
    }
}
