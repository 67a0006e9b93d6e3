//! Runs a model of the box on one picture, of a camera or of the user.

use std::collections::BTreeMap;

use futures_util::FutureExt as _;
use serde::Deserialize;
use serde_json::json;
use watchkeeper_engine::templates::watch::{Watch, plain_classes, workflow};
use watchkeeper_engine::workflow::compile;

use super::super::geometry::list_detections;
use super::super::preview_spec::preview;
use super::super::tool_context::ToolContext;
use super::definition::{FROM_OUTSIDE, Tool, ToolInput, ToolOutcome, first_message, schema, text};
use crate::permissions::{Effect, ToolScope};

pub(super) const TOOL: Tool = Tool {
    name: "infer_image",
    description: "Runs a model of the box once on the latest picture of a camera, or on a picture \
        of the user, and shows the detections. Use it to see whether a model finds what was asked \
        for.",
    schema: || {
        let properties = json!({
            "camera": text("name of the camera, or empty"),
            "picture": text("name of a picture of the user (pictures_of_the_person of \
                look_around), which this tool shows you; or empty"),
            "model_id": text("a model of this box"),
            "classes": {"type": "array", "items": {"type": "string"}, "description": "only these; \
                empty: all"},
            "confidence": {"type": "number", "description": "lowest score, 0 to 1; usually 0.3"},
        });
        schema(
            &properties,
            &["camera", "picture", "model_id", "classes", "confidence"],
        )
    },
    effect: Effect::Read,
    scope: ToolScope::Cameras,
    max_uses: 4,
    run: |given| async move { infer(given).await.into() }.boxed(),
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    #[serde(default)]
    camera: String,
    #[serde(default)]
    picture: String,
    model_id: String,
    #[serde(default)]
    classes: Vec<String>,
    confidence: f64,
}

async fn infer(given: ToolInput<'_>) -> Result<ToolOutcome, String> {
    let arguments: Arguments = given.arguments()?;
    let context = given.context;
    let here = context.snapshot().await?;
    let model = here.models.iter().find(|m| m.name == arguments.model_id);
    let Some(model) = model else {
        let names: Vec<&str> = here.models.iter().map(|m| m.name.as_str()).collect();
        return Err(format!(
            "there is no model {:?} on this box; the models are: {}",
            arguments.model_id,
            names.join(", ")
        ));
    };
    if !(0.0..=1.0).contains(&arguments.confidence) {
        return Err("confidence must be between 0 and 1".to_owned());
    }
    let unknown = arguments.classes.iter().find(|c| !model.labels.contains(c));
    if let Some(unknown) = unknown {
        return Err(format!(
            "{} does not know the class {unknown:?}; it knows: {}",
            model.name,
            model.labels.join(", ")
        ));
    }
    let file = match (arguments.camera.as_str(), arguments.picture.as_str()) {
        ("", "") => return Err("name a camera or a picture".to_owned()),
        ("", picture) => context.attachment(picture)?,
        (camera, "") => context.frame(&ToolContext::camera(camera, &here)?).await?,
        _ => return Err("name a camera or a picture, not both".to_owned()),
    };
    let watch = Watch {
        classes: arguments.classes,
        confidence: Some(arguments.confidence),
        ..Watch::default()
    };
    plain_classes(&watch).map_err(|e| e.to_string())?;
    let definition = workflow(&watch, &model.name);
    let compiled = compile(&definition, &BTreeMap::new()).map_err(|e| first_message(&e))?;
    let looked = context
        .look(&preview(&definition, &compiled), &file)
        .await?;
    let shown = context.show(looked.picture.unwrap_or(file)).await?;
    let told = json!({
        "about_this": FROM_OUTSIDE,
        "model_id": model.name, "found": looked.seen.len(),
        "detections": list_detections(&looked.seen), "failed": looked.failed,
    });
    Ok(ToolOutcome::json(&told).with_picture(shown.part))
}
