//! Everything that delivers frames: files, folders of pictures, network cameras, V4L2 devices and the demo scene.
//!
//! Map:
//! - [`source`]: one thread a source, what the rest of the runtime holds of it;
//! - [`supervise`]: the state machine that decides when to open, when to give up and when to try again (no I/O);
//! - [`address`]: the text a person wrote, parsed once; [`redact`]: the same text without its credentials;
//! - [`feed`]: what a source is opened into, with the feeds [`gst`], [`stills`], [`animation`] and [`demo`];
//! - [`mailbox`]: frames to subscribers, newest wins or nothing lost; [`notices`]: what sources tell the journal;
//! - [`timeline`]: presentation times that only grow; [`blind`]: frozen and black pictures;
//! - [`cause`]: what went wrong, in the words of the contract; [`check`]: which GStreamer elements are missing.
//!
//! Invariants: nothing of GStreamer leaves this folder and [`crate::media`]; pictures are handed on at the size they
//! came in and without a copy; no credential reaches a log, a status or an error.

mod animation;
pub mod blind;
mod cause;
pub mod check;
mod demo;
mod feed;
mod gst;
pub mod mailbox;
pub mod notices;
mod rate;
pub mod source;
mod stills;
pub mod supervise;
mod timeline;

pub use self::gst::LET_DEVICES_GO;
pub use watchkeeper_config::{address, redact};
