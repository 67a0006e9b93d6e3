//! The archive: content by the name `collection/name`, with its metadata.
//!
//! Owns entries, the durable tier (files and records), the fast tiers (memory, memcached) and the
//! object tier (S3). Owns queries, and the verbs that a command, a route or a tool calls.
//!
//! - An entry is acknowledged once its content and its record are on stable storage.
//! - Content is stored once, under its SHA-256, and removed with its last entry.
//! - Fast tiers are copies: losing one costs time. What one returns is checked by its SHA-256.
//! - Every tier has a bound. A protected entry is neither evicted nor destroyed.
//! - Names are accepted by an allow-list; no name becomes a path.
//!
//! Not here: routes, the command line, the runtime's media, files and hosts to ingest from.

pub mod archive;
mod blobs;
pub mod blocking;
mod copies;
mod counts;
pub mod durable;
mod embedding_queue;
pub mod embeddings;
pub mod endpoints;
pub mod entry;
pub mod error;
mod eviction;
mod exif;
mod index;
mod lexicon;
pub mod memcached;
mod memory_tier;
pub mod name;
mod object_queue;
mod on_disk;
pub mod open_report;
pub mod query;
mod removal;
pub mod s3;
mod search;
mod selection;
mod slot;
pub mod source;
pub mod stats;
#[cfg(test)]
mod store_for_tests;
pub mod tier;
mod vectors;
pub mod verb;
mod verify;
pub mod words;

pub use archive::{Archive, Body, Retrieved, Settings};
pub use blobs::{Sealed, Staged};
pub use durable::Limits;
pub use embeddings::{EmbeddingOutcome, EmbeddingStats, QueryVector};
pub use entry::{Content, Entry, Metadata, NewEntry, Retention};
pub use error::ArchiveError;
pub use name::EntryName;
pub use query::Query;
pub use source::Source;
pub use stats::{Stats, TierStats};
pub use tier::Tier;
pub use verb::{Answer, Selection, Verb};
pub use verify::Verified;
/// SHA-256 of a content: its key in every tier.
pub use watchkeeper_store::chain::Hash as ContentHash;
