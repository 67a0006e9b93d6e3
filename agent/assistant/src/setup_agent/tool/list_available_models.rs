//! The models of the box with the classes that they know.

use futures_util::FutureExt as _;
use serde_json::json;
use watchkeeper_contract::model::{ModelInfo, ModelState};
use watchkeeper_models::Zoo;

use super::{Effect, Tool, ToolInput, ToolOutcome, ToolScope, schema};

/// Most classes of one model that are listed: those of COCO and some more.
const MAX_LABELS: usize = 120;
/// The same of one that is not here: enough to tell what kind of model it is. What is here must not be cut off behind it.
const MAX_LABELS_ABSENT: usize = 8;

/// The tool.
pub(super) const TOOL: Tool = Tool {
    name: "list_available_models",
    about: "The models that find things in pictures: which are here, which could be fetched by the person (`watchkeeper models pull NAME`), and the classes each knows. Nothing finds a class that no model here knows.",
    schema: || schema(&json!({}), &[]),
    effect: Effect::Read,
    scope: ToolScope::Catalogue,
    per_turn: 3,
    run: |given| async move { list(given).await.into() }.boxed(),
};

async fn list(given: ToolInput<'_>) -> Result<ToolOutcome, String> {
    let models = given.hands.client.models().await;
    let models = models.map_err(|e| e.in_full())?;
    let zoo = Zoo::builtin();
    let can_be_pulled = |name: &str| {
        let manifest = zoo.manifest(name);
        manifest.is_some_and(|manifest| manifest.files.iter().any(|file| file.url.is_some()))
    };
    let one = |model: &ModelInfo| {
        let (state, most) = match model.state {
            ModelState::Builtin | ModelState::Present { .. } => ("here", MAX_LABELS),
            ModelState::Absent if can_be_pulled(&model.name) => {
                ("not here: the person can fetch it", MAX_LABELS_ABSENT)
            }
            ModelState::Absent => (
                "not here, and there is no address to fetch it from: the person would have to bring its file",
                MAX_LABELS_ABSENT,
            ),
        };
        // A network's place for "nothing" has no name.
        let named = model.labels.iter().filter(|label| !label.is_empty());
        let labels: Vec<&String> = named.clone().take(most).collect();
        json!({
            "model_id": model.name, "task": model.task, "state": state, "classes": labels,
            "more_classes": named.count().saturating_sub(most),
        })
    };
    let mut models: Vec<&ModelInfo> = models.iter().collect();
    // Those that are here first; otherwise as they are listed.
    models.sort_by_key(|model| matches!(model.state, ModelState::Absent));
    let models: Vec<_> = models.into_iter().map(one).collect();
    Ok(ToolOutcome::json(
        &json!({"models": models, "note": "`motion` sees that something moves, not what it is"}),
    ))
}
