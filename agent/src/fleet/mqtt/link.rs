//! One session with the broker: the shell around `rumqttc`.
//!
//! Every session is a fresh client with a clean session. The library's own resend does not fit. It
//! forgets its messages when the broker forgot the session, and a resumed session can't carry a new
//! last will. The outbox knows what was acknowledged. So a [`Link`] lives from CONNECT to its first
//! error and is then dropped.
//!
//! - A message over the packet limit is refused here. The library would end the session over it,
//!   and then each following one.
//! - A message from the broker over the packet limit arrives cut ([`super::packet_limit`]).
//! - The link has no policy: it moves bytes and reports packets.
//! - Awaiting [`Link::next`] drives the protocol; dropping that future loses nothing.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{BoxStream, FuturesUnordered};
use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream};
use rumqttc::{
    AsyncClient, ConnectionError, Event, LastWill, MqttOptions, Outgoing, Packet,
    PublishNoticeError, PublishOptions, PublishResult, QoS, SubscribeReasonCode,
};
use secrecy::ExposeSecret;

use super::broker::{Broker, Will};
use super::packet_limit::{self, LimitedReader};
use super::payload::MAX_PAYLOAD;
use super::reason::reason;
use super::tls::{self, Stream};
use crate::fleet::outbox::OutboxId;

/// Capacity of the client's queue. It exceeds the windows of outbox, retained topics and replies,
/// plus the telemetry of a day without a link.
const QUEUE: usize = 4096;
/// Bytes for topic and header around the largest payload.
const PACKET_OVERHEAD: usize = 4096;

/// Origin of a publication, returned with its acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token {
    Entry(OutboxId),
    /// A retained topic, by its ticket.
    Retained(u64),
    /// A reply to a repeated or refused request.
    Reply,
    /// State `stopped`, published before the agent stops.
    FinalState,
}

/// Event of the session.
#[derive(Debug)]
pub enum LinkEvent {
    /// The session is accepted.
    Up,
    /// A publication has been acknowledged.
    Acked(Token),
    /// The broker refused a subscription.
    SubscriptionRefused,
    /// A message on a subscribed topic.
    Message { topic: String, payload: Bytes },
    /// The session is over; drop the link.
    Down {
        /// Cause without credentials.
        reason: String,
    },
}

/// Why the link did not accept a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The client's queue is full or closed: drop the link.
    #[error("the queue to the broker is full")]
    QueueFull,
    /// The message can never be sent; the session is fine.
    #[error("a message of {bytes} bytes is too large; at most {MAX_PAYLOAD} are sent")]
    TooLarge {
        /// Size of its payload.
        bytes: usize,
    },
}

/// Checks the size of a payload.
fn check_size(payload: &[u8]) -> Result<(), Refused> {
    if payload.len() > MAX_PAYLOAD {
        let bytes = payload.len();
        return Err(Refused::TooLarge { bytes });
    }
    Ok(())
}

type Notice = (Token, Result<PublishResult, PublishNoticeError>);

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
    /// Starts to connect; [`Self::next`] reports the outcome.
    pub fn open(broker: Broker, will: Will) -> Self {
        let (client, events) = connect(&broker, Some(will), QUEUE);
        Self {
            broker,
            accepted: false,
            client,
            events,
            notices: FuturesUnordered::new(),
        }
    }

    /// Waits for the next event of the session.
    pub async fn next(&mut self) -> LinkEvent {
        loop {
            let event = if self.notices.is_empty() {
                self.events.next().await
            } else {
                tokio::select! {
                    biased;
                    Some(notice) = self.notices.next() => match notice {
                        (token, Ok(_)) => return LinkEvent::Acked(token),
                        // The session is ending; its reason follows in the events.
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
                    // A topic that is not UTF-8 is not one of this box.
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
                    };
                }
                None => {
                    return LinkEvent::Down {
                        reason: "the client ended".to_owned(),
                    };
                }
            }
        }
    }

    /// Publishes at QoS 1 and reports the acknowledgement as [`LinkEvent::Acked`].
    ///
    /// # Errors
    /// Returns [`Refused`]; after [`Refused::QueueFull`] drop the link.
    pub(crate) fn publish_tracked(
        &mut self,
        token: Token,
        topic: String,
        payload: Vec<u8>,
        retain: bool,
    ) -> Result<(), Refused> {
        check_size(&payload)?;
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
    /// Returns [`Refused`]; the message is lost, as QoS 0 allows.
    pub(crate) fn publish_at_most_once(
        &self,
        topic: String,
        payload: Vec<u8>,
    ) -> Result<(), Refused> {
        check_size(&payload)?;
        self.client
            .try_publish(topic, payload, PublishOptions::at_most_once())
            .map_err(|_| Refused::QueueFull)
    }

    /// Subscribes at QoS 1.
    ///
    /// # Errors
    /// Returns [`Refused::QueueFull`]; drop the link then.
    pub fn subscribe(&self, filter: String) -> Result<(), Refused> {
        self.client
            .try_subscribe(filter, QoS::AtLeastOnce)
            .map_err(|_| Refused::QueueFull)
    }

    /// Disconnects, so that the broker does not publish the last will. Gives up after `timeout`.
    pub async fn close(mut self, timeout: Duration) {
        if !disconnect(&self.client, &mut self.events, timeout).await {
            tracing::warn!(
                "the connection did not close in time; the broker may publish the last will"
            );
        }
    }
}

