//! The archive as a session reaches it: in the agent itself, or over its API.

use std::fmt::Debug;

use futures_util::future::BoxFuture;
use serde_json::Value;
use watchkeeper_archive::Verb;

/// Runs verbs of the archive.
pub trait ArchiveAccess: Send + Sync + Debug {
    /// Runs a verb and returns the members of its answer; an error is a sentence.
    fn run(&self, verb: Verb) -> BoxFuture<'_, Result<Value, String>>;
}
