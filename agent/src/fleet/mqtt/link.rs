//! One session with the broker: the shell around `rumqttc`.
//!
//! Every session is a fresh client with a clean session. The library would resend by itself what it still holds, but it
//! forgets that when the broker forgot the session, and a resumed one can't carry a new last will; the outbox knows
//! better what was acknowledged. So a [`Link`] lives from CONNECT to the first error and is then dropped whole.
//!
//! What does not fit into a packet is refused here: the library would end the session over it, and the next one again.
//!
//! No policy here: it moves bytes and says what the broker said. Waiting on [`Link::next`] drives the protocol; dropping
//! that future loses nothing.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{BoxStream, FuturesUnordered};
use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream};
use rumqttc::{
    AsyncClient, ConnectionError, Event, LastWill, MqttOptions, Packet, PublishNoticeError,
    PublishOptions, PublishResult, QoS, SubscribeReasonCode, Transport,
};
use secrecy::ExposeSecret;

use super::broker::{Broker, Will};
use super::payload::MAX_PAYLOAD;
use super::reason::reason;
use super::tls::{self, TlsError};
use crate::fleet::outbox::OutboxId;

/// Publications that the client queues: far more than the windows of the outbox, of the retained topics and of the answers,
/// and the telemetry of a day without a link, together.
const QUEUE: usize = 4096;
/// Room for topic and header around the largest payload.
const PACKET_OVERHEAD: usize = 4096;

/// What a publication stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token {
    /// An entry of the outbox.
    Entry(OutboxId),
    /// A retained topic, by its ticket.
    Retained(u64),
    /// An answer to a request that came again, or was refused.
    Reply,
    /// The last word before the agent stops.
    Farewell,
}

/// What the broker said.
#[derive(Debug)]
pub enum LinkEvent {
    /// The session is accepted.
    Up,
    /// A publication has been acknowledged.
    Acked(Token),
    /// The broker refused a subscription.
    SubscriptionRefused,
    /// A message on a subscribed topic.
    Message {
        /// Its topic.
        topic: String,
        /// Its payload.
        payload: Bytes,
    },
    /// The session is over; drop the link.
    Down {
        /// One sentence, free of credentials.
        reason: String,
        /// Whether the broker sent something larger than is ever taken in. It may send it again in every session.
        is_flooded: bool,
    },
}

/// Why a message was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The client's queue is full or gone: the session is of no use any more.
    #[error("the queue to the broker is full")]
    QueueFull,
    /// The message can never be sent; the session is fine.
    #[error("a message of {bytes} bytes is too large; at most {MAX_PAYLOAD} are sent")]
    TooLarge {
        /// Size of its payload.
        bytes: usize,
    },
}

/// Refuses a payload that no session would carry.
fn must_fit(payload: &[u8]) -> Result<(), Refused> {
    if payload.len() > MAX_PAYLOAD {
        let bytes = payload.len();
        return Err(Refused::TooLarge { bytes });
    }
    Ok(())
}

type Notice = (Token, Result<PublishResult, PublishNoticeError>);

/// One session.
pub struct Link {
    broker: Broker,
    /// Whether the broker accepted the session.
    accepted: bool,
    client: AsyncClient,
    events: Events,
    notices: FuturesUnordered<BoxFuture<'static, Notice>>,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").finish_non_exhaustive()
    }
}

impl Link {
    /// Begins to connect. The outcome comes from [`Self::next`].
    ///
    /// # Errors
    /// [`TlsError`] when the TLS set-up can't be made; trying again does not mend it.
    pub fn open(broker: &Broker, will: Will) -> Result<Self, TlsError> {
        let (client, events) = connect(broker, Some(will), QUEUE)?;
        Ok(Self {
            broker: broker.clone(),
            accepted: false,
            client,
            events,
            notices: FuturesUnordered::new(),
        })
    }

    /// What the broker says next.
    pub async fn next(&mut self) -> LinkEvent {
        loop {
            let event = if self.notices.is_empty() {
                self.events.next().await
            } else {
                tokio::select! {
                    biased;
                    Some(notice) = self.notices.next() => match notice {
                        (token, Ok(_)) => return LinkEvent::Acked(token),
                        // The session is ending; the reason comes from the events.
                        (_, Err(_)) => continue,
                    },
                    event = self.events.next() => event,
                }
            };
            match event {
                Some(Ok(Event::Incoming(Packet::ConnAck(_)))) => {
                    self.accepted = true;
                    return LinkEvent::Up;
                }
                Some(Ok(Event::Incoming(Packet::Publish(publish)))) => {
                    // A topic that is not UTF-8 is nobody's.
                    if let Ok(topic) = String::from_utf8(publish.topic.to_vec()) {
                        return LinkEvent::Message {
                            topic,
                            payload: publish.payload,
                        };
                    }
                }
                Some(Ok(Event::Incoming(Packet::SubAck(ack)))) => {
                    if ack.return_codes.contains(&SubscribeReasonCode::Failure) {
                        return LinkEvent::SubscriptionRefused;
                    }
                }
                Some(Ok(Event::Incoming(_) | Event::Outgoing(_))) => {}
                Some(Err(error)) => {
                    return LinkEvent::Down {
                        reason: reason(&self.broker, self.accepted, &error),
                        is_flooded: is_flooded(&error),
                    };
                }
                None => {
                    return LinkEvent::Down {
                        reason: "the client ended".to_owned(),
                        is_flooded: false,
                    };
                }
            }
        }
    }

