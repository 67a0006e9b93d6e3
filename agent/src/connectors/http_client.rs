//! One HTTP client for all connectors.
//!
//! - It uses no proxy of the environment and follows no redirect: each address is allowed by name.
//! - With `sinks.ca_file` it trusts those authorities alone.
//! - It is built at its first use; a file that can't be read is read again for the next effect.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use reqwest::dns::Resolve;
use reqwest::redirect;
use tokio::sync::OnceCell;
use watchkeeper_llm::client::root_cause;

use super::fault::Fault;

/// Lazily built `reqwest` client.
pub(crate) struct HttpClient {
    ca_file: Option<PathBuf>,
    /// Resolves names; absent: the system.
    resolver: Option<Arc<dyn Resolve>>,
    client: OnceCell<reqwest::Client>,
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClient")
            .field("ca_file", &self.ca_file)
            .finish_non_exhaustive()
    }
}

impl HttpClient {
    pub(crate) fn new(ca_file: Option<PathBuf>) -> Self {
        Self {
            ca_file,
            resolver: None,
            client: OnceCell::new(),
        }
    }

    /// Lets `resolver` find the addresses of names.
    pub(crate) fn resolving_by(self, resolver: Arc<dyn Resolve>) -> Self {
        Self {
            resolver: Some(resolver),
            ..self
        }
    }

    /// The client, built at its first use. The next effect retries a failed build.
    pub(crate) async fn client(&self) -> Result<&reqwest::Client, Fault> {
        self.client
            .get_or_try_init(|| async {
                watchkeeper_client::tls::install_provider();
                let mut builder = reqwest::Client::builder()
                    .no_proxy()
                    .redirect(redirect::Policy::none())
                    .connect_timeout(Duration::from_secs(10))
                    .pool_max_idle_per_host(2)
                    .user_agent(concat!("watchkeeper/", env!("CARGO_PKG_VERSION")));
                if let Some(resolver) = &self.resolver {
                    builder = builder.dns_resolver(Arc::clone(resolver));
                }
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
