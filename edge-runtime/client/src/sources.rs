//! Routes of sources.
//!
//! Invariant: the runtime receives an address with its password and returns it without.

use bytes::Bytes;
use watchkeeper_contract::event::Media;
use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::source::{SourceSpec, SourceStatus};

use super::{Call, ClientError, RuntimeClient};

impl RuntimeClient {
    /// Lists all sources (`GET /v1/sources`).
    pub async fn sources(&self) -> Result<Vec<SourceStatus>, ClientError> {
        self.json(Call::get(&["sources"])).await
    }

    /// Returns one source (`GET /v1/sources/{id}`).
    pub async fn source(&self, id: &SourceId) -> Result<SourceStatus, ClientError> {
        self.json(Call::get(&["sources", id.as_str()])).await
    }

    /// Adds a source or replaces the one with its id (`PUT /v1/sources/{id}`).
    pub async fn put_source(&self, spec: &SourceSpec) -> Result<SourceStatus, ClientError> {
        let path = ["sources", spec.id.as_str()];
        self.json(Call::put(&path).body(spec).slow()).await
    }

    /// Removes a source (`DELETE /v1/sources/{id}`); fails while a pipeline uses it.
    pub async fn delete_source(&self, id: &SourceId) -> Result<(), ClientError> {
        let path = ["sources", id.as_str()];
        self.done(Call::delete(&path)).await
    }

    /// Returns the latest frame as JPEG (`GET /v1/sources/{id}/frame.jpg`).
    pub async fn source_frame(&self, id: &SourceId) -> Result<Bytes, ClientError> {
        self.bytes(Call::get(&["sources", id.as_str(), "frame.jpg"]))
            .await
    }

    /// Saves the latest frame as media (`POST /v1/sources/{id}/snapshot`).
    pub async fn snapshot(&self, id: &SourceId) -> Result<Media, ClientError> {
        self.json(Call::post(&["sources", id.as_str(), "snapshot"]).slow())
            .await
    }
}
