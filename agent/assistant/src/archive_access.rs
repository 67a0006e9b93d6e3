//! The archive as a session reaches it: in the agent itself, or over its API.

use std::fmt::Debug;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use serde_json::Value;
use watchkeeper_archive::{EntryName, Verb};

/// Largest content that a session reads, in bytes; of a larger one it gets only the description.
pub const MAX_CONTENT: u64 = 16 << 20;

/// A retrieved entry.
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
    /// Runs a verb and returns the members of its answer; an error is a sentence.
    fn run(&self, verb: Verb) -> BoxFuture<'_, Result<Value, String>>;

    /// Reads an entry, past the fast tiers if `skip_cache`; an error is a sentence.
    fn retrieve(
        &self,
        name: EntryName,
        skip_cache: bool,
    ) -> BoxFuture<'_, Result<RetrievedContent, String>>;
}
