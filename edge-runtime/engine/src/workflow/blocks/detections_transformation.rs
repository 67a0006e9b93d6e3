//! Changes detections by a chain of operations: select, sort, shift, rename.

use super::super::manifest::{Depth, Manifest, Role};
use super::detections_filter::{OUTPUTS, PROPERTIES, build};

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    types: &[
        "roboflow_core/detections_transformation@v1",
        "DetectionsTransformation",
    ],
    category: "transformation",
    summary: "Changes detections by a chain of operations: filter, select, sort, shift, rename.",
    role: Role::Other,
    properties: PROPERTIES,
    outputs: OUTPUTS,
    depth: Depth::Same,
    accepts_empty: false,
    build,
}];
