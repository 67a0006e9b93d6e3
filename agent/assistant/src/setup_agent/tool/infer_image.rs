//! Runs a model of the box on one picture, of a camera or of the user. Returns detections, classes,
//! text, or how well words of the language model describe it.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures_util::FutureExt as _;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use watchkeeper_contract::model::ModelInfo;
use watchkeeper_contract::problem::nearest;
use watchkeeper_engine::templates::watch::{Watch, plain_classes, workflow};
use watchkeeper_engine::workflow::{Task as ModelTask, compile};

use super::super::geometry::list_detections;
use super::super::preview_spec::preview;
use super::super::tool_context::ToolContext;
use super::definition::{FROM_OUTSIDE, Tool, ToolInput, ToolOutcome, first_message, schema, text};
use crate::permissions::Effect;
use crate::proposal::checks::model_facts;
use crate::proposal::snapshot::SystemSnapshot;

/// Maximum labels of one comparison: each makes it slower.
const MAX_LABELS: usize = 40;
/// Longest label, in characters: the text networks read about as much.
const MAX_LABEL_CHARS: usize = 200;

pub(super) const TOOL: Tool = Tool {
    name: "infer_image",
    description: "Runs a model of the box once on the latest picture of a camera, or on a picture \
        of the user: does it find what was asked for?",
    schema: || {
        let properties = json!({
            "task": {"type": "string", "enum": ["detect", "classify", "read_text", "zero_shot"],
                "description": "detect if left out; each needs a model of its kind"},
            "camera": text("name of the camera, or empty"),
            "picture": text("name of a picture of the user (pictures_of_the_person of \
                look_around), which this tool shows you; or empty"),
            "model_id": text("a model of this box; empty: only show the user's picture"),
            "classes": {"type": "array", "items": {"type": "string"}, "description": "detect: only \
                these, empty: all; zero_shot: your descriptions to compare with"},
            "confidence": {"type": "number", "description": "detect: lowest score, 0 to 1; usually \
                0.3"},
        });
        schema(
            &properties,
            &["camera", "picture", "model_id", "classes", "confidence"],
        )
    },
    effect: Effect::Read,
    max_uses: 4,
    run: |given| async move { infer(given).await.into() }.boxed(),
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    #[serde(default)]
    task: Task,
    #[serde(default)]
    camera: String,
    #[serde(default)]
    picture: String,
    /// Empty: no model runs, the picture of the user is only shown.
    model_id: String,
    #[serde(default)]
    classes: Vec<String>,
    #[serde(default)]
    confidence: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Task {
    #[default]
    Detect,
    Classify,
    ReadText,
    ZeroShot,
}

impl Task {
    /// Tasks of models that can do it; one of these is enough.
    const fn model_tasks(self) -> &'static [ModelTask] {
        match self {
            Self::Detect => &[ModelTask::Boxes],
            Self::Classify => &[ModelTask::Classes],
            Self::ReadText => &[ModelTask::Writing],
            Self::ZeroShot => &[ModelTask::NumbersOfTexts, ModelTask::Described],
        }
    }

    /// The name in the arguments.
    const fn name(self) -> &'static str {
        match self {
            Self::Detect => "detect",
            Self::Classify => "classify",
            Self::ReadText => "read_text",
            Self::ZeroShot => "zero_shot",
        }
    }

    fn fits(self, model: &ModelInfo) -> bool {
        let facts = model_facts(model);
        let mut tasks = self.model_tasks().iter();
        tasks.any(|task| facts.does(*task))
    }
}

async fn infer(given: ToolInput<'_>) -> Result<ToolOutcome, String> {
    let arguments: Arguments = given.arguments()?;
    let context = given.context;
    if arguments.model_id.is_empty() && arguments.camera.is_empty() {
        let shown = context
            .show(context.attachment(&arguments.picture)?)
            .await?;
        let answer = json!({"about_this": FROM_OUTSIDE, "picture": arguments.picture});
        return Ok(ToolOutcome::json(&answer).with_picture(shown.part));
    }
    let here = context.snapshot().await?;
    let model = find_model(&arguments.model_id, arguments.task, &here)?;
    check_classes(&arguments, model)?;
    let file = match (arguments.camera.as_str(), arguments.picture.as_str()) {
        ("", "") => return Err("name a camera or a picture".to_owned()),
        ("", picture) => context.attachment(picture)?,
        (camera, "") => context.frame(&ToolContext::camera(camera, &here)?).await?,
        _ => return Err("name a camera or a picture, not both".to_owned()),
    };
    match arguments.task {
        Task::Detect => detect(context, arguments, model, file).await,
        Task::Classify | Task::ReadText | Task::ZeroShot => {
            let step = step(&arguments, model)?;
            ask(context, &step, model, file).await
        }
    }
}

