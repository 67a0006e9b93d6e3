//! Helpers for this crate's tests: frames, a manifest, a scripted network, test data.
#![allow(clippy::unwrap_used, reason = "a test that can't set up has failed")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use watchkeeper_models::Manifest;
use watchkeeper_models::manifest::{ColourOrder, Fit, Input, Layout};
pub(crate) use watchkeeper_vision::frame::testing::{frame, picture, rgb_frame};
use watchkeeper_vision::frame::{Frame, PixelFormat};

use super::network::{Feed, Network, Tensor};
use super::stream_network::SharedNetwork;
use crate::detection::{DetectParams, RawDetection};
use crate::detector::Detector;

pub(crate) fn input(width: u32, height: u32, fit: Fit) -> Input {
    Input {
        width,
        height,
        layout: Layout::Nchw,
        colour: ColourOrder::Rgb,
        scale: 1.0,
        mean: [0.0; 3],
        std: [1.0; 3],
        fit,
    }
}

/// Manifest of a YOLOv8 network of 64x64 pixels with two classes.
pub(crate) fn manifest() -> Arc<Manifest> {
    let decode = "kind = \"yolov8\"";
    watchkeeper_models::testing::manifest("object-detection", [64, 64], &["a", "b"], decode)
}

struct Scripted(Vec<f32>, [usize; 3]);

impl Network for Scripted {
    fn backend(&self) -> &'static str {
        "scripted"
    }

    fn infer(&self, _: &[Feed<'_>], read: &mut dyn FnMut(&[Tensor<'_>])) -> Result<(), String> {
        read(&[Tensor {
            name: "out",
            shape: &self.1,
            data: &self.0,
        }]);
        Ok(())
    }
}

/// A network that always returns these boxes: centre and size in input pixels, score, class.
pub(crate) fn scripted(things: &[([f32; 4], f32, usize)]) -> SharedNetwork {
    let mut rows = Vec::new();
    for (b, score, class) in things {
        rows.extend_from_slice(b);
        rows.extend((0..2).map(|c| if c == *class { *score } else { 0.0 }));
    }
    SharedNetwork::new(Box::new(Scripted(rows, [1, things.len(), 6])))
}

pub(crate) fn jpeg_frame(path: &Path) -> Frame {
    let rgb = image::open(path).unwrap().into_rgb8();
    let (width, height) = rgb.dimensions();
    frame(picture(
        width,
        height,
        PixelFormat::Rgb,
        vec![(rgb.into_raw(), width as usize * 3)],
    ))
}

pub(crate) fn detect(detector: &mut dyn Detector, frame: &Frame) -> Vec<RawDetection> {
    let mut out = Vec::new();
    detector
        .detect(frame, &DetectParams::default(), &mut out)
        .unwrap();
    out
}

/// A file of the test data, which is not in the repository; `None` prints a line.
pub(crate) fn test_data(file: &str) -> Option<PathBuf> {
    let root = std::env::var_os("WATCHKEEPER_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let path = root.join(file);
    if path.exists() {
        return Some(path);
    }
    #[allow(clippy::print_stderr, reason = "a skipped test says so")]
    {
        eprintln!("SKIPPED: (no test data at {})", path.display());
    }
    None
}

/// Writes a program in the language of the shell; it lasts as long as its folder.
pub(crate) fn program(script: &str) -> (tempfile::TempDir, std::path::PathBuf) {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("program");
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("written");
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&path, mode).expect("executable");
    (folder, path)
}
