//! Start, service and stop of the daemon.
//!
//! - A request to stop is honoured from the first part on, and always ends the process orderly.
//! - `READY` is sent when the last part is up.
//! - The watchdog is fed only after a turn that took the common locks.
//! - A full or read-only disk does not keep the daemon from watching. The journal opens when the
//!   disk accepts writes, and events wait in the recorder.
//! - The stop mirrors the start: pipelines end before the recorder, it before the journal.

mod model_check;
mod serve;

use std::io::{self, IsTerminal as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use sd_notify::NotifyState;
use tracing_subscriber::EnvFilter;
use watchkeeper_board::sysfs::SysfsBoard;
use watchkeeper_config::{Config, PrivacyMasks};
use watchkeeper_contract::event::Event;
use watchkeeper_contract::id::EventId;
use watchkeeper_models::model_check::THIS_PROGRAM;
use watchkeeper_store::StoreError;
use watchkeeper_store::durable::is_disk_refusal;
use watchkeeper_store::private_folder::make_private;

pub use self::model_check::ModelCheck;
use self::serve::{notify, serve};
use crate::api::Api;
use crate::board::BoardSampler;
use crate::boot::Boot;
use crate::capture;
use crate::coverage::{CoverageLedger, SigningKey};
use crate::effects::{self, Effects};
use crate::guard::GuardFile;
use crate::history::{self, DetectionHistory};
use crate::journal::media::{self, MediaLimits, MediaStore};
use crate::journal::{Journal, JournalError, Limits, Loss, Stamp};
use crate::metrics::Metrics;
use crate::output::print;
use crate::pipeline::checkpoint::CheckpointStore;
use crate::pipeline::checkpoint::pauses::TimedPauses;
use crate::pipeline::checkpoint::views::UsualViews;
use crate::pipeline::inference::change_events::ChangeEvents;
use crate::pipeline::inference::child::ChildProgram;
use crate::pipeline::inference::models::Models;
use crate::pipeline::manager::{Manager, Parts};
use crate::pipeline::recorder::{FlushResult, LastRun, Recorder, UnstoredMark};
use crate::pipeline::retention::disk_space::DiskSpace;
use crate::pipeline::retention::recordings::{self, Recordings};
use crate::pipeline::worker::STOP_TIMEOUT;
use crate::stop::Stop;
use crate::thread::Thread;

/// How long to wait for the journal: the kernel keeps that of a killed process until it has freed
/// its memory.
const JOURNAL_TIMEOUT: Duration = Duration::from_secs(4);
/// Pause between two looks at it.
const JOURNAL_PAUSE: Duration = Duration::from_millis(50);

/// Exit code for an invalid configuration.
pub const EXIT_CONFIG: u8 = 2;

/// Free bytes that recordings leave on the disk: more than media leave, so that recordings
/// are deleted first.
const RECORDINGS_MIN_FREE_BYTES: u64 = 512 << 20;

// Recordings fill a disk up to their limit; what is small is still written there.
const _: () = assert!(history::MIN_FREE_BYTES < RECORDINGS_MIN_FREE_BYTES);
const _: () = assert!(media::MIN_FREE_BYTES < history::MIN_FREE_BYTES);

/// Timeout of a stop for a full disk, and for pipelines and sources that hang. The whole stop must
/// stay within the service manager's timeout.
const STOP_FLUSH_TIMEOUT: Duration = Duration::from_secs(4);

/// Extension of the service manager's timeout by one step of the start, in microseconds: enough for
/// the largest model on a slow board.
const START_STEP_USEC: u32 = 120_000_000;

/// Timeout of the recorder's last group, and of the end of its thread.
const RECORDER_TIMEOUT: Duration = Duration::from_secs(1);

/// Sends logs to standard error, as text or JSON. `RUST_LOG` sets the level.
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

/// Prints the missing GStreamer elements as JSON.
#[must_use]
pub fn check_media() -> ExitCode {
    let mut missing = capture::check::missing_elements();
    missing.extend(capture::missing_hardware());
    print(&missing)
}

/// How long the daemon is wanted.
#[derive(Debug, Clone, clap::Args)]
pub struct Lifetime {
    /// Stop when standard input ends, so that this process ends with its parent
    #[arg(long)]
    exit_with_parent: bool,
    /// Serve one run, which begins with the fastest back end: back ends neither change nor are
    /// measured
    #[arg(long)]
    one_run: bool,
}

/// Runs until a signal, or until standard input ends with `exit_with_parent`.
///
/// # Errors
/// When a part cannot start; one sentence with the remedy.
pub fn run(config: Config, lifetime: &Lifetime) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("serve")
        .enable_all()
        .build()?;
    let stop = Stop::listen(lifetime.exit_with_parent)?;
    let boot = Boot::new();
    // Private: the store holds the addresses of sources with their credentials.
    make_private(&config.state_dir)
        .or_else(unless_refused)
        .with_context(|| {
            format!(
                "cannot create the state folder {} (key runtime.state_dir)",
                config.state_dir.display()
            )
        })?;

    // The guard's file belongs to the process that has the journal.
    wait_until_free(&Journal::folder(&config.state_dir))?;
    let guard = Arc::new(GuardFile::open(&config.state_dir, config.crash_loop_limit)?);
    // At once: a stop during a long model load must not look like a crash.
    let stopped = Arc::clone(&guard);
    stop.on_request(runtime.handle(), move || stopped.stopped());
    let startup = Startup {
        config: &config,
        boot,
        guard: Arc::clone(&guard),
        is_stopping: stop.flag(),
        is_lasting: !lifetime.one_run,
    };
    let outcome = startup.run(runtime, stop);
    // An error is an orderly end too: no pipeline is blamed for it.
    guard.stopped();
    outcome
}

