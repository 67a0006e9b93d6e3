//! Measures objects by a reference of known size.

use watchkeeper_vision::geometry::polygon_area;
use watchkeeper_vision::outline::min_area_rect;

use crate::workflow::block_api::prelude::*;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/size_measurement@v1",
    summary: "Measures width and height of objects by a reference object, or four corners, of \
              known size.",
    properties: &[
        Property::data("object_predictions", BOXES).about("the objects to measure"),
        Property::value("reference_predictions", Shape::Points)
            .about("detections whose best one is the reference object, or its corners")
            .kinds(&[
                Kind::InstanceSegmentation,
                Kind::ObjectDetection,
                Kind::ListOfValues,
            ]),
        Property::value(
            "reference_dimensions",
            Shape::OneOf(&[Shape::Text, Shape::ListOf(&NUMBER, 0, usize::MAX)]),
        )
        .about("width and height of the reference, as a list or as text such as \"5.0,4.0\"")
        .kinds(&[Kind::Text, Kind::ListOfValues]),
    ],
    outputs: &[Output::new("dimensions", &[Kind::ListOfValues])],
    build: |_| Ok(Box::new(run)),
    ..Manifest::of("transformation")
}];

/// Width and height in the unit of the dimensions.
fn dimensions(value: &Value) -> Result<[f64; 2], String> {
    let numbers = match value {
        Value::Text(text) => text.split(',').map(|n| n.trim().parse().ok()).collect(),
        other => other.as_numbers(),
    };
    match numbers.as_deref() {
        Some(&[width, height]) => Ok([width, height]),
        _ => Err("reference_dimensions has to be a width and a height".to_owned()),
    }
}

/// Width and height of an outline: the sides of the smallest rotated rectangle around it, the
/// flatter one first.
fn aligned(outline: &[Point]) -> Option<[f64; 2]> {
    if polygon_area(outline) <= 0.0 {
        return None;
    }
    let r = min_area_rect(outline)?;
    // Angle between a side and the horizontal.
    let slant = |degrees: f64| {
        let turn = degrees.rem_euclid(180.0);
        turn.min(180.0 - turn)
    };
    // Rounding must not decide for a rectangle at 45 degrees.
    if slant(r.angle + 90.0) + 1e-6 < slant(r.angle) {
        Some([r.height, r.width])
    } else {
        Some([r.width, r.height])
    }
}

fn size_of(d: &Detection, picture: [u32; 2]) -> Option<[f64; 2]> {
    match d.mask() {
        None => Some([d.bbox.width(), d.bbox.height()]),
        Some(mask) => aligned(&mask.bitmap(picture).largest_outline()?),
    }
}

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let all = call.detections(arg!("object_predictions"))?;
    let known = dimensions(call.arg(arg!("reference_dimensions")))?;
    let reference = match call.arg(arg!("reference_predictions")) {
        Value::Detections(reference) => {
            let surest = reference
                .boxes
                .iter()
                .rev()
                .max_by(|a, b| a.confidence.total_cmp(&b.confidence));
            surest.and_then(|d| size_of(d, reference.size))
        }
        corners => aligned(
            &corners
                .as_points()
                .ok_or("reference_predictions has to be detections or points")?,
        ),
    };
    let Some(reference) = reference.filter(|r| r.iter().all(|n| *n != 0.0)) else {
        return Ok(());
    };
    let scale = [known[0] / reference[0], known[1] / reference[1]];
    let sizes = all.boxes.iter().map(|d| {
        let size = size_of(d, all.size).filter(|s| s.iter().all(|n| *n > 0.0));
        let Some([width, height]) = size else {
            return Value::Null;
        };
        let (width, height) = (width * scale[0], height * scale[1]);
        Value::dict([
            ("width", Value::Float(width)),
            ("height", Value::Float(height)),
            ("longer", Value::Float(width.max(height))),
            ("shorter", Value::Float(width.min(height))),
        ])
    });
    call.finish(sizes.collect::<Vec<_>>())
}
