//! The broker of one MQTT session: address, login, TLS and last will.

use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;
use watchkeeper_config::ClientCert;

/// How to reach the broker.
#[derive(Debug, Clone)]
pub struct Broker {
    /// Host name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Client id, unique at the broker.
    pub client_id: String,
    /// User name.
    pub username: Option<String>,
    /// Password.
    pub password: Option<SecretString>,
    /// Whether the connection is TLS.
    pub tls: bool,
    /// PEM file with the authorities to trust; absent: the system's.
    pub ca_file: Option<PathBuf>,
    /// The certificate and key by which the box proves who it is.
    pub client_cert: Option<ClientCert>,
    /// Time for an attempt to connect, from the look-up of the name to the broker's answer; also for handing one message to
    /// the network.
    pub connect_timeout: Duration,
    /// Interval of keep-alive packets.
    pub keep_alive: Duration,
    /// Where a person finds these, for sentences about what is wrong with them.
    pub keys: Keys,
}

/// The names of what describes a broker, where a person wrote it.
#[derive(Debug, Clone, Copy)]
pub struct Keys {
    pub(super) host: &'static str,
    pub(super) port: &'static str,
    pub(super) client_id: &'static str,
    /// User name and password.
    pub(super) login: &'static str,
    /// What to write for a broker that asks for a login.
    pub(super) new_login: &'static str,
    pub(super) tls: &'static str,
    pub(super) ca_file: &'static str,
    /// What is to be done for a broker that asks for a certificate of the box.
    pub(super) new_certificate: &'static str,
}

impl Keys {
    /// Those of the box's own broker.
    pub const OWN: Self = Self {
        host: "mqtt.host",
        port: "mqtt.port",
        client_id: "mqtt.client_id",
        login: "mqtt.username and mqtt.password",
        new_login: "set mqtt.username and mqtt.password_file",
        tls: "mqtt.tls",
        ca_file: "mqtt.ca_file",
        new_certificate: "set mqtt.cert_file and mqtt.key_file",
    };
    /// Those of a step of a workflow.
    pub const STEP: Self = Self {
        host: "the step's host",
        port: "the step's port",
        client_id: "what the broker expects of names",
        login: "the step's username and password",
        new_login: "give the step a username and a password",
        tls: "the step's tls",
        ca_file: "sinks.ca_file",
        new_certificate: "such brokers are not served: the box shows its certificate to its own only",
    };
}

/// The message that the broker publishes when the session breaks.
#[derive(Debug, Clone)]
pub struct Will {
    /// Topic.
    pub topic: String,
    /// Payload; retained, QoS 1.
    pub payload: Vec<u8>,
}
