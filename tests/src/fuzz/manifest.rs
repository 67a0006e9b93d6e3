//! Target `manifest`: the TOML description of a model in the models folder, and the checksum beside
//! it.
//!
//! - An accepted manifest keeps what [`watchkeeper_models::manifest`] promises.
//! - A refusal is one line that names the file.
//! - A checksum prints as it was read.

use std::path::Path;
use std::sync::LazyLock;

use watchkeeper_detect::letterbox::Letterbox;
use watchkeeper_models::manifest::{DecodeKind, Fit, Manifest};
use watchkeeper_models::raw::is_name;
use watchkeeper_models::registry::MAX_TAKEN;
use watchkeeper_models::{Sha256Sum, Zoo};

/// Reading all built-in manifests takes longer than one input.
static ZOO: LazyLock<Zoo> = LazyLock::new(Zoo::builtin);

pub(super) fn manifest(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    if let Ok(sum) = text.trim().parse::<Sha256Sum>() {
        assert_eq!(sum.to_string(), text.trim().to_ascii_lowercase());
    }
    let unknown = ZOO.unknown(&text).to_string();
    assert!(unknown.contains("no model"), "{unknown}");
    match Manifest::parse(Path::new("mine.toml"), &text) {
        Ok(manifest) => check(&manifest),
        Err(refused) => {
            let message = refused.to_string();
            assert!(message.starts_with("mine.toml: "), "{message}");
            assert!(message.len() > "mine.toml: ".len(), "no reason");
            assert!(!message.contains('\n'), "{message}");
        }
    }
}

fn check(manifest: &Manifest) {
    assert!(is_name(&manifest.name), "{}", manifest.name);
    assert!((0.0..=1.0).contains(&manifest.confidence));
    let has_none = manifest.text.is_some()
        || matches!(
            manifest.decode.kind,
            DecodeKind::Embedding
                | DecodeKind::Ctc { .. }
                | DecodeKind::Depth
                | DecodeKind::Gaze { .. }
                | DecodeKind::Features { .. }
                | DecodeKind::Anomaly { .. }
        );
    let classes = if has_none { 0..=0 } else { 1..=10_000 };
    assert!(classes.contains(&manifest.classes()));
    // No file of a manifest may lie outside its folder.
    for part in manifest.parts() {
        let name = Path::new(&part.file);
        assert_eq!(name.file_name(), Some(name.as_os_str()), "{part:?}");
    }
    assert!(
        manifest
            .nms
            .is_none_or(|nms| (0.0..=1.0).contains(&nms.iou))
    );
    let input = &manifest.input;
    assert!(input.width > 0 && input.height > 0);
    assert!(input.std.iter().all(|s| s.is_finite() && *s != 0.0));
    for file in &manifest.files {
        assert!(file.url.is_some() || file.sha256.is_some());
    }
    for package in &manifest.packages {
        assert!(!package.member.split('/').any(|name| name == ".."));
        let range = package.range.clone().unwrap_or(0..1);
        assert!(!range.is_empty() && range.end - range.start <= MAX_TAKEN);
    }
    for class in &manifest.watch {
        assert!(manifest.labels.iter().any(|label| **label == **class));
    }
    if let DecodeKind::Yolox { strides }
    | DecodeKind::Nanodet { strides, .. }
    | DecodeKind::Ssd { strides, .. } = &manifest.decode.kind
    {
        assert!(!strides.is_empty() && !strides.contains(&0));
    }
    // White, black and grey samples stay finite on their way into the tensor.
    for sample in [0.0, 127.0, 255.0] {
        for channel in 0..3 {
            let value = (sample * input.scale - input.mean[channel]) / input.std[channel];
            assert!(value.is_finite(), "{input:?} makes {value} of {sample}");
        }
    }
    for size in [[1, 1], [1920, 1080], [1, 10_000], [u32::MAX, 1]] {
        let place = Letterbox::fit(size[0], size[1], input).expect("the picture is not empty");
        assert!(place.width >= 1 && place.left + place.width <= input.width);
        assert!(place.height >= 1 && place.top + place.height <= input.height);
        let whole = input.fit == Fit::Stretch;
        assert!(!whole || (place.width, place.height) == (input.width, input.height));
    }
}
