//! Tells people of events: the channels of the configuration.
//!
//! Map: [`message`] which events a channel tells and in which words, [`queue`] when each goes out and what was told (both sans-IO), [`on_disk`] how
//! far each channel is, [`pending`] what it still owes of the box's own messages, [`service`] the tasks that read the journal and make the requests.
//!
//! Invariants:
//! - the journal is the queue: a channel keeps nothing of an event but how far it has come, so a receiver that is away for a day costs no memory and
//!   no disk, and `kill -9` loses nothing that the journal still has;
//! - what the journal has no record of (what a heartbeat found) is kept for each channel until its receiver has answered, and needs no runtime to be told;
//! - that number moves past an event only when its receiver has answered, or when it was given up and counted;
//! - a channel waits for nobody else: not for a broker, not for another channel, and the loop of the agent never for it;
//! - an address is a secret: read when it is used, shown nowhere.
//!
//! Not here: requests and what an answer means ([`crate::connectors`]), and which rule names which channel (the rule itself).

pub mod health;
pub mod message;
pub mod on_disk;
pub mod pending;
pub mod queue;
pub mod service;
