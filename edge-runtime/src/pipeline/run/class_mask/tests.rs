//! Pixels of an object of a masked class, in every picture of a pipeline.

#![allow(clippy::unwrap_used, reason = "a test that can't set up has failed")]

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value as Json, json};
use watchkeeper_contract::id::{EventId, SourceId};
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::rule::Weekday;
use watchkeeper_detect::{
    DetectError, DetectParams, DetectTimes, Detector, DetectorInfo, OwnThresholds, RawDetection,
    nms,
};
use watchkeeper_engine::rules::LocalTime;
use watchkeeper_engine::workflow::Pixels;
use watchkeeper_vision::frame::Frame;
use watchkeeper_vision::frame::testing::rgb_frame;
use watchkeeper_vision::jpeg;

use super::*;
use crate::pipeline::inference::detectors::Detectors;
use crate::pipeline::inference::host::DetectHost;
use crate::pipeline::plan::plan;
use crate::pipeline::run::{FrameOutcome, ProcessedFrame, Run};

const SIZE: [u32; 2] = [128, 96];

/// Where the object is: a white rectangle in a grey picture.
const OBJECT: [u32; 4] = [40, 20, 70, 60];

/// Finds the object with a low score, as the first class, in every frame that shows it. A model of
/// two classes is sure of the second one at the same place.
struct Finder {
    info: DetectorInfo,
    has_seen_whole: Arc<AtomicBool>,
}

impl Detector for Finder {
    fn info(&self) -> &DetectorInfo {
        &self.info
    }

    fn detect(
        &mut self,
        frame: &Frame,
        params: &DetectParams,
        out: &mut Vec<RawDetection>,
    ) -> Result<DetectTimes, DetectError> {
        out.clear();
        let is_there = frame.picture.planes.plane(0).data.contains(&255);
        self.has_seen_whole.fetch_or(is_there, Ordering::Relaxed);
        let [x1, y1, x2, y2] = OBJECT.map(f64::from);
        let found = |class_id: usize, score: f32, x2: f64| RawDetection {
            bbox: BBox::new(x1, y1, x2, y2),
            score,
            class_id,
            column: 0,
        };
        if is_there {
            out.push(found(0, 0.3, x2));
            if self.info.labels.len() > 1 {
                out.push(found(1, 0.9, x1 + 10.0));
                // Another one of the first class, in front of a half of it.
                out.push(found(0, 0.8, x1 + 15.0));
            }
        }
        let own = self.info.own;
        let least = params.confidence.unwrap_or(own.confidence);
        out.retain(|raw| raw.score >= least);
        let is_agnostic = params.class_agnostic_nms.unwrap_or(own.class_agnostic);
        let iou = params.iou_threshold.or(own.iou);
        nms::suppress(out, iou, is_agnostic, params.max_detections);
        Ok(DetectTimes::default())
    }
}

/// A run with this step after the model, on a camera that hides persons.
struct Case {
    run: Run,
    has_seen_whole: Arc<AtomicBool>,
    frames: u64,
}

