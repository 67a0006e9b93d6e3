//! Messages about journal events, and the message about lost ones.
//!
//! - A message carries the whole event. Only its evidence is dropped when the message is too large.
//! - The kind of an event is a valid topic level.

use serde::Serialize;
use watchkeeper_contract::assessment::Assessment;
use watchkeeper_contract::event::{
    Clip, Decision, Event, EventBody, Evidence, Media, Phase, Reading, RuleEvent,
};
use watchkeeper_contract::id::{EventId, EventSeq, PipelineId, SourceId, TrackId};
use watchkeeper_contract::model::BackendChangeResult;
use watchkeeper_contract::rule::Severity;
use watchkeeper_contract::source::{Blindness, LossCause};
use watchkeeper_contract::time::{TimeQuality, Wall};

use super::{MAX_PAYLOAD, MAX_STORED, SCHEMA, encode};
use crate::fleet::mqtt::topics::Topics;
use crate::fleet::outbox::{Class, Draft, Loss, OutboxId};

/// Message about an event, on `cam/<source>/ev/<kind>` or `ev/<kind>`, QoS 1.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EventMessage<'a> {
    /// Version of the event's schema.
    pub schema: u16,
    /// Identity over the event's life.
    pub id: EventId,
    /// Journal number of the record.
    pub seq: EventSeq,
    /// Identity of the runtime's run that wrote the record.
    pub boot_id: &'a str,
    /// Monotonic milliseconds since the runtime started.
    pub mono_ms: u64,
    pub ts: i64,
    /// Quality of `ts`.
    pub ts_quality: TimeQuality,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cam: Option<&'a SourceId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<&'a PipelineId>,
    /// Last level of the topic.
    pub kind: &'a str,
    /// Phase of the event.
    pub phase: Phase,
    pub severity: Severity,
    #[serde(flatten)]
    pub body: BodyMembers<'a>,
    /// Verdict of the box, with its reason.
    pub decision: &'a Decision,
    /// Evidence behind the decision.
    #[serde(skip_serializing_if = "<[Evidence]>::is_empty")]
    pub evidence: &'a [Evidence],
    /// Pictures by media id.
    #[serde(skip_serializing_if = "<[Media]>::is_empty")]
    pub media: &'a [Media],
    /// Clip by media id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clip: Option<&'a Clip>,
    /// Assessment of a person, a second opinion or a chain, in phase `assessed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assessment: Option<&'a Assessment>,
    /// Hash of the journal record.
    pub hash: &'a str,
}

/// Members of an [`EventMessage`] that depend on the kind of the event.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct BodyMembers<'a> {
    pub reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<&'a str>,
    /// Class of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<&'a str>,
    #[serde(skip_serializing_if = "<[TrackId]>::is_empty")]
    pub track_ids: &'a [TrackId],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<&'a str>,
    /// Direction of a crossing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<&'a str>,
    /// Number that the rule compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dwell_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    #[serde(rename = "box", skip_serializing_if = "Option::is_none")]
    pub bbox: Option<[f64; 4]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shown_frame: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frame: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pts_s: Option<f64>,
    /// Events suppressed by the cool-down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_back: Option<u32>,
    /// Codes and texts that the workflow read.
    #[serde(skip_serializing_if = "<[Reading]>::is_empty")]
    pub readings: &'a [Reading],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<LossCause>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blind: Option<Blindness>,
    /// Length of the outage or failure, at its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lasted_s: Option<f64>,
    /// Restarts of a failed pipeline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tries: Option<u32>,
    /// Name of the failing step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<&'a str>,
    /// Failed runs of the step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failures: Option<u64>,
    /// Model whose back end changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<&'a str>,
    /// Back end that may replace the serving one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<&'a str>,
    /// How the change of a back end ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<BackendChangeResult>,
    /// Queue or store that lost something, or back end that served before a change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<&'a str>,
    /// Number of lost entries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

impl<'a> EventMessage<'a> {
    /// Builds the message about `event`.
    pub fn of(event: &'a Event) -> Self {
        Self {
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
            body: BodyMembers::of(&event.body),
            decision: &event.decision,
            evidence: &event.evidence,
            media: &event.media,
            clip: event.clip.as_ref(),
            assessment: event.assessment.as_deref(),
            hash: &event.hash,
        }
    }
}

