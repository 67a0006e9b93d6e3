//! Draws keypoints.

use watchkeeper_vision::draw::TextBox;

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::drawing;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/keypoint_visualization@v1",
    summary: "Draws keypoints: as points, with their names, or joined to a skeleton.",
    properties: &[
        drawing::IMAGE,
        drawing::COPY,
        Property::data("predictions", &[Kind::Keypoints]).about("detections with keypoints"),
        Property::literal_one_of("annotator_type", &["edge", "vertex", "vertex_label"])
            .about("whether to draw lines, points, or points with names"),
        Property::text("color", "#A351FB").about("the colour"),
        Property::text("text_color", "black").about("colour of the names"),
        Property::number("text_scale", 0.5).about("size of the names"),
        Property::integer("text_thickness", 1)
            .without_effect("kept for compatibility: the weight of the text is fixed"),
        Property::integer("text_padding", 10).about("pixels around the names"),
        Property::integer("thickness", 2).about("width of lines in pixels"),
        Property::integer("radius", 10).about("radius of points in pixels"),
        Property::optional("edges", Shape::List)
            .about(
                "keypoints to join, as pairs of numbers from 1; by default the 17 points of a \
                 person in COCO",
            )
            .not_null(),
    ],
    build: |_| Ok(Box::new(run)),
    ..drawing::BASE
}];

/// The joined keypoints of a person in COCO, numbered from 1.
const PERSON: [(usize, usize); 19] = [
    (1, 2),
    (1, 3),
    (2, 3),
    (2, 4),
    (3, 5),
    (4, 6),
    (5, 7),
    (6, 7),
    (6, 8),
    (7, 9),
    (8, 10),
    (9, 11),
    (6, 12),
    (7, 13),
    (12, 13),
    (12, 14),
    (13, 15),
    (14, 16),
    (15, 17),
];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let color = drawing::color_of_value(call.arg(arg!("color")))?;
    let text = TextBox {
        color: drawing::color_of_value(call.arg(arg!("text_color")))?,
        background: color,
        opacity: 1.0,
        scale: call.number(arg!("text_scale"))?,
        padding: call.number(arg!("text_padding"))? / 4.0,
        radius: 0.0,
    };
    let kind = call.text(arg!("annotator_type"))?.to_owned();
    let thickness = call.number(arg!("thickness"))?;
    let radius = call.number(arg!("radius"))?;
    let edges = edges(call.arg(arg!("edges")))?;
    let detections = Arc::clone(call.detections(arg!("predictions"))?);
    drawing::put(call, move |canvas: &mut Canvas<'_>| {
        let all = detections.boxes.iter().filter_map(|d| d.keypoints());
        for points in all {
            if kind == "edge" {
                // A keypoint that was not found is at the origin.
                let at = |n: usize| {
                    points
                        .get(n.checked_sub(1)?)
                        .filter(|p| p.at != Point::default())
                };
                for (a, b) in &edges {
                    if let (Some(a), Some(b)) = (at(*a), at(*b)) {
                        canvas.segment(a.at, b.at, color, thickness, 1.0);
                    }
                }
                continue;
            }
            for p in points.iter().filter(|p| p.at != Point::default()) {
                canvas.disc(p.at, radius, color);
                if kind == "vertex_label" {
                    text.draw(canvas, p.at, &[&p.class], 0.0);
                }
            }
        }
    })
}

fn edges(value: &Value) -> Result<Vec<(usize, usize)>, String> {
    let Some(list) = value.as_list() else {
        return Ok(PERSON.to_vec());
    };
    let number = |v: &Value| usize::try_from(v.as_i64()?).ok();
    let pair = |v: &Value| match v.as_list()? {
        [a, b] => Some((number(a)?, number(b)?)),
        _ => None,
    };
    let pairs: Option<Vec<_>> = list.iter().map(pair).collect();
    pairs.ok_or_else(|| "edges has to be a list of pairs of numbers".to_owned())
}
