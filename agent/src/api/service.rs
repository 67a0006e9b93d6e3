//! The thread that serves the API, on the socket and, where configured, over TCP.
//!
//! It has its own loop, because conversations wait for disks.
//!
//! Invariant: an entrypoint that can't open (socket in use, port taken, unreadable token) is
//! logged, reported by `GET /v1/health` and retried. It affects neither the other one nor the
//! agent.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use watchkeeper_config::{AgentApiConfig, TcpApiConfig};
use watchkeeper_http::serving::{Admission, serve as serve_connections};
use watchkeeper_http::{Server, closed};

use super::conversations::{Bounds, ConversationDeps, Conversations};
use super::routes::send_problems;
use super::token::Token;
use super::{Shared, StatusSender, TcpAccess, router};
use crate::background::BackgroundThread;
use crate::review_links::ReviewLinks;
use watchkeeper_assistant::active::save_at_start;
use watchkeeper_assistant::notes::Notes;
use watchkeeper_assistant::permissions::Entrypoint;

/// Pause before an entrypoint that failed to open is retried.
const RETRY: Duration = Duration::from_secs(10);
/// Time for conversations to end: a confirmed change is carried out.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for the thread to end, with its requests in progress.
pub(crate) const EXIT_TIMEOUT: Duration = Duration::from_secs(8);

/// Dependencies of the API at its start.
#[derive(Debug)]
pub struct Setup {
    pub deps: ConversationDeps,
    pub config: AgentApiConfig,
    /// Folder of the service's credentials (systemd).
    pub credentials: Option<PathBuf>,
    /// Links that answer reviews; absent without `public_url`.
    pub links: Option<Arc<ReviewLinks>>,
}

/// Starts the thread. Once stopped it refuses new requests and waits for those in progress.
///
/// # Errors
/// When the system refuses to create it.
pub fn spawn(setup: Setup, asks: StatusSender) -> io::Result<BackgroundThread> {
    BackgroundThread::spawn("api", |closing| serve(setup, asks, closing))
}

async fn serve(setup: Setup, asks: StatusSender, closing: watch::Receiver<bool>) {
    let conversations = Conversations::new(setup.deps, Bounds::default(), closing.clone());
    read_notes(&conversations.deps().notes);
    let (client, notes) = (&conversations.deps().client, &conversations.deps().notes);
    tokio::spawn(save_at_start(
        client.clone(),
        notes.clone(),
        closing.clone(),
    ));
    let deps = conversations.deps();
    deps.jobs.set_model(deps.model.clone());
    let shared = Shared::new(Arc::clone(&conversations), asks, closing.clone());
    let (config, credentials, links) = (setup.config, setup.credentials, setup.links);
    let local = keep_open(Entrypoint::Local, &shared, &closing, || {
        on_socket(&config, &shared, &closing)
    });
    let remote = async {
        if let Some(tcp) = &config.tcp {
            let open = || {
                over_tcp(
                    tcp,
                    credentials.as_deref(),
                    links.as_ref(),
                    &shared,
                    &closing,
                )
            };
            keep_open(Entrypoint::Remote, &shared, &closing, open).await;
        }
    };
    // In this task: a panic ends the thread, which the agent notices.
    let background = async {
        tokio::select! {
            () = closed(closing.clone()) => {}
            () = send_problems(&shared) => {}
            () = deps.archive.serve() => {}
        }
    };
    tokio::join!(local, remote, background);
    let ended = tokio::time::timeout(DRAIN_TIMEOUT, conversations.ended()).await;
    if ended.is_err() {
        tracing::warn!("api: a conversation was cut off during a change");
    }
}

/// Loads the embedding model and the new notes in the background, before the first search.
fn read_notes(notes: &Notes) {
    if !notes.use_a_model() {
        return;
    }
    let notes = notes.clone();
    tokio::task::spawn_blocking(move || {
        if let Err(why) = notes.open() {
            tracing::warn!(why, "api: can't load the notes ahead");
        }
    });
}

/// Opens an entrypoint until the API closes; `open` returns the error that closed it.
async fn keep_open<F>(
    entrypoint: Entrypoint,
    shared: &Shared,
    closing: &watch::Receiver<bool>,
    open: impl Fn() -> F,
) where
    F: Future<Output = Result<(), String>>,
{
    let mut logged = None;
    loop {
        let outcome = open().await;
        if *closing.borrow() {
            return;
        }
        let trouble = match outcome {
            Ok(()) => "the server ended by itself".to_owned(),
            Err(why) => why,
        };
        let trouble = format!(
            "the agent's API is not served ({}): {trouble}",
            entrypoint.name()
        );
        if logged.as_ref() != Some(&trouble) {
            tracing::error!("{trouble}; retrying every {} s", RETRY.as_secs());
        }
        shared
            .entrypoint_errors
            .set(entrypoint, Some(trouble.clone()));
        logged = Some(trouble);
        tokio::select! {
            () = closed(closing.clone()) => return,
            () = tokio::time::sleep(RETRY) => {}
        }
    }
}

async fn on_socket(
    config: &AgentApiConfig,
    shared: &Arc<Shared>,
    closing: &watch::Receiver<bool>,
) -> Result<(), String> {
    let server = Server::bind(&config.socket, config.socket_mode).map_err(|e| e.to_string())?;
    tracing::info!(socket = %config.socket.display(), "the API is served");
    shared.entrypoint_errors.set(Entrypoint::Local, None);
    let app = router(Arc::clone(shared), Entrypoint::Local, None);
    server
        .run(app, closing.clone())
        .await
        .map_err(|e| e.to_string())
}

async fn over_tcp(
    config: &TcpApiConfig,
    credentials: Option<&std::path::Path>,
    links: Option<&Arc<ReviewLinks>>,
    shared: &Arc<Shared>,
    closing: &watch::Receiver<bool>,
) -> Result<(), String> {
    let token = Token::read(&config.token, credentials)?;
    let address = config.listen;
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|e| {
        format!("can't listen on {address}: {e}; choose another port with agent.api.listen")
    })?;
    let address = listener.local_addr().map_err(|e| e.to_string())?;
    tracing::info!(%address, "the API is served over TCP, with a token");
    shared.entrypoint_errors.set(Entrypoint::Remote, None);
    let access = TcpAccess {
        token,
        hosts: config.hosts.clone(),
        links: links.cloned(),
    };
    let app = router(Arc::clone(shared), Entrypoint::Remote, Some(access));
    let served = serve_connections(listener, Admission::Token, app, closing.clone()).await;
    served.map_err(|e| e.to_string())
}
