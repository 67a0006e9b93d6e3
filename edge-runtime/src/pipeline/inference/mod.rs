//! Detection models of pipelines.
//!
//! - [`models`]: the models this box can open.
//! - [`first_load`]: the process that opens a file before the daemon does.
//! - [`settings`]: what opening a model depends on.
//! - [`detectors`]: the detector that serves each model step of one workflow.
//! - [`host`]: what a running workflow calls to detect, classify and hand out effects.

pub mod detectors;
pub mod first_load;
pub mod host;
pub mod models;
pub mod settings;
