//! What the running runtime says about its cameras, pipelines and disk.

use watchkeeper_client::RuntimeClient;
use watchkeeper_client::tls::install_provider;
use watchkeeper_config::Config;

use super::finding::Finding;
use crate::privacy;

/// One finding for each reason in the runtime's health, and one for each privacy mask; none where
/// no runtime answers, which is the finding of its socket.
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
        let health = runtime.block_on(client.health()).ok()?;
        let sources = runtime.block_on(client.sources()).unwrap_or_default();
        Some((health, sources))
    });
    let Some((health, sources)) = asked else {
        return Vec::new();
    };
    let masked = sources.into_iter().filter_map(|source| {
        let mask = privacy::describe(&source.privacy?);
        Some(Finding::ok(format!("camera {}: {mask}", source.spec.id)))
    });
    if health.reasons.is_empty() {
        let works = Finding::ok("runtime: cameras, pipelines and disk work");
        return [works].into_iter().chain(masked).collect();
    }
    let remedy = "docs/guide/troubleshooting.md has causes and remedies";
    let reasons = health.reasons.into_iter();
    reasons
        .map(|reason| Finding::problem(format!("runtime: {reason}"), remedy))
        .chain(masked)
        .collect()
}
