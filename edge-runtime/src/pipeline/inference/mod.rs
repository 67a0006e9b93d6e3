//! Detection models of pipelines.
//!
//! - [`models`]: the models this box can open.
//! - [`first_load`]: the process that opens a file before the daemon does.
//! - [`backend_changes`], [`change_events`]: the change of a model's back end while it runs.
//! - [`settings`]: what opening a model depends on.
//! - [`detectors`]: the detector that serves each model step of one workflow.
//! - [`host`]: what a running workflow calls to detect, classify and hand out effects.

pub mod backend_changes;
pub mod change_events;
pub mod detectors;
pub mod first_load;
pub mod host;
pub mod models;
pub mod settings;
