//! Why there is no session, in one sentence that names the key to mend.
//!
//! Invariant: free of credentials. A reason is for a person at the log: what happened, and what can be done about it
//! where that is known.

use std::error::Error;

use rumqttc::tokio_rustls::rustls::{self, AlertDescription as Alert, CertificateError as Cert};
use rumqttc::{ConnectReturnCode as Code, ConnectionError};

use super::broker::Broker;

/// What happened, and what a person can do about it where that is known.
/// `accepted` tells whether the broker had taken the session before.
pub(crate) fn reason(broker: &Broker, accepted: bool, error: &ConnectionError) -> String {
    let keys = &broker.keys;
    if let Some(error) = find::<rustls::Error>(error) {
        return of_tls(broker, error);
    }
    match error {
        ConnectionError::ConnectionRefused(Code::BadUserNamePassword | Code::NotAuthorized) => {
            match broker.username {
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
        ConnectionError::Tls(source) => format!(
            "{}; check that {} is the broker's port for TLS",
            deepest(source),
            keys.port
        ),
        ConnectionError::Io(source) => {
            format!(
                "{source}; check that the broker runs at {} and {}",
                keys.host, keys.port
            )
        }
        // A port that speaks TLS takes our greeting for nonsense and hangs up.
        ConnectionError::MqttState(source) if !accepted && !broker.tls => format!(
            "the broker hung up without an answer ({}); set {} if it speaks TLS, else check {}",
            deepest(source),
            keys.tls,
            keys.port
        ),
        ConnectionError::MqttState(source) => {
            format!("the session with the broker broke: {}", deepest(source))
        }
        other => other.to_string(),
    }
}

fn of_tls(broker: &Broker, error: &rustls::Error) -> String {
    let keys = &broker.keys;
    match error {
        rustls::Error::InvalidCertificate(Cert::UnknownIssuer | Cert::BadSignature) => {
            match &broker.ca_file {
                Some(path) => format!(
                    "the broker's certificate comes from no authority in {} {}",
                    keys.ca_file,
                    path.display()
                ),
                None => format!(
                    "the broker's certificate comes from no authority the system knows; set {}",
                    keys.ca_file
                ),
            }
        }
        rustls::Error::InvalidCertificate(
            Cert::NotValidForName | Cert::NotValidForNameContext { .. },
        ) => format!(
            "the broker's certificate is not made out to {}; set {} to a name it holds",
            broker.host, keys.host
        ),
        rustls::Error::InvalidCertificate(
            Cert::Expired
            | Cert::ExpiredContext { .. }
            | Cert::NotValidYet
            | Cert::NotValidYetContext { .. },
        ) => format!("{error}; renew the broker's certificate, or set this box's clock"),
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
        ) => match broker.client_cert {
            Some(_) => format!(
                "the broker refused the box's certificate ({error}); check mqtt.cert_file and mqtt.key_file"
            ),
            None => format!(
                "the broker asks for a certificate of the box ({error}); {}",
                keys.new_certificate
            ),
        },
        other => format!("{other}; check {} and {}", keys.tls, keys.port),
    }
}

/// The first error of this type in the chain; `io::Error` shows what it holds only by its own method.
fn find<'e, T: Error + 'static>(error: &'e (dyn Error + 'static)) -> Option<&'e T> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<T>() {
            return Some(found);
        }
        next = match error.downcast_ref::<std::io::Error>() {
            Some(io) => io.get_ref().map(|inner| inner as &(dyn Error + 'static)),
            None => error.source(),
        };
    }
    None
}

/// The message at the bottom of the chain.
fn deepest(error: &dyn Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
