//! `find_objects`: pictures with and without objects of a class, by an installed detector.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use watchkeeper_client::ClientError;
use watchkeeper_contract::model::{ModelInfo, ModelState};
use watchkeeper_contract::problem::nearest_few;
use watchkeeper_contract::workflow::{WorkflowRun, WorkflowRunResult};
use watchkeeper_jobs::counted;
use watchkeeper_jobs::planner::FIND_OBJECTS;
use watchkeeper_jobs::tool::{
    Context, Kind, Output, Param, Tool, ToolError, ToolOutput, ToolSpec, read,
};
use watchkeeper_jobs::tools::{COUNT, GROUPS, OF_PICTURES, PICTURES, pictures_and_groups_done};
use watchkeeper_models::PREFERRED;
use watchkeeper_pictures::measure::turned;
use watchkeeper_pictures::{FoundObject, Group, Picture};

use super::connection::{RuntimeAccess, StepConnection, answered, tool_error};
use crate::embedding::{EmbeddingError, require_digest};

/// Classes that a refusal names.
const MAX_CLASSES: usize = 12;
/// Similar classes that an error names.
const MAX_NEAR: usize = 3;
/// Words for faces: English, German, French, Spanish, Italian and Portuguese.
const FACE_WORDS: [&str; 13] = [
    "face",
    "faces",
    "gesicht",
    "gesichter",
    "visage",
    "visages",
    "cara",
    "caras",
    "rostro",
    "rostros",
    "volto",
    "viso",
    "rosto",
];
/// The setting that allows faces.
const FACES: &str = "agent.job_tools.faces";

#[derive(Debug)]
pub(super) struct FindObjects(pub(super) Arc<RuntimeAccess>);

#[derive(Debug, Deserialize)]
struct Params {
    pictures: Vec<Picture>,
    class: String,
    least: Option<f64>,
}

impl Tool for FindObjects {
    fn spec(&self) -> &'static ToolSpec {
        const SPEC: ToolSpec = ToolSpec {
            name: FIND_OBJECTS,
            about: "Finds persons, cars or another class of an installed detector, and parts \
                    pictures with from those without.",
            params: &[
                OF_PICTURES,
                Param::required("class", Kind::Text, "Class of the objects, such as person."),
                Param::optional(
                    "least",
                    Kind::Number { min: 0.0, max: 1.0 },
                    "Least confidence of an object; the detector's own if absent.",
                ),
            ],
            outputs: &[
                PICTURES,
                Output::new(
                    "others",
                    Kind::Pictures,
                    "The pictures without such an object.",
                ),
                Output::new(
                    "all",
                    Kind::Pictures,
                    "All pictures, each with the objects in it.",
                ),
                GROUPS,
                COUNT,
                Output::new("objects", COUNT.kind, "Number of objects."),
            ],
        };
        &SPEC
    }

    fn missing(&self, params: &Map<String, Value>) -> Option<String> {
        let class = params.get("class")?.as_str()?;
        if let Err(why) = self.allow(class) {
            return Some(why);
        }
        detector(&self.0.lists()?.models, class).err()
    }

    fn run(
        &self,
        params: Map<String, Value>,
        context: &Context<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let Params {
            pictures,
            class,
            least,
        } = read(params)?;
        self.allow(&class).map_err(ToolError::Permanent)?;
        let mut connection = self.0.connect(context)?;
        let models = connection
            .wait(connection.client.models())?
            .map_err(failed)?;
        let Detector {
            model,
            class,
            digest,
        } = detector(&models, &class).map_err(ToolError::Permanent)?;
        let workflow = workflow(&model, &class, least);
        let ask = |connection: &StepConnection<'_>, bytes: Vec<u8>| {
            let file = match turned(&bytes) {
                Ok(turned) => BASE64.encode(turned.as_ref().unwrap_or(&bytes)),
                Err(error) => return Ok(Err(error.to_string())),
            };
            let run = WorkflowRun {
                workflow: workflow.clone(),
                images: vec![file],
                parameters: BTreeMap::new(),
                model: None,
            };
            let answer = connection.wait(connection.client.run_workflow(&run))?;
            answered(
                answer
                    .map_err(Into::into)
                    .and_then(|answer| read_objects(&answer)),
            )
        };
        let key = format!("objects {digest} {class} {least:?}");
        let read = |kept: &Value| Vec::<FoundObject>::deserialize(kept).ok();
        let found = connection.each(&pictures, &key, ask, read)?;
        let models = connection.wait(connection.client.models())?;
        let now = detector(&models.map_err(failed)?, &class).map_err(ToolError::Permanent)?;
        if now.digest != digest {
            let why = format!("model {model} was replaced meanwhile");
            return Err(ToolError::Transient(why));
        }
        Ok(parted(&model, &class, found, &connection.unread()))
    }
}

impl FindObjects {
    /// Refuses faces unless the site allows them.
    fn allow(&self, class: &str) -> Result<(), String> {
        if names_faces(class) && !self.0.allows_faces() {
            return Err(format!(
                "this site does not allow faces to be looked for; {FACES} = true in its \
                 configuration allows it"
            ));
        }
        Ok(())
    }
}

