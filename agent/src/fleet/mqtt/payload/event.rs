//! How an event of the journal becomes a message, and what tells of one that was lost.
//!
//! Invariant: nothing of an event is dropped but its evidence, and that only where the message would be too large; what stands in a topic is
//! one level.

use serde::Serialize;
use watchkeeper_contract::event::{Clip, Decision, Event, EventBody, Evidence, Media, Phase};
use watchkeeper_contract::id::{EventId, EventSeq, PipelineId, SourceId, TrackId};
use watchkeeper_contract::rule::Severity;
use watchkeeper_contract::source::LossCause;
use watchkeeper_contract::time::{TimeQuality, Wall};

use super::{MAX_PAYLOAD, MAX_STORED, SCHEMA, encode};
use crate::fleet::mqtt::topics::Topics;
use crate::fleet::outbox::{Class, Draft, Loss, OutboxId};

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
    /// How often a pipeline was begun anew.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tries: Option<u32>,
    /// Step that fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<&'a str>,
    /// Runs in which it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failures: Option<u64>,
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
    /// The clip, by reference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clip: Option<&'a Clip>,
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
            tries: None,
            step: None,
            failures: None,
            from: None,
            count: None,
            decision: &event.decision,
            evidence: &event.evidence,
            media: &event.media,
            clip: event.clip.as_ref(),
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
            EventBody::PipelineFailed {
                message: text,
                tries,
                lasted_s,
            } => {
                message.reason = text;
                message.tries = Some(*tries);
                message.lasted_s = *lasted_s;
            }
            EventBody::StepFailing {
                step,
                failures,
                message: text,
                lasted_s,
            } => {
                message.reason = text;
                message.step = Some(step);
                message.failures = Some(*failures);
                message.lasted_s = *lasted_s;
            }
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

/// The kind of an event: the condition of its rule, `source_outage`, `pipeline_held`, `pipeline_failed`, `step_failing` or `loss`.
pub(super) fn kind_of(event: &Event) -> &str {
    match &event.body {
        // A condition is one topic level; anything else would be a fault of the writer.
        EventBody::Rule(rule) if is_level(&rule.condition) => &rule.condition,
        EventBody::Rule(_) => "rule",
        EventBody::SourceOutage { .. } => "source_outage",
        EventBody::PipelineHeld { .. } => "pipeline_held",
        EventBody::PipelineFailed { .. } => "pipeline_failed",
        EventBody::StepFailing { .. } => "step_failing",
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
        use crate::fleet::outbox::LossFrom;
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
    let assured = event.severity == Severity::Critical
        || matches!(
            event.body,
            EventBody::SourceOutage { .. }
                | EventBody::PipelineHeld { .. }
                | EventBody::PipelineFailed { .. }
                | EventBody::StepFailing { .. }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::example_event;
    use crate::fleet::mqtt::payload::mark_late;

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
    fn an_event_that_only_just_fits_still_does_when_it_is_late() {
        let mut event = example_event();
        let bytes = encode(&EventMessage::of(&event)).len();
        let room = MAX_PAYLOAD - bytes;
        event.evidence[0].note.push_str(&"x".repeat(room));
        assert_eq!(encode(&EventMessage::of(&event)).len(), MAX_PAYLOAD);
        let draft = event_draft(&event).expect("fits");
        assert!(mark_late(draft.payload).len() <= MAX_PAYLOAD);
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
