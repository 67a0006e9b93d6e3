//! In steady state, a frame allocates nothing on its way from the mailbox through detector,
//! workflow and rules.
//!
//! - Capture is not counted: GStreamer owns those buffers. Nor is a back end: the network is a
//!   double.
//! - The frames are made beforehand and played twice before counting, because memory grows with
//!   the largest number of boxes and tracks so far. No event is made.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use allocation_counter::measure;
use serde_json::json;
use watchkeeper_contract::id::EventId;
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::rule::Weekday;
use watchkeeper_detect::motion::{MotionDetector, MotionSettings};
use watchkeeper_detect::network::{Feed, Network, Tensor};
use watchkeeper_detect::neural::NeuralDetector;
use watchkeeper_detect::{Detector, SharedNetwork};
use watchkeeper_engine::rules::LocalTime;
use watchkeeper_models::{Manifest, testing};
use watchkeeper_runtime::pipeline::inference::detectors::Detectors;
use watchkeeper_runtime::pipeline::inference::host::DetectHost;
use watchkeeper_runtime::pipeline::plan::plan;
use watchkeeper_runtime::pipeline::run::Run;
use watchkeeper_vision::frame::testing::{frame, picture};
use watchkeeper_vision::frame::{Frame, PixelFormat};

/// Frames of one round of the scene.
const ROUND: u32 = 120;

const SIZE: [u32; 2] = [320, 240];

/// Left edge of the block that walks through the scene.
fn left(n: u32) -> u32 {
    20 + (n % ROUND) * 2
}

/// A bright block that walks through a dark picture, in I420.
fn scene(n: u32) -> Frame {
    let [width, height] = SIZE.map(|side| side as usize);
    let mut luma = vec![40; width * height];
    for y in 100..160 {
        let from = y * width + left(n) as usize;
        luma[from..from + 40].fill(200);
    }
    let chroma = || (vec![128; width * height / 4], width / 2);
    let planes = vec![(luma, width), chroma(), chroma()];
    let mut frame = frame(picture(SIZE[0], SIZE[1], PixelFormat::I420, planes));
    frame.fps = Some(10.0);
    frame.recorded = false;
    frame
}

/// A network that finds the block, in a picture that its input holds without padding.
struct Double {
    asked: AtomicU32,
}

impl Network for Double {
    fn backend(&self) -> &'static str {
        "double"
    }

    fn infer(&self, _: &[Feed<'_>], read: &mut dyn FnMut(&[Tensor<'_>])) -> Result<(), String> {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        let centre = (left(asked) + 20) as f32;
        read(&[Tensor {
            name: "out",
            shape: &[1, 1, 5],
            data: &[centre, 130.0, 40.0, 60.0, 0.9],
        }]);
        Ok(())
    }
}

fn manifest() -> Arc<Manifest> {
    let decode = "kind = \"yolov8\"";
    testing::manifest("object-detection", SIZE, &["person"], decode)
}

/// Motion filter, detector, tracker, line and zone, with a rule that no object meets.
fn run(detector: &dyn Fn() -> Box<dyn Detector>) -> Run {
    let (image, tracked) = ("$inputs.image", "$steps.tracker.tracked_detections");
    let spec: PipelineSpec = serde_json::from_value(json!({
        "id": "p", "source": "cam", "detect": {"mode": "on_motion"},
        "workflow": {
            "version": "1.0",
            "inputs": [{"type": "WorkflowImage", "name": "image"}],
            "steps": [
                {"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "model",
                 "images": image, "model_id": "any", "class_filter": ["car", "person"]},
                {"type": "watchkeeper/tracker@v1", "name": "tracker", "image": image,
                 "detections": "$steps.model.predictions"},
                {"type": "watchkeeper/line_counter@v1", "name": "line", "image": image,
                 "detections": tracked, "line_segment": [[160, 0], [160, 240]]},
                {"type": "roboflow_core/time_in_zone@v3", "name": "zone", "image": image,
                 "detections": tracked, "zone": [[0, 0], [320, 0], [320, 240], [0, 240]]},
            ],
            "outputs": [
                {"type": "JsonField", "name": "in", "selector": "$steps.line.count_in"},
                {"type": "JsonField", "name": "timed", "selector": "$steps.zone.timed_detections"},
            ],
        },
        "rules": [{"name": "loitering", "when": {"kind": "stays", "zone": "zone", "for_s": 3e6}}],
    }))
    .unwrap();
    let plan = plan(&spec).unwrap();
    let detectors = Detectors::open(&spec, &plan, &|_| Ok(detector())).unwrap();
    Run::new(plan, DetectHost::new(detectors, 1), &spec)
}

/// The numbers of allocations of the frames of one round in steady state.
fn allocations(detector: &dyn Fn() -> Box<dyn Detector>) -> Vec<u64> {
    let mut run = run(detector);
    let local = Some(LocalTime {
        weekday: Weekday::Mon,
        minute_of_day: 0,
    });
    let scenes: Vec<Frame> = (0..ROUND).map(scene).collect();
    let mut counts = Vec::new();
    for n in 0..3 * ROUND {
        let mut frame = scenes[(n % ROUND) as usize].clone();
        frame.id.seq = u64::from(n);
        frame.pts = Duration::from_millis(100) * n;
        let info = measure(|| {
            let mut new_id = || -> EventId { unreachable!("no event") };
            let outcome = run.process(&frame, local, &mut new_id);
            let processed = outcome.processed.as_ref().unwrap();
            assert!(processed.changes.is_empty(), "{:?}", processed.changes);
            assert_eq!(processed.failures.len(), 0);
            drop(outcome);
            run.finish_frame(Duration::ZERO).for_each(drop);
        });
        if n >= 2 * ROUND {
            counts.push(info.count_total);
        }
    }
    let results = run.results();
    assert!(results.tracks > 0, "{results:?}");
    counts
}

/// In a round one track begins, an entry of a map, and crosses the line once. The depth of a
/// crossing is a property of its detection: a box, an entry of a map and its name.
const OF_A_ROUND: [u64; 2] = [1, 3];

/// Only the frames in which the track begins and crosses the line allocate.
fn check(counts: &[u64]) {
    let some = counts.iter().copied().filter(|count| *count > 0);
    assert_eq!(some.collect::<Vec<u64>>(), OF_A_ROUND, "{counts:?}");
}

#[test]
fn frame_with_a_network_allocates_nothing() {
    check(&allocations(&|| {
        let network = SharedNetwork::new(Box::new(Double {
            asked: AtomicU32::new(0),
        }));
        Box::new(NeuralDetector::new(manifest(), network))
    }));
}

#[test]
fn frame_with_the_motion_detector_allocates_nothing() {
    check(&allocations(&|| {
        Box::new(MotionDetector::new(MotionSettings::default()))
    }));
}
