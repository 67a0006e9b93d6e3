//! Calls language models, within a budget.
//!
//! Owns [`Conversation`], the wire formats of the providers ([`wire`]) and the catalogue of models
//! ([`catalogue`]). Owns pictures in the size that a model sees unscaled ([`picture`]), retries and
//! the circuit breaker ([`policy`]), the [`budget`] and the [`ledger`].
//!
//! - A conversation only grows, and what a model said goes back to it byte for byte.
//! - A tool call reaches the caller only when the model finished it; nothing of a broken or
//!   truncated answer is run.
//! - Before each attempt its highest cost is on stable storage; its true cost is there before the
//!   answer is returned.
//! - The key is the value of one header of one request: never in a log, an error or `Debug`.
//!
//! Everything but [`client`] and the loading of a [`Key`] is sans-IO. Not here: prompts and tools,
//! and when a user is asked.

pub mod attempt_error;
pub mod budget;
pub mod call_options;
pub mod catalogue;
pub mod client;
pub mod conversation;
pub mod estimate;
pub mod key;
pub mod ledger;
pub mod money;
pub mod picture;
pub mod policy;
pub mod protocol;
pub mod raw_json;
pub mod reply;
pub mod tool;
pub mod usage;
pub mod wire;

pub use call_options::CallOptions;
pub use client::{Client, Job, JobSpec, LlmError, Parts, Settings};
pub use conversation::Conversation;
pub use key::Key;
pub use protocol::Protocol;
pub use reply::{Reply, StopReason};
