//! Messages at the MQTT brokers that workflows name, over sessions of their own.
//!
//! A session belongs to one broker and one user ([`Name`]) and is a task; effects of all steps that name it go through it, at most as many at once as the
//! queue of effects does. It begins with the first message, ends after a minute without one, and has nothing to do with the session of the box's own
//! broker: other login, other client id, no will, no subscription.
//!
//! Invariants: a message is done when the broker acknowledged it (QoS 1 and 2) or when it was written to the network (QoS 0), and not before. Whatever ends
//! a session fails the messages in it, so each waits in its effect for the next: it may come twice, and is never lost. The session of a password
//! that was exchanged is not used again.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use rumqttc::{
    AsyncClient, ConnectReturnCode, ConnectionError, Event, Outgoing, Packet, PublishNoticeError,
    PublishOptions, PublishResult, QoS,
};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::sync::{mpsc, oneshot};
use watchkeeper_contract::effect::{MqttMessage, MqttQos};

use super::fault::Fault;
use super::secrets::Revealed;
use crate::mqtt::link::{Broker, Events, Keys, connect};
use crate::mqtt::reason::reason;

/// Most sessions at once; one more ends the one that was used longest ago. More than effects are done at once, so that one is idle.
const MOST_SESSIONS: usize = 16;
/// Most messages that wait for a session; more wait in their effects.
const MOST_WAITING: usize = 16;
/// Time after which a session without a message ends.
const IDLE: Duration = Duration::from_secs(60);
/// Time for the broker to answer, at least: the language's half a second is for a step that waits.
const SHORTEST: Duration = Duration::from_secs(5);
/// The same, at most.
const LONGEST: Duration = Duration::from_secs(60);
/// Time to take leave.
const FAREWELL: Duration = Duration::from_secs(2);
/// Interval of keep-alive packets.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// What tells sessions apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    host: String,
    port: u16,
    tls: bool,
    username: Option<String>,
}

struct Session {
    orders: mpsc::Sender<Order>,
    password: Option<SecretString>,
    used: Instant,
}

/// A message that is to be published, and who waits for what comes of it.
struct Order {
    topic: String,
    payload: String,
    options: PublishOptions,
    patience: Duration,
    answer: oneshot::Sender<Result<(), Fault>>,
}

/// The sessions with brokers.
pub struct Brokers {
    ca_file: Option<PathBuf>,
    sessions: Mutex<BTreeMap<Name, Session>>,
}

impl fmt::Debug for Brokers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Brokers").finish_non_exhaustive()
    }
}

impl Brokers {
    pub(super) const fn new(ca_file: Option<PathBuf>) -> Self {
        Self {
            ca_file,
            sessions: Mutex::new(BTreeMap::new()),
        }
    }

    /// Publishes it.
    ///
    /// # Errors
    /// [`Fault`].
    pub(super) async fn publish(
        &self,
        message: &MqttMessage,
        revealed: &Revealed,
    ) -> Result<(), Fault> {
        let password = match &message.password {
            Some(sealed) => Some(SecretString::from(revealed.text(sealed)?.to_owned())),
            None => None,
        };
        let (answer, answered) = oneshot::channel();
        let patience = patience(message.timeout_s);
        let mut order = Order {
            topic: message.topic.clone(),
            payload: message.payload.clone(),
            options: PublishOptions::new(qos(message.qos)).retain(message.retain),
            patience,
            answer,
        };
        // A session may be ending for want of messages at this very moment; the next one is new.
        for _ in 0..2 {
            let orders = self.session(message, password.clone(), patience);
            match orders.send(order).await {
                Ok(()) => {
                    let ended = || Fault::later("the session with the broker ended");
                    return answered.await.unwrap_or_else(|_| Err(ended()));
                }
                Err(mpsc::error::SendError(back)) => order = back,
            }
        }
        Err(Fault::later("the session with the broker ended"))
    }

