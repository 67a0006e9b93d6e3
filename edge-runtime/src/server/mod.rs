//! The runtime's API: HTTP/JSON over a Unix socket.
//!
//! Owns routes, refusals, the event stream, the OpenAPI description and the metrics. The file permission of the socket
//! is the authority; whoever may open it may do everything.
//!
//! Invariants:
//! - every refusal, of the router's too, is a [`Problem`](watchkeeper_contract::problem::Problem) as JSON;
//! - every route is in the OpenAPI description, because both come from the same attribute;
//! - a client can't make the runtime hold more than one page of events, one request body of [`MAX_BODY`] bytes (of [`MAX_DEFINITION_BODY`] where it holds
//!   a definition) and a few pieces of a file, of which [`MAX_SENT`] are sent at a time; of [`MAX_PICTURES_BODY`] for the run on pictures, of which there is one at a time;
//! - no request blocks the async threads: everything behind [`Runtime`] runs on the blocking pool, and never more than
//!   [`MAX_AT_WORK`] of it at a time, so that the pool has room for those that keep the process alive.
//!
//! Not here: what a source, a pipeline or a model is. The server talks to the rest through [`Runtime`] alone.

mod about;
mod catalogue;
mod effects;
mod events;
mod file;
mod openapi;
mod pipelines;
mod refusal;
mod runtime;
mod sources;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouterExt as _};
use utoipa_axum::routes;
use watchkeeper_http::{MAX_DEFINITION_BODY, Refusal};

pub use file::MAX_SENT;
pub use openapi::document;
pub use runtime::Runtime;
pub use watchkeeper_http::{MAX_BODY, Server, SocketError};

/// Most bytes of a request that brings pictures, of which one is read at a time.
pub const MAX_PICTURES_BODY: usize = 32 << 20;

/// Most clients that may follow the event stream at a time; the next one is refused.
pub const MAX_FOLLOWERS: usize = 32;

/// Most requests that may be at work behind [`Runtime`] at a time, those of clients that went away included; the next one is refused with
/// status 429. Each may take a thread for as long as a camera is waited for.
pub const MAX_AT_WORK: usize = 64;

/// Most questions about health and metrics that are answered at a time; the next one waits.
const MAX_ASKING: usize = 4;

/// What every handler sees.
#[derive(Clone)]
struct App {
    runtime: Arc<dyn Runtime>,
    at_work: Arc<Semaphore>,
    asking_how_it_is: Arc<Semaphore>,
    followers: Arc<Semaphore>,
    /// Places of those who are sent a file.
    sent: Arc<Semaphore>,
    /// The place of a run on still pictures.
    stills: Arc<Semaphore>,
    /// True once the server shuts down; streams end then.
    closing: watch::Receiver<bool>,
}

impl App {
    /// Runs `work`, which may be refused, on the blocking pool.
    async fn attempt<T, E, F>(&self, work: F) -> Result<T, Refusal>
    where
        T: Send + 'static,
        E: Into<Refusal> + Send + 'static,
        F: FnOnce(&dyn Runtime) -> Result<T, E> + Send + 'static,
    {
        self.ask(work).await?.map_err(Into::into)
    }

    /// Runs `work` on the blocking pool; refused when too much of it is under way.
    async fn ask<T, F>(&self, work: F) -> Result<T, Refusal>
    where
        T: Send + 'static,
        F: FnOnce(&dyn Runtime) -> T + Send + 'static,
    {
        let at_work = Arc::clone(&self.at_work);
        let place = at_work.try_acquire_owned().map_err(|_| refusal::busy())?;
        self.work(work, place).await
    }

    /// The same for those who ask how the runtime is: they have places of their own and wait for one, so that a busy runtime is not taken for a dead one.
    async fn ask_how_it_is<T, F>(&self, work: F) -> Result<T, Refusal>
    where
        T: Send + 'static,
        F: FnOnce(&dyn Runtime) -> T + Send + 'static,
    {
        self.work_in_turn(work, &self.asking_how_it_is).await
    }

    /// The same for those of whom there are few and whom nobody asks again: waits for a place.
    async fn ask_in_turn<T, F>(&self, work: F) -> Result<T, Refusal>
    where
        T: Send + 'static,
        F: FnOnce(&dyn Runtime) -> T + Send + 'static,
    {
        self.work_in_turn(work, &self.at_work).await
    }

