//! What leaves the box: every MQTT payload as a type, and how an event of the journal becomes one.
//!
//! Invariants: a payload is one flat JSON object with its `schema`; it holds no picture and no credential; it is at most
//! [`MAX_PAYLOAD`] bytes. `docs/mqtt.md` is generated from these types (see `docs`).

use std::collections::BTreeMap;

use serde::Serialize;
use watchkeeper_contract::event::{Decision, Event, EventBody, Evidence, Media, Phase};
use watchkeeper_contract::health::HealthState;
use watchkeeper_contract::id::{BoxId, EventId, EventSeq, PipelineId, SiteId, SourceId, TrackId};
use watchkeeper_contract::pipeline::{LineCount, PipelineState, PipelineStatus};
use watchkeeper_contract::rule::Severity;
use watchkeeper_contract::source::{Blindness, LossCause, SourceState, SourceStatus};
use watchkeeper_contract::time::{TimeQuality, Wall};

use super::topics::{OperationName, Topics};
use crate::outbox::{Class, Draft, Loss, OutboxId, Stats};

/// Largest payload in bytes, both ways.
pub const MAX_PAYLOAD: usize = 256 * 1024;

/// Version of every payload below.
pub const SCHEMA: u16 = 1;

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

/// On `cam/<source>/m/frames`, QoS 0.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FramesMessage {
    /// UTC milliseconds.
    pub ts: i64,
    /// Frames out of the decoder since the runtime started.
    pub frames: u64,
    /// Frames overwritten by a newer one.
    pub dropped: u64,
    /// Frames per second over the last few seconds.
    pub fps: f64,
    /// Successful connects.
    pub connects: u64,
    /// Times it was lost.
    pub losses: u64,
}

impl FramesMessage {
    /// The message about `status`, measured at `now`.
    #[must_use]
    pub fn of(status: &SourceStatus, now: Wall) -> Self {
        let c = status.counters;
        Self {
            ts: now.unix_ms,
            frames: c.frames,
            dropped: c.dropped,
            fps: c.fps,
            connects: c.connects,
            losses: c.losses,
        }
    }
}

/// On `cam/<source>/m/counts/<pipeline>`, QoS 0.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CountsMessage {
    /// UTC milliseconds.
    pub ts: i64,
    /// What the pipeline does: `starting`, `running`, `paused`, `ended` or `failed`.
    pub s: &'static str,
    /// Frames processed.
    pub frames: u64,
    /// Different confirmed tracks.
    pub tracks: u64,
    /// Crossings of each line.
    pub lines: BTreeMap<String, LineCount>,
    /// Visits of each zone, and how many are in it now.
    pub zones: BTreeMap<String, ZoneCount>,
    /// Events journaled.
    pub events: u64,
    /// Events too weak to journal.
    pub discarded: u64,
}

/// Numbers of a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ZoneCount {
    /// Visits so far.
    pub count: u64,
    /// How many are in it now.
    pub present: u32,
}

impl CountsMessage {
    /// The message about `status`, measured at `now`.
    #[must_use]
    pub fn of(status: &PipelineStatus, now: Wall) -> Self {
        let results = &status.results;
        let zones = results.zones.iter().map(|(name, zone)| {
            let count = ZoneCount {
                count: zone.count,
                present: zone.present,
            };
            (name.clone(), count)
        });
        Self {
            ts: now.unix_ms,
            s: match status.state {
                PipelineState::Starting => "starting",
                PipelineState::Running => "running",
                PipelineState::Paused => "paused",
                PipelineState::Ended => "ended",
                PipelineState::Failed { .. } => "failed",
            },
            frames: results.frames,
            tracks: results.tracks,
            lines: results.lines.clone(),
            zones: zones.collect(),
            events: results.events,
            discarded: results.discarded,
        }
    }
}

/// On `m/agent`, QoS 0.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AgentMessage {
    /// UTC milliseconds.
    pub ts: i64,
    /// The outbox: depth and losses of each class, messages in flight, messages acknowledged.
    pub outbox: Stats,
    /// Last journal number that was dealt with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<EventSeq>,
    /// Telemetry that was thinned out while there was no link.
    pub telemetry_dropped: u64,
    /// Commands that are not finished.
    pub open_commands: usize,
}

