//! The box as one of a fleet: [`mqtt`] is the wire, [`outbox`] what waits to be sent, [`command`] what comes back.

pub mod command;
pub mod mqtt;
pub mod outbox;
