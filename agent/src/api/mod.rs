//! The agent's API: HTTP/JSON over a Unix socket, and over TCP with a token.
//!
//! - `routes`: the requests. [`conversations`]: sessions with clients. [`feed`]: their events.
//! - [`token`]: authority over TCP. `host`: names by which it is reached there. [`service`]: the
//!   thread that serves.
//!
//! Invariants:
//! - Only a confirmed proposal changes what the box watches, by a user or `[agent.auto_approve]`.
//! - The socket's permission is the authority on the box, the token over TCP; the link of a
//!   notification allows one answer. A client over TCP sees and answers only what came over TCP;
//!   notes are visible to all.
//! - Conversations, messages, events, idle time, bodies and followers are bounded.
//! - The API has its own thread: nothing here delays the agent's loop.

mod app;
pub mod conversations;
pub mod feed;
mod host;
mod openapi;
mod routes;
pub mod service;
pub mod token;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use watchkeeper_http::{MAX_BODY, refusal};

use app::App;
pub use app::{EntrypointErrors, MAX_FOLLOWERS, MAX_MESSAGE, Shared, StatusSender};
pub use routes::document;
use routes::review_link::{self, Pages};
use token::Token;

use crate::review_links::ReviewLinks;
use watchkeeper_assistant::permissions::Entrypoint;

/// Parsers of outside data, public for the fuzz targets only.
#[doc(hidden)]
pub mod fuzzing {
    pub use super::routes::fuzzing::message;
}

/// Requirements of a request over TCP.
#[derive(Debug)]
pub struct TcpAccess {
    pub token: Token,
    /// Host names besides `localhost` and loopback addresses.
    pub hosts: Vec<String>,
    /// Links that answer reviews without the token; absent without `public_url`.
    pub links: Option<Arc<ReviewLinks>>,
}

/// The API for one entrypoint; `tcp` is what its requests must have over TCP.
pub fn router(shared: Arc<Shared>, entrypoint: Entrypoint, tcp: Option<TcpAccess>) -> Router {
    let (router, _) = routes::all().split_for_parts();
    let router = router
        .fallback(refusal::unknown_route)
        .method_not_allowed_fallback(refusal::wrong_method)
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(App {
            entrypoint,
            shared: Arc::clone(&shared),
        });
    match tcp {
        Some(TcpAccess {
            token,
            hosts,
            links,
        }) => {
            let client = shared.conversations.deps().client.clone();
            let pages = links.map(|links| review_link::pages(Pages { links, client }));
            router
                .layer(from_fn_with_state(Arc::new(token), token::require_token))
                .merge(pages.unwrap_or_default())
                .layer(from_fn_with_state(Arc::from(hosts), host::require_host))
        }
        None => router,
    }
}

#[cfg(test)]
mod tests;
