//! Whether the running runtime can store events, by its own health.

use watchkeeper_client::RuntimeClient;
use watchkeeper_client::tls::install_provider;
use watchkeeper_config::Config;

use super::finding::Finding;

/// Beginning of the reason in the runtime's health.
const NOT_STORED: &str = "events can't be stored";

/// The runtime's reason, if it can't store events at the moment.
pub(super) fn check(config: &Config) -> Option<Finding> {
    if !config.runtime_socket.exists() {
        return None;
    }
    install_provider();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let client = RuntimeClient::new(&config.runtime_socket).ok()?;
    // A runtime that does not answer is the finding of its socket.
    let health = runtime.ok()?.block_on(client.health()).ok()?;
    let reason = health
        .reasons
        .into_iter()
        .find(|reason| reason.starts_with(NOT_STORED))?;
    Some(Finding::problem(
        format!("runtime: {reason}"),
        "free some space on the disk of runtime.state_dir, or mount it for writing: \
         mount -o remount,rw PATH",
    ))
}