/// Length of the outage or failure of an event of the box, at its end.
fn lasted_s(body: &EventBody) -> Option<f64> {
    match body {
        EventBody::SourceOutage { lasted_s, .. }
        | EventBody::PipelineFailed { lasted_s, .. }
        | EventBody::StepFailing { lasted_s, .. }
        | EventBody::LoadShed { lasted_s, .. }
        | EventBody::BoardThrottled { lasted_s, .. } => *lasted_s,
        _ => None,
    }
}

impl<'a> BodyMembers<'a> {
    fn of(body: &'a EventBody) -> Self {
        let members = Self {
            reason: body.text(),
            lasted_s: lasted_s(body),
            ..Self::default()
        };
        match body {
            EventBody::Rule(rule) => members.of_rule(rule),
            EventBody::SourceOutage { cause, blind, .. } => Self {
                cause: *cause,
                blind: *blind,
                ..members
            },
            EventBody::PipelineFailed { tries, .. } => Self {
                tries: Some(*tries),
                ..members
            },
            EventBody::StepFailing { step, failures, .. } => Self {
                step: Some(step),
                failures: Some(*failures),
                ..members
            },
            EventBody::BackendChange {
                model,
                from,
                to,
                result,
                ..
            } => Self {
                model: Some(model),
                from: Some(from),
                to: Some(to),
                result: *result,
                ..members
            },
            EventBody::Loss { from, count, .. } => Self {
                from: Some(from),
                count: Some(*count),
                ..members
            },
            EventBody::LoadShed { .. }
            | EventBody::BoardThrottled { .. }
            | EventBody::PipelineHeld { .. }
            | EventBody::StorageWorn { .. }
            | EventBody::DecoderFallback { .. }
            | EventBody::FrameKept { .. } => members,
        }
    }

    fn of_rule(self, rule: &'a RuleEvent) -> Self {
        Self {
            rule: Some(&rule.rule),
            label: rule.label.as_deref(),
            track_ids: &rule.tracks,
            zone: rule.zone.as_deref(),
            line: rule.line.as_deref(),
            direction: rule.direction.as_deref(),
            number: rule.number,
            dwell_s: rule.dwell_s,
            score: rule.score,
            bbox: rule.bbox,
            shown_frame: rule.shown_frame,
            frame: Some(rule.frame),
            pts_s: Some(rule.pts_s),
            held_back: (rule.held_back > 0).then_some(rule.held_back),
            readings: &rule.readings,
            ..self
        }
    }
}

/// Kind of an event: the condition of its rule, `source_outage`, `pipeline_held`,
/// `pipeline_failed`, `step_failing`, `load_shed`, `board_throttled`, `storage_worn`,
/// `decoder_fallback`, `frame_kept`, `backend_change` or `loss`.
pub(super) fn kind_of(event: &Event) -> &str {
    match &event.body {
        // A condition that is not a topic level is a defect of the runtime.
        EventBody::Rule(rule) if is_level(&rule.condition) => &rule.condition,
        EventBody::Rule(_) => "rule",
        EventBody::SourceOutage { .. } => "source_outage",
        EventBody::PipelineHeld { .. } => "pipeline_held",
        EventBody::PipelineFailed { .. } => "pipeline_failed",
        EventBody::StepFailing { .. } => "step_failing",
        EventBody::LoadShed { .. } => "load_shed",
        EventBody::BoardThrottled { .. } => "board_throttled",
        EventBody::StorageWorn { .. } => "storage_worn",
        EventBody::DecoderFallback { .. } => "decoder_fallback",
        EventBody::FrameKept { .. } => "frame_kept",
        EventBody::BackendChange { .. } => "backend_change",
        EventBody::Loss { .. } => "loss",
    }
}

/// Whether `text` is valid as the last level of an event's topic.
pub(super) fn is_level(text: &str) -> bool {
    (1..=40).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
}