/// Waits until no process has the journal.
///
/// # Errors
/// The one that names its process, after [`JOURNAL_TIMEOUT`].
fn wait_until_free(journal: &Path) -> Result<(), StoreError> {
    let until = Instant::now() + JOURNAL_TIMEOUT;
    while let Some(another) = watchkeeper_store::in_use(journal) {
        if Instant::now() >= until {
            return Err(another);
        }
        std::thread::sleep(JOURNAL_PAUSE);
    }
    Ok(())
}

/// Facts of this start that the parts need.
struct Startup<'a> {
    config: &'a Config,
    boot: Boot,
    guard: Arc<GuardFile>,
    /// Ends checks of models.
    is_stopping: Arc<AtomicBool>,
    /// False for the daemon of one run.
    is_lasting: bool,
}

/// Open stores of the state folder. They close after everything that uses them.
struct Stores {
    journal: Arc<Journal>,
    media: Arc<MediaStore>,
    recordings: Arc<Recordings>,
    disk_space: Arc<DiskSpace>,
}

impl Startup<'_> {
    /// Starts the parts, serves, and stops them in reverse order.
    fn run(&self, runtime: tokio::runtime::Runtime, stop: Stop) -> anyhow::Result<()> {
        let stores = self.open_stores()?;
        let (recorder, recorder_thread) = Recorder::spawn(
            Arc::clone(&stores.journal),
            Arc::clone(&stores.media),
            Arc::clone(&stores.disk_space),
            self.last_run(&stores),
        )?;
        let (manager, effects) = self.start_manager(&stores, &recorder)?;
        self.restore(&manager, &stop);

        let board = self.start_board(&recorder)?;
        let signing = SigningKey::of(&self.config.state_dir);
        let api = Arc::new(Api::new(
            Arc::clone(&manager),
            Arc::clone(&board),
            signing,
            self.config,
        ));
        let outcome = if stop.is_requested() {
            tracing::info!("stop requested during the start");
            Ok(())
        } else {
            let disk_space = Arc::clone(&stores.disk_space);
            runtime.block_on(serve(
                self.config,
                api,
                Arc::clone(&manager),
                Arc::clone(&board),
                disk_space,
                stop,
            ))
        };
        // A service that can't begin ends without a request.
        self.is_stopping.store(true, Ordering::Relaxed);
        runtime.shutdown_timeout(Duration::from_secs(2));
        board.shut_down(RECORDER_TIMEOUT);
        drop(board);
        shut_down(manager, &effects, recorder, recorder_thread, outcome)
    }

    /// Starts to sample the sensors of this machine.
    fn start_board(&self, recorder: &Recorder) -> anyhow::Result<Arc<BoardSampler>> {
        let open = || SysfsBoard::open(Path::new("/"));
        let sampler = BoardSampler::spawn(open, recorder.clone(), self.boot.clone())
            .context("cannot start the thread that reads the sensors of the board")?;
        Ok(Arc::new(sampler))
    }

    fn open_stores(&self) -> anyhow::Result<Stores> {
        let config = self.config;
        let limits = Limits {
            max_events: config.journal.max_events,
            max_bytes: config.journal.max_bytes,
        };
        let recordings = Arc::new(Recordings::new(
            &config.state_dir,
            recordings::Limits {
                max_bytes: config.recordings.max_bytes,
                max_age: config.recordings.max_age,
                min_free_bytes: RECORDINGS_MIN_FREE_BYTES,
            },
        ));
        // Not before the journal, whose lock shows that no other process uses the folder.
        let open_media = || {
            let limits = MediaLimits {
                max_bytes: config.media.max_bytes,
                min_free_bytes: media::MIN_FREE_BYTES,
            };
            MediaStore::open(&config.state_dir, limits).map(Arc::new)
        };
        let disk_space_of = |media: &Arc<MediaStore>| {
            let (recordings, media) = (Arc::clone(&recordings), Arc::clone(media));
            DiskSpace::new(&config.state_dir, recordings, media)
        };
        let mut journal = Journal::open_unverified(&config.state_dir, limits)?;
        if let Some(needed) = journal.waiting().and_then(|waiting| waiting.needed)
            && open_media().is_ok_and(|media| disk_space_of(&media).free_for(needed) > 0)
        {
            // Media were deleted; this opening also repairs what needs repair.
            drop(journal);
            journal = Journal::open(&config.state_dir, limits)?;
        }
        let journal = Arc::new(journal);
        restrict(&Journal::folder(&config.state_dir));
        let media = open_media()?;
        let disk_space = Arc::new(disk_space_of(&media));
        Ok(Stores {
            journal,
            media,
            recordings,
            disk_space,
        })
    }

    /// What the last run left: its losses, and the ends of the events that it left open. The
    /// recorder's thread makes the records, because that reads the whole journal.
    fn last_run(&self, stores: &Stores) -> LastRun {
        let (mark, unstored) = UnstoredMark::open(&self.config.state_dir);
        let (journal, media) = (Arc::clone(&stores.journal), Arc::clone(&stores.media));
        // Until then the guard may end a hold, which records its own end.
        let held = self.guard.held_events();
        let start = self.boot.stamp();
        let records = move || -> Result<Vec<Event>, JournalError> {
            let stamp = || Stamp {
                mono_ms: 0,
                id: EventId::generate(),
                ..start.clone()
            };
            let losses: Vec<Loss> = journal.take_losses()?.into_iter().chain(unstored).collect();
            for loss in &losses {
                tracing::error!(from = loss.from, count = loss.count, "{}", loss.message);
            }
            let mut records: Vec<Event> = losses
                .iter()
                .flat_map(|loss| loss.events(&stamp()))
                .collect();
            journal.set_unreported(&records);
            let ends =
                journal.close_open_events(&stamp(), &|event| held.contains(&event), &|clip| {
                    media.find_clip(clip)
                })?;
            if !ends.is_empty() {
                tracing::info!(
                    count = ends.len(),
                    "the last run left events open; they are ended"
                );
            }
            records.extend(ends);
            Ok(records)
        };
        LastRun {
            records: Box::new(records),
            mark,
        }
    }

    /// The models of this box. Only a long-running daemon profits from changes and measurements of
    /// back ends: a run starts with the fastest one, and its state folder is temporary.
    fn models(&self, changes: ChangeEvents) -> Models {
        let child = ChildProgram::new(THIS_PROGRAM, Arc::clone(&self.is_stopping));
        if self.is_lasting {
            Models::changing(self.config, child, changes).measuring()
        } else {
            Models::checked(self.config, child)
        }
    }

    fn start_manager(
        &self,
        stores: &Stores,
        recorder: &Recorder,
    ) -> anyhow::Result<(Arc<Manager>, Arc<Effects>)> {
        let config = self.config;
        let checkpoints = Arc::new(CheckpointStore::spawn(&config.state_dir)?);
        let coverage = CoverageLedger::open(Arc::clone(&stores.journal), &config.state_dir)?;
        let history = DetectionHistory::open(&config.state_dir, config.history_bytes)
            .context("cannot open the detection history")?;
        let limits = effects::Limits::default();
        let effects = Effects::open(&config.state_dir, &config.sinks, limits)
            .map(Arc::new)
            .context("cannot open the effects spool")?;
        let metrics = Arc::new(Metrics::new());
        let changes = ChangeEvents::new(
            recorder.clone(),
            Arc::clone(&metrics),
            self.boot.clone(),
            Arc::clone(&self.is_stopping),
        );
        let manager = Manager::new(Parts {
            journal: Arc::clone(&stores.journal),
            recorder: recorder.clone(),
            media: Arc::clone(&stores.media),
            pauses: TimedPauses::open(&config.state_dir),
            views: UsualViews::new(&config.state_dir),
            models: self.models(changes),
            metrics,
            recordings: Arc::clone(&stores.recordings),
            checkpoints,
            coverage,
            history,
            dry_run_roots: config.dry_run_roots.clone(),
            effects: Arc::clone(&effects),
            privacy: PrivacyMasks::new(config),
            declared: config.declared.clone(),
            channels: config.channels.iter().map(|c| c.id.clone()).collect(),
            guard: Arc::clone(&self.guard),
            boot: self.boot.clone(),
            stop_timeout: STOP_TIMEOUT,
        })?;
        Ok((Arc::new(manager), effects))
    }

    /// Starts the sources and pipelines of the journal and the configuration.
    fn restore(&self, manager: &Manager, stop: &Stop) {
        let may_continue = || {
            // A slow model must not exceed the service manager's timeout.
            notify(&[NotifyState::ExtendTimeoutUsec(START_STEP_USEC)]);
            !stop.is_requested()
        };
        for trouble in manager.restore(&self.config.sources, &self.config.pipelines, &may_continue)
        {
            tracing::warn!("{trouble}");
        }
    }
}

