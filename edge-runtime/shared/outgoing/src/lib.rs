//! Outgoing HTTP requests: how a client is built, and how a failure is described.
//!
//! - A description names host and port, never the rest of an address, which may contain a secret.
//! - TLS is rustls with ring, in every client of the process.
//!
//! Not here: which hosts are allowed, and when a request is repeated.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::{Certificate, ClientBuilder, StatusCode};
use url::Url;

pub mod sse;

/// A client builder with the product's TLS provider and user agent.
pub fn builder() -> ClientBuilder {
    // The error only says that a provider is installed already.
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
    reqwest::Client::builder().user_agent(concat!("watchkeeper/", env!("CARGO_PKG_VERSION")))
}

/// Makes `builder` trust the certificates in the PEM file `path`, and no others.
///
/// # Errors
/// A phrase: why the file can't be read.
pub fn trust_only(builder: ClientBuilder, path: &Path) -> Result<ClientBuilder, String> {
    let pem = std::fs::read(path).map_err(|error| error.to_string())?;
    let certificates = Certificate::from_pem_bundle(&pem).map_err(|error| root_cause(&error))?;
    Ok(builder.tls_certs_only(certificates))
}

/// Host and port of an address.
pub fn host_of(url: &Url) -> String {
    let host = url.host_str().unwrap_or("the server");
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// The innermost source of an error: the system's message. The layers above repeat the address.
pub fn root_cause(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    match cause.downcast_ref::<reqwest::Error>() {
        // Its own text contains the address.
        Some(error) if error.url().is_some() => "the request failed".to_owned(),
        _ => cause.to_string(),
    }
}

/// Whether the refusal of a request with `status` may pass: 408, 425, 429 and 5xx.
pub fn may_pass(status: StatusCode) -> bool {
    status.is_server_error() || [408, 425, 429].contains(&status.as_u16())
}

/// Longest pause that a server may ask for; a longer one is cut to it.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(7 * 24 * 3600);

/// The pause that the server asks for in seconds. A date is ignored: the clock of a box may be
/// wrong.
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse();
    let pause = seconds.ok().map(Duration::from_secs)?;
    Some(pause.min(MAX_RETRY_AFTER))
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    #[test]
    fn host_of_hides_user_path_and_query() {
        let of = |url: &str| host_of(&Url::parse(url).expect("an address"));
        let secret = of("https://user:pw@hooks.example.org:8443/T0K/EN?key=1");
        assert_eq!(secret, "hooks.example.org:8443");
        assert_eq!(of("https://example.org/"), "example.org");
    }

    #[test]
    fn root_cause_hides_the_address() {
        let error = builder()
            .build()
            .and_then(|client| client.get("http://a b/T0KEN").build())
            .expect_err("an invalid address");
        let cause = root_cause(&error);
        assert!(!cause.contains("T0KEN"), "{cause}");
    }

    #[test]
    fn retry_after_is_read_in_seconds() {
        let of = |value| retry_after(&HeaderMap::from_iter([(RETRY_AFTER, value)]));
        assert_eq!(
            of(HeaderValue::from_static(" 5 ")),
            Some(Duration::from_secs(5))
        );
        let longest = HeaderValue::from_static("18446744073709551615");
        assert_eq!(of(longest), Some(MAX_RETRY_AFTER));
        let date = HeaderValue::from_static("Wed, 21 Oct 2026 07:28:00 GMT");
        assert_eq!(of(date), None);
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }
}