/// The model of this name that does the task.
///
/// # Errors
/// A sentence that names the models that do it.
fn find_model<'h>(
    name: &str,
    task: Task,
    here: &'h SystemSnapshot,
) -> Result<&'h ModelInfo, String> {
    let fitting: Vec<&str> = here
        .present_models()
        .filter(|model| task.fits(model))
        .map(|model| model.name.as_str())
        .collect();
    let others = match fitting.as_slice() {
        [] => "no model of this box does it (list_available_models)".to_owned(),
        fitting => format!("the models that do it are: {}", fitting.join(", ")),
    };
    match here.present_models().find(|model| model.name == name) {
        Some(model) if task.fits(model) => Ok(model),
        Some(model) => Err(format!(
            "{name} is a model for {}, which does no {}; {others}",
            model.task,
            task.name()
        )),
        None => Err(format!(
            "there is no model {name:?} on this box; for {}: {others}",
            task.name()
        )),
    }
}

/// Checks classes, labels and the score.
fn check_classes(arguments: &Arguments, model: &ModelInfo) -> Result<(), String> {
    let classes = &arguments.classes;
    match arguments.task {
        Task::Detect => {
            if !(0.0..=1.0).contains(&arguments.confidence.unwrap_or(0.3)) {
                return Err("confidence must be between 0 and 1".to_owned());
            }
            let unknown = classes.iter().find(|c| !model.labels.contains(c));
            unknown.map_or(Ok(()), |unknown| {
                let near = nearest(unknown, model.labels.iter().map(String::as_str));
                let meant =
                    near.map_or_else(String::new, |near| format!(" (did you mean {near:?}?)"));
                Err(format!(
                    "{} does not know the class {unknown:?}{meant}; it knows: {}",
                    model.name,
                    model.labels.join(", ")
                ))
            })
        }
        Task::ZeroShot => {
            let is_label =
                |c: &String| !c.trim().is_empty() && c.chars().count() <= MAX_LABEL_CHARS;
            match classes.len() {
                1..=MAX_LABELS if classes.iter().all(is_label) => Ok(()),
                found => Err(format!(
                    "zero_shot needs 1 to {MAX_LABELS} descriptions in classes, each of 1 to \
                     {MAX_LABEL_CHARS} characters; there are {found}"
                )),
            }
        }
        Task::Classify | Task::ReadText if classes.is_empty() => Ok(()),
        Task::Classify | Task::ReadText => Err(format!(
            "{} takes no classes: leave them empty",
            arguments.task.name()
        )),
    }
}

/// Finds objects, and draws them.
async fn detect(
    context: &ToolContext,
    arguments: Arguments,
    model: &ModelInfo,
    file: Bytes,
) -> Result<ToolOutcome, String> {
    let watch = Watch {
        classes: arguments.classes,
        confidence: Some(arguments.confidence.unwrap_or(0.3)),
        ..Watch::default()
    };
    plain_classes(&watch).map_err(|e| e.to_string())?;
    let definition = workflow(&watch, &model.name);
    let compiled = compile(&definition, &BTreeMap::new()).map_err(|e| first_message(&e))?;
    let looked = context
        .look(&preview(&definition, &compiled), &file)
        .await?;
    let shown = context.show(looked.picture.unwrap_or(file)).await?;
    let answer = json!({
        "about_this": FROM_OUTSIDE,
        "model_id": model.name, "found": looked.seen.len(),
        "detections": list_detections(&looked.seen), "failed": looked.failed,
    });
    Ok(ToolOutcome::json(&answer).with_picture(shown.part))
}

/// Runs one step on the picture and returns its outputs.
async fn ask(
    context: &ToolContext,
    step: &Step,
    model: &ModelInfo,
    file: Bytes,
) -> Result<ToolOutcome, String> {
    let ran = context.run_workflow(&step.definition(), &file).await?;
    let shown = context.show(file).await?;
    let row = ran.results.into_iter().next().unwrap_or_default();
    let failed: Vec<&str> = ran.failed.iter().map(|f| f.message.as_str()).collect();
    let answer = json!({
        "about_this": FROM_OUTSIDE, "model_id": model.name, "outputs": row, "failed": failed,
    });
    Ok(ToolOutcome::json(&answer).with_picture(shown.part))
}

/// A step with a model, and those of its outputs that are of interest.
#[derive(Debug)]
struct Step {
    block: &'static str,
    properties: Map<String, Value>,
    outputs: &'static [&'static str],
}

