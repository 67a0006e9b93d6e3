//! Running a plan: inputs, frames, saved state, replays.

pub(crate) mod batch;
mod bundles;
pub(crate) mod execution;
pub(crate) mod input;
mod memory;
mod outputs;
mod panics;
pub mod replay;
pub(crate) mod saved_state;
pub(crate) mod step_run;
