//! Changes detections by a chain of operations: select, sort, shift, rename.

use super::detections_filter::FILTER;
use crate::workflow::block_api::prelude::*;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/detections_transformation@v1",
    summary: "Changes detections by a chain of operations: filter, select, sort, shift, rename.",
    ..FILTER
}];
