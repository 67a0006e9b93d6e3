//! Says which pixels belong to what boxes point at, by a model that the program around the workflow
//! runs.

use std::sync::Arc;

use watchkeeper_vision::detections::{Detection, Detections};
use watchkeeper_vision::geometry::BBox;
use watchkeeper_vision::mask::Mask;
use watchkeeper_vision::outline::around;

use super::clip::version;
use crate::workflow::block_api::block::{Block, Call};
use crate::workflow::block_api::host::Task;
use crate::workflow::block_api::manifest::{
    DETECTIONS, Default as Or, IMAGES, Manifest, NUMBER, Output, Property, Role, Shape,
};
use crate::workflow::language::kinds::Kind;

const VERSIONS: &[&str] = &["hiera_large", "hiera_small", "hiera_tiny", "hiera_b_plus"];
/// Most pixels of all masks of a picture: a mask has one byte for each pixel of the picture, and
/// the masks of a picture are made together.
const MOST_PIXELS: u64 = 64 << 20;
/// Most parts of masks that one picture is told with.
const MOST_PARTS: usize = 4096;
/// The class of what a picture shows where no box points at it.
const FOREGROUND: &str = "foreground";

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/segment_anything@v1",
    category: "model",
    summary: "Makes masks of what boxes point at, or of what a picture shows.",
    role: Role::Asker(Task::Prompted),
    properties: &[
        IMAGES,
        Property::data(
            "boxes",
            "what to make masks of; without any, of what the picture shows",
            DETECTIONS,
        )
        .or(Or::Null),
        version(VERSIONS, "hiera_tiny"),
        Property::value(
            "threshold",
            "how well a mask has to fit, as the model believes",
            NUMBER,
            &[Kind::Float],
        )
        .or(Or::Float(0.0)),
        Property::value(
            "multimask_output",
            "whether a box may mean a part of what it shows: the best of several masks is taken then",
            Shape::Boolean,
            &[Kind::Boolean],
        )
        .nullable()
        .or(Or::Bool(true)),
    ],
    outputs: &[Output::new("predictions", &[Kind::InstanceSegmentation])],
    batch: &["images", "boxes"],
    model: |known| Some(format!("sam2/{}", known("version")?)),
    build: |_| Ok(Box::new(Segment)),
    ..Manifest::BASE
}];

struct Segment;

