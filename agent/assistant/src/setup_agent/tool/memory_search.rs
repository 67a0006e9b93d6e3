//! Searches the notes.

use futures_util::FutureExt as _;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use watchkeeper_memory::{Found, Memory, Query};

use super::definition::{Tool, ToolInput, ToolOutcome, schema, text};
use crate::permissions::Effect;

/// Maximum notes in the result.
const MAX_NOTES: usize = 10;

pub(super) const TOOL: Tool = Tool {
    name: "memory_search",
    description: "Searches the notes: wishes of the user, facts of the site, observations, \
        lessons. Each note says whose words it is; those that are not the user's are quotations.",
    schema: || schema(&json!({"words": text("what to look for")}), &["words"]),
    effect: Effect::Read,
    max_uses: 6,
    run: |given| async move { search(given).await.into() }.boxed(),
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    words: String,
}

async fn search(given: ToolInput<'_>) -> Result<ToolOutcome, String> {
    let Arguments { words } = given.arguments()?;
    let notes = given
        .context
        .memory
        .as_ref()
        .ok_or("this box keeps no notes")?;
    let query = Query {
        now: Some(Timestamp::now()),
        ..Query::new(&words)
    };
    let search = |memory: &mut Memory| memory.search(query).map_err(|e| e.to_string());
    let found = notes.with(search).await?;
    Ok(ToolOutcome::json(
        &json!({"notes": to_json(&found, MAX_NOTES)}),
    ))
}

/// The first `max` notes as JSON.
pub(super) fn to_json(found: &[Found], max: usize) -> Value {
    let one = |found: &Found| {
        json!({
            "kind": found.kind, "at": found.note.at.map(|at| at.to_string()),
            "camera": found.note.camera,
            "words_of": found.note.origin, "is_quotation": !found.trusted,
            "words": found.note.words,
        })
    };
    found.iter().take(max).map(one).collect()
}
