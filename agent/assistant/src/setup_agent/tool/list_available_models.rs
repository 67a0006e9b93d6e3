//! The models of the box and their classes.

use futures_util::FutureExt as _;
use serde_json::{Value, json};
use watchkeeper_contract::model::{ModelInfo, ModelState};
use watchkeeper_models::Zoo;

use super::definition::{Tool, ToolInput, ToolOutcome, schema};
use crate::permissions::Effect;

/// Maximum classes listed for a model: those of COCO and some more.
const MAX_LABELS: usize = 120;

pub(super) const TOOL: Tool = Tool {
    name: "list_available_models",
    description: "The models that find things in pictures: which are here, which the user could \
        fetch (`watchkeeper models pull NAME`), and the classes of each. A class that no model \
        here knows can't be found.",
    schema: || schema(&json!({}), &[]),
    effect: Effect::Read,
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
    let present = present.into_iter().map(|model| (model, "here"));
    let published = published.into_iter();
    let published = published.map(|model| (model, "not here: the user can fetch it"));
    let listed: Vec<(&ModelInfo, &str)> = present.chain(published).collect();
    let described = listed.iter().enumerate().map(|(nth, (model, state))| {
        let mut earlier = listed.iter().take(nth);
        let alike = earlier.find(|(other, _)| other.labels == model.labels);
        describe(model, state, alike.map(|(other, _)| other.name.as_str()))
    });
    let others: Vec<Value> = others
        .into_iter()
        .map(|m| json!({"model_id": m.name, "task": m.task}))
        .collect();
    json!({
        "models": described.collect::<Vec<_>>(),
        "not_here_and_not_published": {
            "models": others, "why": "there is no address to fetch them from: the user would have \
                to bring the file of one",
        },
        "note": "`motion` sees that something moves, not what it is",
    })
}

/// A model with its classes, or with the name of an earlier one that has the same.
fn describe(model: &ModelInfo, state: &str, alike: Option<&str>) -> Value {
    // The background class of a network has an empty label.
    let named = model.labels.iter().filter(|label| !label.is_empty());
    let more = named.clone().count().saturating_sub(MAX_LABELS);
    let classes = match alike {
        Some(other) if !model.labels.is_empty() => json!(format!("those of {other}")),
        _ => named.take(MAX_LABELS).cloned().collect(),
    };
    json!({
        "model_id": model.name, "task": model.task, "state": state, "classes": classes,
        "more_classes": more,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_models_without_address_are_told_once() {
        let result = to_json(&Zoo::builtin().list());
        let names = |list: &Value| -> Vec<String> {
            let all = list.as_array().into_iter().flatten();
            all.map(|m| m["model_id"].as_str().unwrap_or_default().to_owned())
                .collect()
        };
        let listed = names(&result["models"]);
        assert_eq!(listed.first().map(String::as_str), Some("motion"));
        assert!(listed.contains(&"yolox-nano".to_owned()), "{listed:?}");
        let others = names(&result["not_here_and_not_published"]["models"]);
        assert!(others.contains(&"yolov8n".to_owned()), "{others:?}");
        assert_eq!(result.to_string().matches("no address").count(), 1);
        let all = result["models"].as_array().into_iter().flatten();
        let known: Vec<&Value> = all.map(|model| &model["classes"]).collect();
        assert_eq!(
            result.to_string().matches("toothbrush").count(),
            1,
            "{known:?}"
        );
        assert!(known.contains(&&json!("those of nanodet-m")), "{known:?}");
    }
}
