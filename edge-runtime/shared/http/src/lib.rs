//! HTTP and JSON as both daemons serve it: the Unix socket, bodies, server-sent events, refusals,
//! API descriptions.
//!
//! - Every refusal, of the router too, is a [`Problem`](watchkeeper_contract::problem::Problem) as
//!   JSON with field, value and remedy.
//! - A refusal repeats no credentials of the request.
//! - A client that stops in the middle of a request, sends none or reads no answer times out.
//! - The number of connections is bounded, and no peer holds all of them.
//! - A socket never has wider permissions than asked for, and is never taken from a living server.
//!
//! Not here: routes, and their permissions.

pub mod body;
pub mod deadlines;
pub mod openapi;
mod peer;
pub mod pieces;
mod places;
pub mod refusal;
mod rest;
pub mod serving;
pub mod socket;
pub mod stream;
mod write_timeout;

use tokio::sync::watch;
use watchkeeper_config::bounded;

pub use places::ConnectionPlace;
pub use refusal::Refusal;
pub use socket::{Server, SocketError};

/// Largest body of a request without pictures and workflow definitions, in bytes.
pub const MAX_BODY: usize = 1 << 20;

/// Largest body with the definition of a workflow, in bytes: the largest definition file and as
/// much around it as any other request.
pub const MAX_DEFINITION_BODY: usize = bounded::MAX_BYTES as usize + MAX_BODY;

/// Waits until the server shuts down or is dropped.
pub async fn closed(mut closing: watch::Receiver<bool>) {
    while !*closing.borrow_and_update() {
        if closing.changed().await.is_err() {
            return;
        }
    }
}
