//! The models of the box with the classes that they know.

use futures_util::FutureExt as _;
use serde_json::json;
use watchkeeper_contract::model::{ModelInfo, ModelState};

use super::{Effect, Given, Outcome, Scope, Tool, schema};

/// Most classes of one model that are listed: those of COCO and some more.
const MAX_LABELS: usize = 120;

/// The tool.
pub(super) const TOOL: Tool = Tool {
    name: "list_available_models",
    about: "The models that find things in pictures: which are here, which could be fetched by the person (`watchkeeper models pull NAME`), and the classes each knows. Nothing finds a class that no model here knows: say so, and propose no stand-in that the person did not ask for.",
    schema: || schema(&json!({}), &[]),
    effect: Effect::Read,
    scope: Scope::Catalogue,
    per_turn: 3,
    run: |given| async move { list(given).await.into() }.boxed(),
};

async fn list(given: Given<'_>) -> Result<Outcome, String> {
    let models = given.hands.client.models().await;
    let models = models.map_err(|e| e.in_full())?;
    let one = |model: &ModelInfo| {
        let labels: Vec<&String> = model.labels.iter().take(MAX_LABELS).collect();
        let state = match model.state {
            ModelState::Builtin | ModelState::Present { .. } => "here",
            ModelState::Absent => "not here: the person can fetch it",
        };
        json!({
            "model_id": model.name, "task": model.task, "state": state, "classes": labels,
            "more_classes": model.labels.len().saturating_sub(MAX_LABELS),
        })
    };
    let models: Vec<_> = models.iter().map(one).collect();
    Ok(Outcome::json(
        &json!({"models": models, "note": "`motion` sees that something moves, not what it is"}),
    ))
}
