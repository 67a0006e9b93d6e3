//! MQTT payloads as types, and the conversion of journal events into messages.
//!
//! - `presence`: retained state; `event`: journal events, `newer`: records of a newer runtime.
//! - `opinion`: second opinions; `heartbeat`: findings; `measurement`, `board`: telemetry.
//!
//! Invariants:
//! - A payload is one flat JSON object with its `schema`, of at most [`MAX_PAYLOAD`] bytes.
//! - It contains no picture and no credential.
//!
//! The integration test `mqtt_document` generates `docs/ref/mqtt.md` from these types.

mod board;
mod event;
mod heartbeat;
mod measurement;
mod newer;
mod opinion;
mod presence;

use serde::Serialize;

pub use board::BoardMessage;
pub use event::{BodyMembers, EventMessage, LossMessage, TooLarge, event_draft};
pub use heartbeat::{HeartbeatMessage, heartbeat_draft};
pub use measurement::{
    AgentMessage, ChannelCounts, CountsMessage, FramesMessage, SinkCounts, ZoneCount,
};
pub use newer::{NewerEventMessage, newer_draft};
pub use opinion::{OpinionMessage, opinion_draft};
pub use presence::{
    AlarmMessage, BirthMessage, CapabilityMessage, HealthMessage, Presence, ServiceState,
    SourceStateMessage, StateMessage, outage_alarm, storage_alarm,
};

/// Largest payload in bytes, in both directions.
pub const MAX_PAYLOAD: usize = 256 * 1024;

/// Largest message in the outbox: [`mark_late`] still keeps it within [`MAX_PAYLOAD`].
const MAX_STORED: usize = MAX_PAYLOAD - (LATE.len() - 1);

/// Replaces the opening brace of a late message.
const LATE: &[u8] = b"{\"late\":true,";

/// Version of all payloads.
pub const SCHEMA: u16 = 1;

/// Encodes a message as JSON.
pub fn encode(message: &impl Serialize) -> Vec<u8> {
    // Plain data with string keys: serde_json can't fail on it.
    serde_json::to_vec(message).unwrap_or_default()
}

/// Adds `"late":true` to a message that waited for the link.
pub(crate) fn mark_late(payload: Vec<u8>) -> Vec<u8> {
    match payload.strip_prefix(b"{") {
        Some(rest) if rest.first() != Some(&b'}') => [LATE, rest].concat(),
        _ => payload,
    }
}
