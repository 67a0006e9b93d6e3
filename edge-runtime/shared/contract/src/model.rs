//! Models as the API shows them.

use serde::{Deserialize, Serialize};

use super::backend::MeasuredModel;

/// Whether a model's file is on this box.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum ModelState {
    /// Part of the program; no file needed.
    Builtin,
    /// The file is here. Its checksum was checked by `pull` or `add`; only `watchkeeper models
    /// verify` reads it again.
    Present {
        /// Path of the file.
        path: String,
    },
    /// Known, but not here; `watchkeeper models pull NAME` fetches it.
    Absent,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelInfo {
    /// Name in the zoo, or of its manifest.
    pub name: String,
    /// Task, such as `object-detection`.
    pub task: String,
    pub state: ModelState,
    /// Licence (SPDX), where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub licence: Option<String>,
    /// Input width and height in pixels; absent for models that take any size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<[u32; 2]>,
    /// Class names, in the order of class ids.
    pub labels: Vec<String>,
    /// Other names under which steps ask for it, such as `clip/ViT-B-32`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stands_for: Vec<String>,
    /// Back end that runs it, once loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// How fast the back ends of this box run it, once measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<MeasuredModel>,
}
