//! Joins branches: the first value that exists.

use crate::workflow::block_api::prelude::*;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/first_non_empty_or_default@v1",
    summary: "Returns the first value that exists, or a default; joins branches.",
    properties: &[
        Property::value("data", Shape::List)
            .about("selectors, the preferred one first")
            .kinds(&[Kind::Any])
            .of_selectors(),
        Property::literal("default", Shape::Any)
            .about("value if all are missing")
            .or(Or::Null),
    ],
    outputs: &[Output::new("output", &[Kind::Any])],
    accepts_empty: true,
    build: |_| Ok(Box::new(run)),
    ..Manifest::of("formatter")
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let list = call.arg(arg!("data")).as_list().unwrap_or_default();
    let value: Value = list
        .iter()
        .find(|v| !v.is_null())
        .unwrap_or(call.arg(arg!("default")))
        .clone();
    call.finish(value)
}
