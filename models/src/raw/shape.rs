//! The shape of a manifest: its tables and keys. An unknown key is refused.
//!
//! Not here: which values are allowed ([`super::check`](mod@super::check)).

use serde::Deserialize;

use crate::digest::Sha256Sum;
use crate::manifest::{Licence, ModelFile, Nms, Origin, Part};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawManifest {
    pub(super) name: String,
    pub(super) task: String,
    pub(super) summary: Option<String>,
    pub(super) confidence: Option<f32>,
    pub(super) labels: Option<RawLabels>,
    #[serde(default)]
    pub(super) watch: Vec<String>,
    #[serde(default)]
    pub(super) stands_for: Vec<String>,
    pub(super) licence: Option<Licence>,
    pub(super) origin: Option<Origin>,
    #[serde(default)]
    pub(super) file: Vec<ModelFile>,
    #[serde(default)]
    pub(super) package: Vec<RawPackage>,
    pub(super) input: RawInput,
    pub(super) decode: RawDecode,
    pub(super) nms: Option<Nms>,
    pub(super) text: Option<RawText>,
    pub(super) lines: Option<RawLines>,
    pub(super) masks: Option<RawMasks>,
    pub(super) faces: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawText {
    pub(super) file: String,
    pub(super) sha256: Option<Sha256Sum>,
    pub(super) bytes: Option<u64>,
    pub(super) url: Option<String>,
    #[serde(default)]
    pub(super) inputs: Vec<String>,
    pub(super) output: Option<String>,
    pub(super) context: u32,
    pub(super) fill: Option<String>,
    pub(super) vocabulary: Part,
    pub(super) tokens: Option<u16>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLines {
    pub(super) file: String,
    pub(super) sha256: Option<Sha256Sum>,
    pub(super) bytes: Option<u64>,
    pub(super) url: Option<String>,
    pub(super) output: Option<String>,
    pub(super) threshold: f32,
    pub(super) confidence: f32,
    pub(super) unclip: f32,
    pub(super) widest: Option<u32>,
    pub(super) input: RawInput,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawMasks {
    pub(super) file: String,
    pub(super) sha256: Option<Sha256Sum>,
    pub(super) bytes: Option<u64>,
    pub(super) url: Option<String>,
    #[serde(default)]
    pub(super) outputs: Vec<String>,
    pub(super) cover: String,
}

#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "labels must be the name of a shared list or a list of names"
)]
pub(super) enum RawLabels {
    Shared(String),
    Inline(Vec<String>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPackage {
    pub(super) registry: String,
    pub(super) path: String,
    pub(super) sha256: Sha256Sum,
    pub(super) bytes: u64,
    pub(super) format: String,
    pub(super) member: String,
    pub(super) range: Option<[u64; 2]>,
    pub(super) member_sha256: Sha256Sum,
    pub(super) convert: Option<String>,
    pub(super) features: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawInput {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) layout: String,
    pub(super) colour: String,
    pub(super) dtype: String,
    #[serde(default = "one")]
    pub(super) scale: f32,
    #[serde(default)]
    pub(super) mean: [f32; 3],
    #[serde(default = "ones")]
    pub(super) std: [f32; 3],
    pub(super) fit: String,
    pub(super) placement: Option<String>,
    pub(super) pad: Option<i64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct RawDecode {
    pub(super) kind: String,
    #[serde(default)]
    pub(super) outputs: Vec<String>,
    /// Keys of its layout.
    #[serde(flatten)]
    pub(super) keys: toml::Table,
}

fn one() -> f32 {
    1.0
}

fn ones() -> [f32; 3] {
    [1.0; 3]
}