/// Whether a whole word of a class is one for faces, in the languages of [`FACE_WORDS`].
fn names_faces(class: &str) -> bool {
    let mut parted = String::new();
    let mut was_small = false;
    for letter in class.chars() {
        // The words of `HumanFace` are two.
        if !letter.is_alphabetic() || (was_small && letter.is_uppercase()) {
            parted.push(' ');
        }
        was_small = letter.is_lowercase();
        parted.extend(
            letter
                .to_lowercase()
                .filter(|letter| letter.is_alphabetic()),
        );
    }
    parted.split(' ').any(|word| FACE_WORDS.contains(&word))
}

/// A detector that knows a class.
#[derive(Debug)]
struct Detector {
    model: String,
    /// The class as the detector writes it.
    class: String,
    digest: String,
}

/// Whether a model is an installed detector.
fn is_here(model: &ModelInfo) -> bool {
    model.task == "object-detection" && matches!(model.state, ModelState::Present { .. })
}

/// Chooses an installed detector; an error is a sentence with the remedy.
fn detector(models: &[ModelInfo], class: &str) -> Result<Detector, String> {
    let mut here: Vec<&ModelInfo> = models.iter().filter(|model| is_here(model)).collect();
    let rank = |model: &ModelInfo| PREFERRED.iter().position(|name| *name == model.name);
    here.sort_by_key(|model| (rank(model).unwrap_or(PREFERRED.len()), &model.name));
    let known = here.iter().find_map(|model| {
        let mut labels = model.labels.iter();
        let label = labels.find(|label| label.eq_ignore_ascii_case(class))?;
        Some((model, label))
    });
    if let Some((model, label)) = known {
        return Ok(Detector {
            model: model.name.clone(),
            class: label.clone(),
            digest: require_digest(model)?,
        });
    }
    if here.is_empty() {
        return Err(
            "no detector is installed; install one: `watchkeeper models pull \
                    ssd-mobilenet-v2`"
                .to_owned(),
        );
    }
    let mut known = HashSet::new();
    let labels = here.iter().flat_map(|model| &model.labels);
    let labels: Vec<&str> = labels
        .map(String::as_str)
        .filter(|label| !label.is_empty() && known.insert(*label))
        .collect();
    let near = nearest_few(class, labels.iter().copied(), MAX_NEAR).join(", ");
    let number = labels.len().saturating_sub(MAX_CLASSES);
    let classes = match (near.is_empty(), number) {
        (false, _) => format!("did you mean {near}?"),
        (true, 0) => format!("name one of {}.", labels.join(", ")),
        (true, others) => {
            let shown = labels.get(..MAX_CLASSES).unwrap_or_default().join(", ");
            format!("name one of {shown} and {others} others.")
        }
    };
    Err(format!(
        "no installed detector finds {class:?}; {classes} Or install a model that finds it \
         (`watchkeeper models`)"
    ))
}

fn workflow(model: &str, class: &str, least: Option<f64>) -> Value {
    let mut step = json!({
        "type": "roboflow_core/roboflow_object_detection_model@v3", "name": "find",
        "images": "$inputs.image", "model_id": model, "class_filter": [class],
    });
    if let Some(least) = least {
        step["confidence_mode"] = json!("custom");
        step["custom_confidence"] = json!(least);
    }
    json!({"version": "1.0", "inputs": [{"type": "InferenceImage", "name": "image"}],
        "steps": [step], "outputs": [{"type": "JsonField", "name": "found",
        "selector": "$steps.find.predictions"}]})
}

/// The objects in an answer, their boxes in parts of the picture.
fn read_objects(result: &WorkflowRunResult) -> Result<Value, EmbeddingError> {
    let unreadable = |why: &str| EmbeddingError::Away(format!("the runtime's answer has {why}"));
    if let Some(failed) = result.failed.first() {
        return Err(EmbeddingError::Away(failed.message.clone()));
    }
    let found = result.results.first().map(|row| &row["found"]);
    let found = found.ok_or_else(|| unreadable("no row"))?;
    let side = |name: &str| found["image"][name].as_f64().filter(|side| *side > 0.0);
    let (Some(width), Some(height)) = (side("width"), side("height")) else {
        return Err(unreadable("no size of the picture"));
    };
    let predictions = found["predictions"].as_array().into_iter().flatten();
    let objects = predictions.filter_map(|one| {
        let number = |name: &str| one[name].as_f64();
        let (x, y) = (number("x")? / width, number("y")? / height);
        let (w, h) = (
            number("width")? / width / 2.0,
            number("height")? / height / 2.0,
        );
        let part = |at: f64| (at.clamp(0.0, 1.0) * 10_000.0).round() / 10_000.0;
        Some(FoundObject {
            class: one["class"].as_str()?.to_owned(),
            confidence: (number("confidence")? * 1_000.0).round() / 1_000.0,
            bounds: [part(x - w), part(y - h), part(x + w), part(y + h)],
        })
    });
    let objects = serde_json::to_value(objects.collect::<Vec<_>>());
    objects.map_err(|error| unreadable(&error.to_string()))
}

