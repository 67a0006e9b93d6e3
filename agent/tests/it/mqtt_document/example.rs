//! The event that the examples of `docs/ref/mqtt.md` and the unit tests of the agent share.

use watchkeeper_contract::event::{
    Clip, ClipState, Decision, EVENT_SCHEMA, Event, EventBody, Evidence, Media, MediaKind, Phase,
    Reading, ReadingKind, RuleEvent, Verdict,
};
use watchkeeper_contract::id::{EventId, EventSeq, PipelineId, SourceId, TrackId};
use watchkeeper_contract::rule::{ClipMaterial, Severity};
use watchkeeper_contract::time::{TimeQuality, Wall};

/// Time of the examples.
pub(crate) const NOW: Wall = Wall {
    unix_ms: 1_798_761_600_000,
    quality: TimeQuality::Synced,
};
/// `boot_id` of the examples.
pub(crate) const BOOT: &str = "01KDVDNA000000000000000001";

/// An event with every member that a rule can set.
pub(crate) fn example_event() -> Event {
    Event {
        schema: EVENT_SCHEMA,
        id: EventId(ulid::Ulid::from_parts(1_798_761_600_000, 42)),
        seq: EventSeq(1207),
        boot_id: BOOT.to_owned(),
        mono_ms: 86_412,
        at: NOW,
        phase: Phase::New,
        source: Some(SourceId::new("gate").expect("a valid name")),
        pipeline: Some(PipelineId::new("gate-people").expect("a valid name")),
        severity: Severity::Warning,
        body: EventBody::Rule(Box::new(RuleEvent {
            rule: "entering".to_owned(),
            condition: "crosses".to_owned(),
            reason: "a person crossed the line door inwards".to_owned(),
            label: Some("person".to_owned()),
            tracks: vec![TrackId(17)],
            zone: Some("yard".to_owned()),
            line: Some("door".to_owned()),
            direction: Some("in".to_owned()),
            number: Some(3.0),
            dwell_s: Some(4.2),
            score: Some(0.91),
            bbox: Some([0.41, 0.22, 0.48, 0.61]),
            shown_frame: Some(2601),
            frame: 2604,
            pts_s: 104.16,
            held_back: 2,
            readings: vec![Reading {
                kind: ReadingKind::Text,
                value: "AB 123 CD".to_owned(),
                score: Some(0.97),
            }],
            decide: None,
            on_act: Vec::new(),
            notify: Vec::new(),
        })),
        decision: Decision {
            verdict: Verdict::Act,
            confidence: 0.93,
            raw_confidence: None,
            reason: "0.93 is at or above the gate to act (0.90)".to_owned(),
            asks: None,
        },
        evidence: vec![Evidence::new(
            "detector_score",
            0.91,
            0.5,
            "best score of the track".to_owned(),
        )],
        media: vec![Media {
            id: "01KDVDNA0000000000000001AB".to_owned(),
            kind: MediaKind::Clean,
            content_type: "image/jpeg".to_owned(),
            bytes: 81_022,
            sha256: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08".to_owned(),
        }],
        definition: None,
        assessment: None,
        clip: Some(Clip {
            made_of: ClipMaterial::default(),
            note: None,
            id: "01KDVDNA0000000000000001AA".to_owned(),
            start: Wall {
                unix_ms: NOW.unix_ms - 5_020,
                ..NOW
            },
            end: None,
            before_s: 5.02,
            after_s: 10.0,
            left_out: 0,
            state: ClipState::Filming,
        }),
        hash: "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752".to_owned(),
    }
}
