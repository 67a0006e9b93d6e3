//! Lets steps go on when a value changes.

use super::super::block::{Block, Call};
use super::super::kinds::Kind;
use super::super::manifest::{Manifest, Property, Role, Shape};
use super::super::per_video::PerVideo;
use super::super::value::Value;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/delta_filter@v1",
    category: "flow_control",
    summary: "Lets steps go on only when a value differs from the one before.",
    role: Role::Flow,
    properties: &[
        Property::data("image", "the frame, for its video", &[Kind::Image]).inputs_only(),
        Property::data("value", "what to compare from frame to frame", &[Kind::Any]),
        Property::literal("next_steps", "the steps that go on", Shape::Steps),
    ],
    outputs: &[],
    build: |_| {
        Ok(Box::new(Delta {
            videos: PerVideo::default(),
        }))
    },
    ..Manifest::BASE
}];

struct Delta {
    videos: PerVideo<Option<Value>>,
}

impl Block for Delta {
    fn run(&mut self, call: &mut Call<'_>) -> Result<(), String> {
        let video = &call.image(0)?.meta.video_identifier;
        let last = self.videos.get(video, || Ok(None))?;
        let value = call.arg(1);
        if last.as_ref().is_none_or(|last| !last.same(value)) {
            *last = Some(value.clone());
            call.go_on(0);
        }
        Ok(())
    }
}
