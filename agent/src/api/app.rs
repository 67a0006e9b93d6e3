//! State of the API: what its handlers share, and limits of concurrent work.
//!
//! - Followers, messages and bundles beyond their limit are refused at once; file accesses wait.
//! - Files are accessed on blocking threads, so that a slow disk delays no other request.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::{Semaphore, mpsc, watch};
use watchkeeper_assistant::permissions::Entrypoint;
use watchkeeper_http::{Refusal, refusal};

use super::conversations::Conversations;
use crate::status::StatusRequest;

/// Largest body of a message, in bytes: four pictures of a camera.
pub const MAX_MESSAGE: usize = 8 << 20;

/// Limit of clients that follow conversations; a further one is refused.
pub const MAX_FOLLOWERS: usize = 32;

/// Limit of bodies read at a time: a further message is refused, a reference picture waits.
pub(super) const MAX_BODY_READS: usize = 2;

/// Limit of evidence bundles that are made or sent at a time; a further one is refused. Each holds
/// a blocking thread until its client has it.
pub(super) const MAX_BUNDLES: usize = 2;

/// Limit of changes of the archive at a time; a further one waits. A change outlives its client.
const MAX_CHANGES: usize = 2;

/// Limit of file accesses (notes, trace, ledger) at a time; a further one waits.
const MAX_FILE_ACCESSES: usize = 2;

/// Requests the agent's status from its loop.
pub type StatusSender = mpsc::Sender<StatusRequest>;

/// The error of each entrypoint that can't open.
#[derive(Debug, Default)]
pub struct EntrypointErrors(Mutex<[Option<String>; 2]>);

impl EntrypointErrors {
    pub fn set(&self, entrypoint: Entrypoint, trouble: Option<String>) {
        let mut all = self.0.lock();
        all[usize::from(entrypoint == Entrypoint::Remote)] = trouble;
    }

    pub fn all(&self) -> Vec<String> {
        let all = self.0.lock();
        all.iter().flatten().cloned().collect()
    }
}

/// State of every handler.
#[derive(Clone)]
pub(super) struct App {
    pub(super) entrypoint: Entrypoint,
    pub(super) shared: Arc<Shared>,
}

/// State shared by both entrypoints.
pub struct Shared {
    pub(super) conversations: Arc<Conversations>,
    pub(super) asks: StatusSender,
    pub(super) entrypoint_errors: EntrypointErrors,
    pub(super) started: Instant,
    pub(super) followers: Arc<Semaphore>,
    pub(super) body_reads: Arc<Semaphore>,
    pub(super) bundles: Arc<Semaphore>,
    pub(super) file_accesses: Arc<Semaphore>,
    pub(super) changes: Arc<Semaphore>,
    /// True once the API shuts down; streams end then.
    pub(super) closing: watch::Receiver<bool>,
}

impl Shared {
    /// The state of an API that requests the agent's status by `asks`.
    pub fn new(
        conversations: Arc<Conversations>,
        asks: StatusSender,
        closing: watch::Receiver<bool>,
    ) -> Arc<Self> {
        Arc::new(Self {
            conversations,
            asks,
            entrypoint_errors: EntrypointErrors::default(),
            started: Instant::now(),
            followers: Arc::new(Semaphore::new(MAX_FOLLOWERS)),
            body_reads: Arc::new(Semaphore::new(MAX_BODY_READS)),
            bundles: Arc::new(Semaphore::new(MAX_BUNDLES)),
            file_accesses: Arc::new(Semaphore::new(MAX_FILE_ACCESSES)),
            changes: Arc::new(Semaphore::new(MAX_CHANGES)),
            closing,
        })
    }
}

impl Shared {
    /// Runs a file access on a blocking thread.
    pub(super) async fn access_files<T, F>(self: &Arc<Self>, access: F) -> Result<T, Refusal>
    where
        T: Send + 'static,
        F: FnOnce(&Self) -> T + Send + 'static,
    {
        // The semaphore is never closed. The thread holds the permit: it continues if the client
        // disconnects.
        let accesses = Arc::clone(&self.file_accesses);
        let permit = accesses.acquire_owned().await.ok();
        let shared = Arc::clone(self);
        let access = move || {
            let _permit = permit;
            access(&shared)
        };
        let result = tokio::task::spawn_blocking(access).await;
        result.map_err(|error| {
            tracing::error!(%error, "api: a file access panicked");
            refusal::internal()
        })
    }
}