    /// The session for this message, begun where there is none.
    fn session(
        &self,
        message: &MqttMessage,
        password: Option<SecretString>,
        patience: Duration,
    ) -> mpsc::Sender<Order> {
        let name = Name {
            host: message.host.clone(),
            port: message.port,
            tls: message.tls,
            username: message.username.clone(),
        };
        // Nothing panics with the lock held; what is under it is whole in any case.
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|_, session| !session.orders.is_closed());
        if let Some(session) = sessions.get_mut(&name)
            && same(session.password.as_ref(), password.as_ref())
        {
            session.used = Instant::now();
            return session.orders.clone();
        }
        // One whose sender is dropped finishes what it has and takes leave.
        if !sessions.contains_key(&name) && sessions.len() >= MOST_SESSIONS {
            let oldest = sessions.iter().min_by_key(|(_, session)| session.used);
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                sessions.remove(&oldest);
            }
        }
        let broker = Broker {
            host: name.host.clone(),
            port: name.port,
            client_id: format!("watchkeeper-{:016x}", fastrand::u64(..)),
            username: name.username.clone(),
            password: password.clone(),
            tls: name.tls,
            ca_file: self.ca_file.clone(),
            client_cert: None,
            connect_timeout: patience,
            keep_alive: KEEP_ALIVE,
            keys: Keys::STEP,
        };
        let (orders, taken) = mpsc::channel(MOST_WAITING);
        tokio::spawn(session(broker, taken));
        let session = Session {
            orders: orders.clone(),
            password,
            used: Instant::now(),
        };
        sessions.insert(name, session);
        orders
    }
}

fn same(a: Option<&SecretString>, b: Option<&SecretString>) -> bool {
    a.map(SecretString::expose_secret) == b.map(SecretString::expose_secret)
}

fn patience(seconds: f64) -> Duration {
    let time = Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST);
    time.clamp(SHORTEST, LONGEST)
}

const fn qos(qos: MqttQos) -> QoS {
    match qos {
        MqttQos::AtMostOnce => QoS::AtMostOnce,
        MqttQos::AtLeastOnce => QoS::AtLeastOnce,
        MqttQos::ExactlyOnce => QoS::ExactlyOnce,
    }
}

/// One session, from CONNECT to its end; whoever still waits then is told why.
async fn session(broker: Broker, mut orders: mpsc::Receiver<Order>) {
    let mut talk = match connect(&broker, None, MOST_WAITING) {
        Ok((client, events)) => Talk {
            broker: &broker,
            client,
            events,
            is_up: false,
            flying: FuturesUnordered::new(),
            answers: BTreeMap::new(),
            ordered: 0,
        },
        Err(error) => return refuse(orders, &Fault::later(error.to_string())).await,
    };
    match talk.go(&mut orders).await {
        Ok(()) => talk.leave().await,
        Err(fault) => {
            let fault = Fault {
                why: format!("{}:{}: {}", broker.host, broker.port, fault.why),
                ..fault
            };
            for answer in talk.answers.into_values() {
                answer.send(Err(fault.clone())).ok();
            }
            refuse(orders, &fault).await;
        }
    }
}

/// Takes no more orders and answers those that wait. Nobody listens to an answer whose effect was given up meanwhile.
async fn refuse(mut orders: mpsc::Receiver<Order>, fault: &Fault) {
    orders.close();
    while let Some(order) = orders.recv().await {
        order.answer.send(Err(fault.clone())).ok();
    }
}

/// What came of a publication: the broker's answer, or none in time.
type Landed = Option<Result<PublishResult, PublishNoticeError>>;

/// A session and what it is in the middle of.
struct Talk<'a> {
    broker: &'a Broker,
    client: AsyncClient,
    events: Events,
    /// Whether the broker has accepted the session.
    is_up: bool,
    /// What the broker has not answered yet, by number.
    flying: FuturesUnordered<BoxFuture<'static, (u64, Landed)>>,
    answers: BTreeMap<u64, oneshot::Sender<Result<(), Fault>>>,
    /// Messages so far.
    ordered: u64,
}

