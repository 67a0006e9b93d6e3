//! MQTT: what a box says, where, and over which session.
//!
//! `topics` is the only place that knows topic strings, [`payload`] the only one that knows what a message holds,
//! [`session`] decides when to connect, [`command_subscription`] whether requests are listened to, `retained` keeps what the broker shall
//! hold, [`link`] is the shell around `rumqttc`, [`tls`] makes its set-up, `reason` says why there is none.

pub mod broker;
pub mod command_subscription;
pub mod link;
pub mod payload;
pub(crate) mod reason;
mod request;
mod retained;
pub mod session;
pub mod tls;
mod topics;

pub use request::parse_request;
pub use retained::{Publication, Retained};
pub use topics::{Inbound, MAX_OPERATION_LEN, PREFIX, Topics};