/// Stops the pipelines, then the recorder. Fails if `outcome` does, or if events were lost.
fn shut_down(
    manager: Arc<Manager>,
    effects: &Effects,
    recorder: Recorder,
    recorder_thread: Thread,
    outcome: anyhow::Result<()>,
) -> anyhow::Result<()> {
    // Ending a pipeline waits for the recorder, so the recorder gets its deadline first.
    let end = Instant::now() + STOP_FLUSH_TIMEOUT;
    recorder.end_by(end);
    // Callers of the recorder learn of its end a moment later.
    manager.shut_down(end + 2 * RECORDER_TIMEOUT);
    // A change still stores the end of its event.
    manager.parts().models.shut_down(RECORDER_TIMEOUT);
    manager.parts().coverage.shut_down(RECORDER_TIMEOUT);
    manager.parts().history.shut_down(RECORDER_TIMEOUT);
    effects.shut_down(RECORDER_TIMEOUT);
    // A long journal may still be read, before anything is stored.
    let rest = end.saturating_duration_since(Instant::now());
    let is_stored = recorder.flush(None, rest.max(RECORDER_TIMEOUT)) == FlushResult::Durable;
    let waiting = if is_stored {
        0
    } else {
        recorder.mark_unstored()
    };
    let (lost, trouble) = (recorder.unrecorded(), recorder.storage_error());
    drop(manager);
    drop(recorder);
    // A thread that hangs in a camera keeps the queue open; the queued events are stored already.
    if !recorder_thread.join(RECORDER_TIMEOUT) && waiting > 0 {
        tracing::error!(
            waiting,
            "stopped before all events were stored; the next start reports it"
        );
    }
    tracing::info!("stopped");
    match trouble {
        Some(trouble) if lost > 0 => outcome
            .and_then(|()| anyhow::bail!("stopped with {lost} events unstored: {}", trouble.why)),
        Some(_) | None => outcome,
    }
}

