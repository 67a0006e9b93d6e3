//! Types of the runtime's API and of MQTT payloads, shared by both daemons and their clients.
//!
//! - Plain data: public fields, enums and serde.
//! - Nothing reads a clock, opens anything or decides anything. The only logic parses an identifier
//!   into a type that cannot be wrong.
//! - Bounding boxes in *pixels* are `[x_min, y_min, x_max, y_max]` of the source picture, origin at
//!   the top left. Those that leave the box are *normalised* to `0.0..=1.0` of width and height.
//! - Durations end in `_s` (seconds, `f64`) or `_ms` (milliseconds, integer).

pub mod assessment;
pub mod backend;
pub mod backtest;
pub mod board;
pub mod bundle;
pub mod camera_trial;
pub mod canonical;
pub mod chain;
pub mod command;
mod confidence;
pub mod coverage;
pub mod effect;
pub mod event;
mod event_body;
pub mod health;
pub mod host;
pub mod id;
pub mod model;
pub mod pipeline;
pub mod privacy;
pub mod problem;
pub mod review;
pub mod rule;
pub mod source;
pub mod spool;
pub mod time;
pub mod workflow;

/// Version of the HTTP surface; the first path segment of every route.
pub const API_VERSION: &str = "v1";
