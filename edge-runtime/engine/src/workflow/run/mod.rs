//! Running a plan: inputs, frames, saved state, replays.

pub(crate) mod execution;
pub(crate) mod input;
pub mod replay;
pub(crate) mod saved_state;
