//! One GET for an ingest: bounded in time, without redirects, only to public addresses.
//!
//! - The head comes within [`HEAD_TIMEOUT`], and then something of the body each time. All of it
//!   has the time of the largest entry over a slow line.
//! - A private address is refused: the one that is written, and the one that is connected.
//! - A host of `agent.archive.ingest_hosts` may have any address; without a port in that list, at
//!   the ports 80 and 443.
//! - The address is never logged: a path or a query may hold a token.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, Stream};
use reqwest::header::CONTENT_TYPE;
use tokio::time::timeout;
use url::Url;
use watchkeeper_archive::ArchiveError;
use watchkeeper_archive::s3::time_for;
use watchkeeper_config::{ArchiveConfig, SinksConfig};
use watchkeeper_evidence::http::private::{PublicResolver, has_private_host};
use watchkeeper_outgoing::root_cause;

use crate::connectors::http_client::HttpClient;

/// Time for the head of an answer, and the longest pause within its body.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);

/// Client that fetches addresses.
#[derive(Debug)]
pub(super) struct Web {
    /// Hosts that may have any address.
    named: SinksConfig,
    to_named: HttpClient,
    to_public: HttpClient,
    /// Time for one answer with its body.
    timeout: Duration,
}

/// An answer: its MIME type and its body.
pub(super) struct Fetched<S> {
    pub(super) content_type: Option<String>,
    pub(super) body: S,
}

impl Web {
    pub(super) fn new(config: &ArchiveConfig, ca_file: Option<PathBuf>) -> Self {
        Self {
            timeout: time_for(config.max_entry_bytes),
            named: SinksConfig {
                hosts: config.ingest_hosts.clone(),
                ..SinksConfig::default()
            },
            to_named: HttpClient::new(ca_file.clone()),
            to_public: HttpClient::new(ca_file).resolving_by(Arc::new(PublicResolver(not_public))),
        }
    }

    pub(super) async fn get(
        &self,
        url: Url,
    ) -> Result<
        Fetched<impl Stream<Item = Result<bytes::Bytes, ArchiveError>> + Send + use<>>,
        ArchiveError,
    > {
        let host = url.host_str().unwrap_or_default().to_owned();
        let fault = |why: String| ArchiveError::Source(format!("{host}: {why}"));
        let client = match self.named.admits_url(&url).is_ok() {
            true => &self.to_named,
            false if has_private_host(&url) => {
                return Err(ArchiveError::Refused(not_public(&host)));
            }
            false => &self.to_public,
        };
        let client = client.client().await.map_err(|error| fault(error.why))?;
        let request = client.get(url).timeout(self.timeout).send();
        let answer = timeout(HEAD_TIMEOUT, request).await;
        let answer = answer.map_err(|_| fault("no answer in time".to_owned()))?;
        let answer = answer.map_err(|error| fault(root_cause(&error)))?;
        let status = answer.status();
        if status.is_redirection() {
            return Err(fault(format!(
                "answered {status}; give the address it leads to"
            )));
        }
        if !status.is_success() {
            return Err(fault(format!("answered {status}")));
        }
        let content_type = answer.headers().get(CONTENT_TYPE);
        let content_type = content_type.and_then(|value| value.to_str().ok());
        // Parameters such as the character set are left out.
        let content_type = content_type.and_then(|text| text.split(';').next());
        let content_type = content_type.map(|text| text.trim().to_owned());
        let body = stream::try_unfold((answer, host), |(mut answer, host)| async move {
            let fault = |why: &str| ArchiveError::Source(format!("{host}: {why}"));
            let chunk = timeout(HEAD_TIMEOUT, answer.chunk()).await;
            let chunk = chunk.map_err(|_| fault("stopped in its answer"))?;
            let chunk = chunk.map_err(|error| fault(&root_cause(&error)))?;
            Ok::<_, ArchiveError>(chunk.map(|chunk| (chunk, (answer, host))))
        });
        Ok(Fetched { content_type, body })
    }
}

fn not_public(host: &str) -> String {
    format!(
        "{host} is not a public address; to allow it, add \"{host}\" to \
         agent.archive.ingest_hosts, or \"{host}:PORT\" if the port is not 80 or 443"
    )
}
