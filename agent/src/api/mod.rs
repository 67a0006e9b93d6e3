//! The agent's API: HTTP/JSON over a Unix socket, and over TCP with a token.
//!
//! - `routes`: the requests. [`conversations`]: sessions with clients. [`feed`]: their events.
//! - [`token`]: authority over TCP. [`service`]: the thread that serves.
//!
//! Invariants:
//! - Only a confirmed proposal changes what the box does, by a user or `[agent.auto_approve]`.
//! - The socket's permission is the authority on the box, the token over TCP. A client over TCP
//!   sees and answers only what came over TCP; notes are visible to all.
//! - Conversations, messages, events, idle time, bodies and followers are bounded.
//! - The API has a thread of its own: nothing here delays the agent's loop.

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
pub use app::{EntrypointErrors, MAX_FOLLOWERS, MAX_MESSAGE, Shared, StatusSender};
pub use routes::document;
use token::Token;
use watchkeeper_assistant::permissions::Entrypoint;

/// Parsers of outside data, public for the fuzz targets only.
#[doc(hidden)]
pub mod fuzzing {
    pub use super::routes::fuzzing::message;
}

/// The API for one entrypoint. With `token`, every request must carry it.
pub fn router(shared: Arc<Shared>, entrypoint: Entrypoint, token: Option<Arc<Token>>) -> Router {
    let (router, _) = routes::all().split_for_parts();
    let router = router
        .fallback(refusal::unknown_route)
        .method_not_allowed_fallback(refusal::wrong_method)
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(App { entrypoint, shared });
    match token {
        Some(token) => router.layer(axum::middleware::from_fn_with_state(
            token,
            token::require_token,
        )),
        None => router,
    }
}

#[cfg(test)]
mod tests;
