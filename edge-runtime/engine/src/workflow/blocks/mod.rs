//! The blocks. A block is one file here and its name in the list below.
//!
//! Every file declares `BLOCKS`: the manifests of all versions of one family.

use std::sync::Arc;

use super::image::VideoMeta;
use super::manifest::Manifest;
use super::value::Value;
use crate::detections::Detections;

macro_rules! families {
    ($($family:ident),+ $(,)?) => {
        $(mod $family;)+

        /// Manifests of every family, in the order of the list.
        const FAMILIES: &[&[Manifest]] = &[$($family::BLOCKS),+];
    };
}

families! {
    object_detection_model,
    detections_filter,
    detections_transformation,
    byte_tracker,
    line_counter,
    time_in_zone,
    property_definition,
    expression,
    first_non_empty_or_default,
    dimension_collapse,
    detections_classes_replacement,
    continue_if,
    switch_case,
    rate_limiter,
    delta_filter,
    bounding_box_visualization,
    label_visualization,
    dot_visualization,
    trace_visualization,
    polygon_zone_visualization,
    line_counter_visualization,
    event_sink,
}

/// Every block, in the order of the families.
pub(crate) fn all() -> impl Iterator<Item = &'static Manifest> {
    let all = FAMILIES.iter().flat_map(|family| family.iter());
    #[cfg(test)]
    let all = all.chain(super::tests::blocks::BLOCKS);
    all
}

/// The block of this type string, canonical or alias.
pub(crate) fn find(r#type: &str) -> Option<&'static Manifest> {
    all().find(|m| m.types.contains(&r#type))
}

/// Where a frame stands in its video, from an image or from metadata.
fn video_of(value: &Value) -> Result<&Arc<VideoMeta>, String> {
    match value {
        Value::Image(image) => Ok(&image.meta),
        Value::Meta(meta) => Ok(meta),
        other => Err(format!("an image expected, got {}", other.what())),
    }
}

/// Refuses boxes without an identity, which analytics over time can't work on.
fn require_tracks(detections: &Detections) -> Result<(), String> {
    if detections.boxes.iter().all(|d| d.track.is_some()) {
        Ok(())
    } else {
        Err(
            "the detections have no track ids; put a byte_tracker step in front of this one"
                .to_owned(),
        )
    }
}
