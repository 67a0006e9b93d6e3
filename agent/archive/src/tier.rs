//! What the fast tiers and the object tier have in common.
//!
//! - A tier is a copy: its keys are hashes, so it never has an outdated content.
//! - Every call ends within the tier's timeouts; a tier that is down answers at once.
//! - What a tier returns is checked by the caller.

use std::fmt::Debug;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ContentHash;

/// Why a tier did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TierError {
    /// All endpoints wait for the end of their back-off.
    #[error("all endpoints are marked down")]
    Down,
    /// The endpoint's connection was not free in time; the endpoint was not asked.
    #[error("its connection is busy")]
    Busy,
    /// The endpoints that were tried failed; the last error, without credentials.
    #[error("{0}")]
    Failed(String),
}

/// Status of one endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EndpointHealth {
    /// Host and port.
    pub endpoint: String,
    pub is_up: bool,
    /// Failures since it last answered.
    pub failures: u32,
    /// Its last error; absent while it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Result of removing a content from a tier.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Removal {
    /// Whether the tier has answered that it had the content; S3 does not say it.
    pub was_there: bool,
    /// Endpoints that may still hold the content: they are down or did not answer.
    pub unreachable: Vec<String>,
}

/// A copy of contents.
pub trait Tier: Send + Sync + Debug {
    fn name(&self) -> &'static str;

    /// Largest content that it takes, in bytes.
    fn max_bytes(&self) -> u64;

    /// Returns a content, unchecked.
    fn get<'a>(&'a self, hash: &'a ContentHash) -> BoxFuture<'a, Result<Option<Bytes>, TierError>>;

    /// Whether it has a content.
    fn has<'a>(&'a self, hash: &'a ContentHash) -> BoxFuture<'a, Result<bool, TierError>> {
        async move { Ok(self.get(hash).await?.is_some()) }.boxed()
    }

    /// Takes a content.
    fn put<'a>(
        &'a self,
        hash: &'a ContentHash,
        content: Bytes,
    ) -> BoxFuture<'a, Result<(), TierError>>;

    /// Removes a content, from each endpoint that holds contents of its own.
    fn remove<'a>(&'a self, hash: &'a ContentHash) -> BoxFuture<'a, Result<Removal, TierError>>;

    /// Names where the copies are.
    fn place(&self) -> String {
        self.name().to_owned()
    }

    /// Whether it has the copies of a tier at `place`, the answer of an earlier [`Tier::place`].
    fn has_copies_of(&self, place: &str) -> bool {
        place == self.place()
    }

    /// Status of its endpoints; empty without any.
    fn endpoints(&self) -> Vec<EndpointHealth>;
}
