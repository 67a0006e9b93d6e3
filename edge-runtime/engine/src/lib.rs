//! The sans-IO brain of the runtime.
//!
//! Owns the workflow language, definitions built from a few settings, heuristics and what can be deployed; boxes, tracks and pixels are `watchkeeper-vision`'s. Invariant:
//! nothing in this crate reads a clock, opens anything, spawns a thread or draws randomness; time, pixels and random seeds
//! are arguments, effects are return values. No hash map is iterated, so the same input gives the same output.

pub mod deploy;
pub mod heuristics;
pub mod templates;
pub mod workflow;
