//! Layouts of other families, decoded from real outputs of a real network.
//!
//! The test data has no file of the families of YOLOv8 or DETR. So the output of a YOLOX network
//! for real pictures is rearranged into the layout of another family. The code after the network
//! must then find the same boxes.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use watchkeeper_contract::time::{TimeQuality, Wall};
use watchkeeper_detect::SharedNetwork;
use watchkeeper_detect::backend::{BackendChoice, load};
use watchkeeper_detect::network::{Feed, Network, Tensor};
use watchkeeper_detect::neural::NeuralDetector;
use watchkeeper_detect::{DetectParams, Detector, OrtSettings, RawDetection};
use watchkeeper_models::Manifest;
use watchkeeper_tests::daemons::data;
use watchkeeper_vision::frame::{Frame, FrameId};

const SIDE: usize = 416;
const STRIDES: [usize; 3] = [8, 16, 32];
const CLASSES: usize = 80;
/// Number of tested pictures.
const PICTURES: usize = 24;

/// One cell of the YOLOX output, decoded.
struct GridCell {
    /// Centre and size in pixels of the input.
    bbox: [f32; 4],
    /// Score of every class, multiplied by the objectness.
    scores: Vec<f32>,
    objectness: f32,
}

/// Decodes the grid of YOLOX (arXiv 2107.08430), implemented a second time on purpose.
fn decode_cells(data: &[f32]) -> Vec<GridCell> {
    let cells = STRIDES.iter().flat_map(|&stride| {
        let side = SIDE / stride;
        (0..side * side).map(move |i| ((i % side) as f32, (i / side) as f32, stride as f32))
    });
    data.chunks_exact(5 + CLASSES)
        .zip(cells)
        .map(|(row, (x, y, stride))| GridCell {
            bbox: [
                (row[0] + x) * stride,
                (row[1] + y) * stride,
                row[2].exp() * stride,
                row[3].exp() * stride,
            ],
            scores: row[5..].iter().map(|class| row[4] * class).collect(),
            objectness: row[4],
        })
        .collect()
}

/// A tensor with its own data.
type OwnedTensor = (Vec<usize>, Vec<f32>);

/// Layout of another family.
#[derive(Clone, Copy)]
struct Layout {
    name: &'static str,
    /// Section `[decode]` of the manifest.
    decode: &'static str,
    say: fn(&[GridCell]) -> Vec<OwnedTensor>,
    /// Largest difference of a score, and of a coordinate in pixels of the picture.
    near: (f32, f64),
}

const LAYOUTS: [Layout; 5] =
    [
        Layout {
            name: "yolov8, fields first",
            decode: "kind = \"yolov8\"",
            say: |things| {
                let mut data = vec![0.0; 84 * things.len()];
                for (i, thing) in things.iter().enumerate() {
                    let fields = thing.bbox.iter().chain(&thing.scores);
                    for (f, value) in fields.enumerate() {
                        data[f * things.len() + i] = *value;
                    }
                }
                vec![(vec![1, 84, things.len()], data)]
            },
            near: (0.0, 0.0),
        },
        Layout {
            name: "yolov8, boxes first, with objectness as YOLOv5 has it",
            decode: "kind = \"yolov8\"\nhas_objectness = true",
            say: |things| {
                let row = |t: &GridCell| {
                    let class = |s: &f32| {
                        if t.objectness > 0.0 {
                            s / t.objectness
                        } else {
                            0.0
                        }
                    };
                    let mut row = t.bbox.to_vec();
                    row.push(t.objectness);
                    row.extend(t.scores.iter().map(class));
                    row
                };
                vec![(
                    vec![1, things.len(), 85],
                    things.iter().flat_map(row).collect(),
                )]
            },
            near: (1e-6, 0.0),
        },
        Layout {
            name: "yolov8 without its last sigmoid",
            decode: "kind = \"yolov8\"\nsigmoid = true",
            say: |things| {
                let row = |t: &GridCell| {
                    let mut row = t.bbox.to_vec();
                    row.extend(t.scores.iter().copied().map(logit));
                    row
                };
                vec![(
                    vec![1, things.len(), 84],
                    things.iter().flat_map(row).collect(),
                )]
            },
            near: (1e-5, 0.0),
        },
        Layout {
            name: "detr with sigmoid, as RF-DETR",
            decode: "kind = \"detr\"\nscores = \"sigmoid\"",
            say: |things| {
                let logits = things
                    .iter()
                    .flat_map(|t| t.scores.iter().copied().map(logit));
                vec![
                    normalised(things),
                    (vec![1, things.len(), CLASSES], logits.collect()),
                ]
            },
            near: (1e-5, 1e-2),
        },
        Layout {
            name: "detr with softmax and a column for nothing",
            decode: "kind = \"detr\"\nscores = \"softmax\"",
            say: |things| {
                // Independent scores are no distribution, so the best one stands against
                // background.
                let row =
                    |t: &GridCell| {
                        let (class, score) = t.scores.iter().copied().enumerate().fold(
                            (0, f32::MIN),
                            |best, (i, s)| if s > best.1 { (i, s) } else { best },
                        );
                        let mut row = vec![-100.0; CLASSES + 1];
                        row[class] = score.max(f32::MIN_POSITIVE).ln();
                        row[CLASSES] = (1.0 - score).max(f32::MIN_POSITIVE).ln();
                        row
                    };
                vec![
                    normalised(things),
                    (
                        vec![1, things.len(), CLASSES + 1],
                        things.iter().flat_map(row).collect(),
                    ),
                ]
            },
            near: (1e-5, 1e-2),
        },
    ];

