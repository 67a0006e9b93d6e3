//! Retained messages about the box and its sources.
//!
//! Invariant: each holds the complete present state; no earlier message is needed.

use serde::{Deserialize, Serialize};
use watchkeeper_config::CommandAccess;
use watchkeeper_contract::event::{Event, EventBody, Phase};
use watchkeeper_contract::health::{HealthState, StorageFault};
use watchkeeper_contract::id::{BoxId, EventId, SiteId, SourceId};
use watchkeeper_contract::rule::Severity;
use watchkeeper_contract::source::{Blindness, LossCause, SourceState, SourceStatus};
use watchkeeper_contract::time::TimeQuality;

use super::{MAX_PAYLOAD, SCHEMA};
use crate::fleet::command::OperationName;

/// Presence of the box, retained on `state`; also the last will.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StateMessage {
    pub schema: u16,
    /// Online, stopped or offline.
    pub s: Presence,
    /// Identity of the agent's run.
    pub boot_id: String,
    /// Number of the session with the broker.
    pub session: u64,
    /// First journal number that was not in the outbox when the session began.
    pub seq0: u64,
    /// UTC milliseconds of the message; for `offline` the start of the session.
    pub ts: i64,
    /// Quality of `ts`.
    pub ts_quality: TimeQuality,
}

/// Presence of a box.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Presence {
    Online,
    /// The operator stopped the agent.
    Stopped,
    /// The session broke: published as the last will.
    Offline,
}

/// Identity of the box, retained on `birth`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BirthMessage {
    pub schema: u16,
    /// Site of the box.
    pub site: SiteId,
    /// Name of the box.
    pub r#box: BoxId,
    /// Version of the agent.
    pub agent_version: String,
    /// Version of the runtime, after its first answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_version: Option<String>,
    /// Identity of the agent's run.
    pub boot_id: String,
    /// Number of the session with the broker.
    pub session: u64,
    pub cams: Vec<SourceId>,
    /// Commands that the box accepts (`mqtt.commands`).
    pub commands: CommandAccess,
    /// Operations on offer.
    pub operations: Vec<&'static str>,
    pub ts: i64,
    /// Quality of `ts`.
    pub ts_quality: TimeQuality,
}

/// Health of a service, retained on `svc/<service>/health`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HealthMessage {
    pub schema: u16,
    /// `up`, `degraded` or `down`.
    pub s: ServiceState,
    /// One sentence per problem.
    pub why: Vec<String>,
    /// Process id where known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Identity of the service's run where known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
}

/// State of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ServiceState {
    Up,
    /// Something failed; `why` names it.
    Degraded,
    /// No answer to requests.
    Down,
}

impl From<HealthState> for ServiceState {
    fn from(state: HealthState) -> Self {
        match state {
            HealthState::Up => Self::Up,
            HealthState::Degraded => Self::Degraded,
        }
    }
}

/// State of a source, retained on `cam/<source>/state`. Published when it changes, not at every
/// retry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SourceStateMessage {
    pub schema: u16,
    /// `connecting`, `live`, `lost`, `ended`, `failed`, `idle` or `unknown`.
    pub s: &'static str,
    /// Frames arrive and do not show what they should, see [`Blindness`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blind: Option<Blindness>,
    /// Cause of `lost` or `failed`, where known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<LossCause>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// UTC milliseconds at which the state began.
    pub since: i64,
}

impl SourceStateMessage {
    /// Builds the message about `status`.
    pub fn of(status: &SourceStatus) -> Self {
        let (blind, cause, why) = match &status.state {
            SourceState::Live { blind } => (*blind, None, None),
            SourceState::Lost { cause, message, .. } | SourceState::Failed { cause, message } => {
                (None, Some(*cause), Some(message.clone()))
            }
            SourceState::Connecting { .. } | SourceState::Ended | SourceState::Idle => {
                (None, None, None)
            }
        };
        Self {
            schema: SCHEMA,
            s: status.state.name(),
            blind,
            cause,
            why,
            since: status.since.unix_ms,
        }
    }
}

impl SourceStateMessage {
    /// Builds the message for a time in which the runtime does not answer.
    pub fn unknown(reason: &str, since: i64) -> Self {
        Self {
            schema: SCHEMA,
            s: "unknown",
            blind: None,
            cause: None,
            why: Some(reason.to_owned()),
            since,
        }
    }
}

/// Alarm, retained on `alarm/storage` or `alarm/source_outage/<source>` while the fault or outage
/// lasts. An empty payload clears it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AlarmMessage {
    pub schema: u16,
    pub severity: Severity,
    pub text: String,
    /// Why no frame comes; absent when frames come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<LossCause>,
    /// What is wrong with frames that come; absent when none comes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blind: Option<Blindness>,
    /// Id of the outage's event; absent where the disk refuses events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<EventId>,
    /// UTC milliseconds at which the fault or outage began.
    pub ts: i64,
}

/// Offer of an operation, retained on `cap/<op>`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CapabilityMessage {
    pub schema: u16,
    pub op: &'static str,
    /// Largest request in bytes.
    pub max_bytes: usize,
}

impl CapabilityMessage {
    /// Builds the offer of `operation`.
    pub fn of(operation: OperationName) -> Self {
        Self {
            schema: SCHEMA,
            op: operation.as_str(),
            max_bytes: MAX_PAYLOAD,
        }
    }
}

impl AlarmMessage {
    /// This alarm with the time of `earlier`, an encoded alarm, if that is of the same outage.
    pub fn since(self, earlier: Option<&[u8]>) -> Self {
        #[derive(Deserialize)]
        struct Earlier {
            event: Option<EventId>,
            ts: i64,
        }
        let earlier = earlier.and_then(|text| serde_json::from_slice::<Earlier>(text).ok());
        match earlier {
            Some(earlier) if earlier.event == self.event => Self {
                ts: earlier.ts,
                ..self
            },
            _ => self,
        }
    }
}

/// Alarm while events can't be stored.
pub fn storage_alarm(fault: &StorageFault) -> AlarmMessage {
    AlarmMessage {
        schema: SCHEMA,
        severity: Severity::Critical,
        text: fault.message.clone(),
        cause: None,
        blind: None,
        event: None,
        ts: fault.since.unix_ms,
    }
}

/// Alarm that `event` raises (`Some`) or clears (`None`), if it is about an outage of a source.
pub fn outage_alarm(event: &Event) -> Option<(&SourceId, Option<AlarmMessage>)> {
    let EventBody::SourceOutage {
        cause,
        blind,
        message,
        ..
    } = &event.body
    else {
        return None;
    };
    let source = event.source.as_ref()?;
    let alarm = match event.phase {
        // A clip may come after the end of the outage.
        Phase::Clip | Phase::Assessed => return None,
        Phase::New | Phase::Update => Some(AlarmMessage {
            schema: SCHEMA,
            severity: event.severity,
            text: message.clone(),
            cause: *cause,
            blind: *blind,
            event: Some(event.id),
            ts: event.at.unix_ms,
        }),
        Phase::End => None,
    };
    Some((source, alarm))
}
