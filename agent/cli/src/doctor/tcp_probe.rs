//! Whether somebody answers at an address: a connection that is opened and closed.
//!
//! Invariant: nothing is sent, and of the address no more is told than host and port, since the rest of a webhook's is a secret.

use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use url::Url;

/// How long whoever is there may take to answer, at each address that the name has.
const PATIENCE: Duration = Duration::from_secs(3);

/// `host:port`, once somebody answered there.
///
/// # Errors
/// One phrase with host and port.
pub(super) fn knock(url: &Url) -> Result<String, String> {
    let host = url.host_str().unwrap_or_default();
    let port = url.port_or_known_default().unwrap_or_default();
    let name = format!("{host}:{port}");
    match open(host, port) {
        Ok(()) => Ok(name),
        Err(why) => Err(format!("{name} can't be reached: {why}")),
    }
}

fn open(host: &str, port: u16) -> Result<(), String> {
    // An address of IPv6 stands in brackets in a URL.
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let found = (host, port).to_socket_addrs().map_err(|e| e.to_string())?;
    let mut why = "the name has no address".to_owned();
    for address in found {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(_) => return Ok(()),
            Err(error) => why = error.to_string(),
        }
    }
    Err(why)
}
