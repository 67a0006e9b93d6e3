//! The agent's API: HTTP/JSON over a Unix socket, and over TCP for whoever has the token.
//!
//! Map: `routes` are the requests, [`conversations`] what they speak with and [`feed`] what happens there, [`token`] who may come in over TCP,
//! [`service`] the thread that serves. Bodies, refusals and sockets are those of the runtime (`watchkeeper_http`).
//!
//! Invariants:
//! - nothing changes what the box does but a yes to an offer, a person's or the policy's of that channel, by the same way as in `watchkeeper chat` ([`watchkeeper_assistant::session`]);
//! - the socket's permission is the authority on the box, the token over TCP; who came with the token sees and answers what came over TCP, and none of
//!   the conversations and proposals of the box ([`may_answer`](watchkeeper_assistant::permissions::may_answer)). Notes are everybody's;
//! - everything is bounded: conversations, their messages, events and idle life, bodies, followers;
//! - nothing here holds up the agent's loop: the API has a thread of its own, and whatever is wrong with it keeps no event from being told.

mod app;
pub mod conversations;
pub mod feed;
mod openapi;
mod routes;
pub mod service;
pub mod token;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use watchkeeper_http::{MAX_BODY, refusal};

use app::App;
pub use app::{Asks, MAX_FOLLOWERS, MAX_MESSAGE, Shared, Troubles};
pub use routes::document;
use token::Token;
use watchkeeper_assistant::permissions::Entrypoint;

/// Readers of outside data that are no part of any interface, open to the fuzz targets in `tests` only.
#[doc(hidden)]
pub mod fuzzing {
    pub use super::routes::fuzzing::message;
}

/// The whole API for requests that come in this way. Those over TCP show the token.
pub fn router(shared: Arc<Shared>, channel: Entrypoint, token: Option<Arc<Token>>) -> Router {
    let (router, _) = routes::all().split_for_parts();
    let router = router
        .fallback(refusal::unknown_route)
        .method_not_allowed_fallback(refusal::wrong_method)
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(App { channel, shared });
    match token {
        Some(token) => router.layer(axum::middleware::from_fn_with_state(token, token::ask_for)),
        None => router,
    }
}

#[cfg(test)]
mod tests;
