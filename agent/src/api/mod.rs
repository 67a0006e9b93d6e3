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

pub mod conversations;
pub mod feed;
mod openapi;
mod routes;
pub mod service;
pub mod token;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use watchkeeper_http::{MAX_BODY, Refusal, refusal};

use crate::status::Standing;
use conversations::Conversations;
pub use openapi::document;
use token::Token;
use watchkeeper_assistant::permissions::Channel;

/// Readers of outside data that are no part of any interface, open to the fuzz targets in `tests` only.
#[doc(hidden)]
pub mod fuzzing {
    pub use super::routes::fuzzing::message;
}

/// Largest body of a message, in bytes: four pictures of a camera.
pub const MAX_MESSAGE: usize = 8 << 20;

/// Most clients that may follow conversations at a time; the next one is refused.
pub const MAX_FOLLOWERS: usize = 32;

/// Most bodies of messages that are read at a time; the next one is refused.
const MAX_READING: usize = 2;

/// Most look-ups in files (notes, trace, books) that are made at a time; the next one waits.
const MAX_LOOKING: usize = 2;

/// Asks the agent's loop how things stand.
pub type Asks = mpsc::Sender<oneshot::Sender<Standing>>;

/// What keeps one of the two ways in closed, as a sentence each.
#[derive(Debug, Default)]
pub struct Troubles(Mutex<[Option<String>; 2]>);

impl Troubles {
    /// Notes it, or that it is over.
    pub fn set(&self, channel: Channel, trouble: Option<String>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all[usize::from(channel == Channel::Remote)] = trouble;
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> Vec<String> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().flatten().cloned().collect()
    }
}

/// What every handler sees.
#[derive(Clone)]
struct App {
    /// Which way its requests come in.
    channel: Channel,
    shared: Arc<Shared>,
}

/// What both ways in have in common.
pub struct Shared {
    conversations: Arc<Conversations>,
    asks: Asks,
    /// Who serves the model, where one is configured.
    provider: Option<String>,
    troubles: Troubles,
    started: Instant,
    followers: Arc<Semaphore>,
    reading: Arc<Semaphore>,
    looking: Semaphore,
    /// True once the API shuts down; streams end then.
    closing: watch::Receiver<bool>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("conversations", &self.conversations)
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// An API that speaks by these conversations, and asks the agent's loop by `asks`.
    #[must_use]
    pub fn new(
        conversations: Arc<Conversations>,
        asks: Asks,
        provider: Option<String>,
        closing: watch::Receiver<bool>,
    ) -> Arc<Self> {
        Arc::new(Self {
            conversations,
            asks,
            provider,
            troubles: Troubles::default(),
            started: Instant::now(),
            followers: Arc::new(Semaphore::new(MAX_FOLLOWERS)),
            reading: Arc::new(Semaphore::new(MAX_READING)),
            looking: Semaphore::new(MAX_LOOKING),
            closing,
        })
    }
}

impl App {
    /// Looks something up in files, on a thread for that.
    async fn look<T, F>(&self, look: F) -> Result<T, Refusal>
    where
        T: Send + 'static,
        F: FnOnce(&Shared) -> T + Send + 'static,
    {
        // Never closed.
        let _place = self.shared.looking.acquire().await.ok();
        let shared = Arc::clone(&self.shared);
        let looked = tokio::task::spawn_blocking(move || look(&shared)).await;
        looked.map_err(|error| {
            tracing::error!(%error, "a look-up of the API failed inside");
            refusal::internal()
        })
    }
}

/// The whole API for requests that come in this way. Those over TCP show the token.
pub fn router(shared: Arc<Shared>, channel: Channel, token: Option<Arc<Token>>) -> Router {
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
