//! The section `[agent.archive]`: bounds and tiers of the archive, and what it may ingest.

use std::path::PathBuf;

use url::Url;

use crate::sinks::{HostRule, SecretSource};

/// The word for an installed model instead of the name of one.
pub const AUTO_EMBEDDING: &str = "auto";

/// Bounds and tiers of the agent's archive.
#[derive(Debug, Clone, Default)]
pub struct ArchiveConfig {
    /// Most bytes of all contents.
    pub max_bytes: u64,
    /// Most bytes of one content.
    pub max_entry_bytes: u64,
    /// Bytes of the fast tier in memory.
    pub memory_bytes: u64,
    /// memcached servers, each `HOST:PORT`.
    pub memcached: Vec<String>,
    /// The object tier; absent: none.
    pub s3: Option<S3Config>,
    /// Folders below which `file::` and `folder::` may read.
    pub ingest_roots: Vec<PathBuf>,
    /// Hosts that `http::` may call although their addresses are not public.
    pub ingest_hosts: Vec<HostRule>,
    /// Whether pictures and clips of events enter as references.
    pub index_events: bool,
    /// Model that makes embeddings of pictures; [`AUTO_EMBEDDING`]: an installed one; absent: none
    /// are made.
    pub embedding: Option<String>,
}

/// A bucket that speaks S3.
#[derive(Debug, Clone)]
pub struct S3Config {
    /// Addresses of the store, without the bucket.
    pub endpoints: Vec<Url>,
    pub bucket: String,
    pub region: String,
    /// Text before the SHA-256 in the key of an object.
    pub prefix: String,
    pub access_key: String,
    pub secret_key: SecretSource,
}