impl Case {
    fn new(labels: &[&str], model: Json, drawing: Option<Json>, more: Json) -> Self {
        let mut step = json!({
            "type": "roboflow_core/roboflow_object_detection_model@v2", "name": "model",
            "images": "$inputs.image", "model_id": "finder",
        });
        let members = model.as_object().unwrap().clone();
        step.as_object_mut().unwrap().extend(members);
        let steps: Vec<Json> = [step].into_iter().chain(drawing).collect();
        let mut spec = json!({"id": "p", "source": "test", "rules": [], "workflow": {
            "version": "1.0", "inputs": [{"type": "WorkflowImage", "name": "image"}],
            "steps": steps,
            "outputs": [{"type": "JsonField", "name": "found", "selector": "$steps.model.predictions"}],
        }});
        let more = more.as_object().unwrap().clone();
        spec.as_object_mut().unwrap().extend(more);
        let spec: PipelineSpec = serde_json::from_value(spec).unwrap();
        let plan = plan(&spec).unwrap();
        let has_seen_whole = Arc::new(AtomicBool::new(false));
        let open = |_: &str| {
            let labels = labels.iter().map(|label| Arc::from(*label));
            let info = DetectorInfo {
                model: "finder".into(),
                backend: "test".into(),
                threads: None,
                tensor_copies: None,
                task: watchkeeper_models::manifest::Task::ObjectDetection,
                input: None,
                labels: labels.collect(),
                knows_classes: true,
                follows_one_picture: false,
                space: None,
                own: OwnThresholds {
                    confidence: 0.5,
                    iou: Some(0.3),
                    class_agnostic: false,
                },
            };
            let has_seen_whole = Arc::clone(&has_seen_whole);
            Ok(Box::new(Finder {
                info,
                has_seen_whole,
            }) as Box<dyn Detector>)
        };
        let detectors = Detectors::open(&spec, &plan, &open).unwrap();
        let mask = PrivacyMask {
            source: SourceId::new("test").unwrap(),
            uri: "demo:".to_owned(),
            regions: Vec::new(),
            fill: MaskFill::Black,
            classes: vec!["person".to_owned()],
        };
        Self {
            run: Run::new(plan, DetectHost::new(detectors, 1), &spec).masking(Arc::new(mask)),
            has_seen_whole,
            frames: 0,
        }
    }

    /// Processes a frame 100 ms after the last one. The object is always there; the finder misses
    /// it where the frame has no pure white.
    fn frame(&mut self, white: u8) -> FrameOutcome {
        let mut frame = rgb_frame(SIZE[0], SIZE[1], [90; 3]);
        let mut data = frame.picture.planes.plane(0).data.to_vec();
        let [x1, y1, x2, y2] = OBJECT;
        for (n, pixel) in (0..).zip(data.chunks_exact_mut(3)) {
            let (x, y) = (n % SIZE[0], n / SIZE[0]);
            if (x1..x2).contains(&x) && (y1..y2).contains(&y) {
                pixel.fill(white);
            }
        }
        frame.picture = Picture::rgb(SIZE[0], SIZE[1], data);
        self.frames += 1;
        frame.id.seq = self.frames;
        frame.pts = Duration::from_millis(100 * self.frames);
        let local = Some(LocalTime {
            weekday: Weekday::Mon,
            minute_of_day: 600,
        });
        self.run.process(&frame, local, &mut EventId::generate)
    }

    /// Like [`Self::frame`], of a frame that is not skipped.
    fn processed(&mut self, white: u8) -> ProcessedFrame {
        self.frame(white).processed.unwrap()
    }
}

/// The brightest value of the middle of the object: its own, or that of its replacement.
fn shown(pixels: &dyn Pixels) -> u8 {
    let rgb = pixels.rgb();
    let at = |x: u32, y: u32| rgb.data[((y * rgb.width + x) * 3) as usize];
    let [x1, y1, x2, y2] = OBJECT;
    // Away from the outline of a drawn box.
    let middle = (x1 + 5..x2 - 5).flat_map(|x| (y1 + 5..y2 - 5).map(move |y| (x, y)));
    middle.map(|(x, y)| at(x, y)).max().unwrap_or(0)
}

/// The number of pixels that are as bright as the object.
fn bright(pixels: &dyn Pixels) -> usize {
    let rgb = pixels.rgb();
    rgb.data
        .chunks_exact(3)
        .filter(|p| p.iter().all(|v| *v > 240))
        .count()
}

fn boxes() -> Json {
    json!({"type": "roboflow_core/bounding_box_visualization@v1", "name": "draw",
        "image": "$inputs.image", "predictions": "$steps.model.predictions"})
}

#[test]
fn object_of_masked_class_is_in_no_picture_and_model_sees_it() {
    let mut case = Case::new(
        &["person"],
        json!({"confidence": 0.1}),
        Some(boxes()),
        json!({}),
    );
    let FrameOutcome {
        picture, processed, ..
    } = case.frame(255);
    let outcome = processed.unwrap();
    assert!(case.has_seen_whole.load(Ordering::Relaxed));
    assert_eq!(outcome.failures, []);
    let clip = jpeg::to_rgb(picture.as_ref().unwrap()).unwrap();
    assert!(clip.pixels().all(|p| p.0[0] < 240), "the picture of clips");
    assert_eq!(bright(&*outcome.clean), 0);
    let annotated = outcome.annotated.unwrap();
    assert_eq!(bright(&*annotated), 0);
    let drawn = annotated.rgb().data != outcome.clean.rgb().data;
    assert!(drawn, "the box is drawn on the masked picture");
}

