//! Detection models of pipelines.
//!
//! - [`models`]: the models this box can open.
//! - [`detectors`]: the detector that serves each model step of one workflow.
//! - [`host`]: what a running workflow calls to detect, classify and hand out effects.

pub mod detectors;
pub mod host;
pub mod models;
