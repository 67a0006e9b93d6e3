//! Probes a TCP address: a connection that is opened and closed.
//!
//! Invariant: nothing is sent; results show host and port only, the path of a webhook is a secret.

use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use url::Url;
use watchkeeper_client::error_chain::io_cause;

/// Timeout of each address that the host name resolves to.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Connects to the host of a URL and returns `host:port`.
///
/// # Errors
/// A phrase with host, port and reason.
pub(super) fn probe_tcp(url: &Url) -> Result<String, String> {
    let host = url.host_str().unwrap_or_default();
    probe_host(host, url.port_or_known_default().unwrap_or_default())
}

/// Connects to a host and returns `host:port`.
///
/// # Errors
/// A phrase with host, port and reason.
pub(super) fn probe_host(host: &str, port: u16) -> Result<String, String> {
    let name = format!("{host}:{port}");
    match open(host, port) {
        Ok(()) => Ok(name),
        Err(why) => Err(format!("{name} is not reachable: {why}")),
    }
}

fn open(host: &str, port: u16) -> Result<(), String> {
    // A URL has an IPv6 address in brackets.
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let addresses = (host, port).to_socket_addrs().map_err(|e| e.to_string())?;
    let mut why = "the name has no address".to_owned();
    for address in addresses {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(_) => return Ok(()),
            Err(error) => why = io_cause(&error),
        }
    }
    Err(why)
}
