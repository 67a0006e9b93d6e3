//! Refuses requests over TCP under a foreign host name.
//!
//! A web page can make its own name resolve to this box, so that a browser on the box sends it
//! requests (DNS rebinding). Such a request carries the page's name.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{CONNECTION, HOST};
use axum::http::{HeaderValue, StatusCode, uri::Authority};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use watchkeeper_contract::problem::ProblemCode;
use watchkeeper_http::Refusal;

/// Lets requests through whose `Host` is a loopback address, `localhost` or one of `hosts`.
pub(super) async fn require_host(
    State(hosts): State<Arc<[String]>>,
    request: Request,
    next: Next,
) -> Response {
    let host = request.headers().get(HOST);
    let host = host.map(|host| String::from_utf8_lossy(host.as_bytes()).into_owned());
    let host = host.unwrap_or_default();
    if is_own(&host, &hosts) {
        return next.run(request).await;
    }
    let refusal = Refusal::new(
        StatusCode::MISDIRECTED_REQUEST,
        ProblemCode::InvalidRequest,
        "the API is not served under this host name; use localhost, or add the name to \
         agent.api.hosts",
    );
    let shown: String = host.chars().take(80).collect();
    let mut response = refusal.at("Host", shown).into_response();
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

fn is_own(host: &str, hosts: &[String]) -> bool {
    let Ok(authority) = host.parse::<Authority>() else {
        return false;
    };
    let name = authority.host().to_ascii_lowercase();
    let address = name
        .trim_start_matches('[')
        .trim_end_matches(']')
        .parse::<IpAddr>();
    name == "localhost" || address.is_ok_and(|ip| ip.is_loopback()) || hosts.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_names_are_accepted() {
        let hosts = ["box.example.com".to_owned()];
        for own in [
            "localhost:8088",
            "LOCALHOST",
            "127.0.0.1:8088",
            "[::1]:8088",
            "Box.Example.com",
            "box.example.com:443",
        ] {
            assert!(is_own(own, &hosts), "{own}");
        }
        for foreign in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example:8088",
            "10.0.0.1",
            "box.example.com.evil.example",
            "a b",
        ] {
            assert!(!is_own(foreign, &hosts), "{foreign}");
        }
    }
}
