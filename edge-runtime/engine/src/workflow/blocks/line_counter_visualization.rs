//! Draws a line with its counts.

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::drawing;
use crate::workflow::blocks::common::ink::Ink;

/// A property that is accepted for compatibility without effect.
const fn look(name: &'static str, shape: Shape, default: Or) -> Property {
    Property::value(name, shape)
        .about("kept for compatibility: the style of the line is fixed")
        .or(default)
}

const ENDS: Property = Property::value("zone", Shape::Points)
    .about("the two ends of the line, [[x, y], [x, y]] in pixels");
const COLOR: Property = look("color", Shape::Text, Or::Text("#5bb573"));
const THICKNESS: Property = look("thickness", INTEGER, Or::Int(2));
const TEXT_THICKNESS: Property = look("text_thickness", INTEGER, Or::Int(1));
const TEXT_SCALE: Property = look("text_scale", NUMBER, Or::Float(1.0));
const COUNT_IN: Property = Property::integer("count_in", 0).about("crossings in");
const COUNT_OUT: Property = Property::integer("count_out", 0).about("crossings out");
const OPACITY: Property = look("opacity", SHARE, Or::Float(0.3));

const PEER: Manifest = Manifest {
    name: "roboflow_core/line_counter_visualization@v1",
    summary: "Draws a counting line with its inward direction and counts.",
    properties: &[
        drawing::IMAGE,
        drawing::COPY,
        ENDS,
        COLOR,
        THICKNESS,
        TEXT_THICKNESS,
        TEXT_SCALE,
        COUNT_IN,
        COUNT_OUT,
        OPACITY,
    ],
    build: |_| Ok(Box::new(run)),
    ..drawing::BASE
};
pub(super) const BLOCKS: &[Manifest] = &[
    PEER,
    Manifest {
        name: "watchkeeper/line_counter_visualization@v1",
        summary: "Draws a counting line with its name, inward direction and counts.",
        properties: &[
            drawing::IMAGE,
            drawing::COPY,
            ENDS,
            COLOR,
            THICKNESS,
            TEXT_THICKNESS,
            TEXT_SCALE,
            COUNT_IN,
            COUNT_OUT,
            OPACITY,
            drawing::LABEL,
        ],
        ..PEER
    },
];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let points = call.arg(arg!("zone")).as_points();
    let Some([start, end]) = points.as_deref() else {
        return Err("a line is two points, [[x, y], [x, y]]".to_owned());
    };
    let counts = format!(
        "in {}  out {}",
        call.integer(arg!("count_in"))?.max(0),
        call.integer(arg!("count_out"))?.max(0)
    );
    let name = call
        .optional(arg!("label"), Call::text)?
        .unwrap_or_default();
    let ink = Ink::Line {
        start: *start,
        end: *end,
        label: if name.is_empty() {
            counts
        } else {
            format!("{name}: {counts}")
        },
    };
    drawing::put(call, ink)
}
