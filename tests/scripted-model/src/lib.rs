//! Plays a language model from a script or through files, over the real wire protocol on a real socket.
//!
//! A test says what the model answers and what goes wrong ([`Step`]); the server speaks it as the provider would, in chunks of odd sizes: Claude's Messages API,
//! OpenAI's Responses API, Gemini's generateContent and Ollama's chat, told apart by the path of a request. It is strict where the provider is: a request that breaks the contract gets the provider's refusal and is remembered ([`Server::violations`]), thoughts that were changed on
//! their way back are refused, and the prompt cache is simulated by hashing prefixes, so that a request that no longer hits it shows in its usage.
//!
//! Where a folder is given, what the script no longer says is asked for there, one file a request, so that anybody can play the model.
//!
//! Invariant: nothing is known here about our own code; what the protocol is stands here a second time.

mod claude;
mod exchange;
mod gemini;
mod http;
mod json;
mod ollama;
mod openai;
mod picture;
mod prefix;
mod provider;
#[cfg(test)]
mod refusals;
mod script;
mod server;
mod stream;

pub use http::Request;
pub use script::{Call, Fault, Reply, Script, Step};
pub use server::{Guise, Server, Settings};
