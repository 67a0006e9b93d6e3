//! Names and times of the examples: one box, camera, pipeline and event.
//!
//! Invariant: all examples use them, so a reader can follow one event through the document.

use serde_json::Value;
use watchkeeper_contract::id::{BoxId, PipelineId, SiteId, SourceId};

use watchkeeper_agent::fleet::command::CommandId;
use watchkeeper_agent::fleet::mqtt::Topics;
use watchkeeper_client::NewerRecord;

pub(super) use super::example::{BOOT, NOW, example_event};

/// Names of the examples.
pub(super) fn names() -> (Topics, SiteId, BoxId, SourceId, PipelineId, CommandId) {
    fn ok<T, E: std::fmt::Debug>(name: Result<T, E>) -> T {
        name.expect("names of the examples are valid")
    }
    let (site, box_id) = (ok(SiteId::new("north")), ok(BoxId::new("box-7")));
    (
        Topics::new(&site, &box_id),
        site,
        box_id,
        ok(SourceId::new("gate")),
        ok(PipelineId::new("gate-people")),
        ok(CommandId::new("7f3a")),
    )
}

/// Record of a newer runtime, with an unknown kind.
pub(super) fn example_newer_record() -> NewerRecord {
    let event = watchkeeper_contract::event::Event {
        evidence: vec![],
        media: vec![],
        clip: None,
        ..example_event()
    };
    let mut record = json(&event);
    record["body"] = serde_json::json!({ "kind": "door_forced", "door": "north" });
    NewerRecord::read(&record.to_string()).expect("a record of a newer version")
}

/// Serializes an example.
pub(super) fn json(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// Rows of members that many messages have.
pub(super) const SCHEMA_ROW: (&str, &str) = ("schema", "version of the payload");
pub(super) const TS_ROW: (&str, &str) = ("ts", "UTC milliseconds since 1970");
pub(super) const TS_QUALITY_ROW: (&str, &str) = (
    "ts_quality",
    "`synced`, `estimated` (the clock runs free) or `unsynced` (the clock was never set)",
);
