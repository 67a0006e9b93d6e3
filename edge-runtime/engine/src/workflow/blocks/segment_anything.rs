//! Segments objects in given boxes.

use watchkeeper_vision::mask::Mask;
use watchkeeper_vision::outline::around;

use super::clip::version;
use crate::workflow::block_api::prelude::*;

const VERSIONS: &[&str] = &["hiera_large", "hiera_small", "hiera_tiny", "hiera_b_plus"];
/// Maximum pixels of all masks of a picture, which are held together: one byte per pixel and mask.
const MAX_PIXELS: u64 = 64 << 20;
/// Maximum mask parts per picture.
const MAX_PARTS: usize = 4096;
/// Class of the mask if no boxes are given.
const FOREGROUND: &str = "foreground";

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/segment_anything@v1",
    summary: "Segments the objects in boxes, or the main object of a picture.",
    role: Role::OtherModel(Task::Prompted),
    properties: &[
        IMAGES,
        Property::optional_data("boxes", DETECTIONS)
            .about("the objects to segment; by default the main object of the picture"),
        version(VERSIONS, "hiera_tiny"),
        Property::number("threshold", 0.0)
            .about("minimum quality of a mask, as estimated by the model"),
        Property::value_or("multimask_output", Shape::Boolean, Or::Bool(true))
            .about(
                "whether a box may mean a part of the object; the best of several masks is used \
                 then",
            )
            .nullable(),
    ],
    outputs: &[Output::new("predictions", &[Kind::InstanceSegmentation])],
    batch: &["images", "boxes"],
    model: |known| Some(format!("sam2/{}", known("version")?)),
    build: |_| Ok(Box::new(run)),
    ..Manifest::of("model")
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let image = call.image(arg!("images"))?;
    let prompts = match call.arg(arg!("boxes")).is_null() {
        true => None,
        false => Some(call.detections(arg!("boxes"))?),
    };
    let prompts = prompts.map_or(&[][..], |all| all.boxes.as_slice());
    let model_id = format!("sam2/{}", call.text(arg!("version"))?);
    let least = call.number(arg!("threshold"))?;
    let several = call.boolean(arg!("multimask_output"))?;
    let boxes: Vec<BBox> = prompts.iter().map(|d| d.bbox).collect();
    let [width, height] = image.size();
    let each = (u64::from(width) * u64::from(height)).max(1);
    let most = (MAX_PIXELS / each).max(1);
    if boxes.len() as u64 > most {
        return Err(format!(
            "{} boxes are more than the {most} masks possible for a picture of {width}x{height}; \
             filter the boxes, or reduce the picture, before this step",
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
        // Each part of a mask is an object, the lowest first, as in the peer.
        for outline in said.mask.parts().into_iter().rev() {
            if outline.len() < 3 {
                continue;
            }
            let bbox = around(&outline);
            if found.boxes.len() == MAX_PARTS {
                return Err(format!(
                    "the masks have more than {MAX_PARTS} parts; the model does not fit such a \
                     picture"
                ));
            }
            let score = said.confidence.clamp(0.0, 1.0);
            let mut one = Detection::new(bbox, score, class_id, class.clone(), call.new_id());
            one.extra_mut().mask = Some(Arc::new(Mask::Polygon(outline)));
            found.boxes.push(one);
        }
    }
    image.stamp(&mut found);
    call.finish(found)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::super::super::tests::bench::{Bench, boxes, picture};
    use super::Kind;

    /// Results for a picture of 40x20, with further properties.
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
    fn too_many_masks_are_refused_with_the_remedy() {
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
        assert!(why.contains("the 4 masks possible"), "{why}");
    }

    #[test]
    fn each_mask_part_is_an_object_of_the_box_s_class() {
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
    fn mask_below_the_quality_is_dropped() {
        let small = json!({"x": 5.0, "y": 5.0, "width": 10.0, "height": 10.0});
        let large = json!({"x": 20.0, "y": 10.0, "width": 32.0, "height": 10.0, "class": "van"});
        let step = json!({"boxes": "$inputs.boxes", "threshold": 0.5, "multimask_output": false});
        let all = found(&[small, large], &step);
        assert!(all.len() == 1 && all[0]["class"] == "van", "{all:?}");
    }

    #[test]
    fn without_boxes_the_main_object_is_segmented() {
        for more in [json!({}), json!({"boxes": "$inputs.boxes"})] {
            let all = found(&[], &more);
            assert!(
                all.len() == 2 && all[0]["class"] == "foreground" && all[0]["x"] == 7.5,
                "{all:?}"
            );
        }
    }
}
