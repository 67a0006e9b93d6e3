//! A whole workflow with its rules to adapt: an example, or a template of the commonest watches
//! filled in for a camera of the box.

use std::collections::BTreeMap;

use futures_util::FutureExt as _;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use watchkeeper_contract::id::SourceId;
use watchkeeper_plain::answer::Change;
use watchkeeper_plain::{Answer, Plain};

use super::super::example::{self, EXAMPLES, MODEL};
use super::super::tool_context::ToolContext;
use super::definition::{Tool, ToolInput, ToolOutcome, schema, text};
use crate::permissions::Effect;
use crate::proposal::snapshot::SystemSnapshot;
use crate::wording::unknown;

/// Value of a place without a default.
const PLACE: &str = "the left half";

pub(super) const TOOL: Tool = Tool {
    name: "get_example",
    description: "A whole workflow with its rules, to adapt.",
    schema: || {
        let names = EXAMPLES.iter().map(|example| example.name);
        let names = names.collect::<Vec<_>>().join(", ");
        let name = format!("{names}, or a template of list_workflow_blocks");
        let properties = json!({
            "name": text(&name), "camera": text("for a template: its camera"),
        });
        schema(&properties, &["name"])
    },
    effect: Effect::Read,
    max_uses: 4,
    run: |given| async move { show(given).await.into() }.boxed(),
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    name: String,
    #[serde(default)]
    camera: String,
}

/// The examples and templates, and what each is for.
pub(super) fn names() -> Value {
    let examples = EXAMPLES.iter();
    let examples = examples.map(|e| (e.name.to_owned(), Value::from(e.when)));
    let templates = Plain::new().ok().into_iter().flat_map(|plain| {
        let all = plain.templates().iter();
        let named = all.map(|t| (t.name.clone(), Value::from(t.title.as_str())));
        named.collect::<Vec<_>>()
    });
    let (examples, templates): (Map<_, _>, Map<_, _>) = (examples.collect(), templates.collect());
    json!({"examples": examples, "templates": templates})
}

async fn show(given: ToolInput<'_>) -> Result<ToolOutcome, String> {
    let Arguments { name, camera } = given.arguments()?;
    if let Some(example) = example::find(&name) {
        return Ok(ToolOutcome::json(&json!({
            "when": example.when, "workflow": (example.workflow)(), "rules": (example.rules)(),
            "adapt": format!("a model of this box in place of {MODEL}; classes that it knows; \
                lines and zones in pixels of the camera's own picture"),
        })));
    }
    let here = given.context.snapshot().await?;
    let camera = ToolContext::camera_filter(&camera, &here)?;
    fill_template(&name, camera.as_ref(), &here).map(|filled| ToolOutcome::json(&filled))
}

/// The workflow and the rules that a template makes for a camera; without one for the first.
fn fill_template(
    name: &str,
    camera: Option<&SourceId>,
    here: &SystemSnapshot,
) -> Result<Value, String> {
    let plain = Plain::new().map_err(|e| e.to_string())?;
    let templates = plain.templates();
    let Some(template) = templates.iter().find(|t| t.name == name) else {
        let examples = EXAMPLES.iter().map(|example| example.name);
        let known = examples.chain(templates.iter().map(|t| t.name.as_str()));
        return Err(unknown("example", name, &known.collect::<Vec<_>>()));
    };
    let first = here.sources.first().map(|source| &source.spec.id);
    let camera = camera.or(first).ok_or("the box has no camera")?;
    let mut values = BTreeMap::new();
    for name in &template.needs {
        let value = if name == "camera" {
            camera.as_str()
        } else {
            PLACE
        };
        values.insert(name.clone(), value.to_owned());
    }
    let request = template.fill(&values).map_err(|e| e.to_string())?;
    let answer = plain.understand(&request, &here.scene(&here.now));
    let answer = answer.map_err(|e| e.to_string())?;
    let proposal = match answer {
        Answer::Propose(proposal) => proposal,
        Answer::Look(_) | Answer::Ask(_) | Answer::Unknown(_) => {
            let mut sources = here.sources.iter();
            let is_unseen = sources.any(|s| s.spec.id == *camera && s.size.is_none());
            let why = match is_unseen {
                true => {
                    format!("the picture size of {camera} is not known yet: get_snapshot opens it")
                }
                false => "no model of this box knows its classes".to_owned(),
            };
            return Err(format!(
                "the template {name} can't be filled in here: {why}"
            ));
        }
    };
    let spec = proposal
        .changes
        .into_iter()
        .find_map(|change| match change {
            Change::Deploy(spec) | Change::Replace(spec) => Some(spec),
            Change::Delete(_) | Change::Pause { .. } | Change::Resume(_) => None,
        });
    let spec = spec.ok_or("the template proposes no pipeline")?;
    let has_place = template.needs.iter().any(|name| name != "camera");
    let adapt = format!("{PLACE} stands for the place that is meant: put its own in");
    Ok(json!({
        "adapt": has_place.then_some(adapt),
        "request": request, "camera": spec.source, "rules": spec.rules,
        "workflow": example::without_drawing(spec.workflow),
    }))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use watchkeeper_contract::pipeline::PipelineSpec;
    use watchkeeper_engine::deploy;

    use super::super::MAX_TEXT;
    use super::*;
    use crate::proposal::snapshot::testing::{model, situation, source};

    #[test]
    fn every_example_fits_into_a_result() {
        for example in &EXAMPLES {
            let text = json!([(example.workflow)(), (example.rules)()]).to_string();
            assert!(text.len() < MAX_TEXT - 500, "{}", example.name);
        }
        assert!(names()["templates"]["loitering"].is_string());
    }

    #[test]
    fn every_template_is_filled_in_with_a_valid_pipeline() {
        let mut here = situation();
        here.sources = vec![source("gate", "rtsp://cam/1", Some([640, 360]))];
        here.models[1] = model("yolox-nano", &["person", "car", "truck", "bus", "dog"]);
        let plain = Plain::new().unwrap();
        for template in plain.templates() {
            let name = template.name.as_str();
            let filled = fill_template(name, None, &here).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(filled.to_string().len() < MAX_TEXT, "{name}");
            let spec: PipelineSpec = serde_json::from_value(json!({
                "id": "p", "source": filled["camera"], "workflow": filled["workflow"],
                "rules": filled["rules"],
            }))
            .unwrap();
            assert!(deploy::plan(&spec).is_ok(), "{name}");
            let has_stand_in = filled["request"].to_string().contains(PLACE);
            assert_eq!(filled["adapt"].is_string(), has_stand_in, "{name}");
        }
        let unknown = fill_template("any", None, &here).unwrap_err();
        assert!(
            unknown.contains("both-at-once") && unknown.contains("loitering"),
            "{unknown}"
        );
    }
}
