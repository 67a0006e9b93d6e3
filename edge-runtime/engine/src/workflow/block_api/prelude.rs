//! What nearly every block names, imported by one line:
//! `use crate::workflow::block_api::prelude::*;`.
//!
//! - Only the interface of blocks and the values that cross it; helpers of a family of blocks are
//!   imported by name from [`blocks::common`](crate::workflow::blocks::common).
//! - [`Default`](crate::workflow::block_api::manifest::Default) of a property is called `Or` here,
//!   as it follows `.or(…)`, and the trait of that name stays visible.

pub(crate) use crate::workflow::block_api::arg::Arg;
pub(crate) use crate::workflow::block_api::block::{Block, Call, Instance, Setup};
pub(crate) use crate::workflow::block_api::host::Task;
pub(crate) use crate::workflow::block_api::manifest::{
    ANCHORS, ANY_DETECTIONS, BOX_ANCHORS, COLOR, COUNT, DETECTIONS, Default as Or, Depth, Grammar,
    IMAGES, INTEGER, Known, Manifest, NUMBER, Output, POSITIVE, Property, Role, SHARE, Shape,
    StepOutput, TEXT_OR_POINTS, TEXT_OR_TEXTS,
};
pub(crate) use crate::workflow::block_api::stateful::{Stateful, Unsaved, stateful_instance};
pub(crate) use crate::workflow::language::kinds::Kind;
pub(crate) use crate::workflow::values::value::Value;
