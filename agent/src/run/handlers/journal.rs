//! Turns records of the journal into messages of the outbox.

use watchkeeper_client::{FeedItem, JournalRecord};
use watchkeeper_contract::event::Event as Record;
use watchkeeper_contract::id::EventSeq;

use crate::fleet::mqtt::payload::{
    self, TooLarge, event_draft, newer_draft, opinion_draft, outage_alarm,
};
use crate::fleet::outbox::{Draft, Input};
use crate::run::state::journal::JournalReader;
use crate::run::{Agent, AgentError};

impl Agent {
    /// The runtime lost its journal and refuses the cursor: the new one is read from its start.
    fn follow_new_journal(&mut self) -> Result<(), AgentError> {
        tracing::error!("journal: the runtime lost it; following the new one from its start");
        self.feed_outbox(Input::JournalRestarted)?;
        self.journal = JournalReader::follow(&self.runtime, self.outbox.core().cursor());
        Ok(())
    }

    pub(in crate::run) fn on_journal(&mut self, item: FeedItem) -> Result<(), AgentError> {
        match item {
            FeedItem::Connected { after } => {
                tracing::info!(after = after.0, "journal: following");
                self.journal.set_lost(false);
                self.monitor.query_soon();
                Ok(())
            }
            FeedItem::Record(JournalRecord::Known(record)) => self.on_record(&record),
            FeedItem::Record(JournalRecord::Newer(record)) => {
                tracing::info!(
                    seq = record.seq.0,
                    kind = record.kind,
                    "journal: a newer runtime wrote this event; it is sent unchanged"
                );
                self.queue_record(record.seq, newer_draft(&record))
            }
            FeedItem::Record(JournalRecord::Unreadable { seq, cause }) => {
                tracing::warn!(seq = seq.0, cause, "journal: unreadable record");
                self.feed_outbox(Input::Unreadable { seq })
            }
            FeedItem::Lost { error, .. } if error.is_ahead() => self.follow_new_journal(),
            FeedItem::Lost { error, retry_in } => {
                // Only the first of a row: an absent runtime must not fill the log.
                if !self.journal.set_lost(true) {
                    tracing::warn!(%error, ?retry_in, "journal: connection lost; retrying");
                }
                Ok(())
            }
        }
    }

    fn on_record(&mut self, record: &Record) -> Result<(), AgentError> {
        let cursor = self.outbox.core().cursor();
        if cursor.is_some_and(|cursor| record.seq <= cursor) {
            return Ok(());
        }
        if let Some((source, alarm)) = outage_alarm(record) {
            let earlier = self.monitor.sources.alarm(source);
            let alarm = alarm.map(|alarm| alarm.since(earlier));
            let text = alarm.as_ref().map(payload::encode).unwrap_or_default();
            self.monitor.sources.set_alarm(source, text.clone());
            // Joins the batch of the record itself.
            self.outbox.stage(self.monitor.sources.save_op(source));
            let topic = self.mqtt.topics.outage_alarm(source);
            self.mqtt.retained.set(topic, text);
            self.monitor.query_soon();
        }
        // Before the cursor moves: after a crash it is published twice, never lost.
        if let Some(draft) = opinion_draft(record) {
            self.feed_outbox(Input::Own(draft))?;
        }
        self.queue_record(record.seq, event_draft(record))
    }

    /// Puts record `seq` into the outbox, as a message or as a loss.
    fn queue_record(
        &mut self,
        seq: EventSeq,
        draft: Result<Draft, TooLarge>,
    ) -> Result<(), AgentError> {
        let input = match draft {
            Ok(draft) => Input::Record { seq, draft },
            Err(error) => {
                tracing::warn!(seq = seq.0, %error, "event not sent");
                Input::Unreadable { seq }
            }
        };
        self.feed_outbox(input)
    }
}
