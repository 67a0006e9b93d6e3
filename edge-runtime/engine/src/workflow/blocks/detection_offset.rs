//! Grows or shrinks boxes around their centre.

use watchkeeper_vision::detections::{Origin, Place};

use crate::workflow::block_api::prelude::*;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/detection_offset@v1",
    summary: "Grows or shrinks boxes around their centre, by pixels or by percent of their size.",
    properties: &[
        Property::data("predictions", DETECTIONS).about("the boxes to change"),
        Property::value("offset_width", COUNT)
            .about("total change of the width")
            .alias(&["offset_x"]),
        Property::value("offset_height", COUNT)
            .about("total change of the height")
            .alias(&["offset_y"]),
        Property::literal_choice("units", &["Percent (%)", "Pixels"], "Pixels")
            .about("whether the offsets are pixels or percent of the box"),
    ],
    outputs: &[Output::new("predictions", DETECTIONS)],
    batch: &["predictions"],
    build: |_| Ok(Box::new(run)),
    keeps_classes: true,
    ..Manifest::of("transformation")
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let dx = call.number(arg!("offset_width"))?;
    let dy = call.number(arg!("offset_height"))?;
    let in_percent = call.text(arg!("units"))? == "Percent (%)";
    let mut out = Detections::clone(call.detections(arg!("predictions"))?);
    let size = out.size;
    let [width, height] = size.map(f64::from);
    for d in &mut out.boxes {
        let b = d.bbox;
        // Half to each side, rounded to whole pixels as by the peer; boxes stay in the picture.
        let (dx, dy) = if in_percent {
            (
                (b.width() * dx / 200.0).trunc(),
                (b.height() * dy / 200.0).trunc(),
            )
        } else {
            ((dx / 2.0).floor(), (dy / 2.0).floor())
        };
        let grown = b.grown(dx, dy);
        d.bbox = if width > 0.0 && height > 0.0 {
            grown.clip(width, height)
        } else {
            grown
        };
        // The original box is the parent.
        let old = std::mem::replace(&mut d.id, call.new_id());
        let extra = d.extra_mut();
        let found_in = extra.parent_id.replace(Arc::from(detection_id(&old)));
        // Input boxes lack the position of their picture.
        if extra.place.is_none() && extra.root_id.is_none() {
            let whole = Origin {
                offset: [0, 0],
                size,
            };
            extra.place = Some(Arc::new(Place {
                parent: whole,
                root_id: found_in.unwrap_or_else(|| Arc::from("image")),
                root: whole,
            }));
        }
    }
    call.finish(out)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::super::super::tests::bench::{Bench, boxes};
    use crate::workflow::language::kinds::Kind;

    fn grown(units: &str, by: i64, row: Json) -> [f64; 4] {
        let step = json!({
            "type": "DetectionOffset", "predictions": "$inputs.boxes",
            "offset_width": by, "offset_height": by, "units": units
        });
        let mut bench = Bench::new(step, &[("boxes", Kind::ObjectDetection)]);
        let out = bench.feed(&[("boxes", boxes([100, 100], &[row]))]).unwrap();
        let row = &out["predictions"]["predictions"][0];
        ["x", "y", "width", "height"].map(|key| row[key].as_f64().unwrap())
    }

    #[test]
    fn box_grows_around_its_centre_by_pixels_or_percent() {
        let row = json!({"x": 50.0, "y": 50.0, "width": 20.0, "height": 40.0});
        assert_eq!(grown("Pixels", 10, row.clone()), [50.0, 50.0, 30.0, 50.0]);
        assert_eq!(grown("Percent (%)", 50, row), [50.0, 50.0, 30.0, 60.0]);
    }

    #[test]
    fn original_box_is_the_parent_and_the_picture_the_root() {
        let step = json!({
            "type": "DetectionOffset", "predictions": "$inputs.boxes", "offset_width": 4, "offset_height": 4
        });
        let mut bench = Bench::new(step, &[("boxes", Kind::ObjectDetection)]);
        let row =
            json!({"x": 50.0, "y": 50.0, "width": 20.0, "height": 40.0, "detection_id": "old"});
        let out = bench.feed(&[("boxes", boxes([100, 80], &[row]))]).unwrap();
        let row = &out["predictions"]["predictions"][0];
        assert_eq!(row["parent_id"], "old", "{row}");
        assert!(row["root_parent_id"].is_string(), "{row}");
    }

    #[test]
    fn box_stays_in_its_picture() {
        let row = json!({"x": 5.0, "y": 50.0, "width": 10.0, "height": 10.0});
        assert_eq!(grown("Pixels", 20, row), [10.0, 50.0, 20.0, 30.0]);
    }
}
