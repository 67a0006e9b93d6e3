//! The embedded broker: for trying things out on one machine, never for a site.
//!
//! It listens on the loopback address only, keeps its sessions in memory, asks nobody for a password and can't be
//! stopped, which is why it runs in a process of its own: end the process, end the broker.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use rumqttd::{ConnectionSettings, RouterConfig, ServerSettings, Strategy};

use watchkeeper_agent::fleet::mqtt::payload::MAX_PAYLOAD;

/// Why the broker ended.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// The port is taken.
    #[error("port {port} of 127.0.0.1 can't be used: {source}")]
    Port {
        /// Which port.
        port: u16,
        /// What the system said.
        source: std::io::Error,
    },
    /// It failed by itself.
    #[error("the embedded broker failed: {0}")]
    Failed(String),
}

/// Serves MQTT 3.1.1 on `127.0.0.1:port` until the process ends.
///
/// # Errors
/// [`BrokerError`]; it never comes back otherwise.
pub fn run_embedded(port: u16) -> Result<Infallible, BrokerError> {
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    // The library binds in a thread of its own and panics there when it can't: ask first.
    drop(TcpListener::bind(listen).map_err(|source| BrokerError::Port { port, source })?);
    let mut broker = rumqttd::Broker::new(config(listen));
    broker
        .start()
        .map_err(|error| BrokerError::Failed(error.to_string()))?;
    Err(BrokerError::Failed("it ended without a word".to_owned()))
}

fn config(listen: SocketAddr) -> rumqttd::Config {
    let server = ServerSettings {
        name: "embedded".to_owned(),
        listen,
        tls: None,
        next_connection_delay_ms: 1,
        connections: ConnectionSettings {
            connection_timeout_ms: 5000,
            max_payload_size: 4 * MAX_PAYLOAD,
            max_inflight_count: 200,
            auth: None,
            external_auth: None,
            dynamic_filters: true,
        },
    };
    rumqttd::Config {
        id: 0,
        router: RouterConfig {
            max_connections: 64,
            max_outgoing_packet_count: 200,
            max_segment_size: 8 << 20,
            max_segment_count: 4,
            custom_segment: None,
            initialized_filters: None,
            shared_subscriptions_strategy: Strategy::default(),
        },
        v4: Some(HashMap::from([("1".to_owned(), server)])),
        v5: None,
        ws: None,
        cluster: None,
        console: None,
        bridge: None,
        prometheus: None,
        metrics: None,
    }
}
