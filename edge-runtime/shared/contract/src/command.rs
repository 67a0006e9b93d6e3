//! Commands over MQTT: what a box can be asked to do, and the life cycle of a command.
//!
//! `received → accepted (persisted) → executing → successful | failed | rejected | expired`.
//!
//! - A command gets exactly one terminal status.
//! - A known command (its operation and its id) is answered again and never executed again.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::assessment::AssessmentAnswer;
use crate::id::{EventSeq, PipelineId, SourceId};
use crate::pipeline::PipelineSpec;

/// Operation that a command requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Operation {
    /// Takes a picture of a source now; the answer carries its media id and checksum.
    Snapshot {
        /// Source to take it of.
        source: SourceId,
    },
    /// Creates a pipeline, or replaces the one of the same name.
    Deploy {
        /// Pipeline to deploy.
        pipeline: Box<PipelineSpec>,
    },
    /// Deletes a pipeline.
    Stop {
        /// Name of the pipeline.
        pipeline: PipelineId,
    },
    /// Answers a review; the answer carries the new record of the journal.
    Review {
        /// Journal number of a record of the event.
        event: EventSeq,
        /// `approve`, `reject` or `correct`.
        answer: AssessmentAnswer,
        /// Class that the object really has; only with `correct`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        label: Option<String>,
        /// Remark to keep in the journal, one line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
        /// Name of the person; it is not verified.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
}

/// A request as it arrives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CommandRequest {
    /// Operation to carry out.
    #[serde(flatten)]
    pub operation: Operation,
    /// Instant (UTC, RFC 3339) after which the command is not started any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub expires_at: Option<jiff::Timestamp>,
}

/// Status of a command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum CommandStatus {
    /// Checked and stored; it is executed even if the box restarts now.
    Accepted,
    Executing,
    Successful {
        /// Answer of the operation.
        #[schema(value_type = Object)]
        result: serde_json::Value,
    },
    /// Executed without success.
    Failed {
        /// Reason in one sentence.
        reason: String,
    },
    /// Not executed: malformed, unknown or not allowed.
    Rejected {
        /// Reason in one sentence.
        reason: String,
    },
    /// Not executed: it had expired.
    Expired,
}

impl CommandStatus {
    /// Returns whether no status follows this one.
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CommandReport {
    /// Id that the requester chose.
    pub id: String,
    #[serde(flatten)]
    pub status: CommandStatus,
    /// Counts the status changes of this command from 1.
    pub version: u32,
}
