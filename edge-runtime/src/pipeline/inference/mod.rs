//! Detection models of pipelines.
//!
//! - [`models`]: the models this box can open.
//! - [`first_load`]: the process that opens a file before the daemon does.
//! - [`backends`]: what runs models here; [`bench`] measures them, [`fastest`] keeps the choice.
//! - [`settings`]: what opening a model depends on.
//! - [`detectors`]: the detector that serves each model step of one workflow.
//! - [`host`]: what a running workflow calls to detect, classify and hand out effects.

pub mod backends;
pub mod bench;
mod child;
pub mod detectors;
mod fastest;
pub mod first_load;
pub mod host;
mod kept_files;
pub mod models;
pub mod settings;
