//! What the name of a host says by itself, without a question to anybody.

use core::net::IpAddr;

/// Whether `host`, a name or an address as URLs write it (IPv6 with or without brackets), is the machine itself, so that nothing of what is said to it passes
/// a network. A name that only a resolver knows to be this machine is none.
#[must_use]
pub fn is_this_machine(host: &str) -> bool {
    let address = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
    let address = address.unwrap_or(host).parse::<IpAddr>();
    address.is_ok_and(|ip| ip.is_loopback()) || host.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use super::is_this_machine;

    #[test]
    fn addresses_of_the_machine_are_told_from_others() {
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
