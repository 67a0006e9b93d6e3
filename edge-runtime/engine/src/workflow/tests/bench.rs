//! One step on its own, for the tests of blocks: values in, serialised outputs out, frame after frame.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};

use super::super::kinds::Kind;
use super::super::{
    Execution, ImageValue, Packed, Pictures, RgbPixels, RuntimeInput, Value, VideoMeta, compile,
    read,
};
use super::FixedBoxes;

/// One step, whose properties refer to the inputs of the bench.
pub(in super::super) struct Bench {
    run: Execution,
    now: Duration,
}

impl Bench {
    /// A bench for a step, such as `{"type": …, "image": "$inputs.image"}`, with inputs of these kinds.
    pub(in super::super) fn new(mut step: Json, inputs: &[(&str, Kind)]) -> Self {
        step["name"] = json!("step");
        let inputs: Vec<Json> = inputs
            .iter()
            .map(|(name, kind)| {
                json!({"type": "WorkflowBatchInput", "name": name, "kind": [kind.name()]})
            })
            .collect();
        let definition = json!({
            "version": "1.0", "inputs": inputs, "steps": [step],
            "outputs": [{
                "type": "JsonField", "name": "out", "selector": "$steps.step.*", "coordinates_system": "own"
            }]
        });
        let compiled = compile(&definition, &BTreeMap::new());
        Self {
            run: compiled.unwrap_or_else(|e| panic!("{e:#?}")).instantiate(),
            now: Duration::ZERO,
        }
    }

    /// Lets time go by.
    #[allow(dead_code, reason = "for blocks that look at the clock")]
    pub(in super::super) fn wait(&mut self, seconds: f64) {
        self.now += Duration::from_secs_f64(seconds);
    }

    /// The outputs of the step for these inputs, by name, or why it failed.
    pub(in super::super) fn feed(&mut self, inputs: &[(&str, Value)]) -> Result<Json, String> {
        let inputs = inputs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), RuntimeInput::One(value.clone())))
            .collect();
        let report = self
            .run
            .run_batch(inputs, self.now, &mut FixedBoxes::three())
            .map_err(|e| e.message)?;
        match report.errors.first() {
            Some(failure) => Err(failure.message.clone()),
            None => Ok(self.run.rows_json(Pictures::Size)[0]["out"].clone()),
        }
    }

    /// The value of an output after the last frame, of a batch its first element.
    pub(in super::super) fn value(&self, output: &str) -> Option<Value> {
        self.run.output_of("step", output).cloned()
    }
}

/// Detections from their rows in serialised form; what a row lacks is filled in.
pub(in super::super) fn boxes(size: [u32; 2], rows: &[Json]) -> Value {
    let rows: Vec<Json> = rows
        .iter()
        .enumerate()
        .map(|(i, row)| {
            let mut whole = json!({
                "confidence": 0.9, "class_id": 0, "class": "person", "detection_id": i.to_string(),
                "parent_id": "image"
            });
            for (key, value) in row.as_object().unwrap() {
                whole[key] = value.clone();
            }
            whole
        })
        .collect();
    let json = json!({"image": {"width": size[0], "height": size[1]}, "predictions": rows});
    read::detections("image", &json).unwrap().into()
}

/// Frame `number` of a recording at 30 frames a second, with the colour that `paint` gives each pixel by column and row.
pub(in super::super) fn picture(
    number: u64,
    size: [u32; 2],
    paint: impl Fn(u32, u32) -> [u8; 3],
) -> Value {
    let [width, height] = size;
    let all = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
    let pixels = RgbPixels {
        width,
        height,
        data: all.flat_map(|(x, y)| paint(x, y)).collect(),
    };
    let meta = VideoMeta {
        video_identifier: Arc::from("test"),
        frame_number: number,
        frame_timestamp: 1_700_000_000.0 + number as f64 / 30.0,
        source_s: None,
        fps: Some(30.0),
        comes_from_video_file: true,
    };
    ImageValue::new(Arc::new(Packed(Arc::new(pixels))), meta).into()
}
