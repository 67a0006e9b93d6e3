//! Parses the broker address of `run --mqtt`.
//!
//! - Invariants: a password in the address is refused, and no error repeats it.
//! - Not here: password, TLS files and keep-alive, which `WATCHKEEPER_MQTT__…` variables set.

use percent_encoding::percent_decode_str;
use url::{Host, Url};
use watchkeeper_config::LoadRequest;

use crate::exit::Failure;

const FLAG: &str = "--mqtt";

/// Parts of `[mqtt://|mqtts://][USER@]HOST[:PORT]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BrokerAddress {
    host: String,
    /// Default: that of the variable, else 1883, or 8883 with TLS.
    port: Option<u16>,
    username: Option<String>,
    /// Default: that of the variable, else no TLS.
    tls: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum AddressError {
    #[error(
        "--mqtt: no password here, because every user of this machine can read the command line; \
         set WATCHKEEPER_MQTT__PASSWORD, or WATCHKEEPER_MQTT__PASSWORD_FILE to the name of a file"
    )]
    Password,
    #[error("--mqtt {0} is not [mqtt[s]://][USER@]HOST[:PORT], such as broker.local:1883")]
    Shape(String),
}

impl BrokerAddress {
    /// Parses an address.
    ///
    /// # Errors
    /// [`AddressError`] without the password.
    pub(super) fn parse(text: &str) -> Result<Self, AddressError> {
        // An invalid address may have a password anywhere before its `@`.
        let shape = || {
            let shown = text
                .rsplit_once('@')
                .map_or(text.to_owned(), |(_, host)| format!("***@{host}"));
            AddressError::Shape(shown)
        };
        let (tls, rest) = match text.split_once("://") {
            None => (None, text),
            Some(("mqtt", rest)) => (Some(false), rest),
            Some(("mqtts", rest)) => (Some(true), rest),
            Some(_) => return Err(shape()),
        };
        let url = Url::parse(&format!("mqtt://{rest}")).map_err(|_| shape())?;
        if url.password().is_some() {
            return Err(AddressError::Password);
        }
        let is_bare =
            matches!(url.path(), "" | "/") && url.query().is_none() && url.fragment().is_none();
        // No broker listens on port 0.
        if !is_bare || url.port() == Some(0) {
            return Err(shape());
        }
        let host = match url.host() {
            Some(Host::Ipv6(address)) => address.to_string(),
            Some(host) => host.to_string(),
            None => return Err(shape()),
        };
        let username = match url.username() {
            "" => None,
            name => Some(
                percent_decode_str(name)
                    .decode_utf8()
                    .map_err(|_| shape())?
                    .into_owned(),
            ),
        };
        Ok(Self {
            host,
            port: url.port(),
            username,
            tls,
        })
    }

    /// Overrides the variables in a request.
    pub(super) fn onto(&self, request: LoadRequest) -> LoadRequest {
        request
            .with(FLAG, "mqtt.host", Some(&self.host))
            .with(FLAG, "mqtt.port", self.port.map(|port| port.to_string()))
            .with(FLAG, "mqtt.username", self.username.as_ref())
            .with(FLAG, "mqtt.tls", self.tls.map(|tls| tls.to_string()))
    }
}

impl From<AddressError> for Failure {
    fn from(error: AddressError) -> Self {
        Self::input(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(host: &str) -> BrokerAddress {
        BrokerAddress {
            host: host.to_owned(),
            port: None,
            username: None,
            tls: None,
        }
    }

    #[test]
    fn address_has_optional_scheme_user_and_port() {
        let plain = address("broker.local");
        let of = |text| BrokerAddress::parse(text);
        assert_eq!(of("broker.local"), Ok(plain.clone()));
        assert_eq!(
            of("mqtts://gate-1@broker.local:8884"),
            Ok(BrokerAddress {
                port: Some(8884),
                username: Some("gate-1".to_owned()),
                tls: Some(true),
                ..plain.clone()
            })
        );
        assert_eq!(
            of("mqtt://me%40site@broker.local/"),
            Ok(BrokerAddress {
                username: Some("me@site".to_owned()),
                tls: Some(false),
                ..plain
            })
        );
        assert_eq!(of("127.0.0.1"), Ok(address("127.0.0.1")));
        assert_eq!(
            of("[::1]:1884"),
            Ok(BrokerAddress {
                port: Some(1884),
                ..address("::1")
            })
        );
    }

    #[test]
    fn invalid_address_is_refused_without_its_password() {
        for text in [
            "broker:x",
            "broker:0",
            "broker:70000",
            "",
            ":1883",
            "http://broker",
            "broker/topic",
            "::1",
            "u:hunter2@broker",
            "mqtt://u:hunter2@broker",
            "u:hun/ter2@broker",
            "http://u:hunter2@broker",
        ] {
            let parsed = BrokerAddress::parse(text).map_err(|e| e.to_string());
            let error = parsed.expect_err(text);
            assert!(
                error.contains("HOST[:PORT]") || error.contains("WATCHKEEPER_MQTT__PASSWORD_FILE"),
                "{text}: {error}"
            );
            assert!(!error.contains("ter2"), "{error}");
        }
    }
}
