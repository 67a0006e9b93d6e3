//! Notifies people of events over the channels of the configuration.
//!
//! Map: [`message`] selects events and writes texts, [`queue`] decides when a delivery is sent
//! (both sans-IO). [`on_disk`] stores each channel's position in the journal, [`pending`] the
//! notices that a channel has still to receive. [`service`] has the tasks.
//!
//! Invariants:
//! - The journal is the queue: a channel stores only its position. A receiver that is down for a
//!   day costs no memory and no disk; `kill -9` loses nothing that the journal still has.
//! - Notices without a journal record (heartbeat, schedules) are stored for each channel until its
//!   receiver accepted them. Sending them needs no runtime.
//! - The position passes an event after its receiver accepted it, or after it was given up.
//! - A channel waits for no broker and no other channel; the agent's loop waits for no channel.
//! - An address is a secret: read when it is used, shown nowhere.

pub(crate) mod health;
pub(crate) mod message;
pub(crate) mod on_disk;
pub(crate) mod pending;
pub(crate) mod queue;
pub(crate) mod service;
