//! Detection models of pipelines.
//!
//! - [`models`]: the models this box can open.
//! - [`first_load`]: the process that opens a file before the daemon does.
//! - [`backends`]: what runs models here; [`bench`](mod@bench) measures them, [`fastest`]
//!   keeps the choice.
//! - [`backend_changes`], [`change_events`]: the change of a model's back end while it runs.
//! - [`settings`]: what opening a model depends on.
//! - [`detectors`]: the detector that serves each model step of one workflow.
//! - [`host`]: what a running workflow calls to detect, classify and hand out effects.

pub mod backend_changes;
pub mod backends;
pub mod bench;
pub mod change_events;
pub mod child;
pub mod detectors;
mod fastest;
pub mod first_load;
pub mod host;
mod kept_files;
pub mod models;
pub mod settings;
