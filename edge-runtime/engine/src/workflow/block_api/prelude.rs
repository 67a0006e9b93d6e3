//! What nearly every block names, imported by one line:
//! `use crate::workflow::block_api::prelude::*;`.
//!
//! - Only the interface of blocks, the values that cross it and what these consist of. Helpers of a
//!   family of blocks are imported by name from
//!   [`blocks::common`](crate::workflow::blocks::common).
//! - [`Default`](crate::workflow::block_api::property::Default) of a property is called `Or` here,
//!   as it follows `.or(…)`, and the trait of that name stays visible.

pub(crate) use std::sync::Arc;

pub(crate) use serde::{Deserialize, Serialize};
pub(crate) use serde_json::Value as Json;
pub(crate) use watchkeeper_vision::detections::{Detection, Detections};
pub(crate) use watchkeeper_vision::draw::{Canvas, Color};
pub(crate) use watchkeeper_vision::geometry::{BBox, Point};
pub(crate) use watchkeeper_vision::imaging::{self, Plane};
pub(crate) use watchkeeper_vision::mask::Bitmap;

pub(crate) use crate::workflow::block_api::arg::Arg;
pub(crate) use crate::workflow::block_api::block::{Block, Instance, Setup};
pub(crate) use crate::workflow::block_api::call::Call;
pub(crate) use crate::workflow::block_api::host::Task;
pub(crate) use crate::workflow::block_api::manifest::{
    Depth, Known, Manifest, Output, Role, StepOutput,
};
pub(crate) use crate::workflow::block_api::property::{
    ANY_DETECTIONS, BOXES, DETECTIONS, Default as Or, IMAGE, IMAGES, Property,
};
pub(crate) use crate::workflow::block_api::shape::{
    ANCHORS, BOX_ANCHORS, COLOR, COUNT, Grammar, INTEGER, NOT_NEGATIVE, NUMBER, POSITIVE, SHARE,
    Shape, TEXT_OR_POINTS, TEXT_OR_TEXTS, names_of,
};
pub(crate) use crate::workflow::block_api::stateful::{
    Stateful, Unsaved, stateful, stateful_instance,
};
pub(crate) use crate::workflow::language::kinds::Kind;
pub(crate) use crate::workflow::values::image::{ImageValue, RgbPixels, VideoMeta, lazy};
pub(crate) use crate::workflow::values::json::detection_id;
pub(crate) use crate::workflow::values::value::{Array, Value};
