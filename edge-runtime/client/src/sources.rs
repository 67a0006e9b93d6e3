//! Routes about sources.
//!
//! Invariant: an address goes to the runtime with its credential and comes back without.

use bytes::Bytes;
use reqwest::Method;
use watchkeeper_contract::event::Media;
use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::source::{SourceSpec, SourceStatus};

use super::{Call, ClientError, RuntimeClient};

impl RuntimeClient {
    /// Every source (`GET /v1/sources`).
    ///
    /// # Errors
    /// [`ClientError`], as every request.
    pub async fn sources(&self) -> Result<Vec<SourceStatus>, ClientError> {
        self.get(Call::to(&["sources"])).await
    }

    /// One source (`GET /v1/sources/{id}`).
    ///
    /// # Errors
    /// [`ClientError`], as every request.
    pub async fn source(&self, id: &SourceId) -> Result<SourceStatus, ClientError> {
        self.get(Call::to(&["sources", id.as_str()])).await
    }

    /// Adds a source or replaces the one of that name (`PUT /v1/sources/{id}`).
    ///
    /// # Errors
    /// [`ClientError`], as every request.
    pub async fn put_source(&self, spec: &SourceSpec) -> Result<SourceStatus, ClientError> {
        let path = ["sources", spec.id.as_str()];
        self.json(
            Method::PUT,
            Call::to(&path),
            Some(spec),
            self.deadlines.slow_answer,
        )
        .await
    }

    /// Removes a source (`DELETE /v1/sources/{id}`); refused while a pipeline watches it.
    ///
    /// # Errors
    /// [`ClientError`], as every request.
    pub async fn delete_source(&self, id: &SourceId) -> Result<(), ClientError> {
        let path = ["sources", id.as_str()];
        self.done(
            Method::DELETE,
            Call::to(&path),
            None::<&()>,
            self.deadlines.answer,
        )
        .await
    }

    /// Latest frame as JPEG (`GET /v1/sources/{id}/frame.jpg`).
    ///
    /// # Errors
    /// [`ClientError`], as every request.
    pub async fn source_frame(&self, id: &SourceId) -> Result<Bytes, ClientError> {
        self.bytes(Call::to(&["sources", id.as_str(), "frame.jpg"]))
            .await
    }

    /// Keeps the latest frame as media and answers its id and checksum (`POST /v1/sources/{id}/snapshot`).
    ///
    /// # Errors
    /// [`ClientError`], as every request.
    pub async fn snapshot(&self, id: &SourceId) -> Result<Media, ClientError> {
        self.act(&["sources", id.as_str(), "snapshot"]).await
    }
}
