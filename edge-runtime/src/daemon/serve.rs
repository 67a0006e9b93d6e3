//! Service of the daemon between start and stop: the API and the periodic tasks.
//!
//! - Periodic tasks run on the blocking pool, at most one of each kind, so a slow one delays no
//!   other.
//! - The watchdog is fed only after a task that takes the common locks: a deadlock restarts the
//!   process, a slow disk or model does not.
//! - The service ends without a request when the store must be reopened, the server ended, or too
//!   many stopped pipelines hang.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use sd_notify::NotifyState;
use tokio::task::{JoinError, JoinHandle};
use watchkeeper_config::Config;

use crate::api::Api;
use crate::board::BoardSampler;
use crate::capture;
use crate::journal::Journal;
use crate::load::policy::SAMPLE_INTERVAL;
use crate::pipeline::manager::Manager;
use crate::pipeline::retention::disk_space::DiskSpace;
use crate::server::{self, Server};
use crate::stop::Stop;

/// End of the server's task.
type ServerResult = Result<io::Result<()>, JoinError>;

/// Timeout of the API server's end after the request to stop.
const SERVER_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval of the periodic tasks without a watchdog.
const BEAT_INTERVAL: Duration = Duration::from_secs(10);

/// Serves the API and runs the periodic tasks until a stop, a failed disk, too many hanging
/// pipelines or a failed server.
///
/// # Errors
/// When the socket cannot be bound, the server fails, the store must be reopened, or too many
/// stopped pipelines hang.
pub(super) async fn serve(
    config: &Config,
    api: Arc<Api>,
    manager: Arc<Manager>,
    board: Arc<BoardSampler>,
    disk_space: Arc<DiskSpace>,
    mut stop: Stop,
) -> anyhow::Result<()> {
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let server = Server::bind(&config.runtime_socket, config.socket_mode)?;
    let mut serving = tokio::spawn(server::run(server, Arc::clone(&api), async {
        // The sender is dropped, never used: either result means the end.
        drop(ended.await);
    }));
    tracing::info!(
        socket = %config.runtime_socket.display(),
        sources = config.sources.len(),
        pipelines = config.pipelines.len(),
        "serving"
    );
    notify(&[NotifyState::Ready]);
    let is_stopping = stop.flag();
    start_unchecked(&manager, &is_stopping);

    let reason = watch(&api, &manager, &board, &disk_space, &mut serving, &mut stop).await;
    notify(&[NotifyState::Stopping]);
    tracing::info!("stopping");
    // The server waits for requests, and some of those for a check of a model.
    is_stopping.store(true, Ordering::Relaxed);
    // Ends event streams, so that no client delays the stop.
    drop(end);
    if let EndReason::Server(result) = reason {
        return served(result, true);
    }
    let result = tokio::time::timeout(SERVER_TIMEOUT, serving).await.ok();
    if let EndReason::Storage(why) = reason {
        anyhow::bail!(
            "events can't be stored: {why}; stopping, so that the store is checked at the next start"
        );
    }
    if let EndReason::Pipelines(why) = reason {
        anyhow::bail!("{why}; stopping, so that the next start has none of them");
    }
    result.map_or(Ok(()), |result| served(result, false))
}

/// Starts the pipelines whose models are checked first, while the service runs.
fn start_unchecked(manager: &Arc<Manager>, is_stopping: &Arc<AtomicBool>) {
    let (manager, is_stopping) = (Arc::clone(manager), Arc::clone(is_stopping));
    // A stop ends the check, and with it the task.
    drop(tokio::task::spawn_blocking(move || {
        manager.start_unchecked(&|| !is_stopping.load(Ordering::Relaxed));
    }));
}

/// Reason for the end of the service.
enum EndReason {
    Request,
    /// The server ended by itself.
    Server(ServerResult),
    /// The store must be reopened.
    Storage(String),
    /// Too many stopped pipelines hang.
    Pipelines(String),
}

/// Runs the periodic tasks until the service must end.
async fn watch(
    api: &Arc<Api>,
    manager: &Arc<Manager>,
    board: &Arc<BoardSampler>,
    disk_space: &Arc<DiskSpace>,
    serving: &mut JoinHandle<io::Result<()>>,
    stop: &mut Stop,
) -> EndReason {
    let watchdog = sd_notify::watchdog_enabled();
    let mut beat = tokio::time::interval(watchdog.map_or(BEAT_INTERVAL, |w| w / 3));
    let mut sample = tokio::time::interval(SAMPLE_INTERVAL);
    let mut tasks = BeatTasks::default();
    loop {
        tokio::select! {
            () = stop.requested() => return EndReason::Request,
            // Without the API the process is of no use, but the watchdog would still be fed.
            outcome = &mut *serving => return EndReason::Server(outcome),
            Some(done) = async { Some(tasks.turn.as_mut()?.await) }, if tasks.turn.is_some() => {
                tasks.turn = None;
                if let Ok(troubles) = done {
                    tracing::trace!(troubles, "alive");
                    if watchdog.is_some() {
                        notify(&[NotifyState::Watchdog]);
                    }
                }
            }
            Some(_) = async { Some(tasks.disk.as_mut()?.await) }, if tasks.disk.is_some() => {
                tasks.disk = None;
            }
            Some(_) = async { Some(tasks.resume.as_mut()?.await) }, if tasks.resume.is_some() => {
                tasks.resume = None;
            }
            Some(_) = async { Some(tasks.pauses.as_mut()?.await) }, if tasks.pauses.is_some() => {
                tasks.pauses = None;
            }
            Some(_) = async { Some(tasks.heat.as_mut()?.await) }, if tasks.heat.is_some() => {
                tasks.heat = None;
            }
            _ = sample.tick() => tasks.start_sample(manager, board),
            _ = beat.tick() => tasks.start(api, manager, disk_space),
        }
        if let Some(why) = storage_failure(manager) {
            return EndReason::Storage(why);
        }
        if let Some(why) = capture::teardown_failure(capture::hanging_teardowns()) {
            return EndReason::Pipelines(why);
        }
    }
}

