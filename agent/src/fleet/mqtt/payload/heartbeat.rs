//! The message that says what the heartbeat found.
//!
//! Invariant: it carries no number of the journal, because the journal has no record of it.

use serde::Serialize;
use watchkeeper_contract::id::{ChannelId, PipelineId, SourceId};
use watchkeeper_contract::rule::Severity;
use watchkeeper_contract::time::{TimeQuality, Wall};

use super::{SCHEMA, encode};
use crate::fleet::mqtt::topics::Topics;
use crate::fleet::outbox::{Class, Draft};
use crate::heartbeat::Finding;
use crate::heartbeat::asker::Added;

/// On `cam/<source>/heartbeat/<kind>` or `heartbeat/<kind>`, QoS 1.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HeartbeatMessage<'a> {
    /// [`SCHEMA`].
    pub schema: u16,
    /// Identity of the finding: the same when it is sent again.
    pub id: &'a str,
    /// UTC milliseconds of the look.
    pub ts: i64,
    /// Quality of `ts`.
    pub ts_quality: TimeQuality,
    /// Source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cam: Option<&'a SourceId>,
    /// Last level of the topic.
    pub kind: &'a str,
    /// How much it matters.
    pub severity: Severity,
    /// What was found, in one sentence.
    pub reason: String,
    /// Pipeline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<&'a PipelineId>,
    /// Channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<&'a ChannelId>,
    /// The number that was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// The number that is usual.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usual: Option<f64>,
    /// What a model adds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_model: Option<&'a str>,
    /// Which model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<&'a str>,
}

impl<'a> HeartbeatMessage<'a> {
    /// The message about `finding` of the look at `at`.
    #[must_use]
    pub fn of(finding: &'a Finding, id: &'a str, at: Wall, added: Option<&'a Added>) -> Self {
        let (number, usual) = match finding {
            Finding::PilingUp { events, usual, .. } => (Some(*events), Some(*usual)),
            Finding::Silence { usual, .. } => (Some(0), Some(*usual)),
            Finding::NotDelivered { waiting } => (Some(*waiting), None),
            Finding::BudgetNearlySpent { percent, .. } => (Some(*percent), None),
            Finding::OpinionsGivenUp { number } => (Some(*number), None),
            Finding::RuntimeAway
            | Finding::CameraOut { .. }
            | Finding::PipelineFailed { .. }
            | Finding::ChannelSilent { .. } => (None, None),
        };
        let channel = match finding {
            Finding::ChannelSilent { channel } => Some(channel),
            _ => None,
        };
        let pipeline = match finding {
            Finding::PipelineFailed { pipeline, .. } => Some(pipeline),
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
            usual,
            by_model: added.map(|added| added.words.as_str()),
            model: added.map(|added| added.model.as_str()),
        }
    }
}

/// The message, ready for the outbox.
#[must_use]
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
