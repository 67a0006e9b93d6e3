//! Tests of the whole language: small definitions, the peer's verdicts where available, random
//! definitions.

pub(super) mod bench;
pub(super) mod blocks;
mod conformance;
mod definitions;
mod errors;
mod flow_control;
mod golden_states;
mod limits;
mod operations;
mod panics;
mod parameters;
mod peer;
mod random;
mod readers;
mod sinks;
mod state;
mod visualizations;

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value as Json;
use watchkeeper_vision::detections::{Detection, DetectionId, Detections};
use watchkeeper_vision::geometry::BBox;

use super::{DetectRequest, Host, ImageValue, Pixels, RgbPixels, VideoMeta};

/// Folder of the test data, if there is one.
fn data(path: &str) -> Option<PathBuf> {
    let root = std::env::var_os("WATCHKEEPER_DATA").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let path = root.join(path);
    if path.exists() {
        return Some(path);
    }
    #[expect(clippy::print_stderr, reason = "a skipped test has to say so")]
    {
        eprintln!("SKIPPED: no test data at {}", path.display());
    }
    None
}

fn read(path: &PathBuf) -> Json {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[derive(Debug)]
struct Grey([u32; 2]);

impl Pixels for Grey {
    fn size(&self) -> [u32; 2] {
        self.0
    }

    fn rgb(&self) -> Arc<RgbPixels> {
        let [width, height] = self.0;
        Arc::new(RgbPixels {
            width,
            height,
            data: vec![128; (width * height * 3) as usize],
        })
    }
}

/// Frame `number` of a recording at 30 frames per second.
pub(super) fn frame(number: u64, size: [u32; 2]) -> ImageValue {
    ImageValue::new(
        Arc::new(Grey(size)),
        VideoMeta {
            video_identifier: Arc::from("test"),
            frame_number: number,
            frame_timestamp: 1_700_000_000.0 + number as f64 / 30.0,
            source_s: None,
            fps: Some(30.0),
            comes_from_video_file: true,
        },
    )
}

fn detection(class: &str, class_id: i64, confidence: f64, bbox: [f64; 4], id: &str) -> Detection {
    let [x1, y1, x2, y2] = bbox;
    Detection::new(
        BBox::new(x1, y1, x2, y2),
        confidence,
        class_id,
        class,
        DetectionId::Given(Arc::from(id)),
    )
}

/// A host that finds the same boxes in every picture, or fails.
pub(super) struct FixedBoxes(Result<Vec<Detection>, String>);

impl FixedBoxes {
    /// The three boxes of the model behind the peer's outputs.
    pub(super) fn three() -> Self {
        Self(Ok(vec![
            detection("person", 0, 0.9, [120.0, 60.0, 200.0, 180.0], "a"),
            detection("car", 2, 0.8, [270.0, 210.0, 370.0, 270.0], "b"),
            detection("person", 0, 0.7, [470.0, 250.0, 530.0, 390.0], "c"),
        ]))
    }
}

impl Host for FixedBoxes {
    fn detect(&mut self, request: &DetectRequest<'_>) -> Result<Detections, String> {
        Ok(Detections {
            boxes: self.0.clone()?,
            size: request.image.size(),
        })
    }
}
