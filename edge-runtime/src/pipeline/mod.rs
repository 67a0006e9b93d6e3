//! One frame's way: detector, compiled workflow, visits, rules, events.
//!
//! Owns deployed pipelines. In order of use:
//! - [`plan`]: a [`PipelineSpec`](watchkeeper_contract::pipeline::PipelineSpec) checked once, into something that can run;
//! - [`inference`]: the detectors that serve its steps;
//! - [`run`]: one frame through all of it, no thread and no clock inside;
//! - [`worker`]: the thread that takes frames from a source and feeds them to it;
//! - [`clips`]: short videos from before and after an event;
//! - [`recorder`]: the one thread that makes events durable, with their pictures, in order;
//! - [`checkpoint`]: what pipelines remember over a restart of the process;
//! - [`retention`]: annotated videos, and what gives way to events on a full disk;
//! - [`manager`]: every source and pipeline of this box, and what the API may ask of them.
//!
//! Invariants: an event is handed to the recorder before the frame after it is taken; a full recorder makes cameras
//! drop frames and files wait, it never loses an event; a pipeline that fails takes no other one with it.

mod box_event;
pub mod checkpoint;
mod clips;
pub mod inference;
pub mod manager;
pub mod pixels;
pub mod plan;
pub mod recorder;
pub mod retention;
pub mod run;
pub mod worker;
