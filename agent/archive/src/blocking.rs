//! Work that takes long, off the threads of the event loop.

use std::sync::Arc;

use bytes::Bytes;

use crate::ContentHash;
use crate::durable::Durable;
use crate::error::ArchiveError;

/// Runs `work` on a blocking thread.
pub(crate) async fn on_blocking_thread<T, F>(
    durable: &Arc<Durable>,
    work: F,
) -> Result<T, ArchiveError>
where
    T: Send + 'static,
    F: FnOnce(&Durable) -> Result<T, ArchiveError> + Send + 'static,
{
    let durable = Arc::clone(durable);
    let done = tokio::task::spawn_blocking(move || work(&durable)).await;
    done.unwrap_or_else(|error| {
        tracing::error!(%error, "archive: a request panicked");
        let sentence = "the archive failed inside; its log says more".to_owned();
        Err(ArchiveError::Refused(sentence))
    })
}

/// Hashes a content on a blocking thread: 64 MiB take tenths of a second.
///
/// # Errors
/// If the process ends meanwhile.
pub async fn hash_of(content: &Bytes) -> Result<ContentHash, String> {
    let content = content.clone();
    let hashed = tokio::task::spawn_blocking(move || ContentHash::of(&content)).await;
    hashed.map_err(|error| error.to_string())
}
