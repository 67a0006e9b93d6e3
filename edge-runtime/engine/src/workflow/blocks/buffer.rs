//! Collects the latest values.

use std::collections::VecDeque;

use crate::workflow::block_api::prelude::*;
use crate::workflow::values::stored_value::StoredValue;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/buffer@v1",
    summary: "Collects the latest values in a list, the newest first.",
    properties: &[
        Property::data(
            "data",
            "the value to keep",
            &[Kind::Any, Kind::ListOfValues, Kind::Image],
        ),
        Property::literal("length", "how many values are kept", INTEGER),
        Property::boolean(
            "pad",
            "whether the list is padded with null at first",
            false,
        )
        .literal_only(),
    ],
    outputs: &[Output::new("output", &[Kind::ListOfValues])],
    build: |_| Ok(stateful_instance(Buffer)),
    ..Manifest::of("fusion")
}];

/// Maximum number of values.
const MAX_LENGTH: usize = 4096;

struct Buffer;

impl Stateful for Buffer {
    /// The latest values, the newest first.
    type State = VecDeque<StoredValue>;

    fn run(&self, latest: &mut Self::State, call: &mut Call<'_>) -> Result<(), String> {
        let length = usize::try_from(call.integer(arg!("length"))?)
            .unwrap_or(0)
            .min(MAX_LENGTH);
        latest.push_front(StoredValue(call.arg(arg!("data")).clone()));
        latest.truncate(length);
        let mut list: Vec<Value> = latest.iter().map(|k| k.0.clone()).collect();
        if call.boolean(arg!("pad"))? {
            list.resize(length, Value::Null);
        }
        call.put(0, list);
        Ok(())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failing test may panic")]
mod tests {
    use serde_json::json;

    use super::super::super::tests::bench::Bench;
    use super::Kind;

    #[test]
    fn latest_values_come_first_padded_with_null() {
        let step = json!({"type": "roboflow_core/buffer@v1", "data": "$inputs.n", "length": 2, "pad": true});
        let mut bench = Bench::new(step, &[("n", Kind::Any)]);
        let mut feed = |n: i64| bench.feed(&[("n", n.into())]).unwrap()["output"].clone();
        assert_eq!(feed(1), json!([1, null]));
        assert_eq!(feed(2), json!([2, 1]));
        assert_eq!(feed(3), json!([3, 2]));
    }
}
