//! Draws the outlines of masks.

use super::super::block::{Block, Call};
use super::super::drawing::{self};
use super::super::kinds::Kind;
use super::super::manifest::{Default as Or, INTEGER, Manifest, Property};

const PREDICTIONS: Property = Property::data(
    "predictions",
    "what to draw",
    &[Kind::InstanceSegmentation, Kind::RleInstanceSegmentation],
);
const THICKNESS: Property = Property::value(
    "thickness",
    "width of the line in pixels",
    INTEGER,
    &[Kind::Integer],
)
.or(Or::Int(2));
pub(super) const BLOCKS: &[Manifest] = &[
    Manifest {
        name: "roboflow_core/polygon_visualization@v1",
        summary: "Draws the outline of the mask of each detection.",
        properties: &[
            drawing::IMAGE,
            drawing::COPY,
            PREDICTIONS,
            drawing::PALETTE,
            drawing::PALETTE_SIZE,
            drawing::CUSTOM_COLORS,
            drawing::COLOR_AXIS,
            THICKNESS,
        ],
        build: |_| Ok(Box::new(Draw)),
        ..drawing::BASE
    },
    Manifest {
        name: "roboflow_core/polygon_visualization@v2",
        summary: "Draws the outline of the mask of each detection.",
        properties: &[
            drawing::IMAGE,
            drawing::COPY,
            PREDICTIONS,
            drawing::PALETTE,
            drawing::PALETTE_SIZE,
            drawing::CUSTOM_COLORS,
            drawing::COLOR_AXIS,
            THICKNESS,
        ],
        build: |_| Ok(Box::new(Draw)),
        ..drawing::BASE
    },
];

struct Draw;

impl Block for Draw {
    fn run(&mut self, call: &mut Call<'_>) -> Result<(), String> {
        let thickness = call.number(7, 2.0)?;
        drawing::each(call, move |canvas, d, size, color| {
            let Some(mask) = d.mask() else { return };
            for outline in mask.bitmap(size).outlines() {
                canvas.outline_polygon(&outline.points, color, thickness);
            }
        })
    }
}
