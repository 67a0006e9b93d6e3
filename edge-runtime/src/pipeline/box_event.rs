//! Events in which the runtime reports on its own work: lost sources, failing steps, restarts,
//! kept frames.
//!
//! - Each is certain, and its verdict is `act`; there is no rule. Only a kept frame is a picture.
//! - The owner of the state keeps the identity of its open event, and gives its phases in order.
//! - Not here: when such an event begins and ends.

use std::time::Duration;

use watchkeeper_contract::event::{Decision, Event, EventBody, Evidence, Media, Phase, Verdict};
use watchkeeper_contract::id::{EventId, SourceId};
use watchkeeper_contract::rule::Severity;

use crate::boot::Boot;
use crate::journal::Stamp;

/// One record about the runtime's own work.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BoxRecord {
    /// Identity of the event, the same in all its phases.
    pub id: EventId,
    pub phase: Phase,
    pub body: EventBody,
}

impl BoxRecord {
    pub(crate) fn new(id: EventId, phase: Phase, body: EventBody) -> Self {
        Self { id, phase, body }
    }
}

/// Builds the event of a record; the caller adds source and pipeline.
pub(crate) fn box_event(record: BoxRecord, boot: &Boot) -> Event {
    let (severity, decision, evidence) = decision();
    let stamp = Stamp {
        id: record.id,
        ..boot.stamp()
    };
    Event {
        evidence,
        ..stamp.event(record.phase, severity, record.body, decision)
    }
}

/// Builds both records of a frame that a request kept; `new` has the picture.
pub(crate) fn kept_frame(source: &SourceId, picture: &Media, boot: &Boot) -> [Event; 2] {
    let id = EventId::generate();
    [Phase::New, Phase::End].map(|phase| {
        let body = EventBody::FrameKept {
            message: "a frame was kept at a request".to_owned(),
        };
        let mut event = box_event(BoxRecord::new(id, phase, body), boot);
        event.source = Some(source.clone());
        event.severity = Severity::Info;
        if phase == Phase::New {
            event.media.push(picture.clone());
        }
        event
    })
}

/// Duration of an event in seconds, to the millisecond.
pub(crate) fn round_to_ms(lasted: Duration) -> f64 {
    (lasted.as_secs_f64() * 1e3).round() / 1e3
}

/// Severity, decision and evidence of what the runtime observes itself.
fn decision() -> (Severity, Decision, Vec<Evidence>) {
    (
        Severity::Warning,
        Decision {
            verdict: Verdict::Act,
            confidence: 1.0,
            raw_confidence: None,
            reason: "the runtime's own observation".to_owned(),
            asks: None,
        },
        vec![Evidence::new(
            "source_state",
            1.0,
            1.0,
            "observed, not inferred".to_owned(),
        )],
    )
}
