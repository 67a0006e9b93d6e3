//! The models of the box and their classes.

use futures_util::FutureExt as _;
use serde_json::{Value, json};
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
    Ok(ToolOutcome::json(&to_json(&models)))
}

/// The present models, those that can be fetched, and the names of the others.
fn to_json(models: &[ModelInfo]) -> Value {
    let zoo = Zoo::builtin();
    let can_be_pulled = |name: &str| zoo.manifest(name).is_some_and(|m| m.url().is_some());
    let (present, absent): (Vec<_>, Vec<_>) = models
        .iter()
        .partition(|model| !matches!(model.state, ModelState::Absent));
    let (published, others): (Vec<_>, Vec<_>) = absent
        .into_iter()
        .partition(|model| can_be_pulled(&model.name));
    let present = present.into_iter().map(|m| describe(m, "here", MAX_LABELS));
    let published = published
        .into_iter()
        .map(|m| describe(m, "not here: the user can fetch it", MAX_LABELS_ABSENT));
    let others: Vec<Value> = others
        .into_iter()
        .map(|m| json!({"model_id": m.name, "task": m.task}))
        .collect();
    json!({
        "models": present.chain(published).collect::<Vec<_>>(),
        "not_here_and_not_published": {
            "models": others, "why": "there is no address to fetch them from: the user would have \
                to bring the file of one",
        },
        "note": "`motion` sees that something moves, not what it is",
    })
}

/// A model with its first `max` classes.
fn describe(model: &ModelInfo, state: &str, max: usize) -> Value {
    // The background class of a network has an empty label.
    let named = model.labels.iter().filter(|label| !label.is_empty());
    let labels: Vec<&String> = named.clone().take(max).collect();
    json!({
        "model_id": model.name, "task": model.task, "state": state, "classes": labels,
        "more_classes": named.count().saturating_sub(max),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_models_without_address_are_told_once() {
        let told = to_json(&Zoo::builtin().list());
        let names = |list: &Value| -> Vec<String> {
            let all = list.as_array().into_iter().flatten();
            all.map(|m| m["model_id"].as_str().unwrap_or_default().to_owned())
                .collect()
        };
        let listed = names(&told["models"]);
        assert_eq!(listed.first().map(String::as_str), Some("motion"));
        assert!(listed.contains(&"yolox-nano".to_owned()), "{listed:?}");
        let others = names(&told["not_here_and_not_published"]["models"]);
        assert!(others.contains(&"yolov8n".to_owned()), "{others:?}");
        assert_eq!(told.to_string().matches("no address").count(), 1);
    }
}
