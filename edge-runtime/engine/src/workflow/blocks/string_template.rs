//! Fills a template with values.

use std::collections::BTreeMap;

use super::super::uql::{Chain, DATA_OPERATIONS, apply_named};
use crate::workflow::block_api::prelude::*;
use crate::workflow::values::python_format;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/string_template@v1",
    summary: "Fills a template such as \"{count} in {zone:>8}\" with values, as Python's \
              str.format.",
    properties: &[
        Property::value("template", Shape::Text)
            .about("text with fields; {{ and }} stand for braces"),
        Property::dict("data").about("the values, by the names of the fields"),
        DATA_OPERATIONS,
    ],
    outputs: &[Output::new("output", &[Kind::Text])],
    build: |setup| {
        let operations = setup.parse("data_operations")?;
        Ok(Box::new(move |call: &mut Call<'_>| run(call, &operations)))
    },
    ..Manifest::of("formatter")
}];

fn run(call: &mut Call<'_>, operations: &BTreeMap<String, Chain>) -> Result<(), String> {
    let mut data = call.arg(arg!("data")).clone();
    apply_named(operations, &mut data, "data", call.ids)?;
    let text = python_format::format(call.text(arg!("template"))?, &|name| {
        data.get(name).cloned()
    })?;
    call.finish(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::tests::bench::{Bench, boxes};
    use super::Kind;

    #[test]
    fn template_is_filled_and_unknown_field_is_refused() {
        let step = |template: &str| {
            json!({
                "type": "roboflow_core/string_template@v1", "template": template,
                "data": {"count": "$inputs.boxes", "zone": "gate"},
                "data_operations": {"count": [{"type": "SequenceLength"}]}
            })
        };
        let feed = |template: &str| {
            let mut bench = Bench::new(step(template), &[("boxes", Kind::ObjectDetection)]);
            bench.feed(&[("boxes", boxes([9, 9], &[]))])
        };
        assert_eq!(
            feed("{count:03d} in {zone!r}").unwrap()["output"],
            "000 in 'gate'"
        );
        assert!(feed("{who}").unwrap_err().contains("who"));
    }
}
