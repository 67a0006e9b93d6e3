//! The agent: the part of Watchkeeper that talks to people and fleets.
//!
//! Two programs are built from it: the daemon `watchkeeper-agent`, which carries events from the runtime's journal
//! to an MQTT broker and commands back, and the command `watchkeeper`. Only this crate knows MQTT and TLS; it never
//! touches a pixel and never depends on the runtime's code, only on the contract.

pub mod agent;
pub mod assistant;
pub mod backoff;
pub mod broker;
pub mod cli;
pub mod clock;
pub mod command;
pub mod language;
pub mod mqtt;
pub mod one_line;
pub mod opinion;
pub mod outbox;
pub mod runtime_client;
pub mod seldom;
pub mod service;
