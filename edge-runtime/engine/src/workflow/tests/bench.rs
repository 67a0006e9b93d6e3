//! Runs one step for the tests of blocks: values in, serialised outputs out, frame after frame.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use watchkeeper_contract::effect::Effect;
use watchkeeper_vision::detections::{Detection, DetectionId, Detections};
use watchkeeper_vision::geometry::BBox;
use watchkeeper_vision::mask::{Bitmap, Mask};

use super::super::{
    Anomaly, Array, ClassScore, DetectRequest, Execution, Features, Gaze, Host, ImageValue, Layer,
    Packed, Pictures, PromptedMask, RgbPixels, RunWanted, RuntimeInput, Value, VideoMeta, Writing,
    compile,
};
use super::FixedBoxes;
use crate::workflow::language::kinds::Kind;
use crate::workflow::run::input;

/// One step, whose properties refer to the inputs of the bench.
pub(in super::super) struct Bench {
    run: Execution,
    now: Duration,
    host: BenchHost,
    pictures: Pictures,
}

/// A host that knows secrets by name and keeps emitted effects.
struct BenchHost {
    detector: FixedBoxes,
    secrets: Vec<String>,
    effects: Vec<Effect>,
    takes_effects: bool,
}

impl Host for BenchHost {
    /// Detections by text prompt have the first prompt as their class.
    fn detect(&mut self, request: &DetectRequest<'_>) -> Result<Detections, String> {
        let mut found = self.detector.detect(request)?;
        if let Some([first, ..]) = request.described {
            for d in &mut found.boxes {
                d.class = Arc::from(first.as_str());
            }
        }
        Ok(found)
    }

    /// Segments the left half of the picture, with the requested confidence.
    fn segment(
        &mut self,
        model_id: &str,
        image: &ImageValue,
        confidence: Option<f64>,
    ) -> Result<Detections, String> {
        let size = image.size();
        let half = size[0] / 2;
        let bbox = BBox::new(0.0, 0.0, f64::from(half) - 1.0, f64::from(size[1]) - 1.0);
        let class = format!("left of {model_id}");
        let id = DetectionId::Given(Arc::from("a"));
        let mut left = Detection::new(bbox, confidence.unwrap_or(0.0), 1, class.as_str(), id);
        let mask = Bitmap::from_fn(size, |x, _| x < half as usize);
        left.extra_mut().mask = Some(Arc::new(Mask::Bitmap(mask)));
        Ok(Detections {
            boxes: vec![left],
            size,
        })
    }

    /// Two masks of 4 pixels side by side in the upper left corner of each box, or of the picture.
    /// The better one is for the wider box.
    fn segment_prompted(
        &mut self,
        _: &str,
        image: &ImageValue,
        boxes: &[BBox],
        several: bool,
    ) -> Result<Vec<PromptedMask>, String> {
        let size = image.size();
        let whole = [BBox::new(0.0, 0.0, f64::from(size[0]), f64::from(size[1]))];
        let boxes = if boxes.is_empty() { &whole } else { boxes };
        let squares = |b: &BBox| {
            let [left, top] = [b.x1, b.y1].map(|v| v as usize);
            let parts: &[usize] = if several { &[0, 6] } else { &[0] };
            PromptedMask {
                mask: Bitmap::from_fn(size, |x, y| {
                    let across = |part: &usize| (left + part..left + part + 4).contains(&x);
                    parts.iter().any(across) && (top..top + 4).contains(&y)
                }),
                confidence: b.width() / f64::from(size[0]),
            }
        };
        Ok(boxes.iter().map(squares).collect())
    }

    /// Brightness of the picture, and the requested layer.
    fn features(
        &mut self,
        model_id: &str,
        image: &ImageValue,
        layer: Layer,
    ) -> Result<Features, String> {
        let light = image.pixels.rgb().data.first().copied().unwrap_or(0);
        Ok(Features {
            numbers: vec![
                f32::from(light),
                f32::from(u8::from(layer == Layer::Logits)),
            ],
            space: format!("{model_id} {layer:?}"),
        })
    }

    /// The brighter, the more unusual: 1 from the threshold on for grey.
    fn anomaly(&mut self, _: &str, image: &ImageValue) -> Result<Anomaly, String> {
        let light = image.pixels.rgb().data.first().copied().unwrap_or(0);
        let score = f64::from(light);
        Ok(Anomaly {
            score,
            threshold: 128.0,
            deviation: 16.0,
            map: Array::new(vec![1, 2], vec![0.0, score as f32]).ok_or_else(String::new)?,
        })
    }

