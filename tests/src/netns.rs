//! Tests with their own network: a namespace with one interface that carries multicast.
//!
//! Its datagrams stay there. Such a test needs `ip` besides what a [`namespace`](super::namespace)
//! needs.

use super::namespace::Namespace;

/// Makes the interface, then becomes the program of its arguments.
const SET_UP: &str = "ip link add lan0 type veth peer name lan1 && ip link set lan1 up \
                      && ip address add 10.99.0.1/24 dev lan0 && ip link set lan0 up \
                      && ip link set lo up && exec \"$@\"";

/// Address of the interface.
pub const ADDRESS: std::net::Ipv4Addr = std::net::Ipv4Addr::new(10, 99, 0, 1);

const NETWORK: Namespace = Namespace {
    inside: "WATCHKEEPER_TEST_NETWORK",
    ways: [&["--net"], &["--map-root-user", "--net"]],
    set_up: &["sh", "-c", SET_UP, "sh"],
    trial: &["true"],
    missing: "no network namespace with an interface can be made here",
};

/// Runs `body` in a network namespace. `name` is the path of the test, with its modules.
///
/// # Errors
/// If `body` fails.
pub fn in_private_network(
    name: &str,
    body: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    NETWORK.run(name, body)
}
