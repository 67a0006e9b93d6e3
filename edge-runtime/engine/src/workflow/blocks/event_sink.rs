//! Declares rules in a workflow.
//!
//! The rules are read when the workflow is deployed ([`super::super::Compiled::sink_rules`]) and
//! applied by the host after each frame, so the step does nothing. As a branch of a decision it
//! would always make events, so it is refused.

use watchkeeper_contract::rule::RuleSpec;

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::sink;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "watchkeeper/event_sink@v1",
    summary: "Makes events of detections, lines, zones and values by rules.",
    properties: &[
        Property::data("detections", DETECTIONS)
            .without_effect("kept for compatibility: each rule names what it reads"),
        Property::optional_data("image", &[Kind::Image])
            .without_effect("kept for compatibility: an event has the picture of its frame"),
        Property::literal(
            "rules",
            Shape::Grammar(Grammar {
                what: "a list of rules",
                json: "array",
                check: |json| {
                    Vec::<RuleSpec>::deserialize(json)
                        .map(drop)
                        .map_err(|e| e.to_string())
                },
            }),
        )
        .about("the rules"),
    ],
    outputs: &[],
    build: |_| Ok(Box::new(run)),
    ..sink::BASE
}];

fn run(_: &mut Call<'_>) -> Result<(), String> {
    Ok(())
}
