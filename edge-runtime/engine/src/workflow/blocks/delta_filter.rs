//! Lets steps go on when a value changes.

use super::super::block::Call;
use super::super::kept::Kept;
use super::super::kinds::Kind;
use super::super::manifest::{Manifest, Property, Role, Shape};
use super::super::per_video::PerVideo;
use super::super::stateful::{Stateful, remembering};

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
    build: |_| Ok(remembering(Delta)),
    ..Manifest::BASE
}];

struct Delta;

impl Stateful for Delta {
    /// The value that was there last.
    type State = PerVideo<Option<Kept>>;

    fn run(&self, videos: &mut Self::State, call: &mut Call<'_>) -> Result<(), String> {
        let video = &call.image(0)?.meta.video_identifier;
        let last = videos.get(video, || Ok(None))?;
        let value = call.arg(1);
        if last.as_ref().is_none_or(|last| !last.0.same(value)) {
            *last = Some(Kept(value.clone()));
            call.go_on(0);
        }
        Ok(())
    }
}
