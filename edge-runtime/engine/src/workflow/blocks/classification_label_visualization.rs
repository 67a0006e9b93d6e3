//! Draws the classes of a whole picture.

use watchkeeper_vision::draw::{ColorBy, TextBox, palette};

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::drawing;

const TEXTS: Shape = Shape::Choice(&["Class", "Confidence", "Class and Confidence"]);

const fn look(name: &'static str, shape: Shape, default: Or) -> Property {
    Property::value_or(name, shape, default).inputs_only()
}

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/classification_label_visualization@v1",
    summary: "Writes the classes of a picture on it.",
    properties: &[
        drawing::IMAGE,
        drawing::COPY,
        Property::data("predictions", &[Kind::Classification])
            .about("the classes of the picture")
            .outputs_only(),
        drawing::PALETTE,
        drawing::PALETTE_SIZE,
        drawing::CUSTOM_COLORS,
        drawing::COLOR_AXIS,
        look("text", TEXTS, Or::Text("Class")).about("content of a label"),
        look("text_position", BOX_ANCHORS, Or::Text("TOP_LEFT"))
            .about("position of the labels in the picture"),
        look("text_color", Shape::Text, Or::Text("WHITE")).about("colour of the text"),
        look("text_scale", NUMBER, Or::Float(1.0)).about("size of the letters"),
        look("text_thickness", INTEGER, Or::Int(1))
            .without_effect("kept for compatibility: the weight of the text is fixed"),
        look("text_padding", INTEGER, Or::Int(10)).about("pixels around the text"),
        look("border_radius", INTEGER, Or::Int(0)).about("radius of the corners in pixels"),
    ],
    build: |_| Ok(Box::new(run)),
    ..drawing::BASE
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let by_class = drawing::color_by(call)?;
    let what = call.text(arg!("text"))?;
    let text = TextBox {
        color: drawing::color_of_value(call.arg(arg!("text_color")))?,
        background: Color::INK,
        opacity: 1.0,
        scale: call.number(arg!("text_scale"))?,
        padding: call.number(arg!("text_padding"))?,
        radius: call.number(arg!("border_radius"))?,
    };
    let anchor = call.anchor(arg!("text_position"))?;
    let labels: Vec<(String, Color)> = classes(call.arg(arg!("predictions")))
        .into_iter()
        .enumerate()
        .map(|(i, (class, id, confidence))| {
            let label = match what {
                "Confidence" => format!("{confidence:.2}"),
                "Class and Confidence" => format!("{class} {confidence:.2}"),
                _ => class,
            };
            let index = i64::try_from(i).unwrap_or(0);
            (
                label,
                palette::color(if by_class == ColorBy::Index {
                    index
                } else {
                    id
                }),
            )
        })
        .collect();
    drawing::put(call, move |canvas: &mut Canvas<'_>| {
        let whole = BBox::new(0.0, 0.0, canvas.width(), canvas.height());
        let at = whole.anchor(anchor);
        let sizes = labels.iter().map(|(label, _)| text.measure(&[label]));
        let height: f64 = sizes.map(|[_, h]| h).sum();
        let mut y = (at.y - height * at.y / whole.y2.max(1.0)).max(0.0);
        for (label, color) in &labels {
            let [w, h] = text.measure(&[label]);
            let x = (at.x - w * at.x / whole.x2.max(1.0)).max(0.0);
            let text = TextBox {
                background: *color,
                ..text
            };
            text.draw(canvas, Point::new(x, y), &[label], 0.0);
            y += h;
        }
    })
}

/// Name, id and score of the classes in a result: the best one, or all above the threshold.
fn classes(predictions: &Value) -> Vec<(String, i64, f64)> {
    let text = |v: Option<&Value>| v.and_then(Value::as_str).unwrap_or_default().to_owned();
    let number = |v: Option<&Value>| v.and_then(Value::as_f64).unwrap_or(0.0);
    let whole = |v: Option<&Value>| v.and_then(Value::as_i64).unwrap_or(0);
    match (
        predictions.get("predicted_classes"),
        predictions.get("predictions"),
    ) {
        (Some(names), Some(scores)) => {
            let names = names
                .as_list()
                .unwrap_or_default()
                .iter()
                .filter_map(Value::as_str);
            let of = |name: &str| scores.get(name).cloned().unwrap_or_default();
            let row = |name: &str| {
                (
                    name.to_owned(),
                    whole(of(name).get("class_id")),
                    number(of(name).get("confidence")),
                )
            };
            names.map(row).collect()
        }
        (None, Some(Value::List(rows))) => {
            let top = text(predictions.get("top"));
            let best = rows.iter().find(|r| text(r.get("class")) == top);
            let best = best.map(|r| (top, whole(r.get("class_id")), number(r.get("confidence"))));
            best.into_iter().collect()
        }
        _ => Vec::new(),
    }
}