/// On `cam/<source>/ev/<kind>` or `ev/<kind>`, QoS 1.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EventMessage<'a> {
    /// Schema of the event.
    pub schema: u16,
    /// Identity over the event's life.
    pub id: EventId,
    /// Number in the journal.
    pub seq: EventSeq,
    /// Run of the runtime that wrote it.
    pub boot_id: &'a str,
    /// Milliseconds since the runtime started.
    pub mono_ms: u64,
    /// UTC milliseconds.
    pub ts: i64,
    /// Quality of `ts`.
    pub ts_quality: TimeQuality,
    /// Source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cam: Option<&'a SourceId>,
    /// Pipeline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<&'a PipelineId>,
    /// Last level of the topic.
    pub kind: &'a str,
    /// Part of the event's life.
    pub phase: Phase,
    /// How much it matters.
    pub severity: Severity,
    /// One sentence.
    pub reason: &'a str,
    /// Rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<&'a str>,
    /// Class of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<&'a str>,
    /// Tracks.
    #[serde(skip_serializing_if = "<[TrackId]>::is_empty")]
    pub track_ids: &'a [TrackId],
    /// Zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<&'a str>,
    /// Line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<&'a str>,
    /// Direction of a crossing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<&'a str>,
    /// Number that was compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<f64>,
    /// Seconds in the zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dwell_s: Option<f64>,
    /// Best score.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// Box, normalised.
    #[serde(rename = "box", skip_serializing_if = "Option::is_none")]
    pub bbox: Option<[f64; 4]>,
    /// Frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frame: Option<u64>,
    /// Presentation time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pts_s: Option<f64>,
    /// Events held back by the cool-down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_back: Option<u32>,
    /// Cause of an outage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<LossCause>,
    /// Length of an outage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lasted_s: Option<f64>,
    /// Where something was lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<&'a str>,
    /// How much was lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// What the box decided and why.
    pub decision: &'a Decision,
    /// What the decision rests on.
    #[serde(skip_serializing_if = "<[Evidence]>::is_empty")]
    pub evidence: &'a [Evidence],
    /// Pictures, by reference.
    #[serde(skip_serializing_if = "<[Media]>::is_empty")]
    pub media: &'a [Media],
    /// Hash of the journal record.
    pub hash: &'a str,
}

impl<'a> EventMessage<'a> {
    /// The message about `event`.
    #[must_use]
    pub fn of(event: &'a Event) -> Self {
        let mut message = Self {
            schema: event.schema,
            id: event.id,
            seq: event.seq,
            boot_id: &event.boot_id,
            mono_ms: event.mono_ms,
            ts: event.at.unix_ms,
            ts_quality: event.at.quality,
            cam: event.source.as_ref(),
            pipeline: event.pipeline.as_ref(),
            kind: kind_of(event),
            phase: event.phase,
            severity: event.severity,
            reason: "",
            rule: None,
            label: None,
            track_ids: &[],
            zone: None,
            line: None,
            direction: None,
            number: None,
            dwell_s: None,
            score: None,
            bbox: None,
            frame: None,
            pts_s: None,
            held_back: None,
            cause: None,
            lasted_s: None,
            from: None,
            count: None,
            decision: &event.decision,
            evidence: &event.evidence,
            media: &event.media,
            hash: &event.hash,
        };
        match &event.body {
            EventBody::Rule(rule) => {
                message.reason = &rule.reason;
                message.rule = Some(&rule.rule);
                message.label = rule.label.as_deref();
                message.track_ids = &rule.tracks;
                message.zone = rule.zone.as_deref();
                message.line = rule.line.as_deref();
                message.direction = rule.direction.as_deref();
                message.number = rule.number;
                message.dwell_s = rule.dwell_s;
                message.score = rule.score;
                message.bbox = rule.bbox;
                message.frame = Some(rule.frame);
                message.pts_s = Some(rule.pts_s);
                message.held_back = (rule.held_back > 0).then_some(rule.held_back);
            }
            EventBody::SourceOutage {
                cause,
                message: text,
                lasted_s,
            } => {
                message.reason = text;
                message.cause = *cause;
                message.lasted_s = *lasted_s;
            }
            EventBody::PipelineHeld { message: text } => message.reason = text,
            EventBody::Loss {
                from,
                count,
                message: text,
            } => {
                message.reason = text;
                message.from = Some(from);
                message.count = Some(*count);
            }
        }
        message
    }
}

/// The kind of an event: the condition of its rule, `source_outage`, `pipeline_held` or `loss`.
fn kind_of(event: &Event) -> &str {
    match &event.body {
        // A condition is one topic level; anything else would be a fault of the writer.
        EventBody::Rule(rule) if is_level(&rule.condition) => &rule.condition,
        EventBody::Rule(_) => "rule",
        EventBody::SourceOutage { .. } => "source_outage",
        EventBody::PipelineHeld { .. } => "pipeline_held",
        EventBody::Loss { .. } => "loss",
    }
}

/// Whether `text` may be the last level of an event's topic.
pub(super) fn is_level(text: &str) -> bool {
    (1..=40).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
}

/// On `ev/loss`, QoS 1: the agent's own record of a hole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LossMessage {
    /// [`SCHEMA`].
    pub schema: u16,
    /// Identity of the record; the same when it is sent again.
    pub id: String,
    /// Always `loss`.
    pub kind: &'static str,
    /// Always `new`.
    pub phase: Phase,
    /// Always `critical`.
    pub severity: Severity,
    /// Where it happened.
    pub from: &'static str,
    /// How many messages were lost.
    pub count: u64,
    /// Journal numbers that were lost, both ends included.
    pub seqs: Vec<[u64; 2]>,
    /// False when `seqs` covers numbers that did arrive.
    pub exact: bool,
    /// One sentence.
    pub reason: String,
    /// UTC milliseconds at which it was sent.
    pub ts: i64,
}