    /// Publishes at QoS 1 and reports the acknowledgement as [`LinkEvent::Acked`].
    ///
    /// # Errors
    /// [`Refused`]; the link should be dropped when its queue is full.
    pub fn publish_tracked(
        &mut self,
        token: Token,
        topic: String,
        payload: Vec<u8>,
        retain: bool,
    ) -> Result<(), Refused> {
        must_fit(&payload)?;
        let options = PublishOptions::at_least_once().retain(retain);
        let notice = self
            .client
            .try_publish_tracked(topic, payload, options)
            .map_err(|_| Refused::QueueFull)?;
        let notice = async move { (token, notice.wait_async().await) };
        self.notices.push(notice.boxed());
        Ok(())
    }

    /// Publishes at QoS 0.
    ///
    /// # Errors
    /// [`Refused`]; the message is gone, which is what QoS 0 means.
    pub fn publish_fleeting(&self, topic: String, payload: Vec<u8>) -> Result<(), Refused> {
        must_fit(&payload)?;
        self.client
            .try_publish(topic, payload, PublishOptions::at_most_once())
            .map_err(|_| Refused::QueueFull)
    }

    /// Subscribes at QoS 1.
    ///
    /// # Errors
    /// [`Refused::QueueFull`]; the link should be dropped then.
    pub fn subscribe(&self, filter: String) -> Result<(), Refused> {
        self.client
            .try_subscribe(filter, QoS::AtLeastOnce)
            .map_err(|_| Refused::QueueFull)
    }

    /// Ends the session in order, so that the broker does not publish the will. Gives up after `patience`.
    pub async fn close(mut self, patience: Duration) {
        if self.client.try_disconnect_with_timeout(patience).is_err() {
            return;
        }
        let drain = async {
            while let Some(Ok(event)) = self.events.next().await {
                if matches!(event, Event::Outgoing(rumqttc::Outgoing::Disconnect)) {
                    return;
                }
            }
        };
        if tokio::time::timeout(patience, drain).await.is_err() {
            tracing::warn!("the broker did not take leave in time");
        }
    }
}

/// What the broker says and what is said to it. Waiting on it drives the protocol; dropping that future loses nothing.
pub(crate) type Events = BoxStream<'static, Result<Event, ConnectionError>>;

/// A client with a clean session and room for `queue` requests, and its events. It connects when the first of these is waited for.
///
/// # Errors
/// [`TlsError`] when the TLS set-up can't be made; trying again does not mend it.
pub(crate) fn connect(
    broker: &Broker,
    will: Option<Will>,
    queue: usize,
) -> Result<(AsyncClient, Events), TlsError> {
    let mut options = MqttOptions::new(&broker.client_id, (broker.host.clone(), broker.port));
    let limit = MAX_PAYLOAD + PACKET_OVERHEAD;
    let keep_alive = u16::try_from(broker.keep_alive.as_secs()).unwrap_or(u16::MAX);
    options
        .set_clean_session(true)
        .set_keep_alive(keep_alive)
        // A request that is too large must arrive to be refused; only far larger ones end the session.
        .set_max_packet_size(4 * limit, limit);
    if let Some(Will { topic, payload }) = will {
        options.set_last_will(LastWill::new(topic, payload, QoS::AtLeastOnce, true));
    }
    match (&broker.username, &broker.password) {
        (Some(user), Some(password)) => {
            options.set_credentials(user, password.expose_secret().to_owned());
        }
        (Some(user), None) => {
            options.set_username(user);
        }
        (None, _) => {}
    }
    if broker.tls {
        let config = tls::client_config(
            broker.keys.ca_file,
            broker.ca_file.as_deref(),
            broker.client_cert.as_ref(),
        )?;
        options.set_transport(Transport::tls_with_config(config.into()));
    }
    let (client, mut events) = AsyncClient::builder(options).capacity(queue).build();
    let mut network = events.network_options();
    network.set_connection_timeout(broker.connect_timeout.as_secs().max(1));
    network.set_tcp_nodelay(true);
    events.set_network_options(network);
    let events = stream::unfold(events, |mut events| async move {
        let event = events.poll().await;
        Some((event, events))
    });
    Ok((client, events.boxed()))
}

/// Whether the broker sent a packet over the limit: the library ends the session before it reads it.
fn is_flooded(error: &ConnectionError) -> bool {
    matches!(
        error,
        ConnectionError::MqttState(rumqttc::StateError::Deserialization(
            rumqttc::Error::PayloadSizeLimitExceeded(_)
        ))
    )
}
