//! The runtime: capture, inference, workflows, rules, journal, and the API on a Unix socket.
//!
//! - [`capture`]: sources that deliver frames, one state machine each
//! - [`pipeline`]: detector, workflow, visits and rules for each frame
//! - [`media`]: annotated videos and the preview window
//! - [`journal`]: durable events, and the pipelines to run after a restart
//! - [`coverage`]: when each pipeline watched, and what it could report
//! - [`load`]: how much work the box does while it is hot; [`board`]: its sensors
//! - [`history`]: what detectors reported in the last day. [`backtest`]: replays a pipeline on it
//! - [`effects`]: what workflows want done outside, kept until the agent has executed it
//! - [`server`]: HTTP over the Unix socket; [`api`]: its answers; [`metrics`]: counters
//! - Without the daemon: [`image_run`], a workflow on pictures; [`camera_trial`] of detectors
//! - [`daemon`]: start and stop; [`guard`]: protection against crash loops; [`boot`]; [`clock`];
//!   [`thread`]
//! - GStreamer types stay inside [`capture`] and [`media`]. Past detection, pixels are only read.

pub mod api;
pub mod backtest;
pub mod board;
pub mod boot;
pub mod camera_trial;
pub mod capture;
pub mod clock;
pub mod coverage;
pub mod daemon;
pub mod dry_run;
pub mod effects;
#[doc(hidden)]
pub mod fuzzing;
pub mod guard;
pub mod history;
pub mod image_run;
pub mod journal;
pub mod load;
pub mod media;
pub mod metrics;
pub mod model_calibration;
pub mod model_queries;
mod output;
pub mod pipeline;
pub mod server;
pub mod stop;
pub mod thread;
