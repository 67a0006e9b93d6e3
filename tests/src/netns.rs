//! Tests with a network of their own: a namespace with one interface that carries multicast.
//!
//! Such a test runs itself again in the namespace, so that its datagrams stay there. It needs root
//! or user namespaces, and `ip`; elsewhere the test says so and is skipped.

use std::process::{Command, Stdio};

use anyhow::ensure;

/// Environment variable that is set in the second run of the test.
const INSIDE: &str = "WATCHKEEPER_TEST_NETWORK";

/// Makes the interface, then becomes the program of its arguments.
const SET_UP: &str = "ip link add lan0 type veth peer name lan1 && ip link set lan1 up \
                      && ip address add 10.99.0.1/24 dev lan0 && ip link set lan0 up \
                      && ip link set lo up && exec \"$@\"";

/// Address of the interface.
pub const ADDRESS: std::net::Ipv4Addr = std::net::Ipv4Addr::new(10, 99, 0, 1);

/// Runs `body` in a network namespace. `name` is the path of the test, with its modules.
///
/// # Errors
/// If `body` fails.
#[expect(clippy::print_stderr, reason = "a skip must be loud")]
pub fn in_private_network(
    name: &str,
    body: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    if std::env::var_os(INSIDE).is_some() {
        return body();
    }
    let ways: [&[&str]; 2] = [&["--net"], &["--map-root-user", "--net"]];
    let in_network = |way: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(way).args(["sh", "-c", SET_UP, "sh"]);
        command
    };
    let allowed = ways.into_iter().find(|way| {
        let mut command = in_network(way);
        let tried = command
            .arg("true")
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        tried.status().is_ok_and(|status| status.success())
    });
    let Some(way) = allowed else {
        eprintln!("SKIPPED: {name} (no network namespace with an interface can be made here)");
        return Ok(());
    };
    let out = in_network(way)
        .arg(std::env::current_exe()?)
        .args(["--exact", name, "--nocapture"])
        .env(INSIDE, "1")
        .stderr(Stdio::inherit())
        .output()?;
    let said = String::from_utf8_lossy(&out.stdout);
    // A wrong name would pass: no test runs, none fails.
    ensure!(
        out.status.success() && said.contains("1 passed"),
        "{name} failed in its own network: {said}"
    );
    Ok(())
}
