//! One frame's way: detector, compiled workflow, visits, rules, events.
//!
//! Owns deployed pipelines. In order of use:
//! - [`plan`]: a [`PipelineSpec`](watchkeeper_contract::pipeline::PipelineSpec) checked once, into something that can run;
//! - [`detectors`]: which detector serves which of its steps;
//! - [`run`]: one frame through all of it, no thread and no clock inside;
//! - [`source_clock`]: the one time that all of a pipeline measures with;
//! - [`worker`]: the thread that takes frames from a source and feeds them to it;
//! - [`screen`]: the window that shows what it draws;
//! - [`recorder`]: the one thread that makes events durable, with their pictures, in order; [`refused`]: what becomes of
//!   events that the journal refuses; [`room`]: who gives way to them on a full disk;
//! - [`states`]: what pipelines remember over a restart of the process;
//! - [`recordings`]: where annotated videos go, and how much of them is kept; [`clips`]: what events keep of the moments before and after them;
//! - [`pauses`]: until when they are paused; [`restarts`]: what becomes of those that fail;
//! - [`manager`]: every source and pipeline of this box, and what the API may ask of them.
//!
//! Invariants: an event is handed to the recorder before the frame after it is taken; a full recorder makes cameras
//! drop frames and files wait, it never loses an event; a pipeline that fails takes no other one with it.

mod clips;
mod deployed;
pub mod detectors;
pub mod failing;
pub mod gate;
pub mod host;
pub mod manager;
pub mod models;
#[cfg(test)]
mod motion_clips;
pub mod outage;
pub mod pauses;
pub mod pixels;
pub mod plan;
pub mod reach;
pub mod recorder;
pub mod recordings;
mod refused;
pub mod restarts;
pub mod room;
pub mod run;
mod screen;
mod source_clock;
pub mod stages;
pub mod states;
pub mod worker;
