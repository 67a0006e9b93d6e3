//! Privacy masks: parts of a camera's picture that are made unrecognisable before anything uses it.
//!
//! - Plain data only.
//! - Only the configuration file sets a mask; the HTTP API reports it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::id::SourceId;

/// Most regions of one camera.
pub const MAX_REGIONS: usize = 32;

/// Most corners of one region; three are the fewest.
pub const MAX_CORNERS: usize = 64;

/// Most masked classes of one camera.
pub const MAX_CLASSES: usize = 32;

/// A polygon: its corners as fractions of the picture's width and height, from the upper left.
pub type Region = Vec<[f64; 2]>;

/// What replaces masked pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MaskFill {
    /// Black; nothing of the pixels is left.
    #[default]
    Black,
    /// The mean colour of large squares; movement and coarse shapes remain visible.
    Pixelate,
}

impl MaskFill {
    /// Every value in the configuration.
    pub const NAMES: &[&str] = &["black", "pixelate"];
}

/// The privacy mask of one camera, as the configuration file has it.
#[derive(Debug, Clone, PartialEq)]
pub struct PrivacyMask {
    /// Camera of the configuration file.
    pub source: SourceId,
    /// Its address, by which the same camera is recognised under another id.
    pub uri: String,
    /// At most [`MAX_REGIONS`] regions of at most [`MAX_CORNERS`] corners.
    pub regions: Vec<Region>,
    pub fill: MaskFill,
    /// At most [`MAX_CLASSES`] classes of objects.
    pub classes: Vec<String>,
}

/// Answer about the privacy mask of a source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PrivacyStatus {
    /// Number of masked regions.
    pub regions: usize,
    /// Part of the picture that they cover, from 0 to 1.
    pub covered: f64,
    pub fill: MaskFill,
    /// Classes of objects that are masked in every picture that leaves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<String>,
}
