//! What leaves the box: every MQTT payload as a type, and how an event of the journal becomes one.
//!
//! Map: `presence` what is retained, `event` what happened (`newer`: in words that only a newer runtime has), `opinion` what a second opinion makes of it, `heartbeat` what the box found by itself, `measurement` telemetry; here what all of them share.
//!
//! Invariants: a payload is one flat JSON object with its `schema`; it holds no picture and no credential; it is at most
//! [`MAX_PAYLOAD`] bytes. `docs/ref/mqtt.md` is generated from these types (see `docs`).

mod event;
mod heartbeat;
mod measurement;
mod newer;
mod opinion;
mod presence;

use serde::Serialize;

pub use event::{EventMessage, LossMessage, TooLarge, event_draft};
pub use heartbeat::{HeartbeatMessage, heartbeat_draft};
pub use measurement::{
    AgentMessage, ChannelCounts, CountsMessage, FramesMessage, SinkCounts, ZoneCount,
};
pub use newer::{NewerEventMessage, newer_draft};
pub use opinion::{OpinionMessage, opinion_draft};
pub use presence::{
    AlarmMessage, BirthMessage, CapabilityMessage, HealthMessage, Presence, ServiceState,
    SourceStateMessage, StateMessage, outage_alarm,
};

/// Largest payload in bytes, both ways.
pub const MAX_PAYLOAD: usize = 256 * 1024;

/// Largest message that may wait for the link: what waited is marked before it leaves ([`mark_late`]), and is at most [`MAX_PAYLOAD`] then.
const MAX_STORED: usize = MAX_PAYLOAD - (LATE.len() - 1);

/// What takes the place of the brace that a message begins with.
const LATE: &[u8] = b"{\"late\":true,";

/// Version of every payload below.
pub const SCHEMA: u16 = 1;

/// The JSON of a message.
#[must_use]
pub fn encode(message: &impl Serialize) -> Vec<u8> {
    // Plain data with string keys: serde_json can't fail on it.
    serde_json::to_vec(message).unwrap_or_default()
}

/// The same object with `"late":true` at its beginning: it waited for the link.
#[must_use]
pub fn mark_late(payload: Vec<u8>) -> Vec<u8> {
    match payload.strip_prefix(b"{") {
        Some(rest) if rest.first() != Some(&b'}') => [LATE, rest].concat(),
        _ => payload,
    }
}
