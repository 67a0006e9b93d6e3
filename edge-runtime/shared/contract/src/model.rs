//! Models as the API shows them.

use serde::{Deserialize, Serialize};

/// Whether a model's file is here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum ModelState {
    /// Part of the program; no file needed.
    Builtin,
    /// The file is here. Its checksum was right if `pull` or `add` put it here; what is there now is read in full by
    /// `watchkeeper models verify` alone.
    Present {
        /// Where it is.
        path: String,
    },
    /// Known, but not here; `watchkeeper models pull NAME` fetches it.
    Absent,
}

/// One model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelInfo {
    /// Name in the zoo, or that of its manifest.
    pub name: String,
    /// What it does, such as `object-detection`.
    pub task: String,
    /// Whether it is here.
    pub state: ModelState,
    /// Licence (SPDX) where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub licence: Option<String>,
    /// Input width and height in pixels; absent for models that take any size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<[u32; 2]>,
    /// Class names, in the order of class ids.
    pub labels: Vec<String>,
    /// Names under which steps ask for it besides its own, such as `clip/ViT-B-32`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stands_for: Vec<String>,
    /// Back end that runs it, once loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
}
