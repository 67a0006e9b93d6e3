//! The daemon's life: parts in a straight line, service, and the mirror of the line.
//!
//! Owns the order of start and stop. Invariants: a word to stop is heard from the first part on, and is an orderly end whenever it comes; `READY` is
//! said when the last part is up; the watchdog is fed only after a turn that took the locks everybody takes; stopping ends pipelines before the
//! recorder, and the recorder before the journal.

use std::io::{self, IsTerminal as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use sd_notify::NotifyState;
use tokio::task::JoinError;
use tracing_subscriber::EnvFilter;
use watchkeeper_config::Config;
use watchkeeper_contract::event::Event;
use watchkeeper_contract::id::EventId;
use watchkeeper_store::StoreError;

use crate::api::Api;
use crate::capture;
use crate::clock;
use crate::effects::{self, Effects};
use crate::guard::GuardFile;
use crate::image_run;
use crate::journal::media::{MediaLimits, MediaStore};
use crate::journal::{Journal, JournalError, Limits, Stamp};
use crate::metrics::Metrics;
use crate::pipeline::checkpoint::CheckpointStore;
use crate::pipeline::checkpoint::pauses::TimedPauses;
use crate::pipeline::inference::models::Models;
use crate::pipeline::manager::{Manager, Parts};
use crate::pipeline::recorder::{DISK_FAILED, FlushResult, Recorder};
use crate::pipeline::retention::disk_space::DiskSpace;
use crate::pipeline::retention::recordings::{self, Recordings};
use crate::pipeline::worker::STOP_TIMEOUT;
use crate::server::{self, Server};
use crate::stop::Stop;

/// Ends that are appended with one sync.
const ENDS_AT_ONCE: usize = 256;

/// Exit code for a configuration that is not valid.
pub const EXIT_CONFIG: u8 = 2;

/// Disk that recordings leave to everybody else, above all the journal: more than pictures leave (64 MiB), so that recordings give way first.
const RECORDINGS_LEAVE_FREE: u64 = 512 << 20;

/// How long stopping waits for room on a full disk, and for pipelines and sources that hang. With the rest of the way it must stay within the
/// service manager's patience.
const LAST_FLUSH: Duration = Duration::from_secs(4);

/// How long one step of the start may take before the service manager loses its patience, in microseconds: the largest network on a slow board.
const START_STEP_USEC: u32 = 120_000_000;

/// How long the recorder is given for its last group, and to leave once nobody hands it anything any more.
const RECORDER_PATIENCE: Duration = Duration::from_secs(1);

/// Sends logs to standard error: for people, or as JSON. `RUST_LOG` chooses the level.
pub fn init_logs(json: bool) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    if json {
        builder.json().init();
    } else {
        builder.init();
    }
}

