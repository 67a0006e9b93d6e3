//! The archive as a session reaches it: in the agent itself, or over its API.

use std::fmt::Debug;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use watchkeeper_archive::{Answer, EntryName, Verb};

/// Largest content that a session reads, in bytes; of a larger one it gets only the description.
pub const MAX_CONTENT: u64 = 16 << 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetrievedContent {
    /// Tier that had the content; `durable` is the disk.
    pub tier: String,
    pub content_type: String,
    pub bytes: u64,
    /// `None` for a content above [`MAX_CONTENT`].
    pub content: Option<Bytes>,
}

/// Runs verbs of the archive.
pub trait ArchiveAccess: Send + Sync + Debug {
    /// Runs a verb; an error is a sentence.
    fn run(&self, verb: Verb) -> BoxFuture<'_, Result<Answer, String>>;

    /// Reads an entry, past the fast tiers if `skip_cache`; an error is a sentence.
    fn retrieve(
        &self,
        name: EntryName,
        skip_cache: bool,
    ) -> BoxFuture<'_, Result<RetrievedContent, String>>;
}

/// Whether an archive has a collection.
///
/// # Errors
/// A sentence, if the archive does not answer.
pub(crate) async fn has_collection(
    archive: &dyn ArchiveAccess,
    name: &str,
) -> Result<bool, String> {
    let listed = archive.run(Verb::List).await?;
    Ok(matches!(listed, Answer::Collections { collections } if collections.contains_key(name)))
}
