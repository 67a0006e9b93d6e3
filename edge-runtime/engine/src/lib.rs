//! The sans-IO brain of the runtime.
//!
//! Owns geometry, tracking, analytics, the workflow language, heuristics and drawing. Invariant: nothing in this
//! crate reads a clock, opens anything, spawns a thread or draws randomness; time, pixels and random seeds are
//! arguments, effects are return values. No hash map is iterated, so the same input gives the same output.

pub mod analytics;
pub mod deploy;
pub mod detections;
pub mod draw;
pub mod geometry;
pub mod heuristics;
pub mod mask;
mod numbers;
pub mod outline;
pub mod track;
pub mod vision;
pub mod workflow;
