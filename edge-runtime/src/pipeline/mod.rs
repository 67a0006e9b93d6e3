//! The path of one frame through a deployed pipeline: detector, workflow, visits, rules, events.
//!
//! - [`plan`]: checks a [`PipelineSpec`](watchkeeper_contract::pipeline::PipelineSpec), compiles it
//! - [`inference`]: the detectors of its steps
//! - [`run`]: one frame through all of it; no thread and no clock inside
//! - [`worker`]: the thread that takes frames from a source and feeds them to the run
//! - [`clips`]: short videos from before and after an event
//! - [`recorder`]: the one thread that makes events durable, with their pictures, in order
//! - [`definition`]: what a pipeline is, as a text for evidence bundles
//! - [`checkpoint`]: the state of pipelines that outlives the process
//! - [`retention`]: annotated videos, and what is deleted when the disk is full
//! - [`manager`]: every source and pipeline of this box, for the API
//! - An event reaches the recorder before the next frame is taken.
//! - A full recorder makes cameras drop frames and files wait; it never loses an event.
//! - A failing pipeline stops no other.

pub(crate) mod box_event;
pub mod checkpoint;
pub(crate) mod clips;
pub(crate) mod definition;
pub mod inference;
pub mod manager;
pub mod pixels;
pub mod plan;
pub mod recorder;
pub mod retention;
pub mod run;
pub mod worker;
