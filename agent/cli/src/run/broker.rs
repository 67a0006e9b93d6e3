//! The broker of `run --mqtt`: an address on the command line, and what goes with it as the daemons take it.
//!
//! Owns the reading of the address. Everything else about the broker (password, files of TLS, keep-alive) comes from
//! `WATCHKEEPER_MQTT__…` variables through the configuration, so it is checked and documented there. Invariants: no
//! password is taken from the command line, and none is repeated in a sentence.

use percent_encoding::percent_decode_str;
use url::{Host, Url};
use watchkeeper_config::LoadRequest;

use crate::exit::Failure;

/// The flag, as errors name it.
const FLAG: &str = "--mqtt";

/// `[mqtt://|mqtts://][USER@]HOST[:PORT]`, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BrokerAddress {
    host: String,
    /// Left out: the variable's, else 1883, or 8883 with TLS.
    port: Option<u16>,
    username: Option<String>,
    /// Left out: the variable's, else none.
    tls: Option<bool>,
}

/// Why an address is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum AddressError {
    #[error(
        "--mqtt: every user of this machine can read a password on the command line; leave it out and put it into \
         WATCHKEEPER_MQTT__PASSWORD, or the name of its file into WATCHKEEPER_MQTT__PASSWORD_FILE"
    )]
    Password,
    #[error("--mqtt {0} is not [mqtt[s]://][USER@]HOST[:PORT], such as broker.local:1883")]
    Shape(String),
}

impl BrokerAddress {
    /// Reads an address.
    ///
    /// # Errors
    /// [`AddressError`]; it holds no password.
    pub(super) fn parse(text: &str) -> Result<Self, AddressError> {
        // What can't be read may hold a password anywhere before its `@`.
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
        // A port of 0 asks for any, which no broker listens on.
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

    /// Puts it over what the variables say.
    #[must_use]
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
    fn an_address_may_name_scheme_user_and_port() {
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
    fn what_is_no_address_is_refused_without_repeating_a_password() {
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
            let told = BrokerAddress::parse(text).map_err(|e| e.to_string());
            let told = told.expect_err(text);
            assert!(
                told.contains("HOST[:PORT]") || told.contains("WATCHKEEPER_MQTT__PASSWORD_FILE"),
                "{text}: {told}"
            );
            assert!(!told.contains("ter2"), "{told}");
        }
    }
}
