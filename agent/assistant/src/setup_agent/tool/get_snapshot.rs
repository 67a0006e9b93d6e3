//! The latest picture of a camera, or the annotated one of a pipeline.

use futures_util::FutureExt as _;
use serde::Deserialize;
use serde_json::json;

use super::super::tool_context::ToolContext;
use super::definition::{FROM_OUTSIDE, Tool, ToolInput, ToolOutcome, schema, text};
use crate::permissions::Effect;

pub(super) const TOOL: Tool = Tool {
    name: "get_snapshot",
    description: "The latest picture of a camera, to place lines and zones in it, or the one that \
        a pipeline drew on. Coordinates of a workflow are pixels of the camera's own picture: the \
        result has the factors for the coordinates that you read off the picture you see.",
    schema: || {
        let properties = json!({
            "camera": text("name of the camera; empty with pipeline only"),
            "pipeline": text("instead: name of a pipeline, for its boxes, lines and zones"),
        });
        schema(&properties, &["camera"])
    },
    effect: Effect::Read,
    max_uses: 4,
    run: |given| async move { snapshot(given).await.into() }.boxed(),
};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Arguments {
    camera: String,
    pipeline: String,
}

async fn snapshot(given: ToolInput<'_>) -> Result<ToolOutcome, String> {
    let arguments: Arguments = given.arguments()?;
    let context = given.context;
    let here = context.snapshot().await?;
    let (camera, frame) = match (arguments.camera.as_str(), arguments.pipeline.as_str()) {
        ("", "") => {
            return Err("name a camera; it may be empty only beside a pipeline".to_owned());
        }
        (_, "") => {
            let camera = ToolContext::camera(&arguments.camera, &here)?;
            let frame = context.frame(&camera).await?;
            (camera, frame)
        }
        ("", pipeline) => {
            let id = ToolContext::pipeline(pipeline, &here)?;
            let status = here
                .pipeline(id.as_str())
                .ok_or("the pipeline was removed")?;
            let frame = context.client.pipeline_frame(&id).await;
            (status.spec.source.clone(), frame.map_err(|e| e.in_full())?)
        }
        _ => return Err("name a camera or a pipeline, not both".to_owned()),
    };
    let shown = context.show(frame).await?;
    // Read after the frame: opening the camera sets its size.
    let source = context
        .client
        .source(&camera)
        .await
        .map_err(|e| e.in_full())?;
    let (across, down) = shown.scale;
    let answer = json!({
        "about_this": FROM_OUTSIDE,
        "camera": camera, "camera_px": source.size,
        "multiply_x_by": across, "multiply_y_by": down,
        "picture": if shown.part.is_some() { "above" } else { "this model takes no pictures" },
    });
    Ok(ToolOutcome::json(&answer).with_picture(shown.part))
}