/// Loss record of the agent, on `ev/loss`, QoS 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LossMessage {
    pub schema: u16,
    /// Identity of the record; a repetition has the same.
    pub id: String,
    pub kind: &'static str,
    pub phase: Phase,
    pub severity: Severity,
    /// Name of the [`LossFrom`](crate::fleet::outbox::LossFrom).
    pub from: &'static str,
    /// Number of lost messages.
    pub count: u64,
    /// Ranges of lost journal numbers, both ends included.
    pub seqs: Vec<[u64; 2]>,
    /// False when `seqs` covers numbers that were delivered.
    pub exact: bool,
    pub reason: String,
    /// UTC milliseconds at which the record was sent.
    pub ts: i64,
}

impl LossMessage {
    /// Builds the message about the loss of entry `id`.
    pub fn of(id: OutboxId, loss: &Loss, now: Wall) -> Self {
        use crate::fleet::outbox::LossFrom;
        let why = match loss.from {
            LossFrom::Outbox => "the outbox was full and dropped the least severe messages",
            LossFrom::Journal => "the journal had deleted these records",
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

/// An event whose message exceeds [`MAX_PAYLOAD`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the message of event {seq} has {bytes} bytes; the limit is {MAX_PAYLOAD}")]
pub struct TooLarge {
    /// Journal number of the event.
    pub seq: EventSeq,
    /// Size of the message.
    pub bytes: usize,
}

/// Builds the outbox entry of `event`. A message that is too large goes without its evidence.
///
/// # Errors
/// Returns [`TooLarge`] when the message is still too large without evidence.
pub fn event_draft(event: &Event) -> Result<Draft, TooLarge> {
    let mut message = EventMessage::of(event);
    let mut payload = encode(&message);
    if payload.len() > MAX_STORED {
        message.evidence = &[];
        payload = encode(&message);
    }
    if payload.len() > MAX_STORED {
        return Err(TooLarge {
            seq: event.seq,
            bytes: payload.len(),
        });
    }
    let is_assured = event.severity == Severity::Critical || event.body.rule().is_none();
    Ok(Draft {
        class: if is_assured {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::example_event;
    use crate::fleet::mqtt::payload::mark_late;

    #[test]
    fn late_message_only_gains_a_member() {
        let draft = event_draft(&example_event()).expect("fits");
        let plain: serde_json::Value = serde_json::from_slice(&draft.payload).expect("json");
        let mut late: serde_json::Value =
            serde_json::from_slice(&mark_late(draft.payload)).expect("json");
        assert_eq!(late["late"], true);
        late.as_object_mut().expect("object").remove("late");
        assert_eq!(late, plain);
    }

    #[test]
    fn too_large_event_goes_without_evidence() {
        let mut event = example_event();
        event.evidence[0].note = "x".repeat(MAX_PAYLOAD);
        let draft = event_draft(&event).expect("fits without");
        assert!(draft.payload.len() < MAX_PAYLOAD);
    }

    #[test]
    fn largest_event_still_fits_when_late() {
        let mut event = example_event();
        let bytes = encode(&EventMessage::of(&event)).len();
        let room = MAX_PAYLOAD - bytes;
        event.evidence[0].note.push_str(&"x".repeat(room));
        assert_eq!(encode(&EventMessage::of(&event)).len(), MAX_PAYLOAD);
        let draft = event_draft(&event).expect("fits");
        assert!(mark_late(draft.payload).len() <= MAX_PAYLOAD);
    }

    #[test]
    fn event_too_large_without_evidence_is_refused() {
        let mut event = example_event();
        event.boot_id = "x".repeat(MAX_PAYLOAD);
        assert!(event_draft(&event).is_err());
    }

    #[test]
    fn critical_event_is_assured() {
        let mut event = example_event();
        let class = |e: &Event| event_draft(e).expect("fits").class;
        event.severity = Severity::Warning;
        assert_eq!(class(&event), Class::Event);
        event.severity = Severity::Critical;
        assert_eq!(class(&event), Class::Assured);
    }

    #[test]
    fn invalid_condition_is_not_used_in_the_topic() {
        let mut event = example_event();
        if let EventBody::Rule(rule) = &mut event.body {
            rule.condition = "a/#".to_owned();
        }
        let draft = event_draft(&event).expect("fits");
        assert_eq!(draft.topic, "cam/gate/ev/rule");
    }
}
