//! Looks into what the agent remembers.

use futures_util::FutureExt as _;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use watchkeeper_memory::{Found, Query};

use super::{Effect, Tool, ToolInput, ToolOutcome, ToolScope, schema, text};

/// Most notes that are told.
const MOST: usize = 10;

/// The tool.
pub(super) const TOOL: Tool = Tool {
    name: "memory_search",
    about: "Notes that have to do with some words: what the person said they want, what is true of the site, what was seen, what was learned. Each says whose words it is; those that are not the person's are quotations.",
    schema: || schema(&json!({"words": text("what to look for")}), &["words"]),
    effect: Effect::Read,
    scope: ToolScope::Memory,
    per_turn: 6,
    run: |given| async move { ToolOutcome::from(search(given)) }.boxed(),
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    words: String,
}

fn search(given: ToolInput<'_>) -> Result<ToolOutcome, String> {
    let Arguments { words } = given.arguments()?;
    let notes = given
        .hands
        .memory
        .as_ref()
        .ok_or("nothing is remembered here")?;
    let mut memory = notes.open()?;
    let query = Query {
        now: Some(Timestamp::now()),
        ..Query::new(&words)
    };
    let found = memory.search(query).map_err(|e| e.to_string())?;
    Ok(ToolOutcome::json(&json!({"notes": told(&found, MOST)})))
}

/// Notes as a model reads them.
pub(super) fn told(found: &[Found], most: usize) -> Value {
    let one = |found: &Found| {
        json!({
            "kind": found.kind, "at": found.note.at.map(|at| at.to_string()), "camera": found.note.camera,
            "words_of": found.note.origin, "is_quotation": !found.trusted, "words": found.note.words,
        })
    };
    found.iter().take(most).map(one).collect()
}
