//! Runs steps while a condition holds.

use std::time::Duration;

use super::super::uql::{Budget, CONDITION, Env, StatementGroup};
use crate::workflow::block_api::prelude::*;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/continue_if@v1",
    summary: "Runs the next steps only while a condition holds.",
    role: Role::Flow,
    properties: &[
        Property::literal("condition_statement", CONDITION).about("the condition"),
        Property::value_or("evaluation_parameters", Shape::Dict, Or::EmptyDict)
            .about("the values that the condition refers to by name")
            .of_selectors(),
        Property::literal("next_steps", Shape::Steps).about("the steps that go on"),
        Property::value_or("stop_delay", POSITIVE, Or::Int(0))
            .about("seconds for which the next steps still run after the condition last held"),
    ],
    outputs: &[],
    build: |setup| {
        Ok(stateful_instance(Gate {
            condition: setup.parse("condition_statement")?,
        }))
    },
    ..Manifest::of("flow_control")
}];

struct Gate {
    condition: StatementGroup,
}

impl Stateful for Gate {
    /// Time at which the condition last held.
    type State = Option<Duration>;

    fn run(&self, last_true: &mut Self::State, call: &mut Call<'_>) -> Result<(), String> {
        let env = Env {
            parameters: call.arg(arg!("evaluation_parameters")),
            element: &Value::Null,
            budget: &Budget::default(),
            ids: call.ids,
        };
        let delay = call.number(arg!("stop_delay"))?;
        if self.condition.holds(&env)? {
            *last_true = Some(call.now);
            call.take_branch(0);
        } else if delay > 0.0
            && let Some(last) = *last_true
            && call.now.saturating_sub(last).as_secs_f64() <= delay
        {
            call.take_branch(0);
        }
        Ok(())
    }
}
