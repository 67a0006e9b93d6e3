//! Evidence bundles: what the box signs about an event or a job, as `manifest.json` of the file.
//!
//! - A manifest has no fraction, so that it has one canonical text in every language.
//! - What is missing is listed with the reason.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::coverage::JournalHead;
use crate::id::{EventId, EventSeq, PipelineId, SourceId};
use crate::time::Wall;

/// Version of [`BundleManifest`] as written by this build.
pub const BUNDLE_FORMAT: u16 = 1;

/// What a bundle holds, as signed by the box.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BundleManifest {
    /// [`BUNDLE_FORMAT`] of the writer.
    pub format: u16,
    pub subject: BundleSubject,
    #[serde(rename = "box")]
    pub signer: BundleSigner,
    /// When the box signed it.
    pub at: Wall,
    /// Every file but `manifest.json` and `signature.json`, by name.
    pub files: Vec<BundleFile>,
    /// What belongs to the subject and is not in the bundle.
    pub missing: Vec<MissingPart>,
}

/// What a bundle is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum BundleSubject {
    /// The box made each file of the bundle from what it has stored.
    Event(EventSubject),
    /// A user's program made the files. The box signed their hashes when it was asked, and has seen
    /// none of them.
    Job(JobSubject),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventSubject {
    pub id: EventId,
    /// Source of the event; absent for events about the box.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<PipelineId>,
    /// Name of its rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Time of its first record.
    pub began: Wall,
    /// Numbers of its records, in rising order.
    pub records: Vec<EventSeq>,
    /// Record up to which the hash chain is linked, unless `missing` names `chain.jsonl`.
    pub head: JournalHead,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobSubject {
    /// ID of the job, such as `20261128-141502-kxq`.
    pub id: String,
    /// Milliseconds since 1970, by the user's program.
    pub created_ms: i64,
}

/// The box that signed a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BundleSigner {
    /// Site and ID of the box by its configuration, such as `warehouse/gate`.
    pub name: String,
    /// Ed25519 public key, base64.
    pub key: String,
    /// SHA-256 of the key, hex.
    pub fingerprint: String,
    /// Version of the runtime.
    pub version: String,
}

/// A file of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BundleFile {
    /// Name in the bundle.
    pub name: String,
    pub bytes: u64,
    /// SHA-256 of the file, hex.
    pub sha256: String,
    /// Path in the output folder of its job, where the name can't be that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original: Option<String>,
}

/// A part of the subject that is not in its bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MissingPart {
    /// Name that it would have in the bundle, or a few words.
    pub name: String,
    /// Reason in one sentence.
    pub why: String,
}

/// Request to sign the manifest of a job's bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct JobBundle {
    /// ID of the job.
    pub id: String,
    /// Milliseconds since 1970.
    pub created_ms: i64,
    pub files: Vec<BundleFile>,
    pub missing: Vec<MissingPart>,
}

/// Both texts of the box in a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SignedManifest {
    /// Content of `manifest.json`: a `BundleManifest` as canonical JSON.
    pub manifest: String,
    /// Content of `signature.json`.
    pub signature: String,
}

/// The public key by which bundles and statements of the box are known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BoxKey {
    /// Ed25519 public key, base64.
    pub key: String,
    /// SHA-256 of the key, hex.
    pub fingerprint: String,
}
