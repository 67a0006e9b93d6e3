//! State of the handlers: the runtime's API, and the permits that bound calls of it.
//!
//! - Every call of the runtime runs on the blocking pool and holds a permit until it ends, also
//!   when its client went away.
//! - An ordinary call is refused at once if no permit is free; a status or queued call waits.
//! - Status calls have their own permits, so that health is answered while others hang.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;
use watchkeeper_http::Refusal;

use super::limits::{
    MAX_BUNDLES, MAX_CALLS, MAX_FOLLOWERS, MAX_RUNS, MAX_STATUS_CALLS, MAX_TRANSFERS, RUN_WAIT,
};
use super::refusal;
use crate::api::Api;
use watchkeeper_http::refusal::full;

/// State that every handler receives.
#[derive(Clone)]
pub(super) struct App {
    pub(super) api: Arc<Api>,
    pub(super) calls: Arc<Semaphore>,
    pub(super) status_calls: Arc<Semaphore>,
    /// One permit, for metrics.
    pub(super) metrics_calls: Arc<Semaphore>,
    /// One permit, for reports of coverage: each may read all stored spans.
    pub(super) coverage_calls: Arc<Semaphore>,
    pub(super) followers: Arc<Semaphore>,
    pub(super) transfers: Arc<Semaphore>,
    /// One permit, for a run on still pictures, a dry run or a backtest.
    run: Arc<Semaphore>,
    /// Permits of runs that have that permit or wait for it.
    runs: Arc<Semaphore>,
    /// Permits of bundles that are made or sent.
    pub(super) bundles: Arc<Semaphore>,
    /// True once the server shuts down; streams end then.
    pub(super) closing: watch::Receiver<bool>,
}

/// Permit of the one run on pictures or video.
pub(super) struct RunPermit {
    _run: OwnedSemaphorePermit,
    _queued: OwnedSemaphorePermit,
}

impl App {
    pub(super) fn new(api: Arc<Api>, closing: watch::Receiver<bool>) -> Self {
        Self {
            api,
            calls: Arc::new(Semaphore::new(MAX_CALLS)),
            status_calls: Arc::new(Semaphore::new(MAX_STATUS_CALLS)),
            metrics_calls: Arc::new(Semaphore::new(1)),
            coverage_calls: Arc::new(Semaphore::new(1)),
            run: Arc::new(Semaphore::new(1)),
            runs: Arc::new(Semaphore::new(MAX_RUNS)),
            followers: Arc::new(Semaphore::new(MAX_FOLLOWERS)),
            transfers: Arc::new(Semaphore::new(MAX_TRANSFERS)),
            bundles: Arc::new(Semaphore::new(MAX_BUNDLES)),
            closing,
        }
    }

    /// Runs `work` on the blocking pool and converts its error.
    pub(super) async fn try_call<T, E, F>(&self, work: F) -> Result<T, Refusal>
    where
        T: Send + 'static,
        E: Into<Refusal> + Send + 'static,
        F: FnOnce(&Api) -> Result<T, E> + Send + 'static,
    {
        self.call(work).await?.map_err(Into::into)
    }

    /// Runs `work` on the blocking pool; refuses it while [`MAX_CALLS`] are in progress.
    pub(super) async fn call<T, F>(&self, work: F) -> Result<T, Refusal>
    where
        T: Send + 'static,
        F: FnOnce(&Api) -> T + Send + 'static,
    {
        let calls = Arc::clone(&self.calls);
        let permit = calls.try_acquire_owned().map_err(|_| refusal::busy())?;
        self.spawn_blocking(work, permit).await
    }

    /// Waits at most [`RUN_WAIT`] for the one run on pictures or video; at most [`MAX_RUNS`] wait.
    pub(super) async fn begin_run(&self) -> Result<RunPermit, Refusal> {
        let busy = |why: String| {
            full(format!(
                "the box makes one run on pictures, trial or replay at a time, and {why}; one \
                 takes 2 min at most, so try again then"
            ))
        };
        let queued = Arc::clone(&self.runs).try_acquire_owned();
        let queued = queued.map_err(|_| busy(format!("{MAX_RUNS} of them run or wait")))?;
        let run = timeout(RUN_WAIT, Arc::clone(&self.run).acquire_owned()).await;
        match run {
            Ok(Ok(run)) => Ok(RunPermit {
                _run: run,
                _queued: queued,
            }),
            // The semaphore is never closed.
            Ok(Err(_)) | Err(_) => {
                let waited = RUN_WAIT.as_secs();
                Err(busy(format!("another one still runs after {waited} s")))
            }
        }
    }

    /// Runs `work` on the blocking pool, after waiting for one of `permits`.
    ///
    /// Health and board have their own: a busy runtime must not look dead. So have metrics, which
    /// may wait for a disk. Event streams wait for those of ordinary calls: they are few, and a
    /// refusal would end the stream.
    pub(super) async fn call_when_free<T, F>(
        &self,
        work: F,
        permits: &Arc<Semaphore>,
    ) -> Result<T, Refusal>
    where
        T: Send + 'static,
        F: FnOnce(&Api) -> T + Send + 'static,
    {
        let permit = Arc::clone(permits).acquire_owned().await;
        // The semaphore is never closed.
        self.spawn_blocking(work, permit.map_err(|_| refusal::busy())?)
            .await
    }

    /// Holds the permit until `work` is done, also when its client went away.
    async fn spawn_blocking<T, F>(
        &self,
        work: F,
        permit: OwnedSemaphorePermit,
    ) -> Result<T, Refusal>
    where
        T: Send + 'static,
        F: FnOnce(&Api) -> T + Send + 'static,
    {
        let api = Arc::clone(&self.api);
        let call = move || {
            let _permit = permit;
            work(&api)
        };
        tokio::task::spawn_blocking(call).await.map_err(|error| {
            tracing::error!(%error, "request panicked");
            watchkeeper_http::refusal::internal()
        })
    }
}
