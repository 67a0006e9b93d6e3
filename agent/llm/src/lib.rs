//! Talks to language models, and keeps the talk affordable.
//!
//! Owns: conversations in words that belong to no provider ([`Conversation`]), the wire formats of the providers ([`wire`]),
//! what is known about models ([`catalogue`]), pictures in the size that a model sees unscaled ([`picture`]), what may go wrong and
//! what to do about it ([`fault`]), retries, the circuit breaker ([`policy`]), the budget ([`budget`]) and the ledger of what was
//! spent ([`ledger`]).
//!
//! Invariants:
//! - history is only appended to, and what a model said goes back to it byte for byte;
//! - a tool call is given to the caller only when the model finished it: nothing of a broken or truncated answer is ever run;
//! - before each attempt its worst case is reserved in the ledger and on stable storage, and its true cost is there before the
//!   answer is handed on;
//! - the key stands in one header of one request and nowhere else: not in a log, an error or `Debug`.
//!
//! Everything but [`client`] and the loading of a [`Key`] is sans-IO: bytes, time and randomness are arguments. Not here: what is said to a
//! model and why, which tools there are, when a person is asked.

pub mod ask;
pub mod budget;
pub mod catalogue;
pub mod client;
pub mod conversation;
pub mod estimate;
pub mod fault;
pub mod key;
pub mod ledger;
pub mod money;
pub mod picture;
pub mod policy;
pub mod raw_json;
pub mod reply;
mod sse;
pub mod tool;
pub mod usage;
pub mod wire;

pub use ask::Ask;
pub use client::{Client, Job, JobSpec, LlmError, Parts, Settings};
pub use conversation::Conversation;
pub use key::Key;
pub use reply::{Reply, Stop};