    /// Four frames at four frames per second.
    fn wants_run(&mut self, _: &str) -> Result<RunWanted, String> {
        Ok(RunWanted {
            frames: 4,
            fps: 4.0,
            longest: 8,
            confidence: 0.5,
            several: false,
        })
    }

    /// `dark` or `light`, by the newest frame; a black one is an error.
    fn recognise(&mut self, _: &str, frames: &[Arc<RgbPixels>]) -> Result<Vec<ClassScore>, String> {
        let newest = frames.last().and_then(|frame| frame.data.first());
        let light = f64::from(newest.copied().unwrap_or(0)) / 255.0;
        if frames.len() != 4 || light == 0.0 {
            return Err(format!(
                "{} frames, and the last one is black",
                frames.len()
            ));
        }
        let score = |class: &str, class_id, confidence| ClassScore {
            class: Arc::from(class),
            class_id,
            confidence,
        };
        Ok(vec![
            score("dark", 0, 1.0 - light),
            score("light", 1, light),
        ])
    }

    fn depth(&mut self, _: &str, _: &ImageValue) -> Result<Array, String> {
        Array::new(vec![1, 2], vec![3.0, 7.0]).ok_or_else(String::new)
    }

    fn gaze(&mut self, _: &str, image: &ImageValue, _: bool) -> Result<Vec<Gaze>, String> {
        let [width, height] = image.size().map(f64::from);
        Ok(vec![Gaze {
            face: BBox::new(0.0, 0.0, width, height),
            confidence: 1.0,
            yaw: -30.0,
            pitch: 10.0,
        }])
    }

    /// Brightness and width of the picture, so that pictures differ.
    fn embed(&mut self, model_id: &str, image: &ImageValue) -> Result<Vec<f32>, String> {
        let light = image.pixels.rgb().data.first().copied().unwrap_or(0);
        let small = model_id.ends_with("small");
        Ok(vec![f32::from(light), 1.0, f32::from(u8::from(small))])
    }

    /// Length of the text.
    fn embed_text(&mut self, _: &str, text: &str) -> Result<Vec<f32>, String> {
        Ok(vec![text.len() as f32, 1.0, 0.0])
    }

    fn read_text(&mut self, model_id: &str, image: &ImageValue) -> Result<Writing, String> {
        let mut parts = self.detector.0.clone()?;
        parts.truncate(2);
        Ok(Writing {
            text: format!("read by {model_id}"),
            parts: Detections {
                boxes: parts,
                size: image.size(),
            },
        })
    }

    fn emit(&mut self, step: &str, effect: Effect) -> Result<(), String> {
        if !self.takes_effects {
            return FixedBoxes::three().emit(step, effect);
        }
        self.effects.push(effect);
        Ok(())
    }

    fn has_secret(&self, name: &str) -> bool {
        self.secrets.iter().any(|s| s == name)
    }

    fn wall_clock(&self) -> Option<jiff::Timestamp> {
        "2024-05-06T07:08:09.5Z".parse().ok()
    }
}

impl Bench {
    /// A bench for a step, such as `{"type": …, "image": "$inputs.image"}`, with inputs of these
    /// kinds.
    pub(in super::super) fn new(step: Json, inputs: &[(&str, Kind)]) -> Self {
        let compiled = compile(&definition(step, inputs), &BTreeMap::new());
        Self {
            run: compiled.unwrap_or_else(|e| panic!("{e:#?}")).instantiate(),
            now: Duration::ZERO,
            pictures: Pictures::Size,
            host: BenchHost {
                detector: FixedBoxes::three(),
                secrets: Vec::new(),
                effects: Vec::new(),
                takes_effects: true,
            },
        }
    }

    /// Returns why a step is refused whose properties refer to the inputs `image` and `boxes`.
    pub(in super::super) fn refusal(step: Json) -> String {
        let inputs = [("image", Kind::Image), ("boxes", Kind::ObjectDetection)];
        let definition = definition(step, &inputs);
        match compile(&definition, &BTreeMap::new()) {
            Ok(_) => panic!("{definition} compiles"),
            Err(errors) => errors[0].message.clone(),
        }
    }

    /// Adds a secret.
    pub(in super::super) fn with_secret(mut self, name: &str) -> Self {
        self.host.secrets.push(name.to_owned());
        self
    }

