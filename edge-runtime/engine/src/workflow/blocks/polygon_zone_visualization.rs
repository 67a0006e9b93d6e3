//! Draws a zone.

use crate::workflow::block_api::block::{Block, Call};
use crate::workflow::block_api::manifest::{Default as Or, Manifest, Property, SHARE, Shape};
use crate::workflow::blocks::common::drawing;
use crate::workflow::blocks::common::drawing::Ink;
use crate::workflow::language::kinds::Kind;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/polygon_zone_visualization@v1",
    summary: "Draws a zone over the picture.",
    properties: &[
        drawing::IMAGE,
        drawing::COPY,
        Property::value(
            "zone",
            "corners of the zone, [[x, y], …] in pixels",
            Shape::Points,
            &[Kind::ListOfValues],
        ),
        Property::value("color", "colour of the zone", Shape::Text, &[Kind::Text])
            .or(Or::Text("#5bb573")),
        Property::value(
            "opacity",
            "opacity of the fill",
            SHARE,
            &[Kind::FloatZeroToOne],
        )
        .or(Or::Float(0.3)),
    ],
    build: |_| Ok(Box::new(Draw)),
    ..drawing::BASE
}];

struct Draw;

impl Block for Draw {
    fn run(&self, call: &mut Call<'_>) -> Result<(), String> {
        let ink = Ink::Zones {
            polygons: call.arg(2).as_polygons()?,
            color: drawing::color(call.text(3)?)?,
            opacity: call.number(4, 0.3)?.clamp(0.0, 1.0),
        };
        drawing::put(call, ink)
    }
}
