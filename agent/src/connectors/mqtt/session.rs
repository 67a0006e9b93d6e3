//! One session of one step with the broker of its workflow.
//!
//! - It publishes one message at a time. The first one that fails ends it.
//! - Every message that it takes is answered.

use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt as _;
use rumqttc::{AsyncClient, ConnectReturnCode, ConnectionError, Event, Packet, PublishOptions};
use tokio::sync::{mpsc, oneshot};

use crate::connectors::fault::Fault;
use crate::fleet::mqtt::broker::Broker;
use crate::fleet::mqtt::link::{Events, connect, disconnect};
use crate::fleet::mqtt::reason::reason;

/// Requests that the client holds.
const CLIENT_QUEUE: usize = 16;
/// Time after which a session without messages ends.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Timeout of DISCONNECT.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// A message to publish, and the sender of its outcome.
#[derive(Debug)]
pub(super) struct PublishJob {
    pub(super) topic: String,
    pub(super) payload: String,
    pub(super) options: PublishOptions,
    pub(super) timeout: Duration,
    pub(super) answer: oneshot::Sender<PublishOutcome>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PublishOutcome {
    Done,
    /// No acknowledgement in time.
    TimedOut(Fault),
    /// The broker accepted no session, or ended it.
    Ended(Fault),
}

/// Runs one session from CONNECT to its end.
pub(super) async fn run_session(broker: Broker, mut jobs: mpsc::Receiver<PublishJob>) {
    let (client, events) = connect(&broker, None, CLIENT_QUEUE);
    let mut session = Session {
        broker: &broker,
        client,
        events,
        is_up: false,
    };
    while let Some(job) = session.next_job(&mut jobs).await {
        let (answer, published) = (job.answer, (job.topic, job.payload, job.options));
        let outcome = session.publish(published, job.timeout).await;
        let is_done = outcome == PublishOutcome::Done;
        if !is_done {
            // Before the answer: the next message needs a new session.
            jobs.close();
        }
        // The effect may have been given up meanwhile.
        answer.send(outcome).ok();
        if !is_done {
            return;
        }
    }
    // After a timeout the broker notices the closed connection.
    disconnect(&session.client, &mut session.events, STOP_TIMEOUT).await;
}

/// State of a running session.
struct Session<'a> {
    broker: &'a Broker,
    client: AsyncClient,
    events: Events,
    /// Whether the broker has accepted the session.
    is_up: bool,
}

impl Session<'_> {
    /// Waits for the next message; `None` when the queue or the connection was closed, or after
    /// [`IDLE_TIMEOUT`].
    async fn next_job(&mut self, jobs: &mut mpsc::Receiver<PublishJob>) -> Option<PublishJob> {
        let mut idle = pin!(tokio::time::sleep(IDLE_TIMEOUT));
        loop {
            tokio::select! {
                biased;
                job = jobs.recv() => return job,
                event = self.events.next() => self.handle_event(event).ok()?,
                // A message that is queued already is still published.
                () = &mut idle => jobs.close(),
            }
        }
    }

    async fn publish(
        &mut self,
        (topic, payload, options): (String, String, PublishOptions),
        timeout: Duration,
    ) -> PublishOutcome {
        let settings = &self.broker.settings;
        let (address, limit) = (
            format!("{}:{}", settings.host, settings.port),
            settings.connect_timeout,
        );
        let at_broker = |fault: Fault| Fault {
            why: format!("{address}: {}", fault.why),
            ..fault
        };
        let timed_out = || at_broker(Fault::transient("the broker did not answer in time"));
        match tokio::time::timeout(limit, self.connected()).await {
            Ok(Ok(())) => {}
            Ok(Err(fault)) => return PublishOutcome::Ended(at_broker(fault)),
            Err(_) => return PublishOutcome::Ended(timed_out()),
        }
        let Ok(notice) = self.client.try_publish_tracked(topic, payload, options) else {
            let fault = Fault::transient("the MQTT client refused the message");
            return PublishOutcome::Ended(at_broker(fault));
        };
        let mut acknowledged = pin!(tokio::time::timeout(timeout, notice.wait_async()));
        loop {
            tokio::select! {
                biased;
                event = self.events.next() => {
                    if let Err(fault) = self.handle_event(event) {
                        return PublishOutcome::Ended(at_broker(fault));
                    }
                }
                notice = &mut acknowledged => return match notice {
                    Err(_) => PublishOutcome::TimedOut(timed_out()),
                    Ok(Ok(_)) => PublishOutcome::Done,
                    Ok(Err(error)) => {
                        PublishOutcome::Ended(at_broker(Fault::transient(error.to_string())))
                    }
                },
            }
        }
    }

    /// Returns once the broker has accepted the session.
    async fn connected(&mut self) -> Result<(), Fault> {
        while !self.is_up {
            let event = self.events.next().await;
            self.handle_event(event)?;
        }
        Ok(())
    }

    fn handle_event(&mut self, event: Option<Result<Event, ConnectionError>>) -> Result<(), Fault> {
        match event {
            Some(Ok(Event::Incoming(Packet::ConnAck(_)))) => self.is_up = true,
            Some(Ok(_)) => {}
            Some(Err(error)) => {
                let why = reason(self.broker, self.is_up, &error);
                use ConnectReturnCode as Code;
                return Err(match error {
                    // Only a refused login is permanent: a network or certificate may recover.
                    ConnectionError::ConnectionRefused(
                        Code::BadUserNamePassword | Code::NotAuthorized,
                    ) => Fault::permanent(why),
                    _ => Fault::transient(why),
                });
            }
            None => return Err(Fault::transient("the MQTT client ended")),
        }
        Ok(())
    }
}
