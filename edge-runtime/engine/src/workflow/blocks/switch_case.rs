//! Lets one of several branches go on by a value.

use super::super::block::{Block, Call};
use super::super::kinds::Kind;
use super::super::manifest::{Default as Or, Manifest, Property, Role, Shape};

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/switch_case@v1",
    category: "flow_control",
    summary: "Lets the step go on whose key is the value, else the default ones.",
    role: Role::Flow,
    properties: &[
        Property::value(
            "value",
            "what to compare with the keys",
            Shape::Any,
            &[Kind::Any],
        ),
        Property::literal("cases", "the step for each key", Shape::StepCases).or(Or::EmptyDict),
        Property::literal(
            "case_insensitive",
            "whether capitals make no difference",
            Shape::Boolean,
        )
        .or(Or::Bool(false)),
        Property::literal(
            "default_next_steps",
            "the steps that go on when no key is the value",
            Shape::Steps,
        )
        .or(Or::EmptyList),
    ],
    outputs: &[],
    build: |_| Ok(Box::new(Switch)),
    ..Manifest::BASE
}];

struct Switch;

impl Block for Switch {
    fn run(&self, call: &mut Call<'_>) -> Result<(), String> {
        let text = call.arg(0).python_str();
        let insensitive = call.boolean(2, false)?;
        let chosen = call.cases.iter().position(|key| {
            if insensitive {
                key.to_lowercase() == text.to_lowercase()
            } else {
                **key == *text
            }
        });
        // The branch of the default comes after those of the keys.
        call.go_on(chosen.unwrap_or(call.cases.len()));
        Ok(())
    }
}
