//! Records of the journal as references of the archive. Sans-IO.
//!
//! | record | entries in the collection `events` |
//! |---|---|
//! | `new` with pictures | `ID-clean.jpg`, `ID-annotated.jpg` |
//! | a later one with pictures | `ID-clean-SEQ.jpg`, `ID-annotated-SEQ.jpg` |
//! | `clip`, kept | `ID-clip.mp4` |

use jiff::Timestamp;
use watchkeeper_archive::{ContentHash, EntryName, Metadata, NewEntry};
use watchkeeper_contract::event::{
    ClipState, Event, EventBody, MediaKind, Phase, ReadingKind, RuleEvent,
};

/// Collection of the references.
pub(super) const COLLECTION: &str = "events";

/// A reference: its entry, and hash, bytes and id of its media.
pub(super) type Reference = (NewEntry, ContentHash, u64, String);

/// Returns the references that a record brings.
pub(super) fn references(event: &Event) -> Vec<Reference> {
    let mut found = Vec::new();
    for media in &event.media {
        let kind = match media.kind {
            MediaKind::Clean => "clean",
            MediaKind::Annotated => "annotated",
        };
        let suffix = match event.phase {
            Phase::New => kind.to_owned(),
            _ => format!("{kind}-{}", event.seq),
        };
        let content = (
            media.sha256.as_str(),
            media.bytes,
            media.content_type.as_str(),
        );
        found.extend(reference(event, &suffix, content, &media.id));
    }
    if let Some(clip) = &event.clip
        && let ClipState::Kept {
            content_type,
            bytes,
            sha256,
        } = &clip.state
        && event.phase == Phase::Clip
    {
        let content = (sha256.as_str(), *bytes, content_type.as_str());
        found.extend(reference(event, "clip", content, &clip.id));
    }
    found
}

fn reference(
    event: &Event,
    suffix: &str,
    (sha256, bytes, content_type): (&str, u64, &str),
    media: &str,
) -> Option<Reference> {
    let extension = match content_type {
        "image/jpeg" => ".jpg",
        "image/png" => ".png",
        "video/mp4" => ".mp4",
        "video/webm" => ".webm",
        _ => "",
    };
    let name = EntryName::new(COLLECTION, &format!("{}-{suffix}{extension}", event.id)).ok()?;
    let new = NewEntry {
        content_type: Some(content_type.to_owned()),
        metadata: metadata(event),
        ..NewEntry::named(name)
    };
    Some((new, ContentHash::parse(sha256)?, bytes, media.to_owned()))
}

fn metadata(event: &Event) -> Metadata {
    let mut known = Metadata {
        camera: event.source.as_ref().map(ToString::to_string),
        time: Timestamp::from_millisecond(event.at.unix_ms).ok(),
        event: Some(event.id.to_string()),
        ..Metadata::default()
    };
    let mut label = |key: &str, value: String| known.labels.insert(key.to_owned(), value);
    if let Some(pipeline) = &event.pipeline {
        label("pipeline", pipeline.to_string());
    }
    if matches!(event.body, EventBody::FrameKept { .. }) {
        label("kind", "frame_kept".to_owned());
    }
    let EventBody::Rule(rule) = &event.body else {
        return known;
    };
    label("rule", rule.rule.clone());
    label("condition", rule.condition.clone());
    known.class.clone_from(&rule.label);
    known.tracks = rule.tracks.iter().map(|track| track.0).collect();
    known.zone = rule.zone.clone().or_else(|| rule.line.clone());
    known.codes = read(rule, ReadingKind::Code).collect();
    let texts: Vec<String> = read(rule, ReadingKind::Text).collect();
    known.text = (!texts.is_empty()).then(|| texts.join(" · "));
    known
}

/// The readings of one kind, without control characters: metadata is one line.
fn read(rule: &RuleEvent, kind: ReadingKind) -> impl Iterator<Item = String> {
    let of_kind = rule
        .readings
        .iter()
        .filter(move |reading| reading.kind == kind);
    of_kind.map(|reading| reading.value.chars().filter(|c| !c.is_control()).collect())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn record_brings_its_pictures_and_its_kept_clip() {
        let mut event: Event = serde_json::from_value(json!({
            "schema": 1, "id": "01JABCDEFGHJKMNPQRSTVWXYZ0", "seq": 7, "boot_id": "b",
            "mono_ms": 0, "at": {"unix_ms": 1_798_761_600_000_i64, "quality": "synced"},
            "phase": "new", "source": "gate", "pipeline": "cars", "severity": "info",
            "body": {"kind": "rule", "rule": "door", "condition": "crosses", "reason": "r",
                "label": "car", "tracks": [4], "line": "entry", "frame": 120, "pts_s": 4.04,
                "readings": [{"kind": "code", "value": "4006381333931"},
                    {"kind": "text", "value": "HH AB 12"}, {"kind": "text", "value": "EXIT"}]},
            "decision": {"verdict": "record", "confidence": 0.8, "reason": "r"},
            "evidence": [], "hash": "",
            "media": [{"id": "m1", "kind": "clean", "content_type": "image/jpeg", "bytes": 9,
                "sha256": ContentHash::of(b"picture")}],
            "clip": {"id": "c1", "start": {"unix_ms": 0, "quality": "synced"}, "before_s": 5.0,
                "after_s": 5.0, "state": "filming"},
        }))
        .unwrap();
        let found = references(&event);
        assert_eq!(found.len(), 1);
        let (new, hash, bytes, media) = &found[0];
        assert_eq!(
            new.name.as_str(),
            "events/01JABCDEFGHJKMNPQRSTVWXYZ0-clean.jpg"
        );
        assert_eq!(
            (*hash, *bytes, media.as_str()),
            (ContentHash::of(b"picture"), 9, "m1")
        );
        let known = &new.metadata;
        assert_eq!(known.camera.as_deref(), Some("gate"));
        assert_eq!(known.class.as_deref(), Some("car"));
        assert_eq!(known.zone.as_deref(), Some("entry"));
        assert_eq!(known.codes, ["4006381333931"]);
        assert_eq!(known.text.as_deref(), Some("HH AB 12 · EXIT"));
        assert_eq!(
            (known.tracks.as_slice(), known.labels["rule"].as_str()),
            (&[4][..], "door")
        );
        event.phase = Phase::Clip;
        event.media.clear();
        event.clip.as_mut().unwrap().state = ClipState::Kept {
            content_type: "video/mp4".to_owned(),
            bytes: 10,
            sha256: ContentHash::of(b"clip").to_string(),
        };
        let found = references(&event);
        assert_eq!(
            found[0].0.name.name(),
            "01JABCDEFGHJKMNPQRSTVWXYZ0-clip.mp4"
        );
        assert_eq!(found[0].3, "c1");
    }
}
