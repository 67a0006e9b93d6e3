//! The daemon that watches: capture, inference, workflows, heuristics, journal, and the API on a Unix socket.
//!
//! Map, in the order of one frame's way (a frame is `watchkeeper-vision`'s, and `watchkeeper-detect` finds what is in it):
//! - [`capture`]: everything that delivers frames, one state machine a source;
//! - [`pipeline`]: one frame through detector, compiled workflow, visits and heuristics;
//! - [`media`]: JPEG snapshots and annotated videos;
//! - [`journal`]: events, durable before they are spoken of, and the pipelines to run after a restart;
//! - [`effects`]: what workflows want done outside, kept until the agent has done it;
//! - [`server`]: HTTP over the Unix socket, [`api`]: what it answers;
//! - [`image_run`]: a workflow on still pictures, without the daemon;
//! - [`daemon`]: the order of start and stop, [`guard`]: what keeps a crash loop from bricking the box, [`clock`]: the wall clock, [`thread`]:
//!   threads that are waited for, but not for ever.
//!
//! Invariants: only this crate knows GStreamer, and its types stay inside [`capture`] and [`media`], as those of ONNX stay inside
//! `watchkeeper-detect`; past detection a frame's pixels are only read to draw on a copy.

pub mod api;
pub mod capture;
pub mod clock;
pub mod daemon;
pub mod dry_run;
pub mod effects;
#[doc(hidden)]
pub mod fuzzing;
pub mod guard;
pub mod image_run;
pub mod journal;
pub mod media;
pub mod metrics;
pub mod pipeline;
pub mod server;
pub mod stop;
pub mod thread;
