//! The thread of one pipeline and the handle that others hold of it.
//!
//! - `handle` has the [`Worker`], `thread` the loop over frames, `frame` the work on one of them.
//! - `events` and `video` are its output, `shown_frames` the pictures of events.
//! - `look_rate` is how often it looks, `heat` what shedding means to it, `status` what both sides
//!   share. `step_failures` and `preview_window` are parts of the thread.
//! - The thread subscribes to its source only while it wants frames: a paused pipeline costs none.
//! - `Ended` is set only after the last event is durable; so is `Paused`, except when the process
//!   stops. While the disk refuses, the end waits until another state is wanted, and then fails.
//! - A panic outside a step ends this pipeline and its events with a message, and no other
//!   pipeline; [`restarts`](crate::pipeline::manager) restarts it.
//! - A query of the status never waits for a frame: the thread owns the [`Run`] and publishes.
//!
//! [`Run`]: crate::pipeline::run::Run

mod events;
mod frame;
mod handle;
mod heat;
mod look_rate;
mod preview_window;
mod services;
mod shown_frames;
mod status;
mod step_failures;
mod thread;
mod thread_end;
mod video;

pub use self::handle::Worker;
pub use self::look_rate::wanted_fps;
pub use self::services::{STOP_TIMEOUT, Services, Subscribe};
pub(crate) use self::thread::PUBLISH_INTERVAL;

#[cfg(test)]
mod tests;
