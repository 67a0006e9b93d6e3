//! Copies pictures and clip of an event into the archive.

use futures_util::FutureExt as _;
use serde::Deserialize;
use serde_json::json;
use watchkeeper_archive::Verb;
use watchkeeper_archive::verb::{Ingest, IngestOptions};

use super::definition::{Tool, ToolInput, ToolOutcome, schema, text};
use crate::permissions::{Effect, ToolScope};

pub(super) const TOOL: Tool = Tool {
    name: "keep_event",
    description: "Copies the pictures and the clip of an event into a collection of the archive, \
        so that they outlive the retention of events. It removes nothing; only the person can \
        protect or destroy entries, with `watchkeeper archive`.",
    schema: || {
        let properties = json!({
            "event": text("the id of the event, as query_archive shows it"),
            "collection": text("letters, digits and -, such as deliveries"),
        });
        schema(&properties, &["event", "collection"])
    },
    effect: Effect::Write,
    scope: ToolScope::Archive,
    max_uses: 5,
    run: |given| async move { keep(given).await.into() }.boxed(),
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    event: String,
    collection: String,
}

async fn keep(given: ToolInput<'_>) -> Result<ToolOutcome, String> {
    let Arguments { event, collection } = given.arguments()?;
    let archive = given.context.archive.as_ref();
    let archive = archive.ok_or("no archive is reached here")?;
    let ingest = Ingest {
        source: format!("event::{event}"),
        collection,
        name: None,
        options: IngestOptions::default(),
    };
    let answer = archive.run(Verb::Ingest(Box::new(ingest))).await?;
    let entries = answer["entries"].as_array().into_iter().flatten();
    let names: Vec<_> = entries.map(|entry| &entry["name"]).collect();
    Ok(ToolOutcome::json(&json!({ "kept": names })))
}
