//! Lets steps go on at most so often.

use super::video_of;
use crate::workflow::block_api::block::Call;
use crate::workflow::block_api::manifest::{Default as Or, Manifest, Property, Role, Shape};
use crate::workflow::block_api::stateful::{Stateful, stateful_instance};
use crate::workflow::language::kinds::Kind;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/rate_limiter@v1",
    category: "flow_control",
    summary: "Lets steps go on at most once in so many seconds.",
    role: Role::Flow,
    properties: &[
        Property::literal(
            "cooldown_seconds",
            "least time between two passes",
            Shape::Number(0.0, f64::INFINITY),
        )
        .or(Or::Float(1.0)),
        Property::data("depends_on", "what has to be there first", &[Kind::Any]),
        Property::literal("next_steps", "the steps that go on", Shape::Steps),
        Property::value(
            "video_reference_image",
            "the frame whose time in its video counts, instead of the clock",
            Shape::Selector,
            &[Kind::Image],
        )
        .inputs_only()
        .or(Or::Null),
    ],
    outputs: &[],
    build: |_| Ok(stateful_instance(Limiter)),
    ..Manifest::BASE
}];

/// One for the step, whatever the video, as the peer has it.
struct Limiter;

impl Stateful for Limiter {
    /// When it let steps go on last, in seconds.
    type State = Option<f64>;

    fn run(&self, last: &mut Self::State, call: &mut Call<'_>) -> Result<(), String> {
        let cooldown = call.number(0, 1.0)?;
        let time = if call.arg(3).is_null() {
            call.now.as_secs_f64()
        } else {
            video_of(call.arg(3))?.time_s()
        };
        // A clock that went back starts the cooldown anew rather than blocking until it has caught
        // up.
        if last.is_none_or(|last| since(last, time) >= cooldown || time < last) {
            *last = Some(time);
            call.go_on(0);
        }
        Ok(())
    }
}

/// Seconds between two times, each to the microsecond as the peer has it: the ninth frame of thirty
/// a second comes 0.3 s after the one that passed, whatever is left over behind the point.
fn since(last: f64, time: f64) -> f64 {
    let micros = |seconds: f64| (seconds * 1e6).round_ties_even();
    (micros(time) - micros(last)) / 1e6
}
