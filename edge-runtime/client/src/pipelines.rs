//! Routes about pipelines.
//!
//! Owns which of them may have to wait for a model that loads, and so get the longer deadline. Never: repeats a request; whoever asked knows what it
//! means to ask twice.

use bytes::Bytes;
use jiff::Timestamp;
use reqwest::Method;
use tokio::io::AsyncWrite;
use watchkeeper_contract::id::PipelineId;
use watchkeeper_contract::pipeline::{PauseRequest, PipelineResults, PipelineSpec, PipelineStatus};

use super::{Call, ClientError, RuntimeClient};

impl RuntimeClient {
    /// Every pipeline (`GET /v1/pipelines`).
    ///
    /// # Errors
    /// [`ClientError`], as every request.
    pub async fn pipelines(&self) -> Result<Vec<PipelineStatus>, ClientError> {
        self.get(Call::to(&["pipelines"])).await
    }

    /// One pipeline (`GET /v1/pipelines/{id}`).
    ///
    /// # Errors
    /// [`ClientError`], as every request.
    pub async fn pipeline(&self, id: &PipelineId) -> Result<PipelineStatus, ClientError> {
        self.get(Call::to(&["pipelines", id.as_str()])).await
    }

    /// Creates a pipeline (`POST /v1/pipelines`); refused when the name is taken.
    ///
    /// # Errors
    /// [`ClientError`], as every request.
    pub async fn create_pipeline(
        &self,
        spec: &PipelineSpec,
    ) -> Result<PipelineStatus, ClientError> {
        self.json(
            Method::POST,
            Call::to(&["pipelines"]),
            Some(spec),
            self.deadlines.slow_answer,
        )
        .await
    }

    /// Creates a pipeline or replaces the one of that name (`PUT /v1/pipelines/{id}`).
    ///
    /// # Errors
    /// [`ClientError`], as every request.
    pub async fn put_pipeline(&self, spec: &PipelineSpec) -> Result<PipelineStatus, ClientError> {
        let path = ["pipelines", spec.id.as_str()];
        self.json(
            Method::PUT,
            Call::to(&path),
            Some(spec),
            self.deadlines.slow_answer,
        )
        .await
    }

    /// Stops taking frames and keeps everything else, until then or until it is resumed (`POST /v1/pipelines/{id}/pause`).
    ///
    /// # Errors
    /// [`ClientError`], as every request.
    pub async fn pause_pipeline(
        &self,
        id: &PipelineId,
        until: Option<Timestamp>,
    ) -> Result<PipelineStatus, ClientError> {
        let path = ["pipelines", id.as_str(), "pause"];
        // A runtime of before knows no body there.
        let body = until.map(|until| PauseRequest { until: Some(until) });
        let deadline = self.deadlines.slow_answer;
        self.json(Method::POST, Call::to(&path), body.as_ref(), deadline)
            .await
    }

    /// Takes frames again (`POST /v1/pipelines/{id}/resume`).
    ///
    /// # Errors
    /// [`ClientError`], as every request.
    pub async fn resume_pipeline(&self, id: &PipelineId) -> Result<PipelineStatus, ClientError> {
        self.act(&["pipelines", id.as_str(), "resume"]).await
    }

    /// Stops and forgets a pipeline (`DELETE /v1/pipelines/{id}`).
    ///
    /// # Errors
    /// [`ClientError`], as every request.
    pub async fn delete_pipeline(&self, id: &PipelineId) -> Result<(), ClientError> {
        let path = ["pipelines", id.as_str()];
        self.done(
            Method::DELETE,
            Call::to(&path),
            None::<&()>,
            self.deadlines.slow_answer,
        )
        .await
    }

    /// What it has seen so far (`GET /v1/pipelines/{id}/results`).
    ///
    /// # Errors
    /// [`ClientError`], as every request.
    pub async fn pipeline_results(&self, id: &PipelineId) -> Result<PipelineResults, ClientError> {
        self.get(Call::to(&["pipelines", id.as_str(), "results"]))
            .await
    }

    /// Latest annotated frame as JPEG (`GET /v1/pipelines/{id}/frame.jpg`).
    ///
    /// # Errors
    /// [`ClientError`], as every request.
    pub async fn pipeline_frame(&self, id: &PipelineId) -> Result<Bytes, ClientError> {
        self.bytes(Call::to(&["pipelines", id.as_str(), "frame.jpg"]))
            .await
    }

    /// Writes a part of the annotated video to `out` (`GET /v1/pipelines/{id}/recording`) and answers its content type: `video/mp4`, or `video/webm` of a box without
    /// an encoder for the other. Parts are counted from 1; without a number it is the last one.
    ///
    /// # Errors
    /// [`ClientError`], as every request; [`ClientError::Write`] when `out` refuses.
    pub async fn recording<W: AsyncWrite + Unpin>(
        &self,
        id: &PipelineId,
        part: Option<usize>,
        out: &mut W,
    ) -> Result<Option<String>, ClientError> {
        let part = part.map(|number| number.to_string());
        let query: Vec<(&str, &str)> = part.iter().map(|part| ("part", part.as_str())).collect();
        let path = ["pipelines", id.as_str(), "recording"];
        self.download(Call::to(&path).with(&query), out).await
    }
}
