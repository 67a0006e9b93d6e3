//! Manifests of networks that tests script, also of other crates.

use std::path::Path;
use std::sync::Arc;

use crate::Manifest;

/// A YOLO network for tests: its input in pixels, its classes, and the keys of `[decode]`.
///
/// # Panics
/// If `task` and `decode` do not fit.
pub fn manifest(
    task: &str,
    [width, height]: [u32; 2],
    labels: &[&str],
    decode: &str,
) -> Arc<Manifest> {
    let text = format!(
        "name = \"scripted\"\ntask = \"{task}\"\nconfidence = 0.5\nlabels = {labels:?}\n\
         [input]\nwidth = {width}\nheight = {height}\nlayout = \"nchw\"\ncolour = \"rgb\"\n\
         dtype = \"f32\"\nfit = \"letterbox\"\nplacement = \"top-left\"\npad = 114\n\
         [decode]\n{decode}\n[nms]\niou = 0.5\nclass_agnostic = false\n"
    );
    let parsed = Manifest::parse(Path::new("scripted.toml"), &text);
    Arc::new(parsed.unwrap_or_else(|error| panic!("{error}: {text}")))
}
