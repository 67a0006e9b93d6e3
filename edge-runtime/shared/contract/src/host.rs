//! What the name of a host says by itself, without a resolver.

use core::net::IpAddr;

/// Returns whether `host` is this machine, so that what is sent to it passes no network.
///
/// `host` is a name or an address as URLs write it, IPv6 with or without brackets. A name that only
/// a resolver knows to be this machine is not.
pub fn is_this_machine(host: &str) -> bool {
    let address = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
    let address = address.unwrap_or(host).parse::<IpAddr>();
    address.is_ok_and(|ip| ip.is_loopback()) || host.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use super::is_this_machine;

    #[test]
    fn addresses_of_this_machine_are_recognised() {
        for host in [
            "localhost",
            "LocalHost",
            "127.0.0.1",
            "127.3.0.9",
            "::1",
            "[::1]",
        ] {
            assert!(is_this_machine(host), "{host}");
        }
        for host in [
            "",
            "0.0.0.0",
            "10.0.0.1",
            "localhost.example",
            "127.0.0.1.example",
            "[::1",
            "[]",
            "::",
            "2001:db8::1",
        ] {
            assert!(!is_this_machine(host), "{host}");
        }
    }
}
