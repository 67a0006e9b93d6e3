//! Background tasks and threads. One is a task of the agent's loop, a thread with its own loop, or
//! a piece of work on a thread that may block.
//!
//! - A task or thread ends by itself only after a panic, which [`BackgroundTask::ended`] and
//!   [`BackgroundThread::ended`] report, or after an error that it logs.
//! - A stop is a request: the work bounds how long it takes, and the caller how long it waits. A
//!   task that takes longer is aborted; a thread is left to the end of the process.

use std::io;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

/// A task of the agent's loop. Dropping it asks the task to stop.
#[derive(Debug)]
pub struct BackgroundTask {
    name: &'static str,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl BackgroundTask {
    /// Starts `work` on the current tokio runtime; its argument resolves at the stop.
    pub(crate) fn spawn<F: Future<Output = ()> + Send + 'static>(
        name: &'static str,
        work: impl FnOnce(oneshot::Receiver<()>) -> F,
    ) -> Self {
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(work(stopped));
        Self { name, stop, task }
    }

    pub(crate) async fn ended(&mut self) {
        if let Err(error) = (&mut self.task).await {
            tracing::error!(%error, "{}: task panicked; restart the agent", self.name);
        }
    }

    /// Asks the task to stop, and waits for its end. After `timeout` it is aborted.
    pub(crate) async fn stop(mut self, timeout: Duration) {
        let (stop, name) = (self.stop, self.name);
        // A closed receiver means that the task has ended.
        stop.send(()).ok();
        match tokio::time::timeout(timeout, &mut self.task).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "{name}: task panicked; restart the agent"),
            Err(_) => {
                tracing::warn!("{name}: the task did not end in time");
                self.task.abort();
            }
        }
    }
}

/// A thread with its own loop. Dropping it asks the thread to stop.
#[derive(Debug)]
pub struct BackgroundThread {
    name: &'static str,
    close: watch::Sender<bool>,
    ended: oneshot::Receiver<()>,
}

impl BackgroundThread {
    /// Starts `work` on a thread; its argument becomes true at the stop.
    ///
    /// # Errors
    /// When the system refuses to create the thread.
    pub(crate) fn spawn<F: Future<Output = ()>>(
        name: &'static str,
        work: impl FnOnce(watch::Receiver<bool>) -> F + Send + 'static,
    ) -> io::Result<Self> {
        let (close, closing) = watch::channel(false);
        let (tell, ended) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                runtime.block_on(work(closing));
                // A hanging file access must not delay the exit.
                runtime.shutdown_background();
                tell.send(()).ok();
            })?;
        Ok(Self { name, close, ended })
    }

    pub(crate) async fn ended(&mut self) {
        (&mut self.ended).await.ok();
    }

    /// Asks the thread to stop.
    pub(crate) fn close(&self) {
        self.close.send_replace(true);
    }

    /// Asks the thread to stop, and waits for its end for at most `timeout`.
    pub(crate) async fn stop(self, timeout: Duration) {
        self.close();
        if tokio::time::timeout(timeout, self.ended).await.is_err() {
            tracing::warn!("{}: the thread did not end in time", self.name);
        }
    }
}

/// Runs `work` on a thread that may block.
///
/// # Errors
/// A sentence about its panic.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|died| format!("a thread of the agent panicked: {died}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn task_that_ignores_its_stop_is_aborted() {
        let (held, dropped) = oneshot::channel::<()>();
        let task = BackgroundTask::spawn("stuck", |stopped| async move {
            let _held = (held, stopped);
            std::future::pending::<()>().await;
        });
        task.stop(Duration::from_millis(1)).await;
        assert!(dropped.await.is_err());
    }
}
