//! Talks to language models.
//!
//! Owns: conversations in words that belong to no provider ([`Conversation`]), the wire formats of the providers ([`wire`]),
//! what is known about models ([`catalogue`]), pictures in the size that a model sees unscaled ([`picture`]), what may go wrong and
//! what to do about it ([`fault`]).
//!
//! Invariants:
//! - history is only appended to, and what a model said goes back to it byte for byte;
//! - a tool call is given to the caller only when the model finished it: nothing of a broken or truncated answer is ever run.
//!
//! Sans-IO: bytes, time and randomness are arguments. Not here: what is said to a model and why, which tools there are, when a person is asked.

pub mod ask;
pub mod budget;
pub mod catalogue;
pub mod conversation;
pub mod estimate;
pub mod fault;
pub mod ledger;
pub mod money;
pub mod picture;
pub mod raw_json;
pub mod reply;
mod sse;
pub mod tool;
pub mod usage;
pub mod wire;

pub use ask::Ask;
pub use conversation::Conversation;
pub use reply::{Reply, Stop};