impl Step {
    fn new(block: &'static str, properties: Value, outputs: &'static [&'static str]) -> Self {
        let properties = match properties {
            Value::Object(properties) => properties,
            _ => Map::new(),
        };
        Self {
            block,
            properties,
            outputs,
        }
    }

    /// The workflow of this one step.
    fn definition(&self) -> Value {
        let mut step = self.properties.clone();
        step.insert("type".to_owned(), json!(self.block));
        step.insert("name".to_owned(), json!("look"));
        step.insert("images".to_owned(), json!("$inputs.image"));
        let outputs = self.outputs.iter().map(|output| {
            json!({
                "type": "JsonField", "name": output, "selector": format!("$steps.look.{output}"),
            })
        });
        json!({
            "version": "1.0", "inputs": [{"type": "WorkflowImage", "name": "image"}],
            "steps": [step], "outputs": outputs.collect::<Vec<_>>(),
        })
    }
}

/// The step that asks `model`. Blocks for text and descriptions take a model by a name that it
/// stands for.
fn step(arguments: &Arguments, model: &ModelInfo) -> Result<Step, String> {
    if arguments.task == Task::Classify {
        return Ok(Step::new(
            "roboflow_core/roboflow_classification_model@v2",
            json!({"model_id": model.name}),
            &["predictions"],
        ));
    }
    let mut names = model.stands_for.iter();
    let step = names.find_map(|name| step_named(name, &arguments.classes));
    step.ok_or_else(|| {
        format!(
            "no block takes {} for {}: its manifest needs `stands_for` with a name such as \
             pp_ocr/small-small, clip/ViT-B-32 or yolo_world/v2-s",
            model.name,
            arguments.task.name()
        )
    })
}

/// The step that asks for a model by this name.
fn step_named(name: &str, labels: &[String]) -> Option<Step> {
    const TEXT: &[&str] = &["result"];
    let (family, version) = name.split_once('/').unwrap_or((name, ""));
    Some(match family {
        "doctr" => Step::new("roboflow_core/ocr_model@v1", json!({}), TEXT),
        "easy_ocr" => Step::new(
            "roboflow_core/easy_ocr@v1",
            json!({"language": version}),
            TEXT,
        ),
        "pp_ocr" => {
            let (finds, reads) = version.split_once('-')?;
            let sizes = json!({"text_detection": finds, "text_recognition": reads});
            Step::new("roboflow_core/pp_ocr@v1", sizes, TEXT)
        }
        "clip" => Step::new(
            "roboflow_core/clip_comparison@v2",
            json!({"classes": labels, "version": version}),
            &["similarities", "most_similar_class", "max_similarity"],
        ),
        "yolo_world" => Step::new(
            "roboflow_core/yolo_world_model@v1",
            json!({"class_names": labels, "version": version}),
            &["predictions"],
        ),
        _ => return None,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use watchkeeper_models::Zoo;

    use super::*;
    use crate::proposal::snapshot::testing::situation;

    #[test]
    fn misspelt_class_is_refused_with_the_nearest() {
        let arguments = serde_json::from_value(json!({"model_id": "m", "classes": ["persn"]}));
        let model = crate::proposal::snapshot::testing::model("m", &["car", "person"]);
        let said = check_classes(&arguments.unwrap(), &model).unwrap_err();
        assert!(said.contains("did you mean \"person\"?"), "{said}");
        assert!(said.contains("it knows: car, person"), "{said}");
    }

    #[test]
    fn every_name_that_a_model_stands_for_has_a_step_that_compiles() {
        let names = ["pp_ocr/none-small", "yolo_world/v2-s"].map(str::to_owned);
        let listed = Zoo::builtin().list().into_iter();
        let of_zoo = listed.flat_map(|model| model.stands_for);
        for name in of_zoo
            .chain(names)
            .filter(|name| !name.starts_with("sam2/"))
        {
            let step = step_named(&name, &["a dog".to_owned()]).unwrap();
            let definition = step.definition();
            let compiled = compile(&definition, &BTreeMap::new()).unwrap();
            let mut asked = compiled.model_ids();
            asked.extend(compiled.asked_ids());
            assert_eq!(asked, [name], "{definition}");
        }
    }

    #[test]
    fn model_of_another_kind_is_refused_with_those_that_fit() {
        let mut here = situation();
        let mut reader = here.models[0].clone();
        (reader.name, reader.task) = ("ocr".to_owned(), "text-reading".to_owned());
        here.models.push(reader);
        let error = find_model("ocr", Task::Detect, &here).unwrap_err();
        assert!(
            error.contains("text-reading, which does no detect"),
            "{error}"
        );
        assert!(error.contains(&here.models[0].name), "{error}");
        let none = find_model("ocr", Task::ZeroShot, &here).unwrap_err();
        assert!(none.contains("no model of this box does it"), "{none}");
        assert_eq!(
            find_model("ocr", Task::ReadText, &here).unwrap().name,
            "ocr"
        );
        let unknown = find_model("oc", Task::ReadText, &here).unwrap_err();
        assert!(
            unknown.contains("the models that do it are: ocr"),
            "{unknown}"
        );
    }
}
