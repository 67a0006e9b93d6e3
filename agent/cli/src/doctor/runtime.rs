//! What the running runtime says about its cameras, pipelines and disk.

use watchkeeper_client::RuntimeClient;
use watchkeeper_client::tls::install_provider;
use watchkeeper_config::Config;

use super::finding::Finding;

/// One finding for each reason in the runtime's health; none where no runtime answers, which is the
/// finding of its socket.
pub(super) fn health(config: &Config) -> Vec<Finding> {
    if !config.runtime_socket.exists() {
        return Vec::new();
    }
    install_provider();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let asked = runtime.ok().and_then(|runtime| {
        let client = RuntimeClient::new(&config.runtime_socket).ok()?;
        runtime.block_on(client.health()).ok()
    });
    let Some(health) = asked else {
        return Vec::new();
    };
    if health.reasons.is_empty() {
        return vec![Finding::ok("runtime: cameras, pipelines and disk work")];
    }
    let remedy = "docs/guide/troubleshooting.md has causes and remedies";
    let reasons = health.reasons.into_iter();
    reasons
        .map(|reason| Finding::problem(format!("runtime: {reason}"), remedy))
        .collect()
}
