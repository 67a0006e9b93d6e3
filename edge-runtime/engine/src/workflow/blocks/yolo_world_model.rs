//! Detects objects described in text.

use super::clip::version;
use super::object_detection_model::limit;
use crate::workflow::block_api::host::DetectRequest;
use crate::workflow::block_api::prelude::*;

const VERSIONS: &[&str] = &["v2-s", "v2-m", "v2-l", "v2-x", "s", "m", "l", "x"];
/// Maximum number of descriptions: each makes every picture more expensive.
const MAX_NAMES: usize = 1024;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/yolo_world_model@v1",
    summary: "Detects objects described in text, without training: a box and a score for each.",
    role: Role::Detector(Task::Described),
    properties: &[
        IMAGES,
        Property::value("class_names", Shape::Texts(0))
            .about("the objects, each described in one or a few words"),
        version(VERSIONS, "v2-s"),
        Property::share("confidence", 0.005)
            .about("minimum score; scores of descriptions are low")
            .nullable(),
    ],
    outputs: &[Output::new("predictions", &[Kind::ObjectDetection])],
    batch: &["images"],
    model: |known| Some(named(&known("version")?)),
    build: |_| Ok(Box::new(run)),
    ..Manifest::of("model")
}];

fn named(version: &str) -> String {
    format!("yolo_world/{version}")
}

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let image = call.image(arg!("images"))?;
    let names = names(call)?;
    let request = DetectRequest {
        step: call.step,
        model_id: &named(call.text(arg!("version"))?),
        task: Task::Described,
        described: Some(&names),
        image,
        confidence: call.optional(arg!("confidence"), Call::number)?,
        iou_threshold: None,
        class_filter: None,
        class_agnostic_nms: None,
        max_detections: None,
        tiles: None,
    };
    let mut found = call.host.detect(&request)?;
    limit(&mut found, &request, true);
    image.stamp(&mut found);
    call.finish(found)
}

/// The descriptions, none of them empty.
fn names(call: &Call<'_>) -> Result<Vec<String>, String> {
    let names = call.texts(arg!("class_names"))?;
    if (1..=MAX_NAMES).contains(&names.len()) && names.iter().all(|name| !name.trim().is_empty()) {
        return Ok(names.into_iter().map(ToString::to_string).collect());
    }
    Err(format!(
        "class_names has to be a list of 1 to {MAX_NAMES} descriptions"
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::super::super::tests::bench::{Bench, picture};
    use super::Kind;

    fn found(names: &Json) -> Result<Json, String> {
        let step = json!({"type": "YoloWorld", "images": "$inputs.image", "class_names": names, "confidence": 0.75});
        let mut bench = Bench::new(step, &[("image", Kind::Image)]);
        bench.feed(&[("image", picture(1, [640, 480], |_, _| [5; 3]))])
    }

    #[test]
    fn found_objects_have_the_step_s_descriptions() {
        let out = found(&json!(["red helmet"])).unwrap();
        let rows = out["predictions"]["predictions"].as_array().unwrap();
        assert_eq!(rows.len(), 2);
        assert!(
            rows.iter().all(|row| row["class"] == "red helmet"),
            "{rows:?}"
        );
    }

    #[test]
    fn step_without_descriptions_is_refused() {
        for names in [json!([]), json!([""])] {
            assert!(
                found(&names).unwrap_err().contains("class_names"),
                "{names}"
            );
        }
    }
}
