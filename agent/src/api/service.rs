//! The thread that serves the API, on the socket and, where that is configured, over TCP.
//!
//! It has a loop of its own: a conversation waits for disks and reads notes, and the loop that tells the events must not. Invariant: whatever keeps one of
//! the ways in closed (a socket that somebody else serves, a port that is taken, a token that can't be read) is logged, told by `GET /v1/health` and
//! tried again; it keeps neither the other way nor the agent from working.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use watchkeeper_config::{AgentApiConfig, TcpApiConfig};
use watchkeeper_http::{Server, closed, socket};

use super::conversations::{Bounds, Conversations, Shop};
use super::token::Token;
use super::{Asks, Shared, router};
use watchkeeper_assistant::active::keep_at_start;
use watchkeeper_assistant::notes::Notes;
use watchkeeper_assistant::permissions::Entrypoint;

/// How long a way in that could not be opened is left alone.
const RETRY: Duration = Duration::from_secs(10);
/// How long conversations may take to end; what was confirmed is being carried out.
const DRAIN: Duration = Duration::from_secs(5);
/// How long the thread may take, with the requests that are under way.
const FAREWELL: Duration = Duration::from_secs(8);

/// What is served, and where.
#[derive(Debug)]
pub struct Setup {
    /// What conversations work with.
    pub shop: Shop,
    /// Who serves the model of language, where one is configured.
    pub provider: Option<String>,
    /// Where it is served.
    pub config: AgentApiConfig,
    /// Folder of the credentials of this service.
    pub credentials: Option<PathBuf>,
}

/// The thread. Dropping it ends what it serves.
#[derive(Debug)]
pub struct Service {
    close: watch::Sender<bool>,
    ended: oneshot::Receiver<()>,
}

impl Service {
    /// Starts it.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn spawn(setup: Setup, asks: Asks) -> io::Result<Self> {
        let (close, closing) = watch::channel(false);
        let (tell, ended) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        std::thread::Builder::new()
            .name("api".to_owned())
            .spawn(move || {
                runtime.block_on(serve(setup, asks, closing));
                // A look-up in files that hangs must not hold the end up.
                runtime.shutdown_background();
                tell.send(()).ok();
            })?;
        Ok(Self { close, ended })
    }

    /// Ends when the thread has ended, which it does by itself only where it is broken.
    pub async fn ended(&mut self) {
        // It says nothing where it panicked.
        (&mut self.ended).await.ok();
    }

    /// Takes no more requests and waits for what is under way, a few seconds at most.
    pub async fn stop(self) {
        self.close.send_replace(true);
        let ended = tokio::time::timeout(FAREWELL, self.ended).await;
        if ended.is_err() {
            tracing::warn!("the thread that serves the API did not end");
        }
    }
}

async fn serve(setup: Setup, asks: Asks, closing: watch::Receiver<bool>) {
    let conversations = Conversations::new(setup.shop, Bounds::default(), closing.clone());
    let provider = setup.provider;
    read_notes(&conversations.shop().notes);
    let (client, notes) = (&conversations.shop().client, &conversations.shop().notes);
    tokio::spawn(keep_at_start(
        client.clone(),
        notes.clone(),
        closing.clone(),
    ));
    let shared = Shared::new(Arc::clone(&conversations), asks, provider, closing.clone());
    let (config, credentials) = (setup.config, setup.credentials);
    let local = keep_open(Entrypoint::Local, &shared, &closing, || {
        on_socket(&config, &shared, &closing)
    });
    let remote = async {
        if let Some(tcp) = &config.tcp {
            let open = || over_tcp(tcp, credentials.as_deref(), &shared, &closing);
            keep_open(Entrypoint::Remote, &shared, &closing, open).await;
        }
    };
    tokio::join!(local, remote);
    let ended = tokio::time::timeout(DRAIN, conversations.ended()).await;
    if ended.is_err() {
        tracing::warn!("a conversation was cut off in the middle of a change");
    }
}

/// Has a model of sentences loaded, and the notes read that it has not seen, before anybody asks. Nobody waits for it.
fn read_notes(notes: &Notes) {
    if !notes.want_a_model() {
        return;
    }
    let notes = notes.clone();
    tokio::task::spawn_blocking(move || {
        if let Err(why) = notes.open() {
            tracing::warn!(why, "notes are not read ahead");
        }
    });
}

/// Opens a way in again and again, until the API closes. `open` ends with what keeps it closed.
async fn keep_open<F>(
    channel: Entrypoint,
    shared: &Shared,
    closing: &watch::Receiver<bool>,
    open: impl Fn() -> F,
) where
    F: Future<Output = Result<(), String>>,
{
    let mut told = None;
    loop {
        let outcome = open().await;
        if *closing.borrow() {
            return;
        }
        let trouble = match outcome {
            Ok(()) => "it ended by itself".to_owned(),
            Err(why) => why,
        };
        let trouble = format!(
            "the agent's API is not served ({}): {trouble}",
            channel.name()
        );
        if told.as_ref() != Some(&trouble) {
            tracing::error!("{trouble}; it is tried again every {} s", RETRY.as_secs());
        }
        shared.troubles.set(channel, Some(trouble.clone()));
        told = Some(trouble);
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
    shared.troubles.set(Entrypoint::Local, None);
    let app = router(Arc::clone(shared), Entrypoint::Local, None);
    server
        .run(app, closing.clone())
        .await
        .map_err(|e| e.to_string())
}

async fn over_tcp(
    config: &TcpApiConfig,
    credentials: Option<&std::path::Path>,
    shared: &Arc<Shared>,
    closing: &watch::Receiver<bool>,
) -> Result<(), String> {
    let token = Token::read(&config.token, credentials)?;
    let address = config.listen;
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|e| {
        format!("can't listen on {address}: {e}; choose another port by agent.api.listen")
    })?;
    let address = listener.local_addr().map_err(|e| e.to_string())?;
    tracing::info!(%address, "the API is served over TCP, for whoever has the token");
    shared.troubles.set(Entrypoint::Remote, None);
    let app = router(
        Arc::clone(shared),
        Entrypoint::Remote,
        Some(Arc::new(token)),
    );
    let served = socket::serve(listener, app, closing.clone()).await;
    served.map_err(|e| e.to_string())
}
