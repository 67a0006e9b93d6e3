//! The models of the box and their classes.

use futures_util::FutureExt as _;
use serde_json::json;
use watchkeeper_contract::model::{ModelInfo, ModelState};
use watchkeeper_models::Zoo;

use super::definition::{Tool, ToolInput, ToolOutcome, schema};
use crate::permissions::{Effect, ToolScope};

/// Maximum classes listed for a model: those of COCO and some more.
const MAX_LABELS: usize = 120;
/// Maximum classes listed for an absent model: enough to show its kind. They must not push the
/// present models out of the result.
const MAX_LABELS_ABSENT: usize = 8;

pub(super) const TOOL: Tool = Tool {
    name: "list_available_models",
    description: "The models that find things in pictures: which are here, which the user could \
        fetch (`watchkeeper models pull NAME`), and the classes of each. A class that no model \
        here knows can't be found.",
    schema: || schema(&json!({}), &[]),
    effect: Effect::Read,
    scope: ToolScope::Catalogue,
    max_uses: 3,
    run: |given| async move { list(given).await.into() }.boxed(),
};

async fn list(given: ToolInput<'_>) -> Result<ToolOutcome, String> {
    let models = given.context.client.models().await;
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
                ("not here: the user can fetch it", MAX_LABELS_ABSENT)
            }
            ModelState::Absent => (
                "not here, and there is no address to fetch it from: the user would have to bring \
                    its file",
                MAX_LABELS_ABSENT,
            ),
        };
        // The background class of a network has an empty label.
        let named = model.labels.iter().filter(|label| !label.is_empty());
        let labels: Vec<&String> = named.clone().take(most).collect();
        json!({
            "model_id": model.name, "task": model.task, "state": state, "classes": labels,
            "more_classes": named.count().saturating_sub(most),
        })
    };
    let mut models: Vec<&ModelInfo> = models.iter().collect();
    // Present models first, otherwise in the order of the list.
    models.sort_by_key(|model| matches!(model.state, ModelState::Absent));
    let models: Vec<_> = models.into_iter().map(one).collect();
    Ok(ToolOutcome::json(
        &json!({"models": models, "note": "`motion` sees that something moves, not what it is"}),
    ))
}
