//! The cameras, with what a workflow has to know of them.

use futures_util::FutureExt as _;
use serde_json::{Value, json};
use watchkeeper_contract::source::{SourceState, SourceStatus};

use super::{Effect, Tool, ToolInput, ToolOutcome, ToolScope, schema};
use crate::proposal::snapshot::SystemSnapshot;

/// Most cameras that are listed.
const MOST: usize = 100;

/// The tool.
pub(super) const TOOL: Tool = Tool {
    name: "list_cameras",
    about: "The cameras and recordings: name, kind, state, size of the picture in pixels (absent until one was seen), what runs on each.",
    schema: || schema(&json!({}), &[]),
    effect: Effect::Read,
    scope: ToolScope::Cameras,
    per_turn: 4,
    run: |given| async move { list(given).await.into() }.boxed(),
};

async fn list(given: ToolInput<'_>) -> Result<ToolOutcome, String> {
    let here = given.hands.situation().await?;
    Ok(ToolOutcome::json(&json!({"cameras": told(&here, MOST)})))
}

/// The cameras as a model reads them. Addresses stay here; the kind of one and the name of a file go.
pub(super) fn told(here: &SystemSnapshot, most: usize) -> Vec<Value> {
    let one = |source: &SourceStatus| {
        let state = serde_json::to_value(&source.state).unwrap_or_default();
        let on_it: Vec<&str> = here
            .pipelines
            .iter()
            .filter(|p| p.spec.source == source.spec.id)
            .map(|p| p.spec.id.as_str())
            .collect();
        let mut told = json!({
            "camera": source.spec.id, "name": source.spec.name, "kind": kind(&source.spec.uri), "state": state.get("state"),
            "size_px": source.size, "pipelines": on_it,
        });
        if let SourceState::Live { blind: Some(how) } = &source.state {
            told["shows_nothing"] = json!(how);
        }
        told
    };
    here.sources.iter().take(most).map(one).collect()
}

/// What kind of source an address is, without the address.
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
    fn of_an_address_only_the_kind_or_the_name_of_a_file_is_told() {
        for (uri, told) in [
            ("rtsp://admin:pw@10.0.0.7/live", "rtsp"),
            ("/home/ann/secret/dock.mp4", "recording dock.mp4"),
            ("/dev/video0", "a camera at this box"),
        ] {
            assert_eq!(kind(uri), told);
        }
    }
}