impl LossMessage {
    /// The message about the loss that waits as entry `id`.
    #[must_use]
    pub fn of(id: OutboxId, loss: &Loss, now: Wall) -> Self {
        use crate::outbox::LossFrom;
        let why = match loss.from {
            LossFrom::Outbox => "the outbox was full and dropped what mattered least",
            LossFrom::Journal => "the journal did not have these records any more",
            LossFrom::Unreadable => "these records could not be read",
            LossFrom::Store => "the outbox's files were damaged",
        };
        Self {
            schema: SCHEMA,
            id: format!("loss-{}", id.0),
            kind: "loss",
            phase: Phase::New,
            severity: Severity::Critical,
            from: loss.from.name(),
            count: loss.count,
            seqs: loss.ranges.clone(),
            exact: loss.exact,
            reason: why.to_owned(),
            ts: now.unix_ms,
        }
    }
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

/// A message that does not fit into [`MAX_PAYLOAD`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("event {seq} takes {bytes} bytes as a message; at most {MAX_PAYLOAD} are sent")]
pub struct TooLarge {
    /// Number of the event.
    pub seq: EventSeq,
    /// Size it would have.
    pub bytes: usize,
}

/// The message of `event`, ready for the outbox. One that is too large goes without its evidence chain.
///
/// # Errors
/// [`TooLarge`] when it does not fit even so.
pub fn event_draft(event: &Event) -> Result<Draft, TooLarge> {
    let mut message = EventMessage::of(event);
    let mut payload = encode(&message);
    if payload.len() > MAX_PAYLOAD {
        message.evidence = &[];
        payload = encode(&message);
    }
    if payload.len() > MAX_PAYLOAD {
        return Err(TooLarge {
            seq: event.seq,
            bytes: payload.len(),
        });
    }
    let assured = event.severity == Severity::Critical
        || matches!(
            event.body,
            EventBody::SourceOutage { .. }
                | EventBody::PipelineHeld { .. }
                | EventBody::Loss { .. }
        );
    Ok(Draft {
        class: if assured {
            Class::Assured
        } else {
            Class::Event
        },
        severity: event.severity,
        topic: Topics::event_below(event.source.as_ref(), message.kind),
        retain: false,
        seq: Some(event.seq),
        payload,
    })
}

/// The alarm that `event` raises (`Some`) or clears (`None`), when it is about an outage of a source.
#[must_use]
pub fn outage_alarm(event: &Event) -> Option<(&SourceId, Option<AlarmMessage>)> {
    let EventBody::SourceOutage { cause, message, .. } = &event.body else {
        return None;
    };
    let source = event.source.as_ref()?;
    let alarm = match event.phase {
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
        Some(rest) if rest.first() != Some(&b'}') => [b"{\"late\":true,", rest].concat(),
        _ => payload,
    }
}

#[cfg(test)]
mod tests {
    use super::super::docs::example_event;
    use super::*;

    #[test]
    fn a_late_message_is_the_same_object_with_a_mark() {
        let draft = event_draft(&example_event()).expect("fits");
        let plain: serde_json::Value = serde_json::from_slice(&draft.payload).expect("json");
        let mut late: serde_json::Value =
            serde_json::from_slice(&mark_late(draft.payload)).expect("json");
        assert_eq!(late["late"], true);
        late.as_object_mut().expect("object").remove("late");
        assert_eq!(late, plain);
    }

    #[test]
    fn an_event_that_is_too_large_goes_without_its_evidence() {
        let mut event = example_event();
        event.evidence[0].note = "x".repeat(MAX_PAYLOAD);
        let draft = event_draft(&event).expect("fits without");
        assert!(draft.payload.len() < MAX_PAYLOAD);
    }

    #[test]
    fn an_event_that_is_too_large_in_itself_is_refused() {
        let mut event = example_event();
        event.boot_id = "x".repeat(MAX_PAYLOAD);
        assert!(event_draft(&event).is_err());
    }

    #[test]
    fn an_ordinary_event_may_be_dropped_and_a_critical_one_may_not() {
        let mut event = example_event();
        let class = |e: &Event| event_draft(e).expect("fits").class;
        event.severity = Severity::Warning;
        assert_eq!(class(&event), Class::Event);
        event.severity = Severity::Critical;
        assert_eq!(class(&event), Class::Assured);
    }

    #[test]
    fn a_condition_that_is_no_topic_level_does_not_reach_the_topic() {
        let mut event = example_event();
        if let EventBody::Rule(rule) = &mut event.body {
            rule.condition = "a/#".to_owned();
        }
        let draft = event_draft(&event).expect("fits");
        assert_eq!(draft.topic, "cam/gate/ev/rule");
    }
}
