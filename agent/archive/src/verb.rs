//! The verbs as data: what a command, a route or a tool asks, and the answer. Tools of jobs use the
//! routes.
//!
//! | verb | durable tier | fast tiers | object tier |
//! |---|---|---|---|
//! | ingest | written, then acknowledged | written | copied afterwards |
//! | query, list, stat | read | – | – |
//! | retrieve | read on a miss | read, then filled | read if the file is damaged |
//! | prune | stays | removed | stays |
//! | destroy | removed | removed | removed afterwards |

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::entry::{Entry, Metadata, Retention};
use crate::name::EntryName;
use crate::query::{Matches, Query};
use crate::stats::Stats;

/// One entry, or all of a collection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Selection {
    /// Name as `collection/name`.
    // Other actions of `/manual` call it `name`.
    #[schema(value_type = String)]
    #[serde(alias = "name")]
    Entry(EntryName),
    Collection(String),
}

/// What to ingest from a source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Ingest {
    /// `file::PATH`, `folder::PATH`, `mem::TEXT`, `archive::NAME`, `clip::EVENT`, `event::EVENT` or
    /// `http::URL`.
    pub source: String,
    pub collection: String,
    /// Name within the collection; by the source if absent. Not for several contents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default)]
    pub options: IngestOptions,
}

/// Metadata that an ingest states.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct IngestOptions {
    /// MIME type; by the name if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    pub retention: Retention,
    /// Seconds until it expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_s: Option<u64>,
    pub metadata: Metadata,
}

/// A request to the archive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "snake_case")]
pub enum Verb {
    Ingest(Box<Ingest>),
    Query {
        query: Box<Query>,
    },
    /// A query in plain words.
    Find {
        words: String,
    },
    /// The names of the collections with their numbers of entries.
    List,
    Stat {
        name: EntryName,
    },
    Prune {
        selection: Selection,
    },
    Destroy {
        selection: Selection,
    },
    Protect {
        selection: Selection,
    },
    Unprotect {
        selection: Selection,
    },
    Stats,
}

/// Result of an operation on fast tiers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Pruned {
    /// Entries that were named; they stay in the durable tier.
    pub entries: u64,
    /// Copies that were removed, by tier.
    pub removed: BTreeMap<String, u64>,
    /// Fast tiers that did not answer, or their servers as `TIER HOST:PORT`; what they hold expires
    /// there.
    pub unreachable: Vec<String>,
}

/// Result of a destruction, in numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Destroyed {
    pub entries: u64,
    /// Contents that no entry has any more, and that are deleted.
    pub contents: u64,
    /// References among the entries: only their record is gone, the runtime keeps its media.
    pub references: u64,
    /// Fast tiers that did not answer, or their servers as `TIER HOST:PORT`; what they hold can't
    /// be asked for and expires there.
    pub unreachable: Vec<String>,
}

/// Answer of a query in plain words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Found {
    /// The query that the words mean.
    pub query: Query,
    #[serde(flatten)]
    pub matches: Matches,
}

/// Entries that an ingest made.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct Ingested {
    pub entries: Vec<Entry>,
    /// What the source names and was not archived, each with the cause.
    pub skipped: Vec<String>,
}

/// How many entries got or lost their protection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Changed {
    pub entries: u64,
    /// References that were dropped: the runtime's retention had removed their media.
    pub gone: u64,
}

/// Answer to a [`Verb`].
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    Ingested(Ingested),
    Matches(Matches),
    Found(Box<Found>),
    Collections { collections: BTreeMap<String, u64> },
    Entry { entry: Box<Entry> },
    Pruned(Pruned),
    Destroyed(Destroyed),
    Changed(Changed),
    Stats(Box<Stats>),
}
