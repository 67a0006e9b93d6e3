//! Changes detections by a chain of operations: select, sort, shift, rename.

use super::super::manifest::{Manifest, Role};
use super::detections_filter::{OUTPUTS, PROPERTIES, build};

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/detections_transformation@v1",
    category: "transformation",
    summary: "Changes detections by a chain of operations: filter, select, sort, shift, rename.",
    role: Role::Other,
    properties: PROPERTIES,
    outputs: OUTPUTS,
    build,
    batch: &["predictions"],
    mixed: &["operations_parameters"],
    keeps_classes: true,
    ..Manifest::BASE
}];
