//! One GET for an ingest: bounded in time, without redirects, only to public addresses.
//!
//! - Public is decided by an allow-list of address ranges, on the addresses that are connected.
//! - A host of `agent.archive.ingest_hosts` may have any address.
//! - The address is never logged: a path or a query may hold a token.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{Stream, StreamExt as _};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::CONTENT_TYPE;
use url::{Host, Url};
use watchkeeper_archive::ArchiveError;
use watchkeeper_config::{HostRule, SinksConfig};
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
    match is_public(ip) {
        true => Ok(()),
        false => Err(ArchiveError::Refused(not_public(&ip.to_string()))),
    }
}

fn not_public(host: &str) -> String {
    format!("{host} is not a public address; to allow it, add it to agent.archive.ingest_hosts")
}

/// Resolves names to public addresses only.
#[derive(Debug)]
struct PublicOnly;

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let public: Vec<SocketAddr> = found.filter(|at| is_public(at.ip())).collect();
            if public.is_empty() {
                return Err(not_public(name.as_str()).into());
            }
            Ok(Box::new(public.into_iter()) as Addrs)
        })
    }
}

/// Whether an address belongs to the public internet.
fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

/// IANA's special-purpose blocks left out (RFC 6890).
fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    let is_special = matches!(
        (a, b, c),
        (0 | 10 | 127, ..)
            | (100, 64..=127, _)
            | (169, 254, _)
            | (172, 16..=31, _)
            | (192, 0, 0 | 2)
            | (192, 88, 99)
            | (192, 168, _)
            | (198, 18 | 19, _)
            | (198, 51, 100)
            | (203, 0, 113)
            | (224.., ..)
    );
    !is_special
}

/// Global unicast, without the ranges that carry IPv4 addresses or documentation.
fn is_public_v6(ip: Ipv6Addr) -> bool {
    let [a, b, ..] = ip.segments();
    let is_global = a & 0xe000 == 0x2000;
    let is_special = a == 0x2002 || (a == 0x2001 && (b < 0x0200 || b == 0x0db8)) || a == 0x3fff;
    is_global && !is_special
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_are_admitted() {
        for good in ["93.184.216.34", "8.8.8.8", "172.32.0.1", "2606:4700::1111"] {
            assert!(is_public(good.parse().unwrap()), "{good}");
        }
        for bad in [
            "127.0.0.1",
            "10.1.2.3",
            "192.168.1.1",
            "172.16.0.1",
            "169.254.169.254",
            "0.0.0.0",
            "100.64.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "fc00::1",
            "::ffff:127.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "2001::1",
            "2001:db8::1",
        ] {
            assert!(!is_public(bad.parse().unwrap()), "{bad}");
        }
        for url in [
            "http://127.1/",
            "http://0x7f000001/",
            "http://[::ffff:10.0.0.1]/",
        ] {
            assert!(check_literal(&url.parse().unwrap()).is_err(), "{url}");
        }
    }
}
