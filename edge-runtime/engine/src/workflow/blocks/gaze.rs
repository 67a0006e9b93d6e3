//! Estimates gaze directions of faces.

use crate::workflow::block_api::host::Gaze;
use crate::workflow::block_api::prelude::*;

/// The model of every step.
const MODEL: &str = "gaze/L2CS";

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/gaze@v1",
    summary: "Estimates the gaze of faces: a horizontal and a vertical angle for each.",
    role: Role::OtherModel(Task::Gaze),
    properties: &[
        IMAGES,
        Property::boolean("do_run_face_detection", true)
            .about("whether to detect faces; otherwise the whole picture is one face"),
    ],
    outputs: &[
        Output::new("face_predictions", &[Kind::Keypoints]),
        Output::new("yaw_degrees", &[Kind::Float]),
        Output::new("pitch_degrees", &[Kind::Float]),
    ],
    batch: &["images"],
    model: |_| Some(MODEL.to_owned()),
    build: |_| Ok(Box::new(run)),
    ..Manifest::of("model")
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let image = call.image(arg!("images"))?;
    let finds_faces = call.boolean(arg!("do_run_face_detection"))?;
    let gazes = call.host.gaze(MODEL, image, finds_faces)?;
    let mut faces = Detections {
        boxes: Vec::with_capacity(gazes.len()),
        size: image.size(),
    };
    for gaze in &gazes {
        let id = call.new_id();
        let mut face = Detection::new(gaze.face, gaze.confidence, 0, "face", id);
        face.extra_mut().keypoints = Some(Arc::default());
        faces.boxes.push(face);
    }
    image.stamp(&mut faces);
    let angles =
        |of: fn(&Gaze) -> f64| Value::list(gazes.iter().map(|g| Value::Float(of(g))).collect());
    call.put(1, angles(|g| g.yaw));
    call.put(2, angles(|g| g.pitch));
    call.finish(faces)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::tests::bench::{Bench, picture};
    use super::Kind;

    #[test]
    fn faces_and_angles_have_one_order() {
        let step = json!({"type": "roboflow_core/gaze@v1", "images": "$inputs.image", "do_run_face_detection": false});
        let mut bench = Bench::new(step, &[("image", Kind::Image)]);
        let out = bench
            .feed(&[("image", picture(1, [40, 20], |_, _| [5; 3]))])
            .unwrap();
        assert_eq!(out["face_predictions"]["predictions"][0]["width"], 40.0);
        assert_eq!(out["yaw_degrees"], json!([-30.0]));
        assert_eq!(out["pitch_degrees"], json!([10.0]));
    }
}
