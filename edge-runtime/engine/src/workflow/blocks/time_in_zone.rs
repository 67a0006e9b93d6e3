//! Measures how long tracked objects stay in a zone.

use std::sync::Arc;

use watchkeeper_vision::analytics::zone::TimeInZone;
use watchkeeper_vision::geometry::Anchor;

use super::{require_tracks, video_of};
use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::per_video::{BOXES, FRAME, METADATA, PerVideo, TRACKED};

const ZONE: Property = Property::value(
    "zone",
    "corners of the zone, [[x, y], …] in pixels",
    Shape::Points,
);
const ANCHOR: Property = Property::value(
    "triggering_anchor",
    "the point of the box that must be in the zone",
    ANCHORS,
)
.or(Or::Text("CENTER"));
const REMOVE: Property = Property::boolean(
    "remove_out_of_zone_detections",
    "whether to drop objects outside of the zone from the result",
    true,
);
const RESET: Property = Property::boolean(
    "reset_out_of_zone_detections",
    "whether the time restarts when an object returns",
    true,
);
const OUTPUTS: &[Output] = &[Output::new("timed_detections", BOXES)];

const fn version(
    name: &'static str,
    properties: &'static [Property],
    build: fn(&Setup<'_>) -> Result<Box<dyn Instance>, String>,
) -> Manifest {
    Manifest {
        name,
        category: "analytics",
        summary: "Measures how long tracked objects stay in a zone.",
        role: Role::Zone,
        properties,
        outputs: OUTPUTS,
        build,
        keeps_classes: true,
        ..Manifest::BASE
    }
}

pub(super) const BLOCKS: &[Manifest] = &[
    version(
        "roboflow_core/time_in_zone@v1",
        &[FRAME, METADATA, TRACKED, ZONE, ANCHOR, REMOVE, RESET],
        |_| Ok(stateful_instance(Timer { clock: "metadata" })),
    ),
    version(
        "roboflow_core/time_in_zone@v2",
        &[FRAME.inputs_only(), TRACKED, ZONE, ANCHOR, REMOVE, RESET],
        |_| Ok(stateful_instance(Timer { clock: "image" })),
    ),
    version(
        "roboflow_core/time_in_zone@v3",
        &[FRAME.inputs_only(), TRACKED, ZONE, ANCHOR, REMOVE, RESET],
        |_| Ok(stateful_instance(Timer { clock: "image" })),
    ),
];

struct Timer {
    /// Property with the time.
    clock: &'static str,
}

impl Stateful for Timer {
    type State = PerVideo<TimeInZone>;

    fn run(&self, videos: &mut Self::State, call: &mut Call<'_>) -> Result<(), String> {
        let meta = video_of(call.arg(call.named(self.clock)))?;
        let detections = call.detections(call.named("detections"))?;
        require_tracks(detections)?;
        let zone = call.arg(call.named("zone"));
        let anchor = call
            .anchor(call.named("triggering_anchor"))?
            .unwrap_or(Anchor::Center);
        let remove = call.boolean(call.named("remove_out_of_zone_detections"), true)?;
        let reset = call.boolean(call.named("reset_out_of_zone_detections"), true)?;
        let timer = videos.get(&meta.video_identifier, || {
            Ok(TimeInZone::new(&zone.as_polygons()?, anchor, remove, reset))
        })?;
        let mut timed = call.blank(0);
        timer.update_into(detections, meta.time_s(), Arc::make_mut(&mut timed));
        call.put(0, timed);
        Ok(())
    }
}
