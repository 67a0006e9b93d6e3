//! Draws a draft on the real picture: its lines, zones and current detections.

use std::collections::BTreeMap;

use futures_util::FutureExt as _;
use serde::Deserialize;
use serde_json::json;
use watchkeeper_engine::templates::watch::MOTION;
use watchkeeper_engine::workflow::{Compiled, Overlay, compile};

use super::super::facts::ToolFact;
use super::super::geometry::{Detection, GeometryReport, check_places, list_detections};
use super::super::preview_spec::preview;
use super::super::tool_context::ToolContext;
use super::definition::{FROM_OUTSIDE, Tool, ToolInput, ToolOutcome, first_message, schema, text};
use crate::permissions::Effect;

pub(super) const TOOL: Tool = Tool {
    name: "preview_workflow",
    description: "Draws a draft on the real picture of a camera: lines, zones, boxes and labels \
        of its current detections. Look at it. The result also lists errors of lines and zones.",
    schema: || {
        let properties = json!({"draft": text("such as d1"), "camera": text("name of the camera")});
        schema(&properties, &["draft", "camera"])
    },
    effect: Effect::Read,
    max_uses: 6,
    run: |given| async move { run(given).await.into() }.boxed(),
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    draft: String,
    camera: String,
}

async fn run(given: ToolInput<'_>) -> Result<ToolOutcome, String> {
    let Arguments { draft, camera } = given.arguments()?;
    let context = given.context;
    let definition = given
        .facts
        .draft(&draft)
        .ok_or_else(|| no_draft(&draft, given))?;
    let here = context.snapshot().await?;
    let camera = ToolContext::camera(&camera, &here)?;
    let compiled = compile(definition, &BTreeMap::new()).map_err(|e| first_message(&e))?;
    let file = context.frame(&camera).await?;
    let source = context.client.source(&camera).await;
    let size = source.map_err(|e| e.in_full())?.size;
    let size = size.ok_or("this camera has delivered no picture yet")?;
    let preview = preview(definition, &compiled);
    let looked = context.look(&preview, &file).await?;
    let found = check_geometry(&compiled, size, &looked.seen);
    let mut mind = found.mind;
    mind.extend(warnings(&compiled, preview.only_places));
    mind.extend(looked.failed);
    let picture = looked.picture.unwrap_or(file);
    let kept = context.keep(&draft, &camera, &picture);
    let shown = context.show(picture).await?;
    let result = json!({
        "about_this": FROM_OUTSIDE, "draft": draft, "camera": camera, "camera_px": size,
        "multiply_x_by": shown.scale.0, "multiply_y_by": shown.scale.1,
        "wrong": found.wrong, "mind": mind, "places": found.places,
        "detected_now": list_detections(&looked.seen),
    });
    let outcome = ToolOutcome::json(&result).with_picture(shown.part);
    Ok(outcome.with_fact(ToolFact::Previewed {
        draft,
        camera,
        wrong: found.wrong,
        picture: kept,
    }))
}

/// Checks lines and zones, also zones with too few corners, which can't be drawn.
fn check_geometry(compiled: &Compiled, size: [u32; 2], seen: &[Detection]) -> GeometryReport {
    let overlays = compiled.overlays();
    let mut report = check_places(&overlays, size, seen);
    let is_drawn = |step: &str| {
        let mut all = overlays.iter();
        all.any(|o| matches!(o, Overlay::Zone { name, .. } if name == step))
    };
    let empty = compiled.empty_zones().into_iter();
    let undrawn = empty.filter(|zone| !is_drawn(&zone.step));
    report.wrong.extend(undrawn.map(|zone| zone.message));
    report
}

/// Warnings about parts that the preview can't show.
fn warnings(compiled: &Compiled, only_places: bool) -> Vec<String> {
    let mut warnings = Vec::new();
    if only_places {
        let warning = "its detections are not of the whole picture, so they are not drawn";
        warnings.push(warning.to_owned());
    }
    if compiled.model_ids().iter().any(|model| model == MOTION) {
        warnings.push("`motion` compares pictures: it finds nothing on a still one".to_owned());
    }
    warnings
}

/// The error of an unknown draft.
pub(super) fn no_draft(name: &str, given: ToolInput<'_>) -> String {
    let known = match given.facts.draft_count() {
        0 => "validate_workflow makes one".to_owned(),
        1 => "the only draft is d1".to_owned(),
        drafts => format!("the drafts are d1 to d{drafts}"),
    };
    format!(
        "there is no draft {name:?}: {known}. For other rules of a pipeline, dry_run_workflow and \
            propose_deployment take \"running\" as the draft, without edits; another workflow is a \
            new draft, made of the definition that stream_status shows"
    )
}
