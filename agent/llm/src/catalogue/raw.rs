//! Serde form of the model file.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use super::{Capability, ImageTier, ThinkingStyle};
use crate::protocol::Protocol;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) format: u32,
    /// Day of the figures, for readers of the file.
    #[serde(default)]
    #[expect(
        dead_code,
        reason = "for readers; named so that `deny_unknown_fields` accepts it"
    )]
    pub(super) as_of: Option<String>,
    #[serde(default)]
    pub(super) providers: BTreeMap<String, Provider>,
    #[serde(default)]
    pub(super) models: Vec<Model>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Provider {
    pub(super) protocol: Protocol,
    pub(super) base_url: String,
    pub(super) program: Option<PathBuf>,
    pub(super) needs_key: bool,
    pub(super) max_request_bytes: usize,
    pub(super) small: String,
    pub(super) medium: String,
    pub(super) large: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Model {
    pub(super) provider: String,
    pub(super) id: String,
    pub(super) context: u64,
    pub(super) max_output: u32,
    pub(super) bytes_per_token: f64,
    pub(super) image_tier: Option<ImageTier>,
    #[serde(default)]
    pub(super) max_images: u32,
    pub(super) cache_min: Option<u64>,
    pub(super) thinking: ThinkingStyle,
    #[serde(default)]
    pub(super) capabilities: Vec<Capability>,
    pub(super) price: Vec<Rate>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rate {
    pub(super) prompt_to: Option<u64>,
    pub(super) input: f64,
    pub(super) output: f64,
    pub(super) cache_read: Option<f64>,
    pub(super) cache_write: Option<f64>,
    pub(super) cache_write_long: Option<f64>,
}