fn parted(
    model: &str,
    class: &str,
    found: Vec<(Picture, Vec<FoundObject>)>,
    unread: &str,
) -> ToolOutput {
    let found = found.into_iter();
    let all = found.map(|(picture, objects)| Picture {
        objects: Some(objects),
        ..picture
    });
    let all: Vec<Picture> = all.collect();
    let (with, others): (Vec<_>, Vec<_>) = all.iter().cloned().partition(Picture::shows_objects);
    let objects: usize = with
        .iter()
        .flat_map(|picture| &picture.objects)
        .map(Vec::len)
        .sum();
    let group = |how: &str, why: &str, pictures: &[Picture]| Group {
        name: format!("{how} {class}"),
        why: format!("{model} {why}"),
        pictures: pictures.to_vec(),
    };
    let mut groups = vec![
        group("with", "finds it", &with),
        group("without", "finds none", &others),
    ];
    groups.retain(|group| !group.pictures.is_empty());
    let summary = format!(
        "{} of {} pictures with {class}, {} ({model}){unread}",
        with.len(),
        all.len(),
        counted(objects, "object")
    );
    let mut done = pictures_and_groups_done(&with, &groups, summary);
    for (key, pictures) in [("others", others), ("all", all)] {
        let pictures = serde_json::to_value(pictures).unwrap_or_default();
        done.values.insert(key.to_owned(), pictures);
    }
    done.values
        .insert("objects".to_owned(), Value::from(objects));
    done
}

fn failed(error: ClientError) -> ToolError {
    tool_error(error.into())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use super::*;

    fn model(name: &str, labels: &[&str]) -> ModelInfo {
        serde_json::from_value(json!({"name": name, "task": "object-detection",
            "state": {"state": "present", "path": "/m"}, "labels": labels, "digest": "d0"}))
        .unwrap()
    }

    #[test]
    fn detector_that_knows_the_class_is_chosen_by_preference() {
        let models = [
            model("a", &["Face", "person"]),
            model("ssd-mobilenet-v2", &["person", "car"]),
        ];
        let chosen = |class| detector(&models, class).map(|found| (found.model, found.class));
        let named = |model: &str, class: &str| Ok((model.to_owned(), class.to_owned()));
        assert_eq!(chosen("Person"), named("ssd-mobilenet-v2", "person"));
        assert_eq!(chosen("face"), named("a", "Face"));
        let refused = chosen("persn").unwrap_err();
        assert!(refused.contains("did you mean person?"), "{refused}");
        let many: Vec<String> = (0..80).map(|n| format!("{n:02}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let refused = detector(&[model("a", &many)], "zebra").unwrap_err();
        assert!(refused.contains("10, 11 and 68 others"), "{refused}");
        let refused = detector(&[], "person").unwrap_err();
        assert!(
            refused.contains("models pull ssd-mobilenet-v2"),
            "{refused}"
        );
    }

    #[test]
    fn boxes_become_parts_of_the_picture() {
        let answer = WorkflowRunResult {
            results: vec![json!({"found": {"image": {"width": 200, "height": 100},
                "predictions": [{"x": 50.0, "y": 50.0, "width": 100.0, "height": 300.0,
                    "class": "person", "confidence": 0.91234}]}})],
            ..WorkflowRunResult::default()
        };
        let kept = read_objects(&answer).unwrap();
        let expected = json!([{"class": "person", "confidence": 0.912,
            "bounds": [0.0, 0.0, 0.5, 1.0]}]);
        assert_eq!(kept, expected);
    }

    #[test]
    fn failed_step_does_not_count_against_the_picture() {
        for answer in [
            json!({"results": [{"found": null}], "failed": [{"step": "find", "message": "x"}]}),
            json!({"results": [], "failed": []}),
            json!({"results": [{"found": {}}], "failed": []}),
        ] {
            let error =
                answered(read_objects(&serde_json::from_value(answer).unwrap())).unwrap_err();
            assert!(matches!(error, ToolError::Transient(_)), "{error}");
        }
    }

    #[test]
    fn faces_need_the_permission_of_the_site() {
        let find = |faces| {
            let config = watchkeeper_config::JobToolsConfig {
                faces,
                embedding: None,
            };
            let setup = super::super::ToolSetup {
                config,
                ..Default::default()
            };
            FindObjects(Arc::new(RuntimeAccess::new(setup)))
        };
        for class in [
            "face",
            "Human face",
            "human_face",
            "HumanFace",
            "FACES",
            "Gesicht",
        ] {
            let refused = find(false).allow(class).unwrap_err();
            assert!(refused.contains(FACES), "{refused}");
            assert!(find(true).allow(class).is_ok(), "{class}");
        }
        for class in ["person", "surface_scratch", "interface"] {
            assert!(find(false).allow(class).is_ok(), "{class}");
        }
    }
}
