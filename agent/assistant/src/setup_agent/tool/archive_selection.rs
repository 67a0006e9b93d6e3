//! Removes copies of entries from the fast tiers, or proposes to destroy entries.

use futures_util::FutureExt as _;
use serde::Deserialize;
use serde_json::{Value, json};
use watchkeeper_archive::name::check_collection;
use watchkeeper_archive::{Selection, Verb};

use super::super::facts::ToolFact;
use super::definition::{Tool, ToolInput, ToolOutcome, schema, text};
use crate::operations::operation::Operation;
use crate::operations::proposed_action::{MAX_ACTIONS, ProposedAction};
use crate::permissions::Effect;

pub(super) const PRUNE: Tool = Tool {
    name: "prune_archive",
    description: "Removes copies of one entry, or of all entries of a collection, from the fast \
        tiers. The entries stay on disk; the next read is slower.",
    schema: selection_schema,
    effect: Effect::Write,
    max_uses: 4,
    run: |given| async move { prune(given).await.into() }.boxed(),
};

pub(super) const PROPOSE_DESTROY: Tool = Tool {
    name: "propose_destroy",
    description: "Proposes to destroy one entry, or all entries of a collection, for good. The \
        user sees it, and only their yes destroys it. Only what the user named.",
    schema: selection_schema,
    effect: Effect::ProposeLoss,
    max_uses: MAX_ACTIONS as u32,
    run: |given| async move { propose_destroy(given).into() }.boxed(),
};

fn selection_schema() -> Value {
    let properties = json!({"what": text("collection/name, or a collection")});
    schema(&properties, &["what"])
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    what: String,
}

fn read_selection(given: &ToolInput<'_>) -> Result<Selection, String> {
    let Arguments { what } = given.arguments()?;
    if what.contains('/') {
        let name = what.parse();
        return name
            .map(Selection::Entry)
            .map_err(|error: watchkeeper_archive::name::InvalidName| error.to_string());
    }
    check_collection(&what).map_err(|error| error.to_string())?;
    Ok(Selection::Collection(what))
}

async fn prune(given: ToolInput<'_>) -> Result<ToolOutcome, String> {
    let selection = read_selection(&given)?;
    let archive = given.context.archive.as_ref();
    let archive = archive.ok_or("no archive is reached here")?;
    let answer = archive.run(Verb::Prune { selection }).await?;
    Ok(ToolOutcome::json(&answer))
}

fn propose_destroy(given: ToolInput<'_>) -> Result<ToolOutcome, String> {
    let selection = read_selection(&given)?;
    let operation = Operation::Verb(Verb::Destroy { selection });
    let sentence = format!("waits for the user's yes: {}", operation.describe());
    let action = ProposedAction::Archive { operation };
    Ok(ToolOutcome::text(&sentence).with_fact(ToolFact::Action { action }))
}
