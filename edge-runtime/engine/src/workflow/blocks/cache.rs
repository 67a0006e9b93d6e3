//! Stores values of a video by key, for all steps of the workflow.

use crate::workflow::block_api::prelude::*;
use crate::workflow::values::stored_value::StoredValue;

const FRAME_OF_VIDEO: Property = Property::data("image", &[Kind::Image])
    .about("a picture of the video")
    .inputs_only();
const KEY: Property = Property::value("key", Shape::Text).about("name of the value");
const VALUE: Property =
    Property::data("value", &[Kind::Any, Kind::ListOfValues]).about("the value");
const OUTPUTS: &[Output] = &[Output::new("output", &[Kind::Any])];
pub(super) const BLOCKS: &[Manifest] = &[
    Manifest {
        name: "roboflow_core/cache_get@v1",
        summary: "Returns the value stored under a key for the video of the picture; false if \
                  there is none.",
        properties: &[FRAME_OF_VIDEO, KEY],
        outputs: OUTPUTS,
        build: |_| Ok(Box::new(get)),
        ..Manifest::of("fusion")
    },
    Manifest {
        name: "roboflow_core/cache_set@v1",
        summary: "Stores a value under a key for the video of the picture.",
        properties: &[FRAME_OF_VIDEO, KEY, VALUE],
        outputs: OUTPUTS,
        build: |_| Ok(Box::new(set)),
        ..Manifest::of("fusion")
    },
];

/// Name of the store for the video.
fn place(call: &Call<'_>) -> Result<Arc<str>, String> {
    Ok(format!("cache of {}", call.video(arg!("image"))?.video_identifier).into())
}

fn get(call: &mut Call<'_>) -> Result<(), String> {
    let (place, key) = (place(call)?, Arc::from(call.text(arg!("key"))?));
    let value = call.shared.cache.get(&place, &key).cloned();
    call.finish(value.unwrap_or(Value::Bool(false)))
}

fn set(call: &mut Call<'_>) -> Result<(), String> {
    let (place, key) = (place(call)?, Arc::from(call.text(arg!("key"))?));
    let value = call.arg(arg!("value")).clone();
    let kept = StoredValue::copied(&value);
    call.shared.cache.set((place, key), kept)?;
    call.finish(value)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use serde_json::json;

    use super::super::super::compile;
    use super::super::super::tests::{FixedBoxes, frame};

    #[test]
    fn stored_value_is_read_in_the_next_frame() {
        let definition = json!({
            "version": "1.0", "inputs": [{"type": "WorkflowImage", "name": "image"}],
            "steps": [
                {"type": "roboflow_core/cache_get@v1", "name": "get", "image": "$inputs.image", "key": "k"},
                {"type": "roboflow_core/property_definition@v1", "name": "number", "data": "$inputs.image",
                 "operations": [{"type": "ExtractFrameMetadata", "property_name": "frame_number"}]},
                {"type": "roboflow_core/cache_set@v1", "name": "set", "image": "$inputs.image", "key": "k",
                 "value": "$steps.number.output"}
            ],
            "outputs": [{"type": "JsonField", "name": "found", "selector": "$steps.get.output"}]
        });
        let mut run = compile(&definition, &BTreeMap::new())
            .unwrap()
            .instantiate();
        for (number, found) in [(1, json!(false)), (2, json!(1)), (3, json!(2))] {
            run.run(
                frame(number, [4, 4]),
                &[],
                Duration::ZERO,
                &mut FixedBoxes::three(),
            );
            assert_eq!(run.outputs_json()["found"], found);
        }
    }
}
