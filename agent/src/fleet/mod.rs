//! The box in its fleet: [`mqtt`] is the protocol, [`outbox`] the durable queue, [`command`] the
//! requests that arrive.

pub mod command;
pub mod mqtt;
pub mod outbox;
