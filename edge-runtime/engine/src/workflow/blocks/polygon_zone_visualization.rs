//! Draws a zone.

use watchkeeper_vision::draw::{self, Labels, distinct};

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::drawing::{self, Paint};

const ZONE: Property =
    Property::value("zone", Shape::Points).about("corners of the zone, [[x, y], …] in pixels");
const COLOR: Property = Property::text("color", "#5bb573").about("colour of the zone");
const OPACITY: Property = Property::share("opacity", 0.3).about("opacity of the fill");

const PEER: Manifest = Manifest {
    name: "roboflow_core/polygon_zone_visualization@v1",
    summary: "Draws a zone over the picture.",
    properties: &[drawing::IMAGE, drawing::COPY, ZONE, COLOR, OPACITY],
    build: |_| Ok(Box::new(run)),
    ..drawing::BASE
};
pub(super) const BLOCKS: &[Manifest] = &[
    PEER,
    Manifest {
        name: "watchkeeper/polygon_zone_visualization@v1",
        summary: "Draws a zone over the picture, with its name and the number of objects in it.",
        properties: &[
            drawing::IMAGE,
            drawing::COPY,
            ZONE,
            COLOR,
            OPACITY,
            drawing::LABEL,
            Property::optional_data("detections", ANY_DETECTIONS)
                .about("the objects in the zone, to count: result of a time-in-zone step"),
        ],
        ..PEER
    },
];

struct Zones {
    polygons: Vec<Vec<Point>>,
    color: Color,
    opacity: f64,
    /// Text at the first polygon.
    label: String,
}

impl Paint for Zones {
    fn paint(&self, canvas: &mut Canvas<'_>) {
        for polygon in &self.polygons {
            draw::zone(canvas, polygon, self.color, self.opacity);
        }
    }

    fn labels(&self, labels: &mut Labels) {
        if let Some(polygon) = self.polygons.first() {
            labels.add_zone(polygon, self.label.clone(), self.color);
        }
    }
}

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let name = call
        .optional(arg!("label"), Call::text)?
        .unwrap_or_default();
    let present = call.optional(arg!("detections"), Call::detections)?;
    let present = present.map(|all| distinct(all).len());
    let zones = Zones {
        polygons: call.arg(arg!("zone")).as_polygons()?,
        color: drawing::color(call.text(arg!("color"))?)?,
        opacity: call.number(arg!("opacity"))?.clamp(0.0, 1.0),
        label: match present {
            Some(present) if name.is_empty() => present.to_string(),
            Some(present) => format!("{name}: {present}"),
            None => name.to_owned(),
        },
    };
    drawing::put(call, zones)
}
