//! Message about a finding of the heartbeat.
//!
//! Invariant: it has no journal number, because the journal has no record of a finding.

use serde::Serialize;
use watchkeeper_contract::id::{ChannelId, PipelineId, SourceId};
use watchkeeper_contract::rule::Severity;
use watchkeeper_contract::time::{TimeQuality, Wall};

use super::{SCHEMA, encode};
use crate::fleet::mqtt::topics::Topics;
use crate::fleet::outbox::{Class, Draft};
use crate::heartbeat::Finding;
use crate::heartbeat::asker::Added;

/// Message about a finding, on `cam/<source>/heartbeat/<kind>` or `heartbeat/<kind>`, QoS 1.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HeartbeatMessage<'a> {
    pub schema: u16,
    /// Identity of the finding; a repetition has the same.
    pub id: &'a str,
    /// UTC milliseconds of the heartbeat.
    pub ts: i64,
    /// Quality of `ts`.
    pub ts_quality: TimeQuality,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cam: Option<&'a SourceId>,
    /// Last level of the topic.
    pub kind: &'a str,
    pub severity: Severity,
    /// The finding in one sentence.
    pub reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<&'a PipelineId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<&'a ChannelId>,
    /// Number that the heartbeat measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// Remark of the language model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_model: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<&'a str>,
}

impl<'a> HeartbeatMessage<'a> {
    /// Builds the message about `finding` of the heartbeat at `at`.
    pub fn of(finding: &'a Finding, id: &'a str, at: Wall, added: Option<&'a Added>) -> Self {
        let number = match finding {
            Finding::NotDelivered { waiting } => Some(*waiting),
            Finding::BudgetNearlySpent { percent, .. } => Some(*percent),
            Finding::OpinionsGivenUp { number } => Some(*number),
            Finding::TooManyReviews { doubtful, .. } => Some(*doubtful),
            Finding::RuntimeAway
            | Finding::CameraOut { .. }
            | Finding::PipelineFailed { .. }
            | Finding::NotStored { .. }
            | Finding::ChannelSilent { .. } => None,
        };
        let channel = match finding {
            Finding::ChannelSilent { channel } => Some(channel),
            _ => None,
        };
        let pipeline = match finding {
            Finding::PipelineFailed { pipeline, .. } | Finding::TooManyReviews { pipeline, .. } => {
                Some(pipeline)
            }
            _ => None,
        };
        Self {
            schema: SCHEMA,
            id,
            ts: at.unix_ms,
            ts_quality: at.quality,
            cam: finding.camera(),
            kind: finding.kind(),
            severity: finding.severity(),
            reason: finding.sentence(),
            pipeline,
            channel,
            number,
            by_model: added.map(|added| added.words.as_str()),
            model: added.map(|added| added.model.as_str()),
        }
    }
}

/// Builds the outbox entry of a finding.
pub fn heartbeat_draft(finding: &Finding, id: &str, at: Wall, added: Option<&Added>) -> Draft {
    Draft {
        class: Class::Assured,
        severity: finding.severity(),
        topic: Topics::heartbeat_below(finding.camera(), finding.kind()),
        retain: false,
        seq: None,
        payload: encode(&HeartbeatMessage::of(finding, id, at, added)),
    }
}
