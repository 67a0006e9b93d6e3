//! Shared context of the connectors: configuration, HTTP client, the agent's store.

use std::sync::Arc;

use watchkeeper_config::SinksConfig;
use watchkeeper_store::Store;

use super::http_client::HttpClient;

/// Configuration, HTTP client and store of all connectors of one agent.
#[derive(Debug)]
pub struct ConnectorContext {
    pub(super) config: SinksConfig,
    pub(super) http: HttpClient,
    pub(super) store: Arc<dyn Store>,
}
