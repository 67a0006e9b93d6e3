//! Runs steps when a value changes.

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::per_video::PerVideo;
use crate::workflow::values::stored_value::StoredValue;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/delta_filter@v1",
    summary: "Runs the next steps only when a value differs from the one before.",
    role: Role::Flow,
    properties: &[
        Property::data("image", &[Kind::Image])
            .about("the frame, for its video")
            .inputs_only(),
        Property::data("value", &[Kind::Any]).about("what to compare from frame to frame"),
        Property::literal("next_steps", Shape::Steps).about("the steps that go on"),
    ],
    outputs: &[],
    build: |_| Ok(stateful(run)),
    ..Manifest::of("flow_control")
}];

/// `videos`: the last value, per video.
fn run(videos: &mut PerVideo<Option<StoredValue>>, call: &mut Call<'_>) -> Result<(), String> {
    let video = &call.image(arg!("image"))?.meta.video_identifier;
    let last = videos.get(video, || Ok(None))?;
    let value = call.arg(arg!("value"));
    if last.as_ref().is_none_or(|last| !last.value().same(value)) {
        *last = Some(StoredValue::copied(value));
        call.take_branch(0);
    }
    Ok(())
}
