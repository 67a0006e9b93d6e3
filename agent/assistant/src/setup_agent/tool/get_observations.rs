//! Reads what the notes say about a camera in a span of time.

use futures_util::FutureExt as _;
use jiff::SignedDuration;
use serde::Deserialize;
use serde_json::json;
use watchkeeper_memory::{Kind, Memory, Query};

use super::super::tool_context::ToolContext;
use super::definition::{Tool, ToolInput, ToolOutcome, schema, text};
use super::memory_search;
use crate::moment::parse_argument;
use crate::permissions::Effect;

/// Maximum observations in the result.
const MAX_NOTES: usize = 20;
/// Span without `from`, in hours.
const DEFAULT_HOURS: i64 = 24;

pub(super) const TOOL: Tool = Tool {
    name: "get_observations",
    description: "Lists the observations about a camera in a span of time, newest first, each \
        with whose words it is.",
    schema: || {
        let properties = json!({
            "camera": text("the camera; empty: all"),
            "from": text("a time such as 2026-03-29T08:00; empty: a day ago"),
            "to": text("empty: now"),
        });
        schema(&properties, &["camera", "from", "to"])
    },
    effect: Effect::Read,
    max_uses: 6,
    run: |given| async move { list(given).await.into() }.boxed(),
};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Arguments {
    camera: String,
    from: String,
    to: String,
}

async fn list(given: ToolInput<'_>) -> Result<ToolOutcome, String> {
    let arguments: Arguments = given.arguments()?;
    let notes = given.context.memory.as_ref();
    let notes = notes.ok_or("this box keeps no notes")?;
    let here = given.context.snapshot().await?;
    let camera = ToolContext::camera_filter(&arguments.camera, &here)?;
    let zone = here.now.time_zone();
    let from = parse_argument("from", &arguments.from, zone)?;
    let until = parse_argument("to", &arguments.to, zone)?;
    let day_before = || {
        let end = until.unwrap_or_else(|| here.now.timestamp());
        end.checked_sub(SignedDuration::from_hours(DEFAULT_HOURS))
            .ok()
    };
    let query = Query {
        camera,
        kinds: vec![Kind::Observation],
        since: from.or_else(day_before),
        until,
        // One more than is shown, to report that there are more.
        limit: MAX_NOTES + 1,
        ..Query::new("")
    };
    let list = move |memory: &mut Memory| memory.list(&query).map_err(|e| e.to_string());
    let found = notes.with(list).await?;
    Ok(ToolOutcome::json(&json!({
        "observations": memory_search::to_json(&found, MAX_NOTES),
        "there_are_more": found.len() > MAX_NOTES,
    })))
}
