//! Target `decoders`: outputs of a network of any shape, with any numbers.
//!
//! - The path of one frame is tested: decode, suppress, map back, clip.
//! - Outputs that do not fit the manifest give an error that names the family.
//! - Every bounding box is finite, has an area and lies in the picture.
//! - Scores are in `0.0..=1.0` and classes in the labels.
//! - Boxes come in descending score order, at most as many as requested.
//! - Outputs of networks that find no objects keep what their decoder promises.

use std::path::Path;

use watchkeeper_detect::RawDetection;
use watchkeeper_detect::decode::lines::Line;
use watchkeeper_detect::decode::segments::SegmentParams;
use watchkeeper_detect::decode::shapes::{Shape, Shapes};
use watchkeeper_detect::decode::{
    self, Request, anomaly, ctc, decode, depth, embedding, gaze, lines, prompted, segments,
};
use watchkeeper_detect::letterbox::Letterbox;
use watchkeeper_detect::network::Tensor;
use watchkeeper_detect::nms::suppress;
use watchkeeper_models::Manifest;
use watchkeeper_models::manifest::{ClassScores, Cover, DecodeKind};
use watchkeeper_vision::geometry::{BBox, Point};

use super::hostile::Choices;

/// The families, each with its part of the manifest and the shapes for an input of 16×16 with two
/// classes.
const FAMILIES: [(&str, &[&[usize]]); 23] = [
    ("kind = \"yolox\"\nstrides = [8, 16]", &[&[1, 5, 7]]),
    ("kind = \"yolov8\"", &[&[1, 6, 4]]),
    ("kind = \"yolov8\"\nsigmoid = true", &[&[1, 4, 6]]),
    ("kind = \"yolov8\"\nhas_objectness = true", &[&[1, 3, 7]]),
    (
        "kind = \"nanodet\"\nstrides = [8]\nreg_max = 1\ncell = \"corner\"",
        &[&[1, 4, 2], &[1, 4, 8]],
    ),
    (
        "kind = \"nanodet\"\nstrides = [16]\nreg_max = 2\ncell = \"pixel-centre\"\nsigmoid = true",
        &[&[1, 1, 2], &[1, 1, 12]],
    ),
    (
        "kind = \"detr\"\nscores = \"sigmoid\"",
        &[&[1, 3, 4], &[1, 3, 2]],
    ),
    (
        "kind = \"detr\"\nscores = \"softmax\"",
        &[&[1, 3, 4], &[1, 3, 3]],
    ),
    (
        "kind = \"yolov8-seg\"\ncoefficients = 2",
        &[&[1, 8, 4], &[1, 2, 3, 5]],
    ),
    (
        "kind = \"yolov8-pose\"\nkeypoints = [\"nose\", \"tail\"]",
        &[&[1, 12, 4]],
    ),
    ("kind = \"classes\"\nscores = \"softmax\"", &[&[1, 2]]),
    ("kind = \"embedding\"", &[&[1, 8]]),
    (
        "kind = \"ctc\"\ncharacters = \"ab\"\nblank = \"first\"\nscores = \"softmax\"",
        &[&[1, 5, 3]],
    ),
    (
        "kind = \"ctc\"\ncharacters = \"ab\"\nblank = \"last\"\nscores = \"plain\"",
        &[&[6, 1, 3]],
    ),
    (
        "kind = \"segments\"\nscores = \"softmax\"",
        &[&[1, 2, 4, 3]],
    ),
    (
        "kind = \"segments\"\nscores = \"sigmoid\"",
        &[&[1, 2, 1, 1]],
    ),
    ("kind = \"depth\"", &[&[1, 4, 5]]),
    (
        "kind = \"gaze\"\nbins = 4\ndegrees_per_bin = 10.0",
        &[&[1, 4], &[1, 4]],
    ),
    (
        "kind = \"classes\"\nscores = \"softmax\"\nhas_features = true",
        &[&[1, 2], &[1, 8]],
    ),
    (
        "kind = \"anomaly\"\nthreshold = 0.5",
        &[&[1], &[1, 1, 4, 5]],
    ),
    (
        "kind = \"actions\"\nscores = \"sigmoid\"\nframes = 4\nfps = 2.0\norder = \"frames-first\"",
        &[&[1, 2]],
    ),
    (
        "kind = \"features\"\noutputs = [\"a\", \"b\"]\n[masks]\nfile = \"m.onnx\"\ncover = \"input\"",
        &[&[1, 4, 5, 3], &[1, 4]],
    ),
    (
        "kind = \"ssd\"\nstrides = [16, 32]",
        &[&[1, 9, 4], &[1, 9, 3]],
    ),
];

