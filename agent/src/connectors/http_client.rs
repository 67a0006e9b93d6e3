//! One HTTP client for all connectors.
//!
//! - It uses no proxy of the environment and follows no redirect: each address is allowed by name.
//! - With `sinks.ca_file` it trusts those authorities alone.
//! - It is built at its first use; a file that can't be read is read again for the next effect.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use reqwest::dns::Resolve;
use reqwest::redirect;
use tokio::sync::OnceCell;
use watchkeeper_outgoing::{root_cause, trust_only};

use super::fault::Fault;
use crate::background::blocking;

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
        let build = || async {
            let (ca_file, resolver) = (self.ca_file.clone(), self.resolver.clone());
            let built = blocking(move || build(ca_file.as_deref(), resolver));
            built.await.map_err(Fault::transient)?
        };
        self.client.get_or_try_init(build).await
    }
}

/// Builds a client that trusts the authorities in `ca_file`, or else those of the system.
fn build(
    ca_file: Option<&Path>,
    resolver: Option<Arc<dyn Resolve>>,
) -> Result<reqwest::Client, Fault> {
    let mut builder = watchkeeper_outgoing::builder()
        .no_proxy()
        .redirect(redirect::Policy::none())
        .connect_timeout(Duration::from_secs(10))
        .pool_max_idle_per_host(2);
    if let Some(resolver) = resolver {
        builder = builder.dns_resolver(resolver);
    }
    if let Some(path) = ca_file {
        builder = trust_only(builder, path)
            .map_err(|why| Fault::transient(format!("sinks.ca_file {}: {why}", path.display())))?;
    }
    builder
        .build()
        .map_err(|error| Fault::transient(root_cause(&error)))
}