/// Lets a start continue on a full or read-only disk, which is waited for.
fn unless_refused(error: io::Error) -> io::Result<()> {
    if !is_disk_refusal(&error) {
        return Err(error);
    }
    tracing::error!(%error, "cannot create the state folder yet");
    Ok(())
}

/// Makes the journal's folder private, also in a state folder that another user created: it holds
/// the addresses of sources with their credentials.
fn restrict(folder: &Path) {
    let only_owner = std::fs::Permissions::from_mode(0o700);
    if let Err(error) = std::fs::set_permissions(folder, only_owner) {
        tracing::warn!(folder = %folder.display(), %error, "other users may be able to read it");
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn journal_of_a_process_that_is_ending_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let journal = dir.path().join("lock");
        let file = std::fs::File::create(&journal).unwrap();
        file.lock().unwrap();
        let (began, begin) = mpsc::channel();
        let ends = std::thread::spawn(move || {
            begin.recv().unwrap();
            std::thread::sleep(JOURNAL_PAUSE * 4);
            drop(file);
        });
        assert!(watchkeeper_store::in_use(dir.path()).is_some());
        began.send(()).unwrap();
        wait_until_free(dir.path()).unwrap();
        ends.join().unwrap();
        let other = std::fs::File::open(&journal).unwrap();
        other.lock().unwrap();
        let refused = wait_until_free(dir.path()).unwrap_err().to_string();
        assert!(
            refused.contains("is in use by another process"),
            "{refused}"
        );
    }
}
