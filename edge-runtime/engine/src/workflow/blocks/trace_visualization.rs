//! Draws traces of tracked objects.

use watchkeeper_vision::draw::{self, Traces};

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::drawing;
use crate::workflow::blocks::common::per_video::PerVideo;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/trace_visualization@v1",
    summary: "Draws the traces of tracked objects.",
    properties: drawing::palette_properties![
        Property::anchor("position", "CENTER").about("the point of the box"),
        Property::count("trace_length", 30).about("length of a trace in frames"),
        Property::count("thickness", 1)
            .without_effect("kept for compatibility: the width fits the picture"),
    ],
    build: |_| Ok(stateful(run)),
    ..drawing::BASE
}];

fn run(videos: &mut PerVideo<Traces>, call: &mut Call<'_>) -> Result<(), String> {
    let detections = call.tracked(arg!("predictions"))?;
    let by = drawing::color_by(call)?;
    let anchor = call.anchor(arg!("position"))?;
    let length = usize::try_from(call.integer(arg!("trace_length"))?).unwrap_or(0);
    let video = &call.image(arg!("image"))?.meta.video_identifier;
    let traces = videos.get(video, || Ok(Traces::new(anchor, length)))?;
    traces.update(detections);
    let traces = traces.clone();
    drawing::put(call, move |canvas: &mut Canvas<'_>| {
        draw::traces(canvas, &traces, by)
    })
}
