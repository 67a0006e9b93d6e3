//! Models as the API shows them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::backend::MeasuredModel;

/// Whether a model's file is on this box.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
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

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ModelInfo {
    /// Name in the zoo, or of its manifest.
    pub name: String,
    /// Task, such as `object-detection`.
    pub task: String,
    pub state: ModelState,
    /// SHA-256 of its network, recorded when the file was placed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Identifies what it computes, by its files as they are now and its manifest. Only of models
    /// that detect objects or make embeddings; absent if a file can't be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Whether it makes embeddings of pictures.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub makes_embeddings: bool,
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

/// The change of a model's back end, in the background.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BackendChange {
    pub model: String,
    /// Back end that served when the change began.
    pub from: String,
    /// Back end that may replace it.
    pub to: String,
    pub state: BackendChangeState,
}

impl BackendChange {
    /// Whether the former back end still serves, and the new one may follow.
    pub fn is_in_progress(&self) -> bool {
        matches!(
            self.state,
            BackendChangeState::Building { .. }
                | BackendChangeState::Comparing { .. }
                | BackendChangeState::Agreed
        )
    }
}

/// State of a change of the back end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum BackendChangeState {
    /// The new back end is prepared.
    Building {
        /// Share that is done, `0.0..=1.0`.
        share: f32,
    },
    /// Both back ends run the same frames.
    Comparing {
        /// Frames on which both agree.
        agreed: u32,
        /// Frames on which they must agree.
        wanted: u32,
        /// Whether only frames with objects count from here on.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        needs_objects: bool,
    },
    /// The new back end serves from the next frame on.
    Agreed,
    /// The new back end serves.
    Swapped,
    /// The new back end computes something else, so the former one stays.
    Refused {
        /// One clause with the first difference.
        message: String,
    },
    /// The new back end can't load or run the model, so the former one stays.
    Failed {
        /// One clause with the reason.
        message: String,
    },
    /// The new back end failed while it served, so the former one serves again.
    Reverted {
        /// One clause with the reason.
        message: String,
    },
    /// No pipeline uses the model any more.
    Cancelled,
}

/// How a change of a model's back end ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BackendChangeResult {
    /// The new back end serves.
    Swapped,
    /// The new back end computes something else.
    Refused,
    /// The new back end can't load or run the model.
    Failed,
    /// The new back end failed while it served, and the former one serves again.
    Reverted,
    /// No pipeline uses the model any more.
    Cancelled,
}

impl BackendChangeResult {
    /// Its name in messages and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Swapped => "swapped",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Reverted => "reverted",
            Self::Cancelled => "cancelled",
        }
    }
}
