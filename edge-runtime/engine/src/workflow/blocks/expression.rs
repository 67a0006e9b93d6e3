//! Selects a value by conditions on other values.

use std::collections::BTreeMap;

use super::super::uql::{Budget, Chain, DATA_OPERATIONS, Env, StatementGroup, apply, apply_named};
use crate::workflow::block_api::prelude::*;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/expression@v1",
    summary: "Selects a value by conditions on other values, like a switch with cases.",
    properties: &[
        Property::value("data", Shape::Dict)
            .about("the values that the conditions refer to by name")
            .of_selectors(),
        DATA_OPERATIONS,
        Property::literal(
            "switch",
            Shape::Grammar(Grammar {
                what: "a CasesDefinition",
                json: "object",
                check: |json| {
                    Cases::deserialize(json)
                        .map(drop)
                        .map_err(|e| e.to_string())
                },
            }),
        )
        .about("the cases and the default"),
    ],
    outputs: &[Output::new("output", &[Kind::Any])],
    build: |setup| {
        let operations = setup.parse("data_operations")?;
        let switch = setup.parse("switch")?;
        Ok(Box::new(move |call: &mut Call<'_>| {
            run(call, &operations, &switch)
        }))
    },
    ..Manifest::of("formatter")
}];

#[derive(Debug, Clone, Deserialize)]
struct Cases {
    #[serde(rename = "type")]
    _type: CasesTag,
    cases: Vec<Case>,
    default: Outcome,
}

#[derive(Debug, Clone, Copy, Deserialize)]
enum CasesTag {
    CasesDefinition,
}

#[derive(Debug, Clone, Deserialize)]
struct Case {
    #[serde(rename = "type")]
    _type: CaseTag,
    condition: StatementGroup,
    result: Outcome,
}

#[derive(Debug, Clone, Copy, Deserialize)]
enum CaseTag {
    CaseDefinition,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "type")]
enum Outcome {
    StaticCaseResult {
        value: Value,
    },
    DynamicCaseResult {
        parameter_name: String,
        #[serde(default)]
        operations: Chain,
    },
}

fn run(
    call: &mut Call<'_>,
    operations: &BTreeMap<String, Chain>,
    switch: &Cases,
) -> Result<(), String> {
    let mut data = call.arg(arg!("data")).clone();
    apply_named(operations, &mut data, "data", call.ids)?;
    let env = Env {
        parameters: &data,
        element: &Value::Null,
        budget: &Budget::default(),
        ids: call.ids,
    };
    let mut outcome = &switch.default;
    for case in &switch.cases {
        if case.condition.holds(&env)? {
            outcome = &case.result;
            break;
        }
    }
    let value = match outcome {
        Outcome::StaticCaseResult { value } => value.clone(),
        Outcome::DynamicCaseResult {
            parameter_name,
            operations,
        } => {
            let value = env
                .get(parameter_name)
                .ok_or_else(|| format!("data has no {parameter_name}"))?;
            apply(operations, value, &env)?
        }
    };
    call.finish(value)
}
