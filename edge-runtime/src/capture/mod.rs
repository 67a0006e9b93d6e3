//! Sources of frames: files, folders of pictures, network cameras, V4L2 devices, the demo scene.
//!
//! - [`source`]: a source, its handle and its thread
//! - [`supervise`]: state machine of opening, retrying and giving up (no I/O)
//! - [`address`]: parsed addresses; [`redact`]: addresses without credentials
//! - [`feed`]: an opened source, implemented by [`gst`], [`stills`] and [`demo`]
//! - [`privacy`]: masks each picture before anything else has it
//! - [`mailbox`]: frames to subscribers; [`notices`]: outages to the journal
//! - [`timeline`]: monotonic presentation times; [`blind`]: frozen and black pictures
//! - [`controls`]: exposure, gain and focus of a V4L2 device
//! - [`cause`]: causes of errors; [`check`]: missing GStreamer elements
//!
//! GStreamer types stay in this folder and [`crate::media`]. Pictures keep their size; only a
//! privacy mask copies them. No credential reaches a log, a status or an error.

pub mod blind;
mod cause;
pub mod check;
pub mod controls;
mod demo;
mod feed;
mod gst;
pub mod mailbox;
pub mod notices;
pub mod packets;
mod privacy;
pub(crate) mod rate;
pub mod source;
mod stills;
pub mod supervise;
mod timeline;
pub mod view;

pub use self::gst::{
    DRAIN_V4L2_ENV, check_decoder, hanging_teardowns, missing_hardware, tear_down,
    teardown_failure, teardown_trouble,
};
pub use watchkeeper_config::{address, redact};
