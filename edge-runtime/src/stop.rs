//! Being told to stop: by a signal, or by the end of the parent process. Heard from the first moment on.
//!
//! Owns the handlers of SIGTERM, SIGINT and SIGHUP: a terminal that is closed ends what was started in it in order. Invariant: whoever asks after the word came knows of it, however often and late; what has to be done
//! about it is done when it comes, not when a start that takes long gets round to asking. A person who interrupts a second time wants no orderly end and
//! gets none: the process ends as by `kill -9`, which the store survives.

use std::io;

use rustix::process::Signal;
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Whether the process shall stop. Clones share the answer.
#[derive(Debug, Clone)]
pub struct Stop {
    told: watch::Receiver<bool>,
}

impl Stop {
    /// Listens from now on, in a thread of its own, so that a second interrupt is heard to the very end. With `exit_with_parent` the end of
    /// standard input counts too.
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
        let (tell, told) = watch::channel(false);
        let listen = async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
                _ = hangup.recv() => {}
                () = parent_gone(exit_with_parent) => {}
            }
            tell.send_replace(true);
            interrupt.recv().await;
            tracing::warn!("interrupted again: ending at once");
            let this = rustix::process::getpid();
            if let Err(error) = rustix::process::kill_process(this, Signal::KILL) {
                tracing::error!(%error, "the process can't end itself");
            }
            // The answer is kept as long as anybody may ask.
            tell.closed().await;
        };
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || listening.block_on(listen))?;
        Ok(Self { told })
    }

    /// Does something on `runtime` as soon as the word comes.
    pub fn when_told(&self, runtime: &Handle, act: impl FnOnce() + Send + 'static) {
        let mut stop = self.clone();
        runtime.spawn(async move {
            stop.told().await;
            act();
        });
    }

    /// Whether it was told.
    #[must_use]
    pub fn is_told(&self) -> bool {
        *self.told.borrow()
    }

    /// Ready when it is told.
    pub async fn told(&mut self) {
        // A listener that is gone will not tell any more, which is no reason to stop.
        if self.told.wait_for(|told| *told).await.is_err() {
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
        // The sender is dropped, never used: either answer means the end.
        Ok(_) => drop(ended.await),
        Err(error) => {
            tracing::error!(%error, "the parent can't be watched");
            std::future::pending().await
        }
    }
}