/// Sends DISCONNECT and waits until it is out, for `timeout` at most. Returns false after that.
pub(crate) async fn disconnect(
    client: &AsyncClient,
    events: &mut Events,
    timeout: Duration,
) -> bool {
    if client.try_disconnect_with_timeout(timeout).is_err() {
        return true;
    }
    let drain = async {
        while let Some(Ok(event)) = events.next().await {
            if matches!(event, Event::Outgoing(Outgoing::Disconnect)) {
                return;
            }
        }
    };
    tokio::time::timeout(timeout, drain).await.is_ok()
}

/// Events of a session. Awaiting them drives the protocol; dropping that future loses nothing.
pub(crate) type Events = BoxStream<'static, Result<Event, ConnectionError>>;

/// Creates a client with a clean session and `queue` request slots, and its events. It connects
/// when the events are first awaited: that reads the files of TLS, on a thread that may block.
pub(crate) fn connect(broker: &Broker, will: Option<Will>, queue: usize) -> (AsyncClient, Events) {
    let mut options = MqttOptions::new(
        &broker.settings.client_id,
        (broker.settings.host.clone(), broker.settings.port),
    );
    let keep_alive = u16::try_from(broker.settings.keep_alive.as_secs()).unwrap_or(u16::MAX);
    options
        .set_clean_session(true)
        .set_keep_alive(keep_alive)
        .set_max_packet_size(packet_limit::MAX_PACKET, MAX_PAYLOAD + PACKET_OVERHEAD);
    if let Some(Will { topic, payload }) = will {
        options.set_last_will(LastWill::new(topic, payload, QoS::AtLeastOnce, true));
    }
    match (&broker.settings.username, &broker.settings.password) {
        (Some(user), Some(password)) => {
            options.set_credentials(user, password.expose_secret().to_owned());
        }
        (Some(user), None) => {
            options.set_username(user);
        }
        (None, _) => {}
    }
    let with_tls = broker.settings.tls.then(|| Arc::new(broker.clone()));
    options.set_socket_connector(move |address, network| {
        let with_tls = with_tls.clone();
        async move {
            let connect = rumqttc::default_socket_connect(address, network);
            let stream: Box<dyn Stream> = match with_tls {
                Some(broker) => {
                    let tls = tls::connector(broker).await?;
                    Box::new(tls.handshake(connect.await?).await?)
                }
                None => Box::new(connect.await?),
            };
            let (read, write) = tokio::io::split(stream);
            Ok(tokio::io::join(LimitedReader::new(read), write))
        }
    });
    let (client, mut events) = AsyncClient::builder(options).capacity(queue).build();
    let mut network = events.network_options();
    network.set_connection_timeout(broker.settings.connect_timeout.as_secs().max(1));
    network.set_tcp_nodelay(true);
    events.set_network_options(network);
    let events = stream::unfold(events, |mut events| async move {
        let event = events.poll().await;
        Some((event, events))
    });
    (client, events.boxed())
}
