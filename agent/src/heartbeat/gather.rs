//! Reads what a check needs from the runtime.

use super::input::{Camera, FailedPipeline, RuntimeReport};
use watchkeeper_client::{ClientError, RuntimeClient};

/// Reads the states of cameras and pipelines, and the rules whose events need a person too often.
///
/// # Errors
/// Fails when the runtime does not answer.
pub(crate) async fn read_runtime(runtime: &RuntimeClient) -> Result<RuntimeReport, ClientError> {
    let health = runtime.health().await?;
    let cameras = runtime.sources().await?;
    let pipelines = runtime.pipelines().await?;
    let failed = pipelines.iter().filter_map(FailedPipeline::from_status);
    Ok(RuntimeReport {
        cameras: cameras.iter().map(Camera::from_status).collect(),
        failed: failed.collect(),
        review_shares: health.review_shares,
    })
}