    /// Writes pictures in outputs.
    pub(in super::super) fn with_pictures(mut self) -> Self {
        self.pictures = Pictures::Png;
        self
    }

    /// Refuses effects.
    pub(in super::super) fn without_effects(mut self) -> Self {
        self.accept_effects(false);
        self
    }

    pub(in super::super) fn accept_effects(&mut self, accept: bool) {
        self.host.takes_effects = accept;
    }

    /// Continues from the saved state of another bench.
    pub(in super::super) fn resumed(mut self, other: &Self) -> Self {
        let restored = self.run.restore(&other.run.save().bytes).unwrap();
        self.now = restored.now;
        self
    }

    /// Effects of the step.
    pub(in super::super) fn effects(&self) -> &[Effect] {
        &self.host.effects
    }

    /// Advances the clock.
    pub(in super::super) fn wait(&mut self, seconds: f64) {
        self.now += Duration::from_secs_f64(seconds);
    }

    /// Returns the outputs of the step by name, or its error.
    pub(in super::super) fn feed(&mut self, inputs: &[(&str, Value)]) -> Result<Json, String> {
        let each = inputs.iter();
        let each = each.map(|(name, value)| (*name, RuntimeInput::One(value.clone())));
        Ok(self.run(each)?.remove(0))
    }

    /// Like [`Self::feed`] for a batch, with the values of each input per element.
    pub(in super::super) fn feed_batch(
        &mut self,
        inputs: &[(&str, Vec<Value>)],
    ) -> Result<Vec<Json>, String> {
        let each = inputs.iter();
        self.run(each.map(|(name, values)| (*name, RuntimeInput::Many(values.clone()))))
    }

    fn run<'a>(
        &mut self,
        inputs: impl Iterator<Item = (&'a str, RuntimeInput)>,
    ) -> Result<Vec<Json>, String> {
        let inputs = inputs
            .map(|(name, input)| (name.to_owned(), input))
            .collect();
        let report = self
            .run
            .run_batch(inputs, self.now, &mut self.host)
            .map_err(|e| e.message)?;
        match report.errors.first() {
            Some(failure) => Err(failure.message.clone()),
            None => Ok(self
                .run
                .rows_json(self.pictures)
                .into_iter()
                .map(|mut row| row["out"].take())
                .collect()),
        }
    }

    /// Ends the source.
    pub(in super::super) fn finish(&mut self) {
        let report = self.run.finish(&mut self.host);
        assert!(report.errors.is_empty(), "{report:?}");
    }

    /// Returns an output after the last frame; of a batch its first element.
    pub(in super::super) fn value(&self, output: &str) -> Option<Value> {
        self.run.output_of("step", output).cloned()
    }
}

/// A definition with one step and all of its outputs.
fn definition(mut step: Json, inputs: &[(&str, Kind)]) -> Json {
    step["name"] = json!("step");
    let inputs: Vec<Json> = inputs
        .iter()
        .map(|(name, kind)| {
            json!({"type": "WorkflowBatchInput", "name": name, "kind": [kind.name()]})
        })
        .collect();
    json!({
        "version": "1.0", "inputs": inputs, "steps": [step],
        "outputs": [{
            "type": "JsonField", "name": "out", "selector": "$steps.step.*", "coordinates_system": "own"
        }]
    })
}

/// Detections from serialised rows; missing members are filled in.
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
    input::detections::detections("image", &json, &mut { u64::MAX })
        .unwrap()
        .into()
}

/// Frame `number` of a recording at 30 frames per second; `paint` gives the colour of each pixel by
/// column and row.
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
    frame_of(number, Arc::new(pixels))
}

/// Black pixels in memory that is not touched, so that large pictures cost nothing.
pub(in super::super) fn black([width, height]: [u32; 2]) -> Arc<RgbPixels> {
    let data = vec![0; width as usize * height as usize * 3];
    Arc::new(RgbPixels {
        width,
        height,
        data,
    })
}

/// Frame `number` of a recording at 30 frames per second, with these pixels.
pub(in super::super) fn frame_of(number: u64, pixels: Arc<RgbPixels>) -> Value {
    let meta = VideoMeta {
        video_identifier: Arc::from("test"),
        frame_number: number,
        frame_timestamp: 1_700_000_000.0 + number as f64 / 30.0,
        source_s: None,
        fps: Some(30.0),
        comes_from_video_file: true,
    };
    ImageValue::new(Arc::new(Packed(pixels)), meta).into()
}
