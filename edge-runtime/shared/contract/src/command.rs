//! Commands: what the outside may ask a box to do, and the life cycle of one.
//!
//! `received → accepted (persisted) → executing → successful | failed | rejected | expired`.
//! Invariant: exactly one terminal status; a known command (its operation and its id) is answered again, never run again.

use serde::{Deserialize, Serialize};

use crate::id::{PipelineId, SourceId};
use crate::pipeline::PipelineSpec;

/// What may be asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Operation {
    /// Takes a picture of a source now; the answer carries its media id and checksum.
    Snapshot {
        /// Which source.
        source: SourceId,
    },
    /// Creates a pipeline, or replaces the one of the same name.
    Deploy {
        /// What to deploy.
        pipeline: Box<PipelineSpec>,
    },
    /// Deletes a pipeline.
    Stop {
        /// Which pipeline.
        pipeline: PipelineId,
    },
}

/// A request as it arrives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CommandRequest {
    /// What to do.
    #[serde(flatten)]
    pub operation: Operation,
    /// After this instant (UTC, RFC 3339) the command must not start any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub expires_at: Option<jiff::Timestamp>,
}

/// Where a command stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum CommandStatus {
    /// Checked and stored; it will be tried even if the box restarts now.
    Accepted,
    /// Being carried out.
    Executing,
    /// Done.
    Successful {
        /// What the operation answers.
        #[cfg_attr(feature = "openapi", schema(value_type = Object))]
        result: serde_json::Value,
    },
    /// Tried and not done.
    Failed {
        /// Why, in one sentence.
        reason: String,
    },
    /// Not tried: malformed, unknown or not allowed.
    Rejected {
        /// Why, in one sentence.
        reason: String,
    },
    /// Not tried: its time was over.
    Expired,
}

impl CommandStatus {
    /// Whether nothing follows any more.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        match self {
            Self::Accepted | Self::Executing => false,
            Self::Successful { .. }
            | Self::Failed { .. }
            | Self::Rejected { .. }
            | Self::Expired => true,
        }
    }
}

/// A status report as it leaves the box.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CommandReport {
    /// Id the requester chose.
    pub id: String,
    /// Where it stands.
    #[serde(flatten)]
    pub status: CommandStatus,
    /// Counts the status changes of this command from 1.
    pub version: u32,
}
