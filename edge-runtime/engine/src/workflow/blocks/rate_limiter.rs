//! Limits how often steps run.

use crate::workflow::block_api::prelude::*;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/rate_limiter@v1",
    summary: "Runs the next steps at most once per interval.",
    role: Role::Flow,
    properties: &[
        Property::literal("cooldown_seconds", NOT_NEGATIVE)
            .about("minimum time between two runs")
            .or(Or::Float(1.0)),
        Property::data("depends_on", &[Kind::Any])
            .about("output that must exist before the next steps run"),
        Property::literal("next_steps", Shape::Steps).about("the steps that go on"),
        Property::optional("video_reference_image", Shape::Selector)
            .about("the frame whose video time is used instead of the clock")
            .kinds(&[Kind::Image])
            .inputs_only(),
    ],
    outputs: &[],
    build: |_| Ok(stateful(run)),
    ..Manifest::of("flow_control")
}];

/// `last`: time of the last run in seconds, whatever the video, as in the peer.
fn run(last: &mut Option<f64>, call: &mut Call<'_>) -> Result<(), String> {
    let cooldown = call.number(arg!("cooldown_seconds"))?;
    let time = if call.arg(arg!("video_reference_image")).is_null() {
        call.now.as_secs_f64()
    } else {
        call.video(arg!("video_reference_image"))?.time_s()
    };
    // A clock that went back restarts the cool-down instead of blocking until it has caught up.
    if last.is_none_or(|last| since(last, time) >= cooldown || time < last) {
        *last = Some(time);
        call.take_branch(0);
    }
    Ok(())
}

/// Seconds between two times, each rounded to the microsecond as in the peer. So the ninth frame at
/// 30 frames per second comes exactly 0.3 s later.
fn since(last: f64, time: f64) -> f64 {
    let micros = |seconds: f64| (seconds * 1e6).round_ties_even();
    (micros(time) - micros(last)) / 1e6
}
