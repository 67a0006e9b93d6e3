//! Which addresses are private: those that the public internet does not route.
//!
//! - IPv4: a list of what is refused, IANA's special-purpose blocks (RFC 6890), multicast and
//!   reserved. IPv6: only global unicast, without its special blocks.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

/// Whether an address is of this machine, this network or otherwise not public.
pub fn is_private(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_private_v4(ip),
        IpAddr::V6(ip) => match ip.to_ipv4_mapped() {
            Some(ip) => is_private_v4(ip),
            None => is_private_v6(ip),
        },
    }
}

fn is_private_v4(ip: Ipv4Addr) -> bool {
    let [first, second, third, _] = ip.octets();
    let is_shared = first == 100 && (64..128).contains(&second);
    let is_benchmark = first == 198 && (18..20).contains(&second);
    // Protocol assignments, and the former relays of 6to4.
    let is_protocol = first == 192 && matches!((second, third), (0, 0) | (88, 99));
    ip.is_private()
        || ip.is_loopback()
        || ip.is_link_local()
        || ip.is_unspecified()
        || ip.is_multicast()
        || ip.is_broadcast()
        || ip.is_documentation()
        || is_shared
        || is_benchmark
        || is_protocol
        || first == 0
        || first >= 240
}

fn is_private_v6(ip: Ipv6Addr) -> bool {
    // Global unicast is 2000::/3; the prefixes within it that translate or tunnel are refused.
    let [first, second, ..] = ip.segments();
    let is_global = (0x2000..0x4000).contains(&first);
    let is_tunnel = first == 0x2002 || (first == 0x2001 && second < 0x0200);
    let is_documentation =
        (first == 0x2001 && second == 0x0db8) || (first == 0x3fff && second < 0x1000);
    !is_global || is_tunnel || is_documentation
}

/// Whether the host of a URL is written as a private address, or is this machine by name. Other
/// names are checked where they are resolved.
pub fn has_private_host(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(ip)) => is_private(ip.into()),
        Some(Host::Ipv6(ip)) => is_private(ip.into()),
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        None => false,
    }
}

/// Resolves names to their public addresses only. A name without one fails with the sentence that
/// is made of it.
#[derive(Debug)]
pub struct PublicResolver(pub fn(&str) -> String);

impl Resolve for PublicResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let refusal = self.0;
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let public: Vec<SocketAddr> = found.filter(|at| !is_private(at.ip())).collect();
            if public.is_empty() {
                return Err(refusal(name.as_str()).into());
            }
            Ok(Box::new(public.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::*;

    #[test]
    fn host_written_as_a_number_or_as_this_machine_is_private() {
        for (url, expected) in [
            ("http://127.1/", true),
            ("http://0x7f000001/", true),
            ("http://[::ffff:10.0.0.1]/", true),
            ("http://box.localhost/", true),
            ("http://8.8.8.8/", false),
            ("http://example.org/", false),
        ] {
            assert_eq!(has_private_host(&url.parse().unwrap()), expected, "{url}");
        }
    }

    #[test]
    fn only_public_addresses_are_public() {
        for private in [
            "127.0.0.1",
            "10.0.0.1",
            "172.16.1.1",
            "192.168.0.9",
            "169.254.169.254",
            "0.0.0.0",
            "100.64.0.1",
            "224.0.0.1",
            "::1",
            "fe80::1",
            "fd00::1",
            "::ffff:127.0.0.1",
            "2002:7f00:1::",
            "255.255.255.255",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "198.18.0.1",
            "198.51.100.1",
            "203.0.113.1",
            "::",
            "fc00::1",
            "64:ff9b::7f00:1",
            "2001::1",
            "2001:db8::1",
            "3fff:fff::1",
        ] {
            assert!(is_private(private.parse().unwrap()), "{private}");
        }
        for public in [
            "1.1.1.1",
            "8.8.8.8",
            "172.32.0.1",
            "192.0.1.1",
            "3fff:1000::1",
            "93.184.216.34",
            "2606:4700::1111",
            "2a00:1450::1",
        ] {
            assert!(!is_private(public.parse().unwrap()), "{public}");
        }
    }
}
