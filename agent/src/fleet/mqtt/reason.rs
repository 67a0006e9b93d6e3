//! The text that explains a failed session: cause, and the key or port to check.
//!
//! - A reason contains no credentials.
//! - It goes to the log and to `svc/agent/health`; where a remedy is known, the reason names it.

use std::error::Error;
use std::io::{self, ErrorKind as Kind};

use rumqttc::tokio_rustls::rustls::{self, AlertDescription as Alert, CertificateError as Cert};
use rumqttc::{ConnectReturnCode as Code, ConnectionError, StateError};
use watchkeeper_client::error_chain::io_cause;

use super::broker::Broker;
use super::tls::{HandshakeFailed, TlsError};

/// Explains `error`: what failed, and what the operator can do if that is known. `accepted`: the
/// broker had accepted the session before.
pub(crate) fn reason(broker: &Broker, accepted: bool, error: &ConnectionError) -> String {
    let keys = &broker.keys;
    if let Some(error) = find::<TlsError>(error) {
        return error.to_string();
    }
    if let Some(error) = find::<rustls::Error>(error) {
        return of_tls(broker, error);
    }
    if let Some(error) = find::<HandshakeFailed>(error) {
        return format!(
            "{error}; check that {} is the broker's port for TLS",
            keys.port
        );
    }
    match error {
        ConnectionError::ConnectionRefused(Code::BadUserNamePassword | Code::NotAuthorized) => {
            match broker.settings.username {
                Some(_) => format!("the broker refused the login; check {}", keys.login),
                None => format!("the broker asks for a login; {}", keys.new_login),
            }
        }
        ConnectionError::ConnectionRefused(Code::BadClientId) => {
            format!("the broker refused the client id; check {}", keys.client_id)
        }
        ConnectionError::NetworkTimeout | ConnectionError::FlushTimeout => {
            format!(
                "the broker does not answer; check {} and {}",
                keys.host, keys.port
            )
        }
        ConnectionError::Io(source) => format!(
            "{}; check that the broker runs at {} and {}",
            io_cause(source),
            keys.host,
            keys.port
        ),
        // A TLS port rejects a plain CONNECT as garbage and closes the connection.
        ConnectionError::MqttState(source) if !accepted && !broker.settings.tls => format!(
            "the broker closed the connection without an answer ({}); set {} if it speaks TLS, else check {}",
            deepest(source),
            keys.tls,
            keys.port
        ),
        ConnectionError::MqttState(source) => {
            let why = deepest(source);
            let cause = match accepted && is_closed_by_broker(source) {
                true => keys.same_client_id,
                false => "",
            };
            format!("the session with the broker broke: {why}{cause}")
        }
        other => other.to_string(),
    }
}

fn of_tls(broker: &Broker, error: &rustls::Error) -> String {
    let keys = &broker.keys;
    match error {
        rustls::Error::InvalidCertificate(Cert::UnknownIssuer | Cert::BadSignature) => {
            match &broker.settings.ca_file {
                Some(path) => format!(
                    "no authority in {} {} signed the broker's certificate",
                    keys.ca_file,
                    path.display()
                ),
                None => format!(
                    "no authority of the system signed the broker's certificate; set {}",
                    keys.ca_file
                ),
            }
        }
        rustls::Error::InvalidCertificate(
            Cert::NotValidForName | Cert::NotValidForNameContext { .. },
        ) => format!(
            "the broker's certificate is not valid for {}; set {} to a name in it",
            broker.settings.host, keys.host
        ),
        rustls::Error::InvalidCertificate(
            Cert::Expired
            | Cert::ExpiredContext { .. }
            | Cert::NotValidYet
            | Cert::NotValidYetContext { .. },
        ) => format!("{error}; renew the broker's certificate, or set the clock of this box"),
        rustls::Error::InvalidMessage(_) => {
            format!(
                "the broker does not speak TLS here; check {}, or unset {}",
                keys.port, keys.tls
            )
        }
        rustls::Error::AlertReceived(
            Alert::CertificateRequired
            | Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::UnknownCA
            | Alert::AccessDenied
            | Alert::HandshakeFailure
            | Alert::DecryptError,
        ) => match broker.settings.client_cert {
            Some(_) => format!(
                "the broker refused the box's certificate ({error}); check mqtt.cert_file and \
                 mqtt.key_file"
            ),
            None => format!(
                "the broker asks for a certificate of the box ({error}); {}",
                keys.new_certificate
            ),
        },
        other => format!("{other}; check {} and {}", keys.tls, keys.port),
    }
}