    async fn work_in_turn<T, F>(&self, work: F, places: &Arc<Semaphore>) -> Result<T, Refusal>
    where
        T: Send + 'static,
        F: FnOnce(&dyn Runtime) -> T + Send + 'static,
    {
        let place = Arc::clone(places).acquire_owned().await;
        // Never closed; if it were, nothing would be served.
        self.work(work, place.map_err(|_| refusal::busy())?).await
    }

    /// Keeps the place until the work is done, also when nobody waits for its answer any more.
    async fn work<T, F>(&self, work: F, place: OwnedSemaphorePermit) -> Result<T, Refusal>
    where
        T: Send + 'static,
        F: FnOnce(&dyn Runtime) -> T + Send + 'static,
    {
        let runtime = Arc::clone(&self.runtime);
        let working = move || {
            let _place = place;
            work(&*runtime)
        };
        tokio::task::spawn_blocking(working).await.map_err(|error| {
            tracing::error!(%error, "request failed inside");
            watchkeeper_http::refusal::internal()
        })
    }
}

/// The limit of routes whose body holds a definition of a workflow.
fn definition() -> DefaultBodyLimit {
    DefaultBodyLimit::max(MAX_DEFINITION_BODY)
}

fn api() -> OpenApiRouter<App> {
    let v1 = OpenApiRouter::new()
        .routes(routes!(sources::list))
        .routes(routes!(sources::get, sources::put, sources::delete))
        .routes(routes!(sources::frame))
        .routes(routes!(sources::snapshot))
        .routes(routes!(pipelines::list, pipelines::create).layer(definition()))
        .routes(routes!(pipelines::get, pipelines::put, pipelines::delete).layer(definition()))
        .routes(routes!(pipelines::pause))
        .routes(routes!(pipelines::resume))
        .routes(routes!(pipelines::results))
        .routes(routes!(pipelines::recording))
        .routes(routes!(pipelines::frame))
        .routes(routes!(events::page))
        .routes(routes!(events::verify))
        .routes(routes!(events::stream))
        .routes(routes!(effects::list))
        .routes(routes!(effects::get))
        .routes(routes!(effects::settle))
        .routes(routes!(catalogue::validate).layer(definition()))
        .routes(routes!(catalogue::run).layer(DefaultBodyLimit::max(MAX_PICTURES_BODY)))
        .routes(routes!(catalogue::dry_run).layer(definition()))
        .routes(routes!(catalogue::blocks))
        .routes(routes!(catalogue::block))
        .routes(routes!(catalogue::block_by_path))
        .routes(routes!(catalogue::models))
        .routes(routes!(about::media))
        .routes(routes!(about::health))
        .routes(routes!(about::metrics))
        .routes(routes!(about::openapi));
    OpenApiRouter::with_openapi(openapi::base()).nest("/v1", v1)
}

/// The whole API over `runtime`. Streams end when `closing` becomes true.
pub fn router(runtime: Arc<dyn Runtime>, closing: watch::Receiver<bool>) -> Router {
    let (router, _) = api().split_for_parts();
    router
        .fallback(watchkeeper_http::refusal::unknown_route)
        .method_not_allowed_fallback(watchkeeper_http::refusal::wrong_method)
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(App {
            runtime,
            at_work: Arc::new(Semaphore::new(MAX_AT_WORK)),
            asking_how_it_is: Arc::new(Semaphore::new(MAX_ASKING)),
            stills: Arc::new(Semaphore::new(1)),
            followers: Arc::new(Semaphore::new(MAX_FOLLOWERS)),
            sent: Arc::new(Semaphore::new(MAX_SENT)),
            closing,
        })
}

/// Serves `runtime` on its socket until `shutdown` is ready. Event streams end then; other requests get a few seconds to finish.
///
/// # Errors
/// When the system takes the socket away.
pub async fn run(
    server: Server,
    runtime: Arc<dyn Runtime>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let (close, closing) = watch::channel(false);
    let app = router(runtime, closing.clone());
    tokio::spawn(async move {
        shutdown.await;
        close.send_replace(true);
    });
    server.run(app, closing).await
}

#[cfg(test)]
mod tests;
