//! The MQTT side of the box.
//!
//! - `topics` builds and parses every topic string; [`payload`] defines every message.
//! - [`session`] decides when to connect.
//! - `retained` tracks what the broker should retain.
//! - [`link`] is the shell around `rumqttc`, [`tls`] its TLS; `packet_limit` cuts messages that are
//!   too large.
//! - `request` parses command requests; `reason` explains a failed session.

pub mod broker;
pub mod link;
mod packet_limit;
pub mod payload;
pub(crate) mod reason;
mod request;
mod retained;
pub mod session;
pub mod tls;
mod topics;

pub use request::parse_request;
pub use retained::{Publication, Retained};
pub use topics::{Inbound, MAX_LEVEL_LEN, PREFIX, RequestTopic, Topics};
