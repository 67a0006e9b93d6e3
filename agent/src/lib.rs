//! The agent: the part of Watchkeeper that talks to people and fleets.
//!
//! Two programs are built from it: the daemon `watchkeeper-agent`, which carries events from the runtime's journal
//! to an MQTT broker and commands back, and the command `watchkeeper`. Only this crate knows MQTT and TLS; it never
//! touches a pixel and never depends on the runtime's code, only on the contract.
//!
//! Map:
//! - the daemon: [`agent`] is the loop in which the cores meet the world, [`mqtt`] and [`broker`] the wire and a broker of the box's own, [`outbox`] what
//!   waits to be sent, [`command`] what comes back, [`opinion`] what a model thinks of an event that the box is unsure of, [`channel`] tells people of events, [`heartbeat`] looks after the box, [`sinks`] does what workflows
//!   want done outside;
//! - conversations: [`assistant`] turns plain words into proposals and carries out none by itself; [`setter`] has a model with tools work on what the
//!   rules did not understand, by a [`blueprint`] that the [`coordinator`] chose; [`dialogue`] is the shell around both, for the command [`cli`] and for the daemon's [`api`];
//! - both: [`runtime_client`] speaks the contract, [`language`] opens the way to a model of language, [`notes`] to what is remembered, [`active`] keeps what runs beside that, [`backoff`], [`clock`], [`moment`], [`seldom`],
//!   [`service`], [`one_line`] and [`wording`] are small parts.

pub mod active;
pub mod agent;
pub mod api;
pub mod assistant;
pub mod backoff;
pub mod blueprint;
pub mod broker;
pub mod channel;
pub mod cli;
pub mod clock;
pub mod command;
pub mod coordinator;
pub mod dialogue;
pub mod heartbeat;
pub mod language;
pub mod moment;
pub mod mqtt;
pub mod notes;
pub mod one_line;
pub mod opinion;
pub mod outbox;
pub mod runtime_client;
pub mod seldom;
pub mod service;
pub mod setter;
pub mod sinks;
pub mod wording;