impl Block for Segment {
    fn run(&self, call: &mut Call<'_>) -> Result<(), String> {
        let image = call.image(0)?;
        let prompts = match call.arg(1).is_null() {
            true => None,
            false => Some(call.detections(1)?),
        };
        let prompts = prompts.map_or(&[][..], |all| all.boxes.as_slice());
        let model_id = format!("sam2/{}", call.text(2)?);
        let least = call.number(3, 0.0)?;
        let several = call.boolean(4, true)?;
        let boxes: Vec<BBox> = prompts.iter().map(|d| d.bbox).collect();
        let [width, height] = image.size();
        let each = (u64::from(width) * u64::from(height)).max(1);
        let most = (MOST_PIXELS / each).max(1);
        if boxes.len() as u64 > most {
            return Err(format!(
                "{} boxes are more than the {most} of which masks are made in a picture of \
                {width}x{height}: filter the boxes, or make the picture smaller, before \
                this step",
                boxes.len()
            ));
        }
        let masks = call
            .host
            .segment_prompted(&model_id, image, &boxes, several)?;
        let mut found = Detections {
            boxes: Vec::with_capacity(masks.len()),
            size: image.size(),
        };
        for (i, said) in masks.iter().enumerate() {
            if said.confidence < least || said.confidence.is_nan() {
                continue;
            }
            let (class_id, class) = match prompts.get(i) {
                Some(prompt) => (prompt.class_id, Arc::clone(&prompt.class)),
                None => (0, Arc::from(FOREGROUND)),
            };
            // Each part of a mask is an object of its own, the lowest first, as with the peer.
            for outline in said.mask.parts().into_iter().rev() {
                if outline.len() < 3 {
                    continue;
                }
                let bbox = around(&outline);
                if found.boxes.len() == MOST_PARTS {
                    return Err(format!(
                        "the masks have more than {MOST_PARTS} parts: this is no model for such a picture"
                    ));
                }
                let score = said.confidence.clamp(0.0, 1.0);
                let mut one = Detection::new(bbox, score, class_id, class.clone(), call.new_id());
                one.extra_mut().mask = Some(Arc::new(Mask::Polygon(outline)));
                found.boxes.push(one);
            }
        }
        image.stamp(&mut found);
        call.put(0, found);
        Ok(())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failing test may panic")]
mod tests {
    use serde_json::{Value as Json, json};

    use super::super::super::tests::bench::{Bench, boxes, picture};
    use super::Kind;

    /// What is found in a picture of 40x20, with what stands in the step besides.
    fn found(prompts: &[Json], more: &Json) -> Vec<Json> {
        let mut step =
            json!({"type": "roboflow_core/segment_anything@v1", "images": "$inputs.image"});
        for (key, value) in more.as_object().unwrap() {
            step[key] = value.clone();
        }
        let inputs = [("image", Kind::Image), ("boxes", Kind::ObjectDetection)];
        let mut bench = Bench::new(step, &inputs);
        let image = picture(1, [40, 20], |_, _| [5; 3]);
        let given = [("image", image), ("boxes", boxes([40, 20], prompts))];
        let out = bench.feed(&given).unwrap();
        out["predictions"]["predictions"]
            .as_array()
            .unwrap()
            .clone()
    }

    #[test]
    fn more_masks_than_memory_has_room_for_are_refused_with_what_to_do() {
        let step = json!({"type": "roboflow_core/segment_anything@v1", "images": "$inputs.image", "boxes": "$inputs.boxes"});
        let inputs = [("image", Kind::Image), ("boxes", Kind::ObjectDetection)];
        let size = [4096, 4096];
        let prompts: Vec<Json> = (0..5)
            .map(|n| json!({"x": 10 + n, "y": 10, "width": 8, "height": 8, "class": "person", "class_id": 0, "confidence": 0.9}))
            .collect();
        let mut bench = Bench::new(step, &inputs);
        let given = [
            ("image", picture(1, size, |_, _| [5; 3])),
            ("boxes", boxes(size, &prompts)),
        ];
        let why = bench.feed(&given).unwrap_err();
        assert!(why.contains("the 4 of which"), "{why}");
    }

    #[test]
    fn each_part_of_the_mask_of_a_box_is_an_object_of_the_class_of_the_box() {
        let dog = json!({"x": 20.0, "y": 10.0, "width": 20.0, "height": 10.0, "class": "dog", "class_id": 7});
        let all = found(
            std::slice::from_ref(&dog),
            &json!({"boxes": "$inputs.boxes"}),
        );
        assert_eq!(all.len(), 2, "{all:?}");
        for one in &all {
            assert_eq!(
                (&one["class"], &one["class_id"]),
                (&json!("dog"), &json!(7))
            );
            assert_eq!((&one["width"], &one["height"]), (&json!(3.0), &json!(3.0)));
            assert_eq!(one["confidence"], 0.5);
            assert_eq!(one["points"].as_array().unwrap().len(), 4);
        }
        let whole = json!({"boxes": "$inputs.boxes", "multimask_output": false});
        assert_eq!(found(&[dog], &whole).len(), 1);
    }

    #[test]
    fn a_mask_that_fits_too_badly_is_left_out() {
        let small = json!({"x": 5.0, "y": 5.0, "width": 10.0, "height": 10.0});
        let large = json!({"x": 20.0, "y": 10.0, "width": 32.0, "height": 10.0, "class": "van"});
        let step = json!({"boxes": "$inputs.boxes", "threshold": 0.5, "multimask_output": false});
        let all = found(&[small, large], &step);
        assert!(all.len() == 1 && all[0]["class"] == "van", "{all:?}");
    }

    #[test]
    fn without_a_box_the_mask_is_of_what_the_picture_shows() {
        for more in [json!({}), json!({"boxes": "$inputs.boxes"})] {
            let all = found(&[], &more);
            assert!(
                all.len() == 2 && all[0]["class"] == "foreground" && all[0]["x"] == 7.5,
                "{all:?}"
            );
        }
    }
}
