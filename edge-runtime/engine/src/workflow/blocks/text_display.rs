//! Draws text.

use watchkeeper_vision::draw::TextBox;

use super::super::uql::named_operations;
use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::drawing;
use crate::workflow::blocks::common::template::Template;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/text_display@v1",
    summary: "Draws text with values of the workflow on a picture.",
    properties: &[
        drawing::IMAGE,
        Property::literal("text", Shape::Text)
            .about("the text; {{ $parameters.name }} inserts a parameter"),
        Property::dict("text_parameters").about("the parameters, by name"),
        named_operations(
            "text_parameters_operations",
            "operations to apply to parameters first",
        ),
        Property::text("text_color", "WHITE").about("colour of the text"),
        Property::text("background_color", "BLACK")
            .about("colour behind the text; \"transparent\" for none"),
        Property::share("background_opacity", 1.0).about("opacity of the background, 0 to 1"),
        Property::value_or("font_scale", Shape::Number(0.1, 10.0), Or::Float(1.0))
            .about("size of the text"),
        Property::value_or("font_thickness", Shape::Integer(1, 10), Or::Int(2))
            .without_effect("kept for compatibility: the weight of the text is fixed"),
        Property::value_or("padding", Shape::at_least(0), Or::Int(10))
            .about("pixels around the text"),
        Property::choice("text_align", &names_of(&ALIGNMENTS), "left")
            .about("alignment of shorter lines"),
        Property::value_or("border_radius", Shape::at_least(0), Or::Int(0))
            .about("radius of the corners in pixels"),
        Property::choice("position_mode", &["absolute", "relative"], "relative").about(
            "whether the position is absolute in pixels or relative to a side of the picture",
        ),
        Property::integer("position_x", 0).about("pixels from the left"),
        Property::integer("position_y", 0).about("pixels from the top"),
        Property::choice(
            "anchor",
            &[
                "center",
                "top_left",
                "top_center",
                "top_right",
                "bottom_left",
                "bottom_center",
                "bottom_right",
                "center_left",
                "center_right",
            ],
            "top_left",
        )
        .about("the side or corner of the picture"),
        Property::integer("offset_x", 10).about("horizontal distance from it in pixels"),
        Property::integer("offset_y", 10).about("vertical distance from it in pixels"),
        drawing::COPY,
    ],
    build: |setup| {
        let text = Template::of(setup, "text")?;
        Ok(Box::new(move |call: &mut Call<'_>| draw(call, &text)))
    },
    ..drawing::BASE
}];

/// Share of the free space to the left of a line.
const ALIGNMENTS: [(&str, f64); 3] = [("left", 0.0), ("center", 0.5), ("right", 1.0)];

fn draw(call: &mut Call<'_>, text: &Template) -> Result<(), String> {
    let words = text.fill(call)?;
    let background = call.arg(arg!("background_color"));
    let is_clear = background
        .as_str()
        .is_some_and(|t| t.eq_ignore_ascii_case("transparent"));
    let text = TextBox {
        color: drawing::color_of_value(call.arg(arg!("text_color")))?,
        background: if is_clear {
            Color::INK
        } else {
            drawing::color_of_value(background)?
        },
        opacity: if is_clear {
            0.0
        } else {
            call.number(arg!("background_opacity"))?
        },
        scale: call.number(arg!("font_scale"))?,
        padding: call.number(arg!("padding"))?,
        radius: call.number(arg!("border_radius"))?,
    };
    let align = call.choice(arg!("text_align"), &ALIGNMENTS)?;
    let place = TextPosition::read(call)?;
    drawing::put(call, move |canvas: &mut Canvas<'_>| {
        let lines: Vec<&str> = words.lines().collect();
        let [width, height] = text.measure(&lines);
        let (x, y) = match place {
            TextPosition::At(x, y) => (x, y),
            TextPosition::Beside([x, y], [dx, dy]) => (
                (canvas.width() - width) * x + dx,
                (canvas.height() - height) * y + dy,
            ),
        };
        text.draw(canvas, Point::new(x, y), &lines, align);
    })
}

/// Position of the upper left corner of the text.
#[derive(Debug, Clone, Copy)]
enum TextPosition {
    At(f64, f64),
    /// Shares of the free space, and offset in pixels.
    Beside([f64; 2], [f64; 2]),
}

impl TextPosition {
    fn read(call: &Call<'_>) -> Result<Self, String> {
        if call.text(arg!("position_mode"))? == "absolute" {
            Ok(Self::At(
                call.number(arg!("position_x"))?,
                call.number(arg!("position_y"))?,
            ))
        } else {
            let name = call.text(arg!("anchor"))?;
            // Position of the text box in the free space, and direction of its offset.
            let share = |low: &str, high: &str| {
                if name.contains(low) {
                    (0.0, 1.0)
                } else if name.contains(high) {
                    (1.0, -1.0)
                } else {
                    (0.5, 1.0)
                }
            };
            let (x, x_way) = share("left", "right");
            let (y, y_way) = share("top", "bottom");
            let offset = [
                call.number(arg!("offset_x"))? * x_way,
                call.number(arg!("offset_y"))? * y_way,
            ];
            Ok(Self::Beside([x, y], offset))
        }
    }
}