pub(super) fn decoders(input: &[u8]) {
    let mut choices = Choices::new(input);
    let (family, fitting) = choices.pick(&FAMILIES);
    let manifest = manifest(family);
    let shapes: Vec<Vec<usize>> = match choices.byte() {
        0..224 => fitting.iter().map(|s| s.to_vec()).collect(),
        _ => (0..choices.below(5)).map(|_| shape(&mut choices)).collect(),
    };
    let data: Vec<Vec<f32>> = shapes
        .iter()
        .map(|shape| {
            // As many numbers as the shape says, or one less or more.
            let exact = shape
                .iter()
                .try_fold(1_usize, |n, side| n.checked_mul(*side));
            let off = choices.pick(&[0, 0, 0, 0, 0, 0, 1, 2]);
            let count = (exact.unwrap_or(usize::MAX).min(256) + off).saturating_sub(off / 2 * 3);
            (0..count).map(|_| number(&mut choices)).collect()
        })
        .collect();
    let outputs: Vec<Tensor<'_>> = shapes
        .iter()
        .zip(&data)
        .map(|(shape, data)| Tensor {
            name: "out",
            shape,
            data,
        })
        .collect();
    let confidence = match choices.byte() {
        0..128 => 0.25,
        _ => number(&mut choices),
    };
    let mut boxes = Vec::new();
    check_lines(&outputs);
    check_masks(&outputs);
    match decode(
        &manifest,
        manifest.classes(),
        &outputs,
        confidence,
        &mut boxes,
    ) {
        Ok(()) => {
            check_scores(&manifest, &outputs);
            check_other(&manifest, &outputs, confidence);
            postprocess(&manifest, &outputs, boxes, &mut choices);
        }
        Err(refused) => {
            let message = refused.to_string();
            assert!(message.contains(manifest.decode.kind.name()), "{message}");
        }
    }
}