impl Talk<'_> {
    /// Goes on until nobody wants anything any more.
    ///
    /// # Errors
    /// What broke the session.
    async fn go(&mut self, orders: &mut mpsc::Receiver<Order>) -> Result<(), Fault> {
        let late = || Fault::later("the broker did not answer in time");
        let connecting = Instant::now() + self.broker.connect_timeout;
        let mut idle = connecting + IDLE;
        let mut is_open = true;
        while is_open || !self.answers.is_empty() {
            let may_fly = self.is_up && is_open && self.answers.len() < MOST_WAITING;
            let is_idle = may_fly && self.answers.is_empty();
            tokio::select! {
                biased;
                event = self.events.next() => self.heard(event)?,
                Some((number, landed)) = self.flying.next() => {
                    let result = match landed {
                        None => Err(late()),
                        // What ended the session was heard before, where anything did.
                        Some(Err(error)) => Err(Fault::later(error.to_string())),
                        Some(Ok(_)) => Ok(()),
                    };
                    if let Some(answer) = self.answers.remove(&number) {
                        answer.send(result.clone()).ok();
                    }
                    result?;
                    idle = Instant::now() + IDLE;
                }
                order = orders.recv(), if may_fly => match order {
                    Some(order) => self.publish(order)?,
                    None => is_open = false,
                },
                () = sleep_until(connecting), if !self.is_up => return Err(late()),
                // What was ordered until this moment is still taken.
                () = sleep_until(idle), if is_idle => orders.close(),
            }
        }
        Ok(())
    }

    fn publish(&mut self, order: Order) -> Result<(), Fault> {
        let number = self.ordered;
        self.ordered += 1;
        let notice = self
            .client
            .try_publish_tracked(order.topic, order.payload, order.options);
        self.answers.insert(number, order.answer);
        let notice = notice.map_err(|_| Fault::later("the client took no message"))?;
        let landing = tokio::time::timeout(order.patience, notice.wait_async());
        self.flying
            .push(landing.map(move |landed| (number, landed.ok())).boxed());
        Ok(())
    }

    fn heard(&mut self, event: Option<Result<Event, ConnectionError>>) -> Result<(), Fault> {
        match event {
            Some(Ok(Event::Incoming(Packet::ConnAck(_)))) => self.is_up = true,
            Some(Ok(_)) => {}
            Some(Err(error)) => {
                let why = reason(self.broker, self.is_up, &error);
                use ConnectReturnCode as Code;
                return Err(match error {
                    // A word of the broker; a network, a certificate may come back.
                    ConnectionError::ConnectionRefused(
                        Code::BadUserNamePassword | Code::NotAuthorized,
                    ) => Fault::never(why),
                    _ => Fault::later(why),
                });
            }
            None => return Err(Fault::later("the client ended")),
        }
        Ok(())
    }

    /// Ends the session in order.
    async fn leave(mut self) {
        if self.client.try_disconnect_with_timeout(FAREWELL).is_err() {
            return;
        }
        let drain = async {
            while let Some(Ok(event)) = self.events.next().await {
                if matches!(event, Event::Outgoing(Outgoing::Disconnect)) {
                    return;
                }
            }
        };
        // A broker that does not listen any more finds out by itself.
        tokio::time::timeout(FAREWELL, drain).await.ok();
    }
}

async fn sleep_until(moment: Instant) {
    tokio::time::sleep_until(moment.into()).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_has_some_time_to_answer_and_not_for_ever() {
        assert_eq!(patience(7.5), Duration::from_millis(7500));
        for (odd, is) in [
            (0.5, SHORTEST),
            (1e9, LONGEST),
            (f64::NAN, LONGEST),
            (-1.0, LONGEST),
        ] {
            assert_eq!(patience(odd), is, "{odd}");
        }
    }
}
