//! Routes of pipelines; those that may load a model get the longer deadline.

use bytes::Bytes;
use jiff::Timestamp;
use tokio::io::AsyncWrite;
use watchkeeper_contract::id::PipelineId;
use watchkeeper_contract::pipeline::{PauseRequest, PipelineSpec, PipelineStatus};

use super::{Call, ClientError, RuntimeClient};

impl RuntimeClient {
    /// Lists all pipelines (`GET /v1/pipelines`).
    pub async fn pipelines(&self) -> Result<Vec<PipelineStatus>, ClientError> {
        self.json(Call::get(&["pipelines"])).await
    }

    /// Returns one pipeline (`GET /v1/pipelines/{id}`).
    pub async fn pipeline(&self, id: &PipelineId) -> Result<PipelineStatus, ClientError> {
        self.json(Call::get(&["pipelines", id.as_str()])).await
    }

    /// Creates a pipeline (`POST /v1/pipelines`); fails if its id is taken.
    pub async fn create_pipeline(
        &self,
        spec: &PipelineSpec,
    ) -> Result<PipelineStatus, ClientError> {
        self.json(Call::post(&["pipelines"]).body(spec).slow())
            .await
    }

    /// Creates a pipeline or replaces the one with its id (`PUT /v1/pipelines/{id}`).
    pub async fn put_pipeline(&self, spec: &PipelineSpec) -> Result<PipelineStatus, ClientError> {
        let path = ["pipelines", spec.id.as_str()];
        self.json(Call::put(&path).body(spec).slow()).await
    }

    /// Pauses a pipeline, until a time or until it is resumed (`POST /v1/pipelines/{id}/pause`).
    pub async fn pause_pipeline(
        &self,
        id: &PipelineId,
        until: Option<Timestamp>,
    ) -> Result<PipelineStatus, ClientError> {
        let path = ["pipelines", id.as_str(), "pause"];
        let call = Call::post(&path).slow();
        match until {
            Some(_) => self.json(call.body(&PauseRequest { until })).await,
            // Older runtimes accept no body.
            None => self.json(call).await,
        }
    }

    /// Resumes a pipeline (`POST /v1/pipelines/{id}/resume`).
    pub async fn resume_pipeline(&self, id: &PipelineId) -> Result<PipelineStatus, ClientError> {
        self.json(Call::post(&["pipelines", id.as_str(), "resume"]).slow())
            .await
    }

    /// Stops and deletes a pipeline (`DELETE /v1/pipelines/{id}`).
    pub async fn delete_pipeline(&self, id: &PipelineId) -> Result<(), ClientError> {
        let path = ["pipelines", id.as_str()];
        self.done(Call::delete(&path).slow()).await
    }

    /// Returns the latest annotated frame as JPEG (`GET /v1/pipelines/{id}/frame.jpg`).
    pub async fn pipeline_frame(&self, id: &PipelineId) -> Result<Bytes, ClientError> {
        self.bytes(Call::get(&["pipelines", id.as_str(), "frame.jpg"]))
            .await
    }

    /// Copies a part of the annotated video to `out` (`GET /v1/pipelines/{id}/recording`).
    ///
    /// Parts count from 1; `None` is the last one. Returns the content type: `video/mp4`, or
    /// `video/webm` from a box without an MP4 encoder.
    ///
    /// # Errors
    /// [`ClientError::Write`] if `out` fails.
    pub async fn recording<W: AsyncWrite + Unpin>(
        &self,
        id: &PipelineId,
        part: Option<usize>,
        out: &mut W,
    ) -> Result<Option<String>, ClientError> {
        let part = part.map(|number| number.to_string());
        let query: Vec<(&str, &str)> = part.iter().map(|part| ("part", part.as_str())).collect();
        let path = ["pipelines", id.as_str(), "recording"];
        self.download(Call::get(&path).query(&query), out).await
    }
}
