//! Shared by several blocks: properties, state per video, drawing, effects, text formats.

pub(crate) mod barcodes;
pub(crate) mod color_maps;
pub(crate) mod drawing;
pub(crate) mod instances;
pub(crate) mod llm_json;
pub(crate) mod per_video;
pub(crate) mod picture_filter;
pub(crate) mod sift_points;
pub(crate) mod sink;
pub(crate) mod template;
