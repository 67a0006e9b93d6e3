//! Counts tracked objects that cross a line.

use std::sync::Arc;

use watchkeeper_vision::analytics::line::LineCounter;
use watchkeeper_vision::geometry::Anchor;

use super::{require_tracks, video_of};
use crate::workflow::block_api::block::Call;
use crate::workflow::block_api::manifest::{
    ANCHORS, Default as Or, Manifest, Output, Property, Role, Shape,
};
use crate::workflow::block_api::stateful::{Stateful, stateful_instance};
use crate::workflow::blocks::common::per_video::{BOXES, FRAME, METADATA, PerVideo, TRACKED};
use crate::workflow::language::kinds::Kind;

const LINE: Property = Property::value(
    "line_segment",
    "the two ends of the line, [[x, y], [x, y]] in pixels",
    Shape::Points,
    &[Kind::ListOfValues],
);
const ANCHOR: Property = Property::value(
    "triggering_anchor",
    "the point of the box that must cross; by default all four corners must",
    ANCHORS,
    &[Kind::Text],
);
const IN: Output = Output::new("count_in", &[Kind::Integer]);
const OUT: Output = Output::new("count_out", &[Kind::Integer]);

const fn version(
    name: &'static str,
    properties: &'static [Property],
    outputs: &'static [Output],
) -> Manifest {
    Manifest {
        name,
        category: "analytics",
        summary: "Counts tracked objects that cross a line, each way.",
        role: Role::Line,
        properties,
        outputs,
        build: |_| Ok(stateful_instance(Counter)),
        keeps_classes: true,
        ..Manifest::BASE
    }
}

pub(super) const BLOCKS: &[Manifest] = &[
    version(
        "roboflow_core/line_counter@v1",
        &[METADATA, TRACKED, LINE, ANCHOR.or(Or::Text("CENTER"))],
        &[IN, OUT],
    ),
    version(
        "roboflow_core/line_counter@v2",
        &[FRAME.inputs_only(), TRACKED, LINE, ANCHOR.or(Or::Null)],
        &[
            IN,
            OUT,
            Output::new("detections_in", BOXES),
            Output::new("detections_out", BOXES),
        ],
    ),
];

struct Counter;

impl Stateful for Counter {
    type State = PerVideo<LineCounter>;

    fn run(&self, videos: &mut Self::State, call: &mut Call<'_>) -> Result<(), String> {
        let meta = video_of(call.arg(0))?;
        let detections = call.detections(1)?;
        require_tracks(detections)?;
        let line = call.arg(2);
        let anchor = call.anchor(3)?;
        let counter = videos.get(&meta.video_identifier, || {
            let points = line.as_points();
            let Some([start, end]) = points.as_deref() else {
                return Err("a line is two points, [[x, y], [x, y]]".to_owned());
            };
            let anchors: &[Anchor] = anchor.as_slice();
            Ok(LineCounter::new(*start, *end, anchors))
        })?;
        counter.update(detections);
        let count = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let (count_in, count_out) = (count(counter.count_in()), count(counter.count_out()));
        call.put(0, count_in);
        call.put(1, count_out);
        if call.out.len() > 2 {
            let crossings = counter.crossings();
            for (output, crossed) in [(2, &crossings.crossed_in), (3, &crossings.crossed_out)] {
                let mut picked = call.blank(output);
                detections.pick_into(crossed.iter().copied(), Arc::make_mut(&mut picked));
                call.put(output, picked);
            }
        }
        Ok(())
    }
}
