//! Reports a disk that refuses writes. The report can't be stored, so it is sent from memory.

use std::time::Instant;

use watchkeeper_client::clock::wall_now;

use crate::fleet::mqtt::payload::heartbeat_draft;
use crate::fleet::outbox::Input;
use crate::heartbeat::Finding;
use crate::notify::message::Notice;
use crate::run::{Agent, AgentError};

impl Agent {
    /// Asks for a change that stores what is staged.
    pub(in crate::run) fn request_change(&mut self) -> Result<(), AgentError> {
        self.feed_outbox(Input::RequestChange)
    }

    /// Updates the retained health where the disk began or ceased to refuse, and notifies channels.
    pub(in crate::run) fn report_disk(&mut self, now: Instant) {
        // The first write may fail before the channels can be notified.
        if !self.channels.are_running() {
            return;
        }
        let refusal = self.outbox.refusal();
        let is_read_only = refusal.as_ref().is_some_and(|refusal| refusal.is_read_only);
        let due = self.disk.update(now, refusal);
        if due.health {
            self.set_agent_health();
        }
        if due.notice && !self.is_stopping {
            self.notify_from_memory(&Finding::NotStored { is_read_only });
        }
    }

    /// Why the agent's state can't be stored, since when, what waits, and the remedy.
    pub(in crate::run) fn storage_error(&self) -> Option<String> {
        let refusal = self.outbox.refusal()?;
        let since = jiff::SignedDuration::try_from(refusal.since.elapsed()).unwrap_or_default();
        let since = jiff::Timestamp::now()
            .checked_sub(since)
            .unwrap_or_default();
        Some(format!(
            "nothing can be stored: {}; since {since:.0}; until the disk accepts writes, recorded \
             events wait in the journal, and commands are refused; no restart is needed",
            refusal.why
        ))
    }

    /// Returns why a command can't be stored now, for the requester.
    pub(super) fn check_storable(&self) -> Result<(), String> {
        match self.outbox.refusal() {
            None => Ok(()),
            Some(refusal) => Err(format!(
                "not accepted, because it can't be stored: {}. Clear this request, and send it \
                 again when the health of the agent is `up`",
                refusal.why
            )),
        }
    }

    /// Hands a notice to the channels that is not stored before: a restart repeats it.
    fn notify_from_memory(&mut self, finding: &Finding) {
        let (id, at) = (ulid::Ulid::new().to_string(), wall_now());
        let draft = heartbeat_draft(finding, &id, at, None);
        let notice = Notice::of_finding(finding, id, at, None, draft.payload);
        self.channels.send_unstored(notice, &mut self.outbox);
    }
}
