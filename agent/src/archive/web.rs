//! One GET for an ingest: bounded in time, without redirects, only to public addresses.
//!
//! - An address of a private range is refused ([`is_private`]): the one that is connected.
//! - A host of `agent.archive.ingest_hosts` may have any address; without a port in that list, at
//!   the ports 80 and 443.
//! - The address is never logged: a path or a query may hold a token.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{Stream, StreamExt as _};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::CONTENT_TYPE;
use url::{Host, Url};
use watchkeeper_archive::ArchiveError;
use watchkeeper_config::{HostRule, SinksConfig};
use watchkeeper_evidence::http::private::is_private;
use watchkeeper_llm::client::root_cause;

use crate::connectors::http_client::HttpClient;

/// Time for one answer, with its body.
const TIMEOUT: Duration = Duration::from_secs(60);

/// What fetches addresses.
#[derive(Debug)]
pub(super) struct Web {
    /// Hosts that may have any address.
    named: SinksConfig,
    to_named: HttpClient,
    to_public: HttpClient,
}

/// An answer: its MIME type and its body.
pub(super) struct Fetched<S> {
    pub(super) content_type: Option<String>,
    pub(super) body: S,
}

impl Web {
    pub(super) fn new(hosts: Vec<HostRule>, ca_file: Option<PathBuf>) -> Self {
        Self {
            named: SinksConfig {
                hosts,
                ..SinksConfig::default()
            },
            to_named: HttpClient::new(ca_file.clone()),
            to_public: HttpClient::new(ca_file).resolving_by(Arc::new(PublicOnly)),
        }
    }

    /// Sends the GET.
    pub(super) async fn get(
        &self,
        url: Url,
    ) -> Result<
        Fetched<impl Stream<Item = Result<bytes::Bytes, ArchiveError>> + Send + use<>>,
        ArchiveError,
    > {
        let host = url.host_str().unwrap_or_default().to_owned();
        let fault = |why: String| ArchiveError::Source(format!("{host}: {why}"));
        let client = match self.named.admits_url(&url).is_ok() {
            true => &self.to_named,
            false => {
                check_literal(&url)?;
                &self.to_public
            }
        };
        let client = client.client().await.map_err(|error| fault(error.why))?;
        let answer = client.get(url).timeout(TIMEOUT).send().await;
        let answer = answer.map_err(|error| fault(root_cause(&error)))?;
        let status = answer.status();
        if status.is_redirection() {
            return Err(fault(format!(
                "answered {status}; give the address it leads to"
            )));
        }
        if !status.is_success() {
            return Err(fault(format!("answered {status}")));
        }
        let content_type = answer.headers().get(CONTENT_TYPE);
        let content_type = content_type.and_then(|value| value.to_str().ok());
        // Parameters such as the character set are left out.
        let content_type = content_type.and_then(|text| text.split(';').next());
        let content_type = content_type.map(|text| text.trim().to_owned());
        let body = answer.bytes_stream().map(move |chunk| {
            chunk.map_err(|error| ArchiveError::Source(format!("{host}: {}", root_cause(&error))))
        });
        Ok(Fetched { content_type, body })
    }
}

/// Refuses an address that is written as a number and not public; names are checked as they are
/// resolved.
fn check_literal(url: &Url) -> Result<(), ArchiveError> {
    let ip = match url.host() {
        Some(Host::Ipv4(ip)) => IpAddr::V4(ip),
        Some(Host::Ipv6(ip)) => IpAddr::V6(ip),
        _ => return Ok(()),
    };
    match is_private(ip) {
        false => Ok(()),
        true => Err(ArchiveError::Refused(not_public(&ip.to_string()))),
    }
}

fn not_public(host: &str) -> String {
    format!(
        "{host} is not a public address; to allow it, add \"{host}\" to \
         agent.archive.ingest_hosts, or \"{host}:PORT\" if the port is not 80 or 443"
    )
}

/// Resolves names to public addresses only.
#[derive(Debug)]
struct PublicOnly;

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let public: Vec<SocketAddr> = found.filter(|at| !is_private(at.ip())).collect();
            if public.is_empty() {
                return Err(not_public(name.as_str()).into());
            }
            Ok(Box::new(public.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use super::*;

    #[test]
    fn address_written_as_a_number_is_checked() {
        for url in [
            "http://127.1/",
            "http://0x7f000001/",
            "http://[::ffff:10.0.0.1]/",
        ] {
            assert!(check_literal(&url.parse().unwrap()).is_err(), "{url}");
        }
        assert!(check_literal(&"http://8.8.8.8/".parse().unwrap()).is_ok());
    }
}
