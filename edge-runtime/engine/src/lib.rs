//! The sans-IO core of the runtime: workflows, rules, and what can be deployed.
//!
//! - Nothing in this crate reads a clock, opens anything, spawns a thread or draws randomness.
//!   Time, pixels and random seeds are arguments; effects are return values.
//! - No hash map is iterated, so that the same input gives the same output.
//!
//! Boxes, tracks and pixels are in `watchkeeper-vision`.

#![cfg_attr(test, expect(clippy::unwrap_used, reason = "a failing test may panic"))]

pub mod deploy;
pub mod rules;
pub mod templates;
pub mod workflow;
