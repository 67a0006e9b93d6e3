//! One HTTP client for all connectors: no proxy, no automatic redirects, the configured CAs.

use std::path::PathBuf;
use std::time::Duration;

use reqwest::redirect;
use tokio::sync::OnceCell;
use watchkeeper_llm::client::root_cause;

use super::fault::Fault;

/// Lazily built `reqwest` client.
#[derive(Debug)]
pub(super) struct HttpClient {
    ca_file: Option<PathBuf>,
    client: OnceCell<reqwest::Client>,
}

impl HttpClient {
    pub(super) fn new(ca_file: Option<PathBuf>) -> Self {
        Self {
            ca_file,
            client: OnceCell::new(),
        }
    }

    /// The client, built at its first use. The next effect retries a failed build.
    pub(super) async fn client(&self) -> Result<&reqwest::Client, Fault> {
        self.client
            .get_or_try_init(|| async {
                watchkeeper_client::tls::install_provider();
                let mut builder = reqwest::Client::builder()
                    .no_proxy()
                    .redirect(redirect::Policy::none())
                    .connect_timeout(Duration::from_secs(10))
                    .pool_max_idle_per_host(2)
                    .user_agent(concat!("watchkeeper/", env!("CARGO_PKG_VERSION")));
                if let Some(path) = &self.ca_file {
                    let ca_fault = |why: String| {
                        Fault::transient(format!("sinks.ca_file {}: {why}", path.display()))
                    };
                    let pem = std::fs::read(path).map_err(|error| ca_fault(error.to_string()))?;
                    let certificates = reqwest::Certificate::from_pem_bundle(&pem);
                    let certificates =
                        certificates.map_err(|error| ca_fault(root_cause(&error)))?;
                    builder = builder.tls_certs_only(certificates);
                }
                builder
                    .build()
                    .map_err(|error| Fault::transient(root_cause(&error)))
            })
            .await
    }
}