#[test]
fn frames_without_motion_are_looked_at_too() {
    let mut case = Case::new(
        &["person"],
        json!({"confidence": 0.1}),
        None,
        json!({"detect": {"mode": "on_motion", "refresh_s": 3600.0}}),
    );
    for _ in 0..20 {
        case.has_seen_whole.store(false, Ordering::Relaxed);
        assert_eq!(bright(&*case.processed(255).clean), 0);
        assert!(case.has_seen_whole.load(Ordering::Relaxed));
    }
}

#[test]
fn filter_confidence_and_overlap_of_a_step_uncover_nothing() {
    for (wanted, model) in [
        (1, json!({"class_filter": ["car"], "confidence": 0.1})),
        (1, json!({"confidence": 0.85})),
        (1, json!({"confidence": 0.1, "max_detections": 1})),
        (3, json!({"confidence": 0.1, "iou_threshold": 1.0})),
        (2, json!({"confidence": 0.1, "iou_threshold": 0.0})),
        (
            1,
            json!({"confidence": 0.1, "iou_threshold": 0.0, "class_agnostic_nms": true}),
        ),
        (
            2,
            json!({"type": "roboflow_core/roboflow_object_detection_model@v3"}),
        ),
    ] {
        let mut case = Case::new(&["person", "car"], model.clone(), None, json!({}));
        let outcome = case.processed(255);
        assert_eq!(bright(&*outcome.clean), 0, "{model}");
        let found = case.run.results().outputs["found"]["predictions"].clone();
        let kept = found.as_array().map(Vec::len);
        assert_eq!(kept, Some(wanted), "what {model} asks for: {found}");
    }
}

#[test]
fn missed_object_stays_masked_for_a_second() {
    let mut case = Case::new(&["person"], json!({"confidence": 0.1}), None, json!({}));
    case.frame(255);
    for n in 1..=10 {
        assert!(shown(&*case.processed(254).clean) < 240, "{n}");
    }
    // After that nothing is known of it any more: a limit that the documents state.
    assert_eq!(shown(&*case.processed(254).clean), 254);
}

#[test]
fn frame_is_black_where_no_model_knows_the_class() {
    let mut case = Case::new(
        &["car"],
        json!({"confidence": 0.1}),
        Some(boxes()),
        json!({}),
    );
    let outcome = case.processed(255);
    let rgb = outcome.clean.rgb();
    assert!(rgb.data.iter().all(|value| *value == 0));
    let warnings = case.run.warnings();
    let told = warnings.iter().find(|w| w.kind == WarningKind::PrivacyMask);
    let told = told
        .map(|warning| warning.message.as_str())
        .unwrap_or_default();
    assert!(told.contains("hides person"), "{told}");
}

#[test]
fn drawing_that_holds_pixels_is_left_out() {
    let crops = json!({"type": "roboflow_core/crop_visualization@v1", "name": "draw",
        "image": "$inputs.image", "predictions": "$steps.model.predictions"});
    let mut case = Case::new(
        &["person"],
        json!({"confidence": 0.1}),
        Some(crops),
        json!({}),
    );
    let outcome = case.processed(255);
    assert_eq!(outcome.failures, []);
    assert!(outcome.annotated.is_none());
    assert_eq!(bright(&*outcome.clean), 0);
}

#[test]
fn skipped_frame_has_no_picture() {
    let detect = json!({"detect": {"mode": "periodic", "every_s": 1.0}});
    let mut case = Case::new(&["person"], json!({"confidence": 0.1}), None, detect);
    assert!(case.frame(255).picture.is_some());
    let skipped = case.frame(255);
    assert!(skipped.processed.is_none() && skipped.picture.is_none());
}
