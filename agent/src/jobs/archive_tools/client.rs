//! The archive over the agent's socket.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Body, Method, RequestBuilder, Response, StatusCode};
use serde::de::DeserializeOwned;
use watchkeeper_archive::entry::Entry;
use watchkeeper_archive::query::{Matches, Query};
use watchkeeper_archive::verb::{Ingest, IngestOptions, Ingested};
use watchkeeper_archive::{ContentHash, EntryName};
use watchkeeper_client::error_chain::one_line;
use watchkeeper_jobs::tool::ToolError;

use crate::agent_socket::{IDLE_TIMEOUT, accepted, builder, unreached};

/// Why the archive did not do what a tool asked, as a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ArchiveFailure {
    /// There is no such entry, or its media are gone.
    #[error("{0}")]
    Absent(String),
    /// The request would be refused again.
    #[error("{0}")]
    Refused(String),
    /// The agent starts, or a clip is still being recorded.
    #[error("{0}")]
    NotReady(String),
    #[error("{0}")]
    Transient(String),
}

impl ArchiveFailure {
    fn of_status(status: StatusCode, sentence: String) -> Self {
        match status {
            StatusCode::NOT_FOUND | StatusCode::GONE => Self::Absent(sentence),
            StatusCode::SERVICE_UNAVAILABLE => Self::NotReady(sentence),
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => {
                Self::Transient(sentence)
            }
            status if status.is_client_error() => Self::Refused(sentence),
            _ => Self::Transient(sentence),
        }
    }
}

impl From<ArchiveFailure> for ToolError {
    fn from(failure: ArchiveFailure) -> Self {
        match failure {
            ArchiveFailure::Absent(why) | ArchiveFailure::Refused(why) => Self::Permanent(why),
            ArchiveFailure::NotReady(why) | ArchiveFailure::Transient(why) => Self::Transient(why),
        }
    }
}

#[derive(Debug)]
pub(super) struct ArchiveClient {
    socket: PathBuf,
    http: reqwest::Client,
}

impl ArchiveClient {
    pub(super) fn new(socket: &Path) -> Result<Self, ArchiveFailure> {
        let http = builder(socket).read_timeout(IDLE_TIMEOUT).build();
        Ok(Self {
            socket: socket.to_owned(),
            http: http.map_err(|error| ArchiveFailure::Transient(one_line(&error)))?,
        })
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http
            .request(method, format!("http://agent/v1/archive{path}"))
    }

    fn failed(&self, error: reqwest::Error) -> ArchiveFailure {
        ArchiveFailure::Transient(unreached(&self.socket, error))
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, ArchiveFailure> {
        let answer = request.send().await.map_err(|error| self.failed(error))?;
        let answer = accepted(answer).await;
        answer.map_err(|(status, sentence)| ArchiveFailure::of_status(status, sentence))
    }

    async fn json<T: DeserializeOwned>(
        &self,
        request: RequestBuilder,
    ) -> Result<T, ArchiveFailure> {
        let answer = self.send(request).await?.json().await;
        answer.map_err(|error| self.failed(error))
    }

    /// Returns the collections with their numbers of entries.
    pub(super) async fn collections(&self) -> Result<BTreeMap<String, u64>, ArchiveFailure> {
        self.json(self.request(Method::GET, "")).await
    }

    /// Returns one page of the entries that match.
    pub(super) async fn query(&self, query: &Query) -> Result<Matches, ArchiveFailure> {
        self.json(self.request(Method::POST, "/query").json(query))
            .await
    }

    /// Returns the metadata of an entry; `None` if there is none of that name.
    pub(super) async fn stat(&self, name: &EntryName) -> Result<Option<Entry>, ArchiveFailure> {
        let path = format!("/entries/{name}/metadata");
        match self.json(self.request(Method::GET, &path)).await {
            Err(ArchiveFailure::Absent(_)) => Ok(None),
            found => found.map(Some),
        }
    }

    /// Writes the content of an entry to a new file.
    pub(super) async fn save(&self, entry: &Entry, file: &Path) -> Result<(), ArchiveFailure> {
        let unwritten = |error: io::Error| {
            ArchiveFailure::Transient(format!("{} can't be written: {error}", file.display()))
        };
        let path = format!("/entries/{}", entry.name);
        let mut answer = self.send(self.request(Method::GET, &path)).await?;
        let mut new = File::create_new(file).map_err(unwritten)?;
        while let Some(chunk) = answer.chunk().await.map_err(|error| self.failed(error))? {
            new.write_all(&chunk).map_err(unwritten)?;
        }
        let mut written = File::open(file).map_err(unwritten)?;
        match ContentHash::of_all(&mut written).map_err(unwritten)? == entry.sha256 {
            true => Ok(()),
            false => Err(ArchiveFailure::Transient(format!(
                "{} was replaced while it was read",
                entry.name
            ))),
        }
    }

    /// Enters a source that the agent reads.
    pub(super) async fn ingest_source(&self, ingest: &Ingest) -> Result<Ingested, ArchiveFailure> {
        self.json(self.request(Method::POST, "/ingest").json(ingest))
            .await
    }

    /// Makes a file an entry.
    pub(super) async fn ingest(
        &self,
        name: &EntryName,
        options: &IngestOptions,
        file: &Path,
    ) -> Result<Entry, ArchiveFailure> {
        let opened = tokio::fs::File::open(file).await;
        let opened = opened.map_err(|error| {
            ArchiveFailure::Transient(format!("{} can't be read: {error}", file.display()))
        })?;
        // Plain data with string keys: serde_json can't fail on it.
        let options = serde_json::to_string(options).unwrap_or_default();
        let options = utf8_percent_encode(&options, NON_ALPHANUMERIC);
        let path = format!("/entries/{name}?options={options}");
        let request = self.request(Method::PUT, &path);
        self.json(request.body(Body::from(opened))).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_failures_that_may_pass_are_tried_again() {
        for (status, is_transient) in [
            (400, false),
            (403, false),
            (404, false),
            (409, false),
            (410, false),
            (413, false),
            (429, true),
            (500, true),
            (502, true),
            (503, true),
            (507, true),
        ] {
            let status = StatusCode::from_u16(status).unwrap_or_default();
            let failure = ArchiveFailure::of_status(status, "why".to_owned());
            let is_tried_again = matches!(ToolError::from(failure), ToolError::Transient(_));
            assert_eq!(is_tried_again, is_transient, "{status}");
        }
    }
}
