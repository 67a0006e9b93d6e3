//! Plays a language model from a script or through files, over the real wire protocol on a socket.
//!
//! Owns Claude's Messages API, written independently of the agent's client, as Claude and as Ollama
//! serve it. Other providers answer from a [recording](ServerKind::Recorded). A [`Step`] says what
//! the model answers and what fails.
//!
//! - Answers are sent in chunks of odd sizes.
//! - A request that breaks the contract gets the provider's refusal and is kept in
//!   [`Server::violations`].
//! - A thought that the client changed is refused.
//! - The prompt cache is simulated by hashing prefixes, so a cache miss shows in the usage.
//! - With an exchange folder, each request after the script becomes a file there, and the answer is
//!   read from a file. So a person or a program can play the model.

mod claude;
mod exchange;
mod http;
mod json;
mod picture;
mod prefix;
mod recorded;
#[cfg(test)]
mod refusals;
mod script;
mod server;
mod stream;

pub use http::Request;
pub use script::{Call, Fault, Reply, Script, Step};
pub use server::{Server, ServerKind, Settings};
