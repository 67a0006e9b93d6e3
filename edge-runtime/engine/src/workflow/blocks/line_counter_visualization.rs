//! Draws a line with its counts.

use watchkeeper_vision::draw::{self, Labels};

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::drawing::{self, Paint};

/// A property that is accepted for compatibility without effect.
const fn look(name: &'static str, shape: Shape, default: Or) -> Property {
    Property::value(name, shape)
        .without_effect("kept for compatibility: the style of the line is fixed")
        .or(default)
}

const PROPERTIES: &[Property; 11] = &[
    drawing::IMAGE,
    drawing::COPY,
    Property::value("zone", Shape::Points)
        .about("the two ends of the line, [[x, y], [x, y]] in pixels"),
    look("color", Shape::Text, Or::Text("#5bb573")),
    look("thickness", INTEGER, Or::Int(2)),
    look("text_thickness", INTEGER, Or::Int(1)),
    look("text_scale", NUMBER, Or::Float(1.0)),
    Property::integer("count_in", 0).about("crossings in"),
    Property::integer("count_out", 0).about("crossings out"),
    look("opacity", SHARE, Or::Float(0.3)),
    drawing::LABEL,
];
const PEER: Manifest = Manifest {
    name: "roboflow_core/line_counter_visualization@v1",
    summary: "Draws a counting line with its inward direction and counts.",
    properties: {
        let [without_label @ .., _] = PROPERTIES;
        without_label
    },
    build: |_| Ok(Box::new(run)),
    ..drawing::BASE
};
pub(super) const BLOCKS: &[Manifest] = &[
    PEER,
    Manifest {
        name: "watchkeeper/line_counter_visualization@v1",
        summary: "Draws a counting line with its name, inward direction and counts.",
        properties: PROPERTIES,
        ..PEER
    },
];

struct Line {
    start: Point,
    end: Point,
    label: String,
}

impl Paint for Line {
    fn paint(&self, canvas: &mut Canvas<'_>) {
        draw::line(canvas, self.start, self.end);
    }

    fn labels(&self, labels: &mut Labels) {
        labels.add_line(self.start, self.end, self.label.clone(), Color::WHITE);
    }
}

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
    let line = Line {
        start: *start,
        end: *end,
        label: if name.is_empty() {
            counts
        } else {
            format!("{name}: {counts}")
        },
    };
    drawing::put(call, line)
}
