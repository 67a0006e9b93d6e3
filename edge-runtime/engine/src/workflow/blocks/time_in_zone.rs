//! Measures how long tracked objects stay in a zone.

use watchkeeper_vision::analytics::zone::TimeInZone;

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::per_video::{FRAME, METADATA, PerVideo, TRACKED};

const ZONE: Property =
    Property::value("zone", Shape::Points).about("corners of the zone, [[x, y], …] in pixels");
const ANCHOR: Property = Property::anchor("triggering_anchor", "CENTER")
    .about("the point of the box that must be in the zone");
const REMOVE: Property = Property::boolean("remove_out_of_zone_detections", true)
    .about("whether to drop objects outside of the zone from the result");
const RESET: Property = Property::boolean("reset_out_of_zone_detections", true)
    .about("whether the time restarts when an object returns");

const V2: Manifest = Manifest {
    name: "roboflow_core/time_in_zone@v2",
    properties: &[FRAME.inputs_only(), TRACKED, ZONE, ANCHOR, REMOVE, RESET],
    summary: "Measures how long tracked objects stay in a zone.",
    role: Role::Zone,
    outputs: &[Output::new("timed_detections", BOXES)],
    build: |_| Ok(stateful(run)),
    keeps_classes: true,
    ..Manifest::of("analytics")
};

pub(super) const BLOCKS: &[Manifest] = &[
    Manifest {
        name: "roboflow_core/time_in_zone@v1",
        properties: &[FRAME, METADATA, TRACKED, ZONE, ANCHOR, REMOVE, RESET],
        ..V2
    },
    V2,
    Manifest {
        name: "roboflow_core/time_in_zone@v3",
        ..V2
    },
];

fn run(videos: &mut PerVideo<TimeInZone>, call: &mut Call<'_>) -> Result<(), String> {
    // The first version has both; its times are those of the metadata.
    let metadata = call.named("metadata");
    let has_metadata = call.has(metadata);
    let clock = if has_metadata {
        metadata
    } else {
        call.named("image")
    };
    let meta = call.video(clock)?;
    let detections = call.tracked(call.named("detections"))?;
    let zone = call.arg(call.named("zone"));
    let anchor = call.anchor(call.named("triggering_anchor"))?;
    let remove = call.boolean(call.named("remove_out_of_zone_detections"))?;
    let reset = call.boolean(call.named("reset_out_of_zone_detections"))?;
    let timer = videos.get(&meta.video_identifier, || {
        Ok(TimeInZone::new(&zone.as_polygons()?, anchor, remove, reset))
    })?;
    let mut timed = call.blank(0);
    timer.update_into(detections, meta.time_s(), Arc::make_mut(&mut timed));
    call.finish(timed)
}
