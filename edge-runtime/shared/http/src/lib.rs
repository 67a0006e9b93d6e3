//! How a daemon serves HTTP and JSON: the Unix socket, bodies that are read with care, streams of events, refusals of one shape, descriptions.
//!
//! Both daemons have an API of their own; what both do the same way is here, so that a client that knows one knows the other.
//!
//! Invariants:
//! - every refusal, of the router's too, is a [`Problem`](watchkeeper_contract::problem::Problem) as JSON that names field, value and remedy where
//!   there is one;
//! - what a refusal repeats of a request has no credentials in it;
//! - a client that stops in the middle of a request, or asks for nothing, is not waited for without end; there is a most of connections;
//! - a socket never has a wider permission than it was asked for, and is never taken from a living server.
//!
//! Not here: any route, and who may use it.

pub mod body;
pub mod deadlines;
pub mod openapi;
pub mod refusal;
mod rest;
pub mod serving;
pub mod socket;
pub mod stream;

use tokio::sync::watch;
use watchkeeper_config::bounded;

pub use refusal::Refusal;
pub use socket::{Server, SocketError};

/// Largest body of a request that brings neither pictures nor a definition of a workflow, in bytes.
pub const MAX_BODY: usize = 1 << 20;

/// Largest body that holds a definition of a workflow, in bytes: one as long as a file of it may be, and as much around it as any other request has.
pub const MAX_DEFINITION_BODY: usize = bounded::MAX_BYTES as usize + MAX_BODY;

/// Ready when the server shuts down, or is gone without having said so.
pub async fn closed(mut closing: watch::Receiver<bool>) {
    while !*closing.borrow_and_update() {
        if closing.changed().await.is_err() {
            return;
        }
    }
}
