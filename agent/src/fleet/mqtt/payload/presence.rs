//! What the box shows of itself and its sources; all of it retained.
//!
//! Invariant: each says how it is now, whole; nobody has to have heard the message before.

use serde::Serialize;
use watchkeeper_contract::event::{Event, EventBody, Phase};
use watchkeeper_contract::health::HealthState;
use watchkeeper_contract::id::{BoxId, EventId, SiteId, SourceId};
use watchkeeper_contract::rule::Severity;
use watchkeeper_contract::source::{Blindness, LossCause, SourceState, SourceStatus};
use watchkeeper_contract::time::TimeQuality;

use super::{MAX_PAYLOAD, SCHEMA};
use crate::fleet::command::OperationName;

/// Retained on `state`; also the last will.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StateMessage {
    /// [`SCHEMA`].
    pub schema: u16,
    /// What the box is.
    pub s: Presence,
    /// Identity of the agent's run.
    pub boot_id: String,
    /// Number of the session with the broker.
    pub session: u64,
    /// First journal number that was not dealt with when the session began.
    pub seq0: u64,
    /// UTC milliseconds at which this was written; for `offline` that is when the session began.
    pub ts: i64,
    /// Quality of `ts`.
    pub ts_quality: TimeQuality,
}

/// Whether a box is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Presence {
    /// Connected.
    Online,
    /// Switched off on purpose.
    Stopped,
    /// Gone without a word: the last will.
    Offline,
}

/// Retained on `birth`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BirthMessage {
    /// [`SCHEMA`].
    pub schema: u16,
    /// Site of the box.
    pub site: SiteId,
    /// Name of the box.
    pub r#box: BoxId,
    /// Version of the agent.
    pub agent_version: String,
    /// Version of the runtime, once it answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_version: Option<String>,
    /// Identity of the agent's run.
    pub boot_id: String,
    /// Number of the session with the broker.
    pub session: u64,
    /// Names of the sources.
    pub cams: Vec<SourceId>,
    /// Operations on offer.
    pub operations: Vec<&'static str>,
    /// UTC milliseconds.
    pub ts: i64,
    /// Quality of `ts`.
    pub ts_quality: TimeQuality,
}

/// Retained on `svc/<service>/health`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HealthMessage {
    /// [`SCHEMA`].
    pub schema: u16,
    /// `up`, `degraded` or `down`.
    pub s: ServiceState,
    /// One sentence for each thing that is wrong.
    pub why: Vec<String>,
    /// Process id, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Identity of the service's run, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
}

/// How a service is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ServiceState {
    /// Everything runs.
    Up,
    /// Something does not; `why` says what.
    Degraded,
    /// It does not answer.
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

/// Retained on `cam/<source>/state`; written when it changes, not when a retry comes nearer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SourceStateMessage {
    /// [`SCHEMA`].
    pub schema: u16,
    /// `connecting`, `live`, `lost`, `ended`, `failed`, `idle` or `unknown`.
    pub s: &'static str,
    /// Frames come, but they show nothing: `frozen` or `black`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blind: Option<Blindness>,
    /// Why it is lost or failed; absent where nobody knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<LossCause>,
    /// One sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// UTC milliseconds since when.
    pub since: i64,
}

impl SourceStateMessage {
    /// The message about `status`.
    #[must_use]
    pub fn of(status: &SourceStatus) -> Self {
        let (s, blind, cause, why) = match &status.state {
            SourceState::Connecting { .. } => ("connecting", None, None, None),
            SourceState::Live { blind } => ("live", *blind, None, None),
            SourceState::Lost { cause, message, .. } => {
                ("lost", None, Some(*cause), Some(message.clone()))
            }
            SourceState::Ended => ("ended", None, None, None),
            SourceState::Failed { cause, message } => {
                ("failed", None, Some(*cause), Some(message.clone()))
            }
            SourceState::Idle => ("idle", None, None, None),
        };
        Self {
            schema: SCHEMA,
            s,
            blind,
            cause,
            why,
            since: status.since.unix_ms,
        }
    }
}

impl SourceStateMessage {
    /// The message while the runtime does not answer.
    #[must_use]
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

/// Retained on `alarm/source_outage/<source>` while the outage lasts; an empty payload clears it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AlarmMessage {
    /// [`SCHEMA`].
    pub schema: u16,
    /// How much it matters.
    pub severity: Severity,
    /// One sentence.
    pub text: String,
    /// Why, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<LossCause>,
    /// Event that tells of it.
    pub event: EventId,
    /// UTC milliseconds at which it began.
    pub ts: i64,
}

/// Retained on `cap/<op>`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CapabilityMessage {
    /// [`SCHEMA`].
    pub schema: u16,
    /// The operation.
    pub op: &'static str,
    /// Largest request in bytes.
    pub max_bytes: usize,
}

impl CapabilityMessage {
    /// The message that `operation` is on offer.
    #[must_use]
    pub fn of(operation: OperationName) -> Self {
        Self {
            schema: SCHEMA,
            op: operation.as_str(),
            max_bytes: MAX_PAYLOAD,
        }
    }
}

/// The alarm that `event` raises (`Some`) or clears (`None`), when it is about an outage of a source.
#[must_use]
pub fn outage_alarm(event: &Event) -> Option<(&SourceId, Option<AlarmMessage>)> {
    let EventBody::SourceOutage { cause, message, .. } = &event.body else {
        return None;
    };
    let source = event.source.as_ref()?;
    let alarm = match event.phase {
        // It says nothing of the outage, which may be over.
        Phase::Clip => return None,
        Phase::New | Phase::Update => Some(AlarmMessage {
            schema: SCHEMA,
            severity: event.severity,
            text: message.clone(),
            cause: *cause,
            event: event.id,
            ts: event.at.unix_ms,
        }),
        Phase::End => None,
    };
    Some((source, alarm))
}