/// Periodic tasks on the blocking pool; at most one of each kind runs.
#[derive(Default)]
struct BeatTasks {
    /// Takes the common locks. The watchdog waits for it, so a deadlock starves the watchdog.
    turn: Option<JoinHandle<usize>>,
    /// Checks the disk, which may be slow; the watchdog does not wait for it.
    disk: Option<JoinHandle<()>>,
    /// Sheds load by the temperatures of the board, or gives it back.
    heat: Option<JoinHandle<()>>,
    /// Restarts held and failed pipelines, which may take minutes to load models.
    resume: Option<JoinHandle<()>>,
    /// Ends pauses; waits for no restart of another pipeline.
    pauses: Option<JoinHandle<()>>,
}

impl BeatTasks {
    /// Gives the latest reading of the board to the heat policy, unless that is running.
    fn start_sample(&mut self, manager: &Arc<Manager>, board: &Arc<BoardSampler>) {
        self.heat.get_or_insert_with(|| {
            let (manager, board) = (Arc::clone(manager), Arc::clone(board));
            tokio::task::spawn_blocking(move || {
                let (reading, age) = board.take();
                manager.regulate_load(&reading, age);
            })
        });
    }

    /// Starts the tasks that are not running.
    fn start(&mut self, api: &Arc<Api>, manager: &Arc<Manager>, disk_space: &Arc<DiskSpace>) {
        self.turn.get_or_insert_with(|| {
            let manager = Arc::clone(manager);
            tokio::task::spawn_blocking(move || {
                manager.beat();
                manager.troubles(&manager.review_shares()).len()
            })
        });
        self.resume.get_or_insert_with(|| {
            let manager = Arc::clone(manager);
            tokio::task::spawn_blocking(move || {
                manager.retry_held();
                manager.restart_failed();
            })
        });
        self.pauses.get_or_insert_with(|| {
            let manager = Arc::clone(manager);
            tokio::task::spawn_blocking(move || manager.end_pauses())
        });
        self.disk.get_or_insert_with(|| {
            let (api, manager) = (Arc::clone(api), Arc::clone(manager));
            let disk_space = Arc::clone(disk_space);
            tokio::task::spawn_blocking(move || {
                api.check_config_file();
                manager.parts().guard.save();
                manager.save_views();
                check_disk(&manager.parts().journal, &disk_space);
            })
        });
    }
}

/// Deletes what is expired or in the way of events, and has the journal check its disk.
fn check_disk(journal: &Journal, disk_space: &DiskSpace) {
    let waiting = journal.waiting();
    // Nothing can be deleted from a read-only disk.
    if waiting
        .as_ref()
        .is_none_or(|waiting| waiting.needed.is_some())
    {
        disk_space.check();
    }
    // A store that waits for its disk was reported, and is part of the health.
    if let Err(error) = journal.check()
        && !(waiting.is_some() && journal.waiting().is_some())
    {
        tracing::error!(%error, "the disk failed a check");
    }
}

/// Returns why the store must be reopened, if it must.
fn storage_failure(manager: &Manager) -> Option<String> {
    let parts = manager.parts();
    let of_recorder = parts.recorder.broken().map(str::to_owned);
    of_recorder.or_else(|| parts.journal.broken())
}

/// Converts the end of the API server to the result of the process.
fn served(outcome: ServerResult, by_itself: bool) -> anyhow::Result<()> {
    match outcome {
        Err(error) => Err(error).context("the API server panicked"),
        Ok(Err(error)) => Err(error).context("the API server failed"),
        Ok(Ok(())) if by_itself => Err(anyhow::anyhow!(
            "the API server ended unexpectedly; stopping, so that it is started again"
        )),
        Ok(Ok(())) => Ok(()),
    }
}

pub(super) fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "cannot notify the service manager");
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::served;

    #[test]
    fn unexpected_end_of_the_api_server_is_a_failure() {
        assert!(served(Ok(Ok(())), true).is_err());
        assert!(served(Ok(Ok(())), false).is_ok());
        for by_itself in [true, false] {
            assert!(served(Ok(Err(io::ErrorKind::Other.into())), by_itself).is_err());
        }
    }
}