/// Checks that a classifier gives one score for each class.
fn check_scores(manifest: &Manifest, outputs: &[Tensor<'_>]) {
    if let DecodeKind::Classes { scores: kind, .. } = manifest.decode.kind {
        let mut out = Vec::new();
        decode::scores(manifest, kind, outputs, &mut out)
            .expect("what was taken before is taken again");
        assert_eq!(out.len(), manifest.classes());
        assert!(out.iter().all(|s| (0.0..=1.0).contains(s)), "{out:?}");
    }
}

/// Checks the outputs of networks that find no objects, in their decoded form.
fn check_other(manifest: &Manifest, outputs: &[Tensor<'_>], confidence: f32) {
    let request = Request::of(manifest, outputs, confidence);
    match &manifest.decode.kind {
        DecodeKind::Embedding => {
            let mut out = Vec::new();
            embedding::decode(&request, &mut out).expect("what was taken before is taken again");
            assert!(
                !out.is_empty() && out.iter().all(|x| x.is_finite()),
                "{out:?}"
            );
        }
        DecodeKind::Ctc {
            characters,
            blank,
            scores,
            ..
        } => {
            let said = ctc::decode(&request, characters, *blank, *scores)
                .expect("what was taken before is taken again");
            assert!(said.text.len() <= outputs[0].data.len(), "{said:?}");
            assert!((0.0..=1.0).contains(&said.confidence), "{said:?}");
        }
        DecodeKind::Segments { scores } => check_segments(manifest, &request, *scores, confidence),
        DecodeKind::Depth => {
            let place = Letterbox::fit(9, 7, &manifest.input).expect("not empty");
            let map =
                depth::decode(&request, &place).expect("what was taken before is taken again");
            assert_eq!(map.data.len(), map.size[0] * map.size[1]);
            assert!(!map.data.is_empty());
        }
        DecodeKind::Classes {
            has_features: true, ..
        } => {
            let mut out = Vec::new();
            for logits in [true, false] {
                match decode::features(manifest, logits, outputs, &mut out) {
                    Ok(()) => assert!(out.iter().all(|x| x.is_finite()), "{out:?}"),
                    Err(refused) => assert!(refused.to_string().contains("classes"), "{refused}"),
                }
            }
        }
        DecodeKind::Anomaly { .. } => check_anomaly(manifest, &request),
        DecodeKind::Gaze {
            bins,
            degrees_per_bin,
        } => match gaze::decode(&request, *bins, *degrees_per_bin) {
            Ok(angles) => assert!(angles.iter().all(|a| a.abs() <= 20.01), "{angles:?}"),
            Err(refused) => assert!(refused.to_string().contains("gaze"), "{refused}"),
        },
        _ => {}
    }
}

/// Checks that segments fit the picture and have a class and a confidence.
fn check_segments(
    manifest: &Manifest,
    request: &Request<'_>,
    scores: ClassScores,
    confidence: f32,
) {
    let (width, height) = (9, 7);
    let place = Letterbox::fit(width, height, &manifest.input).expect("not empty");
    let params = SegmentParams {
        scores,
        confidence,
        is_something: &|class| class > 0,
        place: &place,
    };
    let mut out = Vec::new();
    segments::decode(request, &params, &mut out).expect("decoded before");
    let pixels: usize = out.iter().map(|s| s.mask.count()).sum();
    assert!(pixels <= 63, "{out:?}");
    assert!(
        out.iter()
            .all(|s| s.class_id > 0 && (0.0..=1.0).contains(&s.confidence)),
        "{out:?}"
    );
}

/// Checks that an anomaly map is finite and complete.
fn check_anomaly(manifest: &Manifest, request: &Request<'_>) {
    let place = Letterbox::fit(9, 7, &manifest.input).expect("not empty");
    match anomaly::decode(request, &place) {
        Ok((score, map)) => {
            assert!(score.is_finite() && map.data.iter().all(|n| n.is_finite()));
            assert_eq!(map.data.len(), map.size[0] * map.size[1]);
        }
        Err(refused) => assert!(refused.to_string().contains("anomaly"), "{refused}"),
    }
}

/// Checks the same tensors as masks: each is as large as the picture.
fn check_masks(outputs: &[Tensor<'_>]) {
    let manifest = manifest(FAMILIES[21].0);
    let place = Letterbox::fit(9, 7, &manifest.input).expect("not empty");
    let request = Request::of(&manifest, outputs, 0.0);
    for (cover, several) in [(Cover::Input, true), (Cover::Picture, false)] {
        match prompted::decode(&request, cover, &place, several) {
            Ok(found) => {
                assert_eq!(found.mask.size(), [9, 7]);
                assert!(!found.confidence.is_nan());
            }
            Err(refused) => assert!(refused.to_string().contains("masks"), "{refused}"),
        }
    }
}

/// Checks the same tensors as text lines: every corner is finite.
fn check_lines(outputs: &[Tensor<'_>]) {
    let input = "width = 16\nheight = 16\nlayout = \"nchw\"\ncolour = \"rgb\"\ndtype = \"f32\"\nfit = \"stretch\"\n";
    let text = format!(
        "name = \"m\"\ntask = \"text-reading\"\nconfidence = 0.5\n[input]\n{input}[decode]\nkind = \"ctc\"\n\
         characters = \"ab\"\nblank = \"first\"\nscores = \"plain\"\n[lines]\nfile = \"l.onnx\"\nthreshold = 0.3\n\
         confidence = 0.1\nunclip = 1.5\n[lines.input]\n{input}"
    );
    let manifest = Manifest::parse(Path::new("m.toml"), &text).expect("described well");
    let network = manifest.lines.expect("it has lines");
    let mut out = Vec::new();
    match lines::decode(&network, outputs, &mut out) {
        Ok(()) => {
            let places = |line: &Line| {
                line.corners
                    .iter()
                    .all(|p| p.x.is_finite() && p.y.is_finite())
            };
            assert!(out.iter().all(places), "{out:?}");
            assert!(
                out.iter().all(|line| (0.0..=1.0).contains(&line.score)),
                "{out:?}"
            );
        }
        Err(refused) => assert!(refused.to_string().contains("lines"), "{refused}"),
    }
}

/// Suppresses, maps back and clips decoded boxes.
fn postprocess(
    manifest: &Manifest,
    outputs: &[Tensor<'_>],
    mut boxes: Vec<RawDetection>,
    choices: &mut Choices<'_>,
) {
    for found in &boxes {
        let b = found.bbox;
        assert!(
            [b.x1, b.y1, b.x2, b.y2].iter().all(|v| v.is_finite()),
            "{found:?}"
        );
        assert!(b.x2 > b.x1 && b.y2 > b.y1, "{found:?}");
        assert!((0.0..=1.0).contains(&found.score), "{found:?}");
        assert!(found.class_id < manifest.classes(), "{found:?}");
    }
    let limit = choices.below(8);
    let threshold = choices.flag().then(|| number(choices));
    suppress(&mut boxes, threshold, choices.flag(), limit);
    assert!(boxes.len() <= limit);
    assert!(boxes.windows(2).all(|pair| pair[0].score >= pair[1].score));
    let (width, height) = choices.pick(&[(64, 48), (1, 1), (1, 4000), (u32::MAX, 3)]);
    let place = Letterbox::fit(width, height, &manifest.input).expect("the picture is not empty");
    let (width, height) = (f64::from(width), f64::from(height));
    let mut shapes = Shapes::default();
    let read = shapes.read(manifest, outputs, &boxes);
    for (i, found) in boxes.iter().enumerate() {
        let b = place.to_source(&found.bbox).clip(width, height);
        if read.is_ok() && b.area() > 0.0 {
            check_shape(shapes.shape(manifest, i, &b, &place).as_ref(), &b);
        }
        assert!(
            0.0 <= b.x1 && b.x1 <= b.x2 && b.x2 <= width,
            "{found:?} became {b:?}"
        );
        assert!(
            0.0 <= b.y1 && b.y1 <= b.y2 && b.y2 <= height,
            "{found:?} became {b:?}"
        );
    }
}

/// Checks that masks lie in their boxes and that points are finite.
fn check_shape(shape: Option<&Shape>, b: &BBox) {
    match shape {
        None => {}
        Some(Shape::Outline(points)) => {
            let inside = |p: &Point| {
                p.x >= b.x1.floor()
                    && p.x <= b.x2.ceil()
                    && p.y >= b.y1.floor()
                    && p.y <= b.y2.ceil()
            };
            assert!(points.iter().all(inside), "{points:?} of {b:?}");
        }
        Some(Shape::Keypoints(points)) => {
            for point in points {
                assert!(
                    point.at.x.is_finite() && point.at.y.is_finite(),
                    "{point:?}"
                );
                assert!((0.0..=1.0).contains(&point.confidence), "{point:?}");
            }
        }
    }
}

fn shape(choices: &mut Choices<'_>) -> Vec<usize> {
    let sides = [
        0,
        1,
        1,
        2,
        3,
        4,
        5,
        6,
        7,
        8,
        12,
        usize::MAX,
        usize::MAX / 2 + 1,
    ];
    (0..choices.below(5))
        .map(|_| choices.pick(&sides))
        .collect()
}

fn number(choices: &mut Choices<'_>) -> f32 {
    match choices.byte() {
        0..64 => choices.number() as f32,
        near => f32::from(near) / 255.0,
    }
}

/// Further keys of a manifest with classes.
const SCORES: &str = "confidence = 0.3\nlabels = [\"a\", \"b\"]\n";

fn manifest(decode: &str) -> Manifest {
    let (task, more) = match decode.split('"').nth(1) {
        Some("yolov8-seg") => ("instance-segmentation", SCORES),
        Some("yolov8-pose") => ("keypoint-detection", SCORES),
        Some("classes") => ("classification", SCORES),
        Some("segments") => ("semantic-segmentation", SCORES),
        Some("embedding") => ("image-embedding", ""),
        Some("depth") => ("depth-estimation", ""),
        Some("gaze") => ("gaze-estimation", ""),
        Some("ctc") => ("text-reading", "confidence = 0.3\n"),
        Some("anomaly") => ("anomaly-detection", ""),
        Some("actions") => ("action-recognition", SCORES),
        Some("features") => ("prompted-segmentation", ""),
        _ => ("object-detection", SCORES),
    };
    let text = format!(
        "name = \"m\"\ntask = \"{task}\"\n{more}\
         [input]\nwidth = 16\nheight = 16\nlayout = \"nchw\"\ncolour = \"rgb\"\ndtype = \"f32\"\n\
         fit = \"letterbox\"\nplacement = \"centre\"\npad = 114\n[decode]\n{decode}\n"
    );
    Manifest::parse(Path::new("m.toml"), &text).expect("the families are described well")
}
