//! Requests to stop: a signal, or the end of the parent process.
//!
//! - Handles SIGTERM, SIGINT and SIGHUP from the start: closing a terminal stops the runtime
//!   regularly.
//! - A request stays visible to every later check, and its callbacks run at once, even during a
//!   long start.
//! - A stop without a request, such as after a failed disk, sets [`Stop::flag`] only.
//! - A second interrupt ends the process as `kill -9` does, which the store survives.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::Signal;
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Whether the process should stop. Clones share the state.
#[derive(Debug, Clone)]
pub struct Stop {
    requested: watch::Receiver<bool>,
    is_stopping: Arc<AtomicBool>,
}

impl Stop {
    /// Starts listening on its own thread, so that a second interrupt always works. With
    /// `exit_with_parent`, the end of standard input stops the process too.
    ///
    /// # Errors
    /// When the handlers can't be installed.
    pub fn listen(exit_with_parent: bool) -> io::Result<Self> {
        let listening = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()?;
        let entered = listening.enter();
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut hangup = signal(SignalKind::hangup())?;
        drop(entered);
        let (request, requested) = watch::channel(false);
        let is_stopping = Arc::<AtomicBool>::default();
        let flag = Arc::clone(&is_stopping);
        let listen = async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
                _ = hangup.recv() => {}
                () = parent_gone(exit_with_parent) => {}
            }
            flag.store(true, Ordering::Relaxed);
            request.send_replace(true);
            interrupt.recv().await;
            tracing::warn!("interrupted again; exiting at once");
            let this = rustix::process::getpid();
            if let Err(error) = rustix::process::kill_process(this, Signal::KILL) {
                tracing::error!(%error, "can't kill this process");
            }
            // The channel stays open as long as a receiver exists.
            request.closed().await;
        };
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || listening.block_on(listen))?;
        Ok(Self {
            requested,
            is_stopping,
        })
    }

    /// Whether the process stops, by request or not; ends checks of models.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_stopping)
    }

    /// Calls `act` on a blocking thread of `runtime` when the stop is requested.
    pub fn on_request(&self, runtime: &Handle, act: impl FnOnce() + Send + 'static) {
        let mut stop = self.clone();
        runtime.spawn(async move {
            stop.requested().await;
            drop(tokio::task::spawn_blocking(act));
        });
    }

    /// Whether a stop is requested.
    pub fn is_requested(&self) -> bool {
        *self.requested.borrow()
    }

    /// Waits until a stop is requested.
    pub async fn requested(&mut self) {
        // A listener that has ended requests no stop.
        if self
            .requested
            .wait_for(|requested| *requested)
            .await
            .is_err()
        {
            std::future::pending::<()>().await;
        }
    }
}

/// Returns when standard input ends; never without `enabled`.
async fn parent_gone(enabled: bool) {
    if !enabled {
        return std::future::pending().await;
    }
    let (gone, ended) = tokio::sync::oneshot::channel::<()>();
    let watching = std::thread::Builder::new()
        .name("parent".to_owned())
        .spawn(move || {
            let read = io::copy(&mut io::stdin().lock(), &mut io::sink());
            tracing::debug!(?read, "standard input has ended");
            drop(gone);
        });
    match watching {
        // The sender is dropped, never used: either result means the end.
        Ok(_) => drop(ended.await),
        Err(error) => {
            tracing::error!(%error, "can't watch standard input for the end of the parent");
            std::future::pending().await
        }
    }
}