fn logit(score: f32) -> f32 {
    (score / (1.0 - score)).ln()
}

/// Returns centres and sizes in shares of the input.
fn normalised(things: &[GridCell]) -> OwnedTensor {
    let boxes = things.iter().flat_map(|t| t.bbox.map(|v| v / SIDE as f32));
    (vec![1, things.len(), 4], boxes.collect())
}

/// A real YOLOX network with the output of another layout.
struct Translated {
    network: Box<dyn Network>,
    layout: Layout,
}

impl Network for Translated {
    fn backend(&self) -> &'static str {
        self.network.backend()
    }

    fn infer(
        &self,
        inputs: &[Feed<'_>],
        read: &mut dyn FnMut(&[Tensor<'_>]),
    ) -> Result<(), String> {
        let say = self.layout.say;
        self.network.infer(inputs, &mut |outputs| {
            let said = say(&decode_cells(outputs[0].data));
            let tensors: Vec<Tensor<'_>> = said
                .iter()
                .map(|(shape, data)| Tensor {
                    name: "translated",
                    shape,
                    data,
                })
                .collect();
            read(&tensors);
        })
    }
}

fn zoo_manifest() -> (PathBuf, String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/zoo/yolox-nano.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    (path, text)
}

/// Makes the manifest of YOLOX-nano with another `[decode]`.
fn manifest_with(decode: &str) -> Arc<Manifest> {
    let (path, text) = zoo_manifest();
    let (head, rest) = text.split_once("[decode]").unwrap();
    let (_, nms) = rest.split_once("[nms]").unwrap();
    let text = format!("{head}[decode]\n{decode}\n\n[nms]{nms}");
    Arc::new(Manifest::parse(&path, &text).unwrap())
}

fn network(data: &Path) -> Box<dyn Network> {
    let (path, text) = zoo_manifest();
    let manifest = Manifest::parse(&path, &text).unwrap();
    load(
        BackendChoice::Rten,
        &data.join("models/yolox_nano.onnx"),
        &manifest,
        None,
        &OrtSettings::default(),
        None,
    )
    .unwrap()
}

fn frames(data: &Path) -> Vec<Frame> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(data.join("coco/images"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files.truncate(PICTURES);
    (1..)
        .zip(files)
        .map(|(seq, file)| frame(seq, &file))
        .collect()
}

fn frame(seq: u64, file: &Path) -> Frame {
    let picture = image::open(file).unwrap().into_rgb8().into();
    let id = FrameId {
        source: "coco".parse().unwrap(),
        seq,
    };
    let wall = Wall {
        unix_ms: 0,
        quality: TimeQuality::Unsynced,
    };
    Frame::still(id, std::time::Instant::now(), wall, picture)
}

fn detect(detector: &mut NeuralDetector, frames: &[Frame]) -> Vec<Vec<RawDetection>> {
    let params = DetectParams::default();
    let mut found = Vec::new();
    frames
        .iter()
        .map(|frame| {
            detector.detect(frame, &params, &mut found).unwrap();
            found.clone()
        })
        .collect()
}

#[test]
fn every_output_layout_gives_the_same_boxes() {
    let Some(data) = data("decoders on real tensors") else {
        return;
    };
    let frames = frames(&data);
    let (path, text) = zoo_manifest();
    let own = Arc::new(Manifest::parse(&path, &text).unwrap());
    let mut yolox = NeuralDetector::new(own, SharedNetwork::new(network(&data)));
    let wanted = detect(&mut yolox, &frames);
    let total: usize = wanted.iter().map(Vec::len).sum();
    assert!(total > 2 * PICTURES, "only {total} things to compare");

    for layout in LAYOUTS {
        let translated: Box<dyn Network> = Box::new(Translated {
            network: network(&data),
            layout,
        });
        let manifest = manifest_with(layout.decode);
        let mut other = NeuralDetector::new(manifest, SharedNetwork::new(translated));
        let found = detect(&mut other, &frames);
        for (picture, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
            let place = format!("{}, picture {picture}", layout.name);
            assert_eq!(found.len(), wanted.len(), "{place}: {found:?} {wanted:?}");
            for (found, wanted) in found.iter().zip(wanted) {
                let (of_score, of_box) = layout.near;
                let (f, w) = (&found.bbox, &wanted.bbox);
                let apart = [f.x1 - w.x1, f.y1 - w.y1, f.x2 - w.x2, f.y2 - w.y2];
                assert_eq!(found.class_id, wanted.class_id, "{place}");
                assert!((found.score - wanted.score).abs() <= of_score, "{place}");
                assert!(
                    apart.iter().all(|d| d.abs() <= of_box),
                    "{place}: {apart:?}"
                );
            }
        }
    }
}
