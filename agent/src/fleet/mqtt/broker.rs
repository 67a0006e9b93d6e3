//! The broker of one MQTT session: address, login, TLS and last will.

use watchkeeper_config::MqttConfig;

/// Connection settings of one session.
#[derive(Debug, Clone)]
pub struct Broker {
    pub settings: MqttConfig,
    /// Names of these settings for error texts.
    pub keys: Keys,
}

/// Names of the settings of a broker, as the operator wrote them.
#[derive(Debug, Clone, Copy)]
pub struct Keys {
    pub(super) host: &'static str,
    pub(super) port: &'static str,
    pub(super) client_id: &'static str,
    /// Likely cause of a session that the broker ends: it leaves the client id to a newer client.
    pub(super) same_client_id: &'static str,
    pub(super) login: &'static str,
    /// Remedy for a broker that asks for a login.
    pub(super) new_login: &'static str,
    pub(super) tls: &'static str,
    pub(super) ca_file: &'static str,
    /// Remedy for a broker that asks for a client certificate.
    pub(super) new_certificate: &'static str,
}

impl Keys {
    /// Names for the box's own broker.
    pub const OWN: Self = Self {
        host: "mqtt.host",
        port: "mqtt.port",
        client_id: "mqtt.client_id",
        same_client_id: "; another client may use the same mqtt.client_id (by default of box.site \
                         and box.id)",
        login: "mqtt.username and mqtt.password",
        new_login: "set mqtt.username and mqtt.password_file",
        tls: "mqtt.tls",
        ca_file: "mqtt.ca_file",
        new_certificate: "set mqtt.cert_file and mqtt.key_file",
    };
    /// Names for the broker of `watchkeeper run --mqtt`.
    pub const RUN: Self = Self {
        host: "the host of --mqtt",
        port: "the port of --mqtt",
        client_id: "WATCHKEEPER_MQTT__CLIENT_ID",
        same_client_id: "; another client may use the same WATCHKEEPER_MQTT__CLIENT_ID",
        login: "WATCHKEEPER_MQTT__USERNAME and WATCHKEEPER_MQTT__PASSWORD",
        new_login: "set WATCHKEEPER_MQTT__USERNAME and WATCHKEEPER_MQTT__PASSWORD_FILE",
        tls: "WATCHKEEPER_MQTT__TLS",
        ca_file: "WATCHKEEPER_MQTT__CA_FILE",
        new_certificate: "set WATCHKEEPER_MQTT__CERT_FILE and WATCHKEEPER_MQTT__KEY_FILE",
    };
    /// Names for the broker of a workflow's step.
    pub const STEP: Self = Self {
        host: "the step's host",
        port: "the step's port",
        client_id: "which client ids the broker accepts",
        // Each has a client id of its own.
        same_client_id: "",
        login: "the step's username and password",
        new_login: "give the step a username and a password",
        tls: "the step's tls",
        ca_file: "sinks.ca_file",
        new_certificate: "client certificates are supported only for the box's own broker",
    };
}

/// The message that the broker publishes when the session breaks.
#[derive(Debug, Clone)]
pub struct Will {
    pub topic: String,
    /// Payload; retained, QoS 1.
    pub payload: Vec<u8>,
}
