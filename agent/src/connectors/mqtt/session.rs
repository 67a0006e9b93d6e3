//! One session with the broker of a workflow.
//!
//! - A message that is not acknowledged in time fails alone; the session takes no new messages.
//! - Every job is answered, also when the session ends.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use rumqttc::{
    AsyncClient, ConnectReturnCode, ConnectionError, Event, Outgoing, Packet, PublishNoticeError,
    PublishOptions, PublishResult,
};
use tokio::sync::{mpsc, oneshot};

use crate::connectors::fault::Fault;
use crate::fleet::mqtt::broker::Broker;
use crate::fleet::mqtt::link::{Events, connect};
use crate::fleet::mqtt::reason::reason;

/// Queued and unacknowledged messages of a session; more wait as effects.
pub(super) const MAX_WAITING: usize = 16;
/// Time after which a session without messages ends.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Timeout of DISCONNECT.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// A message to publish, and the sender of its outcome.
pub(super) struct PublishJob {
    pub(super) topic: String,
    pub(super) payload: String,
    pub(super) options: PublishOptions,
    pub(super) timeout: Duration,
    pub(super) answer: oneshot::Sender<PublishOutcome>,
}

/// Outcome of a message in one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PublishOutcome {
    Done,
    /// No acknowledgement in time.
    TimedOut(Fault),
    /// The broker accepted no session.
    NoSession(Fault),
    /// The session ended while the message was unacknowledged.
    Interrupted(Fault),
    /// The session ended before the message was published.
    NotPublished(Fault),
}

/// Runs one session from CONNECT to its end, then answers all waiting jobs.
pub(super) async fn run_session(broker: Broker, mut jobs: mpsc::Receiver<PublishJob>) {
    let (client, events) = connect(&broker, None, MAX_WAITING);
    let mut task = SessionTask {
        broker: &broker,
        client,
        events,
        is_up: false,
        notices: FuturesUnordered::new(),
        answers: BTreeMap::new(),
        published: 0,
    };
    match task.run(&mut jobs).await {
        Ok(()) => task.disconnect().await,
        Err(fault) => {
            let fault = Fault {
                why: format!(
                    "{}:{}: {}",
                    broker.settings.host, broker.settings.port, fault.why
                ),
                ..fault
            };
            let was_up = task.is_up;
            for answer in task.answers.into_values() {
                answer.send(PublishOutcome::Interrupted(fault.clone())).ok();
            }
            let outcome = match was_up {
                true => PublishOutcome::NotPublished(fault),
                false => PublishOutcome::NoSession(fault),
            };
            answer_waiting(jobs, &outcome).await;
        }
    }
}

/// Closes the queue and answers waiting jobs with `outcome`.
async fn answer_waiting(mut jobs: mpsc::Receiver<PublishJob>, outcome: &PublishOutcome) {
    jobs.close();
    while let Some(job) = jobs.recv().await {
        // The effect may have been given up meanwhile.
        job.answer.send(outcome.clone()).ok();
    }
}

/// Result of a publication; `None` after a timeout.
type Notice = Option<Result<PublishResult, PublishNoticeError>>;

/// State of a running session.
struct SessionTask<'a> {
    broker: &'a Broker,
    client: AsyncClient,
    events: Events,
    /// Whether the broker has accepted the session.
    is_up: bool,
    /// Unacknowledged publications, by number.
    notices: FuturesUnordered<BoxFuture<'static, (u64, Notice)>>,
    answers: BTreeMap<u64, oneshot::Sender<PublishOutcome>>,
    /// Number of messages so far.
    published: u64,
}

impl SessionTask<'_> {
    /// Publishes jobs until the queue is closed and all messages are answered.
    ///
    /// # Errors
    /// [`Fault`] that ended the session.
    async fn run(&mut self, jobs: &mut mpsc::Receiver<PublishJob>) -> Result<(), Fault> {
        let timed_out = || Fault::transient("the broker did not answer in time");
        let connect_by = Instant::now() + self.broker.settings.connect_timeout;
        let mut idle = connect_by + IDLE_TIMEOUT;
        let mut is_open = true;
        while is_open || !self.answers.is_empty() {
            let can_publish = self.is_up && is_open && self.answers.len() < MAX_WAITING;
            let is_idle = can_publish && self.answers.is_empty();
            tokio::select! {
                biased;
                event = self.events.next() => self.handle_event(event)?,
                Some((number, notice)) = self.notices.next() => {
                    let outcome = match notice {
                        // The client keeps its slot, so the next message needs a new session.
                        // This session still waits for its other messages.
                        None => {
                            jobs.close();
                            PublishOutcome::TimedOut(timed_out())
                        }
                        Some(Ok(_)) => PublishOutcome::Done,
                        // An event that ended the session was handled before.
                        Some(Err(error)) => return Err(Fault::transient(error.to_string())),
                    };
                    if let Some(answer) = self.answers.remove(&number) {
                        answer.send(outcome).ok();
                    }
                    idle = Instant::now() + IDLE_TIMEOUT;
                }
                job = jobs.recv(), if can_publish => match job {
                    Some(job) => self.publish(job)?,
                    None => is_open = false,
                },
                () = sleep_until(connect_by), if !self.is_up => return Err(timed_out()),
                // Jobs that are queued already are still published.
                () = sleep_until(idle), if is_idle => jobs.close(),
            }
        }
        Ok(())
    }

    fn publish(&mut self, job: PublishJob) -> Result<(), Fault> {
        let number = self.published;
        self.published += 1;
        let notice = self
            .client
            .try_publish_tracked(job.topic, job.payload, job.options);
        self.answers.insert(number, job.answer);
        let notice = notice.map_err(|_| Fault::transient("the MQTT client refused the message"))?;
        let result = tokio::time::timeout(job.timeout, notice.wait_async());
        self.notices
            .push(result.map(move |outcome| (number, outcome.ok())).boxed());
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

    async fn disconnect(mut self) {
        if self
            .client
            .try_disconnect_with_timeout(STOP_TIMEOUT)
            .is_err()
        {
            return;
        }
        let drain = async {
            while let Some(Ok(event)) = self.events.next().await {
                if matches!(event, Event::Outgoing(Outgoing::Disconnect)) {
                    return;
                }
            }
        };
        // After a timeout the broker notices the closed connection.
        tokio::time::timeout(STOP_TIMEOUT, drain).await.ok();
    }
}

async fn sleep_until(moment: Instant) {
    tokio::time::sleep_until(moment.into()).await;
}
