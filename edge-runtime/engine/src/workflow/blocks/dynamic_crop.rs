//! Crops each detected object.

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::drawing::color_of_value;
use crate::workflow::values::image::Packed;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/dynamic_crop@v1",
    summary: "Crops each detected object from its picture.",
    properties: &[
        IMAGES.about("the pictures to cut from"),
        Property::data("predictions", DETECTIONS)
            .about("what to cut out")
            .alias(&["detections"]),
        Property::share("mask_opacity", 0.0)
            .about("opacity of the background outside of a mask, 0 to 1"),
        Property::value_or("background_color", COLOR, Or::Json("[0, 0, 0]"))
            .about("colour outside of a mask: [r, g, b], #rrggbb or a name")
            .kinds(&[Kind::Text, Kind::RgbColor]),
    ],
    outputs: &[
        Output::new("crops", &[Kind::Image]),
        Output::new("predictions", DETECTIONS),
    ],
    depth: Depth::Deeper,
    batch: &["images", "predictions"],
    build: |_| Ok(Box::new(run)),
    keeps_classes: true,
    ..Manifest::of("transformation")
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let image = call.image(arg!("images"))?;
    let all = call.detections(arg!("predictions"))?;
    let opacity = call.number(arg!("mask_opacity"))?.clamp(0.0, 1.0);
    let background = color_of_value(call.arg(arg!("background_color")))?;
    let mut crops = Vec::with_capacity(all.boxes.len());
    let mut within = Vec::with_capacity(all.boxes.len());
    for (i, d) in all.boxes.iter().enumerate() {
        let Some((crop, start)) = cut(image, d) else {
            crops.push(Value::Null);
            within.push(Value::Null);
            continue;
        };
        let moved = d.moved([-start[0], -start[1]], all.size);
        let crop = match moved.mask() {
            Some(_) if opacity > 0.0 => cover(&crop, &moved, opacity, background),
            _ => crop,
        };
        crops.push(crop.into());
        let mut one = all.pick([i]);
        one.boxes = vec![moved];
        within.push(one.into());
    }
    call.finish_all((crops, within))
}

/// The part of the picture covered by a box, in whole pixels, and its upper left corner; `None` if
/// empty.
fn cut(image: &ImageValue, d: &Detection) -> Option<(ImageValue, [i64; 2])> {
    let whole = |x: f64| x.round_ties_even() as i64;
    let b = d.bbox;
    // Beyond the picture there is nothing to cut.
    let start = [whole(b.x1).max(0), whole(b.y1).max(0)];
    let end = [whole(b.x2), whole(b.y2)];
    let crop = image.crop(start, end, Arc::from(detection_id(&d.id)))?;
    Some((crop, start))
}

/// Draws the background over the part of the crop outside of the mask.
fn cover(crop: &ImageValue, d: &Detection, opacity: f64, background: Color) -> ImageValue {
    let Some(mask) = d.mask() else {
        return crop.clone();
    };
    let size = crop.size();
    let bitmap = mask.bitmap(size);
    let mut picture = RgbPixels::clone(&crop.pixels.rgb());
    let paint = [background.r, background.g, background.b];
    let width = size[0].max(1) as usize;
    for (i, pixel) in picture.data.chunks_exact_mut(3).enumerate() {
        if !bitmap.at(i % width, i / width) {
            for (sample, paint) in pixel.iter_mut().zip(paint) {
                let mixed = f64::from(*sample) * (1.0 - opacity) + f64::from(paint) * opacity;
                let byte = mixed.round() as u8;
                *sample = byte;
            }
        }
    }
    crop.with_pixels(Arc::new(Packed(Arc::new(picture))))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::tests::bench::{Bench, boxes, picture};
    use super::{Kind, Value};
    use watchkeeper_vision::detections::Detections;

    fn bench(extra: &serde_json::Value) -> Bench {
        let mut step = json!({
            "type": "DynamicCrop", "image": "$inputs.image", "predictions": "$inputs.boxes"
        });
        for (key, value) in extra.as_object().unwrap() {
            step[key] = value.clone();
        }
        Bench::new(
            step,
            &[
                ("image", Kind::Image),
                ("boxes", Kind::InstanceSegmentation),
            ],
        )
    }

    fn frame() -> Value {
        picture(1, [64, 48], |x, y| [x as u8, y as u8, 7])
    }

    #[test]
    fn each_object_becomes_a_crop_with_its_position() {
        let mut bench = bench(&json!({}));
        let rows = [
            json!({"x": 20.0, "y": 20.0, "width": 10.0, "height": 8.0}),
            json!({"x": 900.0, "y": 20.0, "width": 10.0, "height": 8.0}),
        ];
        let out = bench
            .feed(&[("image", frame()), ("boxes", boxes([64, 48], &rows))])
            .unwrap();
        let crop = &out[0]["crops"];
        assert_eq!((&crop["width"], &crop["height"]), (&json!(10), &json!(8)));
        assert_eq!(crop["parent_origin"]["offset_x"], 15);
        assert_eq!(crop["root_parent_id"], "image");
        assert_eq!(out[1]["crops"], json!(null), "what lies outside is missing");
        let within = &out[0]["predictions"]["predictions"][0];
        assert_eq!((&within["x"], &within["y"]), (&json!(5.0), &json!(4.0)));
        let Some(Value::Image(image)) = bench.value("crops") else {
            panic!("no picture");
        };
        assert_eq!(&image.pixels.rgb().data[..3], [15, 16, 7]);
    }

    #[test]
    fn box_beyond_the_picture_keeps_its_position_in_the_crop() {
        let row = json!({"x": 5.0, "y": 20.0, "width": 20.0, "height": 8.0});
        let mut bench = bench(&json!({}));
        let out = bench
            .feed(&[("image", frame()), ("boxes", boxes([64, 48], &[row]))])
            .unwrap();
        assert_eq!(out[0]["crops"]["width"], 15);
        let within = &out[0]["predictions"]["predictions"][0];
        assert_eq!(
            within["x"], 5.0,
            "as in the picture, whose left edge the crop has"
        );
    }

    #[test]
    fn background_covers_the_outside_of_the_mask() {
        let mut bench = bench(&json!({"mask_opacity": 1.0, "background_color": "#ff0000"}));
        let row = json!({
            "x": 5.0, "y": 5.0, "width": 10.0, "height": 10.0,
            "points": [{"x": 0, "y": 0}, {"x": 3, "y": 0}, {"x": 3, "y": 3}, {"x": 0, "y": 3}]
        });
        bench
            .feed(&[("image", frame()), ("boxes", boxes([64, 48], &[row]))])
            .unwrap();
        let Some(Value::Image(image)) = bench.value("crops") else {
            panic!("no picture");
        };
        let data = &image.pixels.rgb().data;
        assert_eq!(&data[..3], [0, 0, 7]);
        assert_eq!(&data[data.len() - 3..], [255, 0, 0]);
    }

    #[test]
    fn no_objects_make_no_crops() {
        let mut bench = bench(&json!({}));
        let none = Value::from(Detections::none([64, 48]));
        let out = bench.feed(&[("image", frame()), ("boxes", none)]).unwrap();
        assert_eq!(out, json!([]));
    }
}
