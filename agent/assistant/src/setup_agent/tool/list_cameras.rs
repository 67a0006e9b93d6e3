//! The cameras, with what a workflow needs to know of them.

use futures_util::FutureExt as _;
use serde_json::{Value, json};
use watchkeeper_contract::source::{SourceState, SourceStatus};

use super::definition::{Tool, ToolInput, ToolOutcome, schema};
use crate::permissions::Effect;
use crate::proposal::snapshot::SystemSnapshot;

/// Maximum cameras in the result.
const MAX_CAMERAS: usize = 100;

pub(super) const TOOL: Tool = Tool {
    name: "list_cameras",
    description: "The cameras and recordings: name, kind, state, size of the picture in pixels \
        (null before the first picture), what runs on each.",
    schema: || schema(&json!({}), &[]),
    effect: Effect::Read,
    max_uses: 4,
    run: |given| async move { list(given).await.into() }.boxed(),
};

async fn list(given: ToolInput<'_>) -> Result<ToolOutcome, String> {
    let here = given.context.snapshot().await?;
    Ok(ToolOutcome::json(
        &json!({"cameras": to_json(&here, MAX_CAMERAS)}),
    ))
}

/// The first `max` cameras as JSON: of an address only its kind, or a file's name.
pub(super) fn to_json(here: &SystemSnapshot, max: usize) -> Vec<Value> {
    let one = |source: &SourceStatus| {
        let state = serde_json::to_value(&source.state).unwrap_or_default();
        let on_it: Vec<&str> = here
            .pipelines
            .iter()
            .filter(|p| p.spec.source == source.spec.id)
            .map(|p| p.spec.id.as_str())
            .collect();
        let mut answer = json!({
            "camera": source.spec.id, "name": source.spec.name, "kind": kind(&source.spec.uri),
            "state": state.get("state"),
            "size_px": source.size, "pipelines": on_it,
        });
        if let Some(mask) = &source.privacy {
            // Its black or blurred parts are not a defect, and nothing can be watched there.
            answer["privacy_mask"] = json!(mask);
        }
        if let SourceState::Live { blind: Some(how) } = &source.state {
            answer["shows_nothing"] = json!(how);
        }
        answer
    };
    here.sources.iter().take(max).map(one).collect()
}

/// The kind of an address, without the address.
fn kind(uri: &str) -> String {
    if let Some((scheme, _)) = uri.split_once("://") {
        return scheme.to_owned();
    }
    if uri.starts_with("demo:") {
        return "the built-in demo scene, made for the model `motion`".to_owned();
    }
    if uri.starts_with("/dev/") || uri.starts_with("v4l2:") {
        return "a camera at this box".to_owned();
    }
    let name = uri.rsplit('/').next().unwrap_or(uri);
    format!("recording {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_shows_only_its_kind_or_file_name() {
        for (uri, answer) in [
            ("rtsp://admin:pw@10.0.0.7/live", "rtsp"),
            ("/home/ann/secret/dock.mp4", "recording dock.mp4"),
            ("/dev/video0", "a camera at this box"),
        ] {
            assert_eq!(kind(uri), answer);
        }
    }
}
