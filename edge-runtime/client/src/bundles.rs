//! Routes of evidence bundles.

use tokio::io::AsyncWrite;
use watchkeeper_contract::bundle::{BoxKey, JobBundle, SignedManifest};
use watchkeeper_contract::id::EventSeq;

use super::{Call, ClientError, RuntimeClient};

impl RuntimeClient {
    /// Copies the bundle of the event of record `seq` to `out` (`GET /v1/events/{seq}/bundle`).
    ///
    /// # Errors
    /// [`ClientError::Write`] if `out` fails.
    pub async fn event_bundle<W: AsyncWrite + Unpin>(
        &self,
        seq: EventSeq,
        to_head: bool,
        out: &mut W,
    ) -> Result<(), ClientError> {
        let (seq, to_head) = (seq.to_string(), to_head.to_string());
        let query = [("to_head", to_head.as_str())];
        let path = ["events", seq.as_str(), "bundle"];
        let call = Call::get(&path).query(&query);
        self.download(call, out).await.map(|_| ())
    }

    /// Returns the signed manifest of a job's bundle (`POST /v1/evidence/jobs`).
    pub async fn sign_job(&self, bundle: &JobBundle) -> Result<SignedManifest, ClientError> {
        let call = Call::post(&["evidence", "jobs"]);
        self.json(call.body(bundle).slow()).await
    }

    /// Returns the public key of the box (`GET /v1/evidence/key`).
    pub async fn box_key(&self) -> Result<BoxKey, ClientError> {
        self.json(Call::get(&["evidence", "key"])).await
    }

    /// Copies a snapshot or clip of any size to `out` (`GET /v1/media/{id}`).
    ///
    /// # Errors
    /// [`ClientError::Write`] if `out` fails.
    pub async fn copy_media<W: AsyncWrite + Unpin>(
        &self,
        id: &str,
        out: &mut W,
    ) -> Result<(), ClientError> {
        self.download(Call::get(&["media", id]), out)
            .await
            .map(|_| ())
    }
}
