//! Collects the latest values.
//!
//! - Values beyond [`MAX_KEPT_BYTES`] are dropped, the oldest first, and the step fails.

use std::collections::VecDeque;

use crate::workflow::block_api::prelude::*;
use crate::workflow::values::stored_value::{MAX_KEPT_BYTES, StoredValue, count_fitting};

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/buffer@v1",
    summary: "Collects the latest values in a list, the newest first.",
    properties: &[
        Property::data("data", &[Kind::Any, Kind::ListOfValues, Kind::Image])
            .about("the value to keep"),
        Property::literal("length", Shape::Integer(0, MAX_LENGTH))
            .about("how many values are kept"),
        Property::switch("pad", false).about("whether the list is padded with null at first"),
    ],
    outputs: &[Output::new("output", &[Kind::ListOfValues])],
    build: |_| Ok(stateful(run)),
    ..Manifest::of("fusion")
}];

/// Maximum number of values.
const MAX_LENGTH: i64 = 4096;

/// `latest`: the latest values, the newest first.
fn run(latest: &mut VecDeque<StoredValue>, call: &mut Call<'_>) -> Result<(), String> {
    let length: usize = call.bounded_integer(arg!("length"))?;
    latest.push_front(StoredValue::copied(call.arg(arg!("data"))));
    latest.truncate(length);
    let fitting = count_fitting(latest.iter(), MAX_KEPT_BYTES);
    if fitting < latest.len() {
        latest.truncate(fitting);
        return Err(format!(
            "length is {length}, but only {fitting} such values fit into the {} MiB that a \
             step keeps; use a smaller length or smaller pictures",
            MAX_KEPT_BYTES >> 20
        ));
    }
    let mut list: Vec<Value> = latest.iter().map(|kept| kept.value().clone()).collect();
    if call.boolean(arg!("pad"))? {
        list.resize(length, Value::Null);
    }
    call.finish(list)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::super::super::tests::bench::{Bench, black, frame_of, picture};
    use super::Kind;
    use crate::workflow::values::image::{ImageValue, RgbPixels, VideoMeta, lazy};

    #[test]
    fn latest_values_come_first_padded_with_null() {
        let step = json!({"type": "roboflow_core/buffer@v1", "data": "$inputs.n", "length": 2, "pad": true});
        let mut bench = Bench::new(step, &[("n", Kind::Any)]);
        let mut feed = |n: i64| bench.feed(&[("n", n.into())]).unwrap()["output"].clone();
        assert_eq!(feed(1), json!([1, null]));
        assert_eq!(feed(2), json!([2, 1]));
        assert_eq!(feed(3), json!([3, 2]));
    }

    #[test]
    fn kept_picture_does_not_hold_the_frame() {
        let step = json!({"type": "roboflow_core/buffer@v1", "data": "$inputs.image", "length": 9});
        let mut bench = Bench::new(step, &[("image", Kind::Image)]);
        let pixels = lazy([4, 4], RgbPixels::default);
        let image = ImageValue::new(Arc::clone(&pixels), VideoMeta::still("v"));
        bench.feed(&[("image", image.into())]).unwrap();
        bench
            .feed(&[("image", picture(2, [2, 2], |_, _| [0; 3]))])
            .unwrap();
        assert_eq!(Arc::strong_count(&pixels), 1);
    }

    #[test]
    fn values_beyond_the_kept_bytes_fail_the_step() {
        let step = json!({"type": "roboflow_core/buffer@v1", "data": "$inputs.image", "length": 3});
        let mut bench = Bench::new(step, &[("image", Kind::Image)]);
        let image = frame_of(1, black([8192, 4096]));
        let mut feed = || bench.feed(&[("image", image.clone())]);
        feed().unwrap();
        feed().unwrap();
        let why = feed().unwrap_err();
        assert!(
            why.contains("only 2 such values fit into the 256 MiB"),
            "{why}"
        );
    }

    #[test]
    fn length_beyond_the_maximum_is_refused() {
        let step =
            json!({"type": "roboflow_core/buffer@v1", "data": "$inputs.image", "length": 4097});
        let why = Bench::refusal(step);
        assert!(why.contains("4096"), "{why}");
    }
}
