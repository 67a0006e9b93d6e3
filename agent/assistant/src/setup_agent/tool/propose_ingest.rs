//! Proposes to ingest a source into the archive.

use futures_util::FutureExt as _;
use serde::Deserialize;
use serde_json::json;
use watchkeeper_archive::name::check_collection;
use watchkeeper_archive::verb::{Ingest, IngestOptions};
use watchkeeper_archive::{EntryName, Source, Verb};

use super::super::facts::ToolFact;
use super::definition::{Tool, ToolInput, ToolOutcome, schema, text};
use crate::operations::operation::Operation;
use crate::operations::proposed_action::{MAX_ACTIONS, ProposedAction};
use crate::permissions::Effect;

pub(super) const TOOL: Tool = Tool {
    name: "propose_ingest",
    description: "Proposes to ingest a source into a collection of the archive. The user sees it, \
        and only their yes ingests it. Use the source that the user named: file::PATH, \
        folder::PATH, mem::TEXT, archive::NAME of an entry, event::EVENT, clip::EVENT or an http \
        address.",
    schema: || {
        let properties = json!({
            "source": text("SCHEME::REST, as the user wrote it"),
            "collection": text("letters, digits and -, such as research"),
            "name": text("name within the collection; empty: by the source"),
        });
        schema(&properties, &["source", "collection"])
    },
    effect: Effect::Propose,
    max_uses: MAX_ACTIONS as u32,
    run: |given| async move { propose(given).into() }.boxed(),
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    source: String,
    collection: String,
    #[serde(default)]
    name: String,
}

fn propose(given: ToolInput<'_>) -> Result<ToolOutcome, String> {
    let arguments: Arguments = given.arguments()?;
    let invalid = |error: watchkeeper_archive::ArchiveError| error.to_string();
    let _: Source = arguments.source.parse().map_err(invalid)?;
    check_collection(&arguments.collection).map_err(|error| error.to_string())?;
    let name = Some(arguments.name).filter(|name| !name.is_empty());
    if let Some(name) = &name {
        EntryName::new(&arguments.collection, name).map_err(|error| error.to_string())?;
    }
    let operation = Operation::Verb(Verb::Ingest(Box::new(Ingest {
        source: arguments.source,
        collection: arguments.collection,
        name,
        options: IngestOptions::default(),
    })));
    let sentence = format!("waits for the user's yes: {}", operation.describe());
    let action = ProposedAction::Archive { operation };
    Ok(ToolOutcome::text(&sentence).with_fact(ToolFact::Action { action }))
}