fn is_closed_by_broker(error: &StateError) -> bool {
    match error {
        StateError::ConnectionAborted => true,
        // TLS reports a connection that was closed without notice as an unexpected end.
        StateError::Io(error) => matches!(
            error.kind(),
            Kind::ConnectionAborted | Kind::ConnectionReset | Kind::UnexpectedEof
        ),
        _ => false,
    }
}

/// First error of type `T` in the chain. An `io::Error` shows its inner error only by `get_ref`.
fn find<'e, T: Error + 'static>(error: &'e (dyn Error + 'static)) -> Option<&'e T> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<T>() {
            return Some(found);
        }
        next = match error.downcast_ref::<io::Error>() {
            Some(io) => io.get_ref().map(|inner| inner as &(dyn Error + 'static)),
            None => error.source(),
        };
    }
    None
}

/// Message of the last error of the chain.
fn deepest(error: &dyn Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use watchkeeper_config::{CommandAccess, MqttConfig};

    use super::super::broker::{Keys, Will};
    use super::super::link::{Link, LinkEvent};
    use super::*;

    fn broker() -> Broker {
        Broker {
            settings: MqttConfig {
                host: "b".to_owned(),
                port: 1883,
                client_id: "c".to_owned(),
                username: None,
                password: None,
                password_file: None,
                commands: CommandAccess::Off,
                tls: false,
                ca_file: None,
                client_cert: None,
                connect_timeout: Duration::from_secs(1),
                keep_alive: Duration::from_secs(30),
            },
            keys: Keys::OWN,
        }
    }

    #[test]
    fn remedy_of_a_run_names_its_variables() {
        let mut broker = broker();
        broker.keys = Keys::RUN;
        let refused = ConnectionError::ConnectionRefused(Code::NotAuthorized);
        let login = "the broker asks for a login; set WATCHKEEPER_MQTT__USERNAME and \
                     WATCHKEEPER_MQTT__PASSWORD_FILE";
        assert_eq!(reason(&broker, false, &refused), login);
    }

    #[test]
    fn only_a_session_that_the_broker_closes_names_another_client() {
        let names_client = |accepted: bool, error: StateError| {
            let reason = reason(&broker(), accepted, &ConnectionError::MqttState(error));
            reason.contains("another client may use the same mqtt.client_id")
        };
        let io = |kind: Kind| StateError::Io(kind.into());
        assert!(names_client(true, StateError::ConnectionAborted));
        assert!(names_client(true, io(Kind::ConnectionReset)));
        assert!(!names_client(false, StateError::ConnectionAborted));
        assert!(!names_client(true, io(Kind::TimedOut)));
        assert!(!names_client(true, StateError::AwaitPingResp));
    }

    #[tokio::test]
    async fn unreadable_file_of_tls_is_named_before_a_connection() {
        let mut broker = broker();
        broker.settings.tls = true;
        broker.settings.ca_file = Some("/nowhere/ca.pem".into());
        let will = Will {
            topic: "t".to_owned(),
            payload: Vec::new(),
        };
        let LinkEvent::Down { reason } = Link::open(broker, will).next().await else {
            panic!("a session");
        };
        let expected = "mqtt.ca_file /nowhere/ca.pem can't be read: ";
        assert!(reason.starts_with(expected), "{reason}");
    }
}
