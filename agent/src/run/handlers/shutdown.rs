//! The exit: delivers what is acknowledged within a timeout, publishes `stopped`, closes the
//! session.

use std::time::{Duration, Instant};

use watchkeeper_client::clock::wall_now;

use crate::fleet::mqtt::link::Token;
use crate::fleet::mqtt::payload::{self, Presence};
use crate::run::state::journal::JournalReader;
use crate::run::{Agent, AgentError, FLUSH_TIMEOUT};

/// Time for the acknowledgement of `stopped`, for closing the session, and for the store.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

impl Agent {
    pub(in crate::run) async fn shut_down(mut self) -> Result<(), AgentError> {
        self.is_stopping = true;
        self.journal = JournalReader::Closed;
        self.flush().await?;
        self.publish_stopped().await?;
        if let Some(link) = self.mqtt.link.take() {
            link.close(EXIT_TIMEOUT).await;
        }
        self.outbox.finish(EXIT_TIMEOUT).await??;
        self.reports.write_left(self.outbox.core());
        let left = self.outbox.core().stats();
        tracing::info!(
            events = left.events.entries,
            assured = left.assured.entries,
            "stopped; the outbox delivers the rest after the next start"
        );
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), AgentError> {
        if self.mqtt.clears_at_exit {
            self.mqtt.retained.clear_all_but(&self.mqtt.topics.state());
            self.flush_retained()?;
        }
        let until = tokio::time::Instant::now() + FLUSH_TIMEOUT;
        while self.mqtt.is_up() && !self.is_flushed() {
            let Ok(event) = tokio::time::timeout_at(until, self.next_event()).await else {
                break;
            };
            self.handle(event)?;
            self.tick_outbox(Instant::now())?;
            self.flush_retained()?;
        }
        Ok(())
    }

    fn is_flushed(&self) -> bool {
        let is_cleared = !self.mqtt.clears_at_exit || self.mqtt.retained.is_acked();
        self.outbox.core().is_idle() && is_cleared
    }

    /// Publishes `stopped` and waits for its acknowledgement.
    async fn publish_stopped(&mut self) -> Result<(), AgentError> {
        if let Some(session) = self.mqtt.session_id() {
            let (next_seq, now) = (self.next_seq(), wall_now());
            let stopped = self
                .mqtt
                .state_message(Presence::Stopped, session, next_seq, now);
            let (topic, text) = (self.mqtt.topics.state(), payload::encode(&stopped));
            if let Err(error) = self
                .mqtt
                .publish(Token::FinalState, topic.clone(), text, true)
            {
                self.on_refused(&topic, error)?;
            }
        }
        let until = tokio::time::Instant::now() + EXIT_TIMEOUT;
        while self.mqtt.is_up() && !self.mqtt.is_stopped_acked {
            let Ok(event) = tokio::time::timeout_at(until, self.next_event()).await else {
                break;
            };
            self.handle(event)?;
            // A deadline that passed here would wake the loop at once, again and again.
            self.tick_outbox(Instant::now())?;
        }
        Ok(())
    }
}