/// Opens the model in `file` and runs it once, as a pipeline would. Why that can't be done goes to standard error, one sentence.
#[expect(clippy::print_stderr, reason = "this is the answer to a command")]
#[must_use]
pub fn check_model(file: &str, config: &Config) -> ExitCode {
    match Models::new(config).open(file) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Appends what the last run left to be told, before anything new: what was lost, then the ends of what was open.
///
/// A disk that refuses is waited for by the recorder, as with every event, and on a thread of its own: whoever is told to stop meanwhile must hear it.
fn settle(
    journal: &Arc<Journal>,
    recorder: &Recorder,
    told: Vec<Event>,
    ends: Vec<Event>,
) -> std::io::Result<()> {
    let mut waiting = Vec::new();
    if let Err(error) = journal.append_losses(told.clone()) {
        tracing::error!(%error, "what was lost is not in the journal yet");
        waiting = told;
    }
    for chunk in ends.chunks(ENDS_AT_ONCE) {
        // In their order: what comes behind something that waits, waits too.
        if !waiting.is_empty() || journal.append(chunk.to_vec()).is_err() {
            waiting.extend_from_slice(chunk);
        }
    }
    if waiting.is_empty() {
        return Ok(());
    }
    let recorder = recorder.clone();
    let tell = move || {
        let told = waiting
            .into_iter()
            .all(|event| recorder.record(event, None));
        if !told {
            tracing::error!("the recorder ended before all of what the last run left was told");
        }
    };
    std::thread::Builder::new()
        .name("left-over".to_owned())
        .spawn(tell)
        .map(drop)
}

/// Prints the GStreamer elements that are missing, as JSON.
#[must_use]
pub fn check_media() -> ExitCode {
    let missing = serde_json::to_string(&capture::check::missing_elements());
    let told = missing
        .map_err(io::Error::from)
        .and_then(|json| image_run::put(&mut io::stdout(), &json));
    match told {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Runs until a signal, or until standard input ends with `exit_with_parent`.
///
/// # Errors
/// When a part can't be started; each message is one sentence that says what to do.
pub fn run(config: Config, exit_with_parent: bool) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("serve")
        .enable_all()
        .build()?;
    let stop = Stop::listen(exit_with_parent)?;
    let started = Instant::now();
    let boot_id: Arc<str> = Arc::from(ulid::Ulid::new().to_string());
    // Only for us: the addresses of sources are kept there with their credentials.
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&config.state_dir)
        .with_context(|| {
            format!(
                "the state folder {} can't be made (key runtime.state_dir)",
                config.state_dir.display()
            )
        })?;

    // What the guard keeps is that of the process that has the journal.
    if let Some(another) = watchkeeper_store::in_use(&Journal::folder(&config.state_dir)) {
        return Err(another.into());
    }
    let guard = Arc::new(GuardFile::open(&config.state_dir, config.crash_loop_limit)?);
    // At once, not at the end of the start: a model that takes long to load must not make a stop look like a crash.
    let told = Arc::clone(&guard);
    stop.on_request(runtime.handle(), move || told.stopped());
    let outcome = live(&config, started, &boot_id, &guard, runtime, stop);
    // Also an error is an orderly end: it says what to do, and no pipeline is suspected for it.
    guard.stopped();
    outcome
}

/// Everything between the first word and the last of the guard against crash loops.
fn live(
    config: &Config,
    started: Instant,
    boot_id: &Arc<str>,
    guard: &Arc<GuardFile>,
    runtime: tokio::runtime::Runtime,
    stop: Stop,
) -> anyhow::Result<()> {
    let limits = Limits {
        max_events: config.journal.max_events,
        max_bytes: config.journal.max_bytes,
    };
    let recordings = Arc::new(Recordings::new(
        &config.state_dir,
        recordings::Limits {
            max_bytes: config.recordings.max_bytes,
            max_age: config.recordings.max_age,
            min_free_bytes: RECORDINGS_LEAVE_FREE,
        },
    ));
    // Not before the journal: its lock is what says that nobody else is at work in this folder.
    let open_media = || {
        let limits = MediaLimits {
            max_bytes: config.media.max_bytes,
            ..MediaLimits::default()
        };
        MediaStore::open(&config.state_dir, limits).map(Arc::new)
    };
    let room_for = |media: &Arc<MediaStore>| {
        let (recordings, media) = (Arc::clone(&recordings), Arc::clone(media));
        DiskSpace::new(&config.state_dir, recordings, media)
    };
    let (journal, losses) = match Journal::open(&config.state_dir, limits) {
        Err(JournalError::Store(StoreError::Full { needed, .. }))
            if open_media().is_ok_and(|media| room_for(&media).free_for(needed) > 0) =>
        {
            Journal::open(&config.state_dir, limits)
        }
        opened => opened,
    }?;
    let journal = Arc::new(journal);
    keep_private(&Journal::folder(&config.state_dir));
    let media = open_media()?;
    let room = Arc::new(room_for(&media));
    let metrics = Arc::new(Metrics::new());
    let (recorder, recorder_thread) =
        Recorder::spawn(Arc::clone(&journal), Arc::clone(&media), Arc::clone(&room))?;
    let stamp = || Stamp {
        boot_id: boot_id.to_string(),
        mono_ms: 0,
        at: clock::wall(),
        id: EventId::generate(),
    };
    for loss in &losses {
        tracing::error!(from = loss.from, count = loss.count, "{}", loss.message);
    }
    let told = losses.iter().flat_map(|loss| loss.events(&stamp()));
    let told: Vec<Event> = told.collect();
    let ends = journal.close_open_events(&stamp(), &|event| guard.is_open(event), &|clip| {
        media.find_clip(clip)
    });
    if !ends.is_empty() {
        tracing::info!(count = ends.len(), "open when the last run died; ended now");
    }
    settle(&journal, &recorder, told, ends)?;

    let checkpoints = Arc::new(CheckpointStore::spawn(&config.state_dir)?);
    let limits = effects::Limits::default();
    let effects = Effects::open(&config.state_dir, &config.sinks, limits)
        .map(Arc::new)
        .context("what workflows want done can't be kept")?;
    let manager = Arc::new(Manager::new(Parts {
        journal: Arc::clone(&journal),
        recorder: recorder.clone(),
        media: Arc::clone(&media),
        pauses: TimedPauses::open(&config.state_dir),
        models: Models::new(config),
        metrics: Arc::clone(&metrics),
        recordings,
        checkpoints,
        effects: Arc::clone(&effects),
        channels: config.channels.iter().map(|c| c.id.clone()).collect(),
        guard: Arc::clone(guard),
        boot_id: Arc::clone(boot_id),
        started,
        stop_timeout: STOP_TIMEOUT,
    })?);
    let goes_on = || {
        // Each pipeline that loads its model is a sign of life.
        notify(&[NotifyState::ExtendTimeoutUsec(START_STEP_USEC)]);
        !stop.is_requested()
    };
    for trouble in manager.restore(&config.sources, &config.pipelines, &goes_on) {
        tracing::warn!("{trouble}");
    }

    let api = Arc::new(Api::new(Arc::clone(&manager), Arc::clone(&media), config));
    let outcome = if stop.is_requested() {
        tracing::info!("told to stop while starting");
        Ok(())
    } else {
        runtime.block_on(serve(config, api, Arc::clone(&manager), room, stop))
    };
    runtime.shutdown_timeout(Duration::from_secs(2));

    // Ending a pipeline waits for the recorder, so the recorder has to know first.
    let end = Instant::now() + LAST_FLUSH;
    recorder.end_by(end);
    // What waits for the recorder hears of its end a moment later.
    manager.shut_down(end + 2 * RECORDER_PATIENCE);
    effects.shut_down(RECORDER_PATIENCE);
    let stored = recorder.flush(None, RECORDER_PATIENCE) == FlushResult::Durable;
    let (lost, trouble) = (recorder.lost(), recorder.storage_error());
    drop(manager);
    drop(recorder);
    // A thread that hangs in a camera keeps the recorder's queue; what was handed over is stored all the same.
    if !recorder_thread.join(RECORDER_PATIENCE) && !stored {
        tracing::warn!(
            "the recorder is still writing; what it has not stored was not acknowledged"
        );
    }
    tracing::info!("stopped");
    match trouble {
        Some(trouble) if lost > 0 => {
            outcome.and_then(|()| anyhow::bail!("stopped with {lost} events unstored: {trouble}"))
        }
        Some(_) | None => outcome,
    }
}

/// Addresses of sources lie in the journal's store with their credentials: only for us, also where somebody else made the state folder.
fn keep_private(folder: &Path) {
    let only_us = std::fs::Permissions::from_mode(0o700);
    if let Err(error) = std::fs::set_permissions(folder, only_us) {
        tracing::warn!(folder = %folder.display(), %error, "others may be able to read it");
    }
}

async fn serve(
    config: &Config,
    api: Arc<Api>,
    manager: Arc<Manager>,
    room: Arc<DiskSpace>,
    mut stop: Stop,
) -> anyhow::Result<()> {
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let server = Server::bind(&config.runtime_socket, config.socket_mode)?;
    let mut serving = tokio::spawn(server::run(server, api, async {
        // A sender that is gone means the same as one that spoke.
        drop(ended.await);
    }));
    tracing::info!(socket = %config.runtime_socket.display(), "serving");
    notify(&[NotifyState::Ready]);

    let watchdog = sd_notify::watchdog_enabled();
    let mut beat = tokio::time::interval(watchdog.map_or(Duration::from_secs(10), |w| w / 3));
    let recorder = manager.parts().recorder.clone();
    let journal = Arc::clone(&manager.parts().journal);
    let mut broken = Ok(());
    // What became of the server, where it ended by itself.
    let mut ended = None;
    // The turn that the watchdog waits for; signals are heard meanwhile.
    let mut turn: Option<tokio::task::JoinHandle<usize>> = None;
    // The look at the disk that the watchdog does not wait for: a disk may be slow.
    let mut look: Option<tokio::task::JoinHandle<()>> = None;
    // The end of pauses and the restart of pipelines that failed, which may load models.
    let mut resumed: Option<tokio::task::JoinHandle<()>> = None;
    loop {
        tokio::select! {
            () = stop.requested() => break,
            // Without it nobody can ask or change anything, and the watchdog would be fed all the same.
            outcome = &mut serving => {
                ended = Some(outcome);
                break;
            }
            Some(done) = async { Some(turn.as_mut()?.await) }, if turn.is_some() => {
                turn = None;
                if let Ok(troubles) = done {
                    tracing::trace!(troubles, "alive");
                    if watchdog.is_some() {
                        notify(&[NotifyState::Watchdog]);
                    }
                }
            }
            Some(_) = async { Some(look.as_mut()?.await) }, if look.is_some() => look = None,
            Some(_) = async { Some(resumed.as_mut()?.await) }, if resumed.is_some() => resumed = None,
            _ = beat.tick() => {
                if turn.is_none() {
                    let manager = Arc::clone(&manager);
                    // Takes the locks that everybody takes: a deadlock starves the watchdog.
                    turn = Some(tokio::task::spawn_blocking(move || {
                        manager.beat();
                        manager.troubles().len()
                    }));
                }
                if resumed.is_none() {
                    let manager = Arc::clone(&manager);
                    resumed = Some(tokio::task::spawn_blocking(move || {
                        manager.end_pauses();
                        manager.restart_failed();
                    }));
                }
                if look.is_none() {
                    let (room, journal) = (Arc::clone(&room), Arc::clone(&journal));
                    look = Some(tokio::task::spawn_blocking(move || {
                        room.free_when_low();
                        if let Err(error) = journal.check() {
                            tracing::error!(%error, "the disk failed a check");
                        }
                    }));
                }
            }
        }
        let failed = || journal.broken().map(|_| DISK_FAILED);
        if let Some(why) = recorder.broken().or_else(failed) {
            broken = Err(anyhow::anyhow!(
                "{why}; stopping, so that the store is checked at the next start"
            ));
            break;
        }
    }
    notify(&[NotifyState::Stopping]);
    tracing::info!("stopping");
    // Event streams end here, so that nothing waits for a client.
    drop(end);
    let by_itself = ended.is_some();
    let outcome = match ended {
        Some(outcome) => Some(outcome),
        None => tokio::time::timeout(Duration::from_secs(5), serving)
            .await
            .ok(),
    };
    broken.and(match outcome {
        Some(outcome) => served(outcome, by_itself),
        None => Ok(()),
    })
}

/// What the end of the API server means for the process.
fn served(outcome: Result<std::io::Result<()>, JoinError>, by_itself: bool) -> anyhow::Result<()> {
    match outcome {
        Err(error) => Err(error).context("the API server broke"),
        Ok(Err(error)) => Err(error).context("the API server failed"),
        Ok(Ok(())) if by_itself => Err(anyhow::anyhow!(
            "the API server ended without being told to; stopping, so that it is started again"
        )),
        Ok(Ok(())) => Ok(()),
    }
}

fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "the service manager can't be told");
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::served;

    #[test]
    fn an_api_that_ends_untold_is_a_failure_and_one_that_was_told_is_none() {
        assert!(served(Ok(Ok(())), true).is_err());
        assert!(served(Ok(Ok(())), false).is_ok());
        for by_itself in [true, false] {
            assert!(served(Ok(Err(io::ErrorKind::Other.into())), by_itself).is_err());
        }
    }
}
