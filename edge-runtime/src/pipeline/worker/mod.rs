//! The thread of one pipeline: takes frames, runs them through, hands on what they brought.
//!
//! Owns the pipeline's state as the API shows it. Invariants: the thread holds a subscription only while it wants frames, so a paused pipeline
//! costs its source nothing; `Ended` is said only after the last event is durable, and `Paused` too but for a process that stops, so whoever sees them
//! can read everything: while the disk refuses, an end is waited for until somebody wants something else, and is then a failure;
//! a panic in one pipeline that no step caught ends that pipeline and its events with a message and nothing else ([`crate::pipeline::manager::restarts`] begins it anew); nobody who asks how a pipeline is waits for
//! its frame: the thread owns the [`Run`] and publishes what it has counted.

mod preview_window;
mod step_failures;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use watchkeeper_contract::event::{EVENT_SCHEMA, Event, EventBody, Phase};
use watchkeeper_contract::id::{EventId, EventSeq, SourceId};
use watchkeeper_contract::pipeline::{
    PipelineResults, PipelineSpec, PipelineState, PipelineStatus, PipelineWarning, WarningKind,
};
use watchkeeper_contract::problem::{Problem, ProblemCode};
use watchkeeper_contract::time::Wall;
use watchkeeper_engine::rules::Change;
use watchkeeper_engine::workflow::{Pixels, RgbPixels};
use watchkeeper_vision::frame::Frame;

use self::preview_window::PreviewWindow;
use self::step_failures::{Failed, StepFailures};
use crate::capture::mailbox::{FrameReceiver, Leave, Recv};
use crate::clock;
use crate::journal::media::MediaStore;
use crate::media::video::VideoWriter;
use crate::metrics::Metrics;
use crate::pipeline::box_event::{BoxRecord, box_event};
use crate::pipeline::checkpoint::{Checkpoint, Checkpointer, PipelineMemory, Resume};
use crate::pipeline::clips::Clips;
use crate::pipeline::pixels::{fitted, to_image};
use crate::pipeline::recorder::{Flushed, Pictures, Recorder};
use crate::pipeline::retention::recordings::Recording;
use crate::pipeline::run::{FrameOutcome, Run};
use crate::thread::{Thread, said};

/// How long the thread waits for a frame before it looks whether it should stop.
const PATIENCE: Duration = Duration::from_millis(250);

/// How long a source may be away while it is replaced.
const GONE: Duration = Duration::from_secs(30);

/// How long a pipeline that was told to stop waits for its last events to be durable.
const LAST_FLUSH: Duration = Duration::from_secs(8);

/// How long whoever ends a pipeline waits for it: its frame, its video ([`crate::media::video::FINISH_WITHIN`]) and its last events.
pub const STOPPING: Duration = Duration::from_secs(40);

/// Pause between two looks at whether a pipeline does what was wished.
const SETTLE_LOOK: Duration = Duration::from_millis(5);

/// How often is said that the last events still wait.
const REPEAT: Duration = Duration::from_secs(30);

/// How old published results of a running pipeline may be. Making them costs allocations, so not every frame does.
const PUBLISH_EVERY: Duration = Duration::from_millis(100);

/// Parts of the annotated video of one pipeline that can be asked for.
const PARTS: usize = 1000;

/// What is said of a pipeline that ended on a disk that refuses.
const NOT_STORED: &str =
    "it has ended, but its last events could not be stored; the health of the runtime says why";

/// Name in metrics of the time from a frame's arrival to its turn.
const STAGE_WAIT: &str = "wait";

/// Name in metrics of everything that a pipeline does with a frame.
const STAGE_ALL: &str = "pipeline";

/// What the status of a pipeline says that can't make an event.
const NO_RULES: &str = "no rules: no events";

/// Where a pipeline gets its frames; the manager answers, so that a replaced source is found again.
pub trait Subscribe: Send + Sync {
    /// A subscription to `source`, or `None` while there is no such source.
    fn subscribe(&self, source: &SourceId) -> Option<FrameReceiver>;
}

/// What every pipeline thread needs from the rest.
#[derive(Clone)]
pub struct Services {
    /// Sources by name.
    pub sources: Arc<dyn Subscribe>,
    /// Where events go.
    pub recorder: Recorder,
    /// Where clips of events go.
    pub media: Arc<MediaStore>,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// Identity of this run of the runtime.
    pub boot_id: Arc<str>,
    /// When it started.
    pub started: Instant,
    /// How long whoever ends a pipeline waits for it; [`STOPPING`].
    pub stopping: Duration,
}

impl std::fmt::Debug for Services {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Services")
            .field("boot_id", &self.boot_id)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DesiredState {
    Run,
    Pause,
    Stop,
    /// It came to its end by itself: nothing can be wished any more but that it does not wait for the disk.
    Over,
}

#[derive(Debug)]
struct Status {
    state: PipelineState,
    since: Wall,
    /// When its counts began.
    counting_since: Option<Wall>,
    events: u64,
    first_frame: Option<Instant>,
    last_frame: Option<Instant>,
}

#[derive(Clone, Default)]
struct Latest {
    clean: Option<Arc<dyn Pixels>>,
    annotated: Option<Arc<dyn Pixels>>,
}

/// What the thread has published of its run.
struct Published {
    results: PipelineResults,
    warnings: Vec<PipelineWarning>,
}

impl Published {
    fn of(run: &Run, recording: Option<&Recording>) -> Self {
        let mut warnings = run.warnings().to_vec();
        warnings.extend(recording.and_then(Recording::trouble).map(not_recording));
        Self {
            results: run.results(),
            warnings,
        }
    }
}

fn not_recording(why: &str) -> PipelineWarning {
    PipelineWarning {
        kind: WarningKind::NotRecording,
        message: format!("the annotated video is not being written: {why}; it is tried again"),
    }
}

/// Complete parts of the annotated video, numbered from 1. The latest [`PARTS`] are known.
#[derive(Debug, Default)]
struct Parts {
    /// How many came before those that are known.
    forgotten: usize,
    known: VecDeque<PathBuf>,
}

impl Parts {
    fn push(&mut self, path: PathBuf) {
        if self.known.len() >= PARTS {
            self.known.pop_front();
            self.forgotten += 1;
        }
        self.known.push_back(path);
    }

    /// The part of this number, else the last one.
    fn get(&self, number: Option<usize>) -> Option<&PathBuf> {
        match number {
            Some(number) => self.known.get(number.checked_sub(self.forgotten + 1)?),
            None => self.known.back(),
        }
    }

    fn count(&self) -> usize {
        self.forgotten + self.known.len()
    }
}

struct Shared {
    recorded: Mutex<Parts>,
    wish: Mutex<DesiredState>,
    wished: Condvar,
    status: Mutex<Status>,
    published: Mutex<Published>,
    latest: Mutex<Latest>,
    window: preview_window::Seen,
    /// Whether it took frames of a recording, which begins anew with it; known at its end.
    in_recording: AtomicBool,
    /// When it learned that its source has failed.
    lost_source: Mutex<Option<Instant>>,
    /// The fault of ours that ended it, a sentence without its end.
    fault: Mutex<Option<String>>,
    /// Ends its subscription, while it has one.
    leave: Mutex<Option<Leave>>,
}

/// A pipeline and its thread.
pub struct Worker {
    spec: PipelineSpec,
    shared: Arc<Shared>,
    detector: Option<String>,
    rules: Vec<String>,
    rests: AtomicBool,
    stopping: Duration,
    thread: Thread,
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker")
            .field("spec", &self.spec.id)
            .finish_non_exhaustive()
    }
}

impl Worker {
    /// Starts the thread of `spec` over `run`, which goes on with what was `kept`. `recording` is where the annotated video goes if one is wanted.
    ///
    /// # Errors
    /// When the thread can't be started.
    pub fn spawn(
        spec: PipelineSpec,
        mut run: Run,
        kept: Option<Checkpoint>,
        checkpointer: Checkpointer,
        recording: Option<Recording>,
        services: Services,
    ) -> std::io::Result<Self> {
        let (counting_since, events) = kept
            .and_then(|kept| go_on(&spec, &mut run, kept))
            .unwrap_or_default();
        let detector = run.detector();
        let rules = run.rule_names().to_vec();
        let shared = Arc::new(Shared {
            recorded: Mutex::default(),
            wish: Mutex::new(if spec.paused {
                DesiredState::Pause
            } else {
                DesiredState::Run
            }),
            wished: Condvar::new(),
            in_recording: AtomicBool::new(false),
            lost_source: Mutex::default(),
            fault: Mutex::default(),
            leave: Mutex::default(),
            status: Mutex::new(Status {
                state: if spec.paused {
                    PipelineState::Paused
                } else {
                    PipelineState::Starting
                },
                since: clock::wall(),
                counting_since,
                events,
                first_frame: None,
                last_frame: None,
            }),
            published: Mutex::new(Published::of(&run, None)),
            latest: Mutex::default(),
            window: preview_window::Seen::default(),
        });
        let window = Arc::clone(&shared.window);
        let stopping = services.stopping;
        let clips = run.pre_roll_s().map(|pre_roll_s| {
            let (media, recorder) = (Arc::clone(&services.media), services.recorder.clone());
            let metrics = Arc::clone(&services.metrics);
            Clips::new(pre_roll_s, media, recorder, metrics, services.started)
        });
        let body = WorkerThread {
            spec: spec.clone(),
            shared: Arc::clone(&shared),
            run,
            checkpointer,
            published: None,
            services,
            video: None,
            clips,
            screen: PreviewWindow::new(spec.id.clone(), spec.show, window),
            failing: StepFailures::default(),
            recording,
        };
        let thread = Thread::spawn(format!("pipe-{}", spec.id), move || {
            body.run_catching_panics()
        })?;
        Ok(Self {
            rests: AtomicBool::new(spec.paused),
            spec,
            shared,
            detector,
            rules,
            stopping,
            thread,
        })
    }

    /// What was deployed.
    #[must_use]
    pub fn spec(&self) -> &PipelineSpec {
        &self.spec
    }

    /// What it is doing.
    #[must_use]
    pub fn status(&self) -> PipelineStatus {
        let results = self.results();
        let warnings = self.warnings();
        // As it is wanted now: whoever changes what was answered and deploys that must not start what a person paused.
        let spec = PipelineSpec {
            paused: self.rests(),
            ..self.spec.clone()
        };
        let status = self.shared.status.lock();
        PipelineStatus {
            spec,
            state: status.state.clone(),
            since: status.since,
            paused_until: None,
            detector: self.detector.clone(),
            rules: self.rules.clone(),
            note: self.rules.is_empty().then(|| NO_RULES.to_owned()),
            warnings,
            window: self.shared.window.lock().clone(),
            results,
        }
    }

    /// What it is doing, without what it has seen.
    #[must_use]
    pub fn state(&self) -> PipelineState {
        self.shared.status.lock().state.clone()
    }

    /// The fault of ours that ended it, where one did: a sentence without its end.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        self.shared.fault.lock().clone()
    }

    /// What a person should look at, though it runs.
    #[must_use]
    pub fn warnings(&self) -> Vec<PipelineWarning> {
        self.shared.published.lock().warnings.clone()
    }

    /// What it has seen, at most [`PUBLISH_EVERY`] and one frame ago; all of it once it is paused or has ended.
    #[must_use]
    pub fn results(&self) -> PipelineResults {
        let mut results = self.shared.published.lock().results.clone();
        let status = self.shared.status.lock();
        results.events = status.events;
        results.counting_since = status.counting_since;
        if let (Some(first), Some(last)) = (status.first_frame, status.last_frame) {
            results.elapsed_s = last.saturating_duration_since(first).as_secs_f64();
        }
        results
    }

    /// The last processed frame, drawn upon where the workflow draws.
    #[must_use]
    pub fn latest_annotated(&self) -> Option<Arc<RgbPixels>> {
        let latest = self.shared.latest.lock().clone();
        latest.annotated.or(latest.clean).map(|pixels| pixels.rgb())
    }

    /// Where a part of the annotated video is, counted from 1; without a number the last one that is complete.
    ///
    /// # Errors
    /// [`Problem`] when none was asked for, there is no such part, or none is complete yet.
    pub fn recording(&self, part: Option<usize>) -> Result<PathBuf, Problem> {
        if !self.spec.record {
            return Err(Problem::new(
                404,
                ProblemCode::NotFound,
                format!(
                    "pipeline {:?} records no video; deploy it with \"record\": true",
                    self.spec.id.as_str()
                ),
            ));
        }
        let parts = self.shared.recorded.lock();
        if parts.count() == 0 {
            return Err(Problem::new(
                409,
                ProblemCode::NotReady,
                "the video is complete when the pipeline has ended or is paused",
            ));
        }
        parts.get(part).cloned().ok_or_else(|| {
            let part = part.unwrap_or_default().to_string();
            Problem::new(
                404,
                ProblemCode::NotFound,
                format!(
                    "there is no part {part}; {} are complete, counted from 1, and the last {PARTS} can be asked for",
                    parts.count()
                ),
            )
            .at("part", part)
        })
    }

    /// Whether it takes frames, or would if there were any. No longer once it has ended or failed.
    #[must_use]
    pub fn wants_frames(&self) -> bool {
        *self.shared.wish.lock() == DesiredState::Run
    }

    /// Whether it watched its source at that moment: it takes frames, or its source failed after it.
    #[must_use]
    pub fn watched_at(&self, at: Instant) -> bool {
        self.wants_frames()
            || self
                .shared
                .lost_source
                .lock()
                .is_some_and(|lost| at <= lost)
    }

    /// Whether its source failed under it.
    #[must_use]
    pub fn has_lost_source(&self) -> bool {
        self.shared.lost_source.lock().is_some()
    }

    /// Whether it has ended in the middle of a recording: begun anew, it would count everything in it twice.
    #[must_use]
    pub fn in_recording(&self) -> bool {
        self.shared.in_recording.load(Ordering::Relaxed)
    }

    /// Whether it takes no frame any more, whatever is wanted of it: it has ended or failed, or was told to end. Its last events may not be durable yet.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(
            *self.shared.wish.lock(),
            DesiredState::Stop | DesiredState::Over
        )
    }

    /// Stops taking frames until [`Worker::resume`].
    pub fn pause(&self) {
        self.rests.store(true, Ordering::Relaxed);
        self.wish(DesiredState::Pause);
    }

    /// Takes frames again.
    pub fn resume(&self) {
        self.rests.store(false, Ordering::Relaxed);
        self.wish(DesiredState::Run);
    }

    /// Waits until it rests, or no longer does, as was wished; not longer than a frame takes, as a rule, and at most for `patience`.
    pub fn settle(&self, patience: Duration) {
        let until = Instant::now() + patience;
        let is_settled = |state: &PipelineState| match state {
            PipelineState::Starting | PipelineState::Running => !self.rests(),
            PipelineState::Paused => self.rests(),
            PipelineState::Ended | PipelineState::Failed { .. } => true,
        };
        while !is_settled(&self.state()) && Instant::now() < until {
            std::thread::sleep(SETTLE_LOOK);
        }
    }

    /// Whether it shall take no frames for now, also after its end.
    #[must_use]
    pub fn rests(&self) -> bool {
        self.rests.load(Ordering::Relaxed)
    }

    /// Tells the pipeline to end and does not wait, so that many can end at the same time.
    pub fn begin_stop(&self) {
        self.wish(DesiredState::Stop);
        // One that hangs would keep a recording from everybody else who watches it.
        if let Some(leave) = self.shared.leave.lock().take() {
            leave.now();
        }
    }

    /// Ends the pipeline and waits for its thread: its open events end and are durable. One that hangs is left to itself after [`STOPPING`].
    pub fn stop(&self) {
        self.stop_within(self.stopping);
    }

    /// The same with another patience.
    pub fn stop_within(&self, patience: Duration) {
        self.begin_stop();
        self.thread.join(patience);
    }

    fn wish(&self, wish: DesiredState) {
        let mut now = self.shared.wish.lock();
        match *now {
            DesiredState::Run | DesiredState::Pause => *now = wish,
            DesiredState::Over if wish == DesiredState::Stop => *now = wish,
            DesiredState::Over | DesiredState::Stop => {}
        }
        self.shared.wished.notify_all();
    }
}

impl Drop for Worker {
    /// Whoever drops it may hold what others need, so one that was waited for in vain is not waited for again.
    fn drop(&mut self) {
        self.begin_stop();
        self.thread.join_once(self.stopping);
    }
}

/// Goes on with what was kept; answers when the counts began and how many events there were.
fn go_on(spec: &PipelineSpec, run: &mut Run, kept: Checkpoint) -> Option<(Option<Wall>, u64)> {
    let pipeline = &spec.id;
    let memory = match kept.left {
        Resume::Memory(memory) => memory,
        Resume::Elapsed(elapsed) => {
            let elapsed_s = elapsed.as_secs();
            tracing::info!(%pipeline, elapsed_s, "it counts from nought, and its time goes on");
            run.go_on(elapsed, kept.away);
            return None;
        }
    };
    let PipelineMemory {
        counting_since,
        events,
        run: memory,
    } = memory;
    match run.restore(memory, kept.away) {
        Ok(anew) => {
            let away_s = kept.away.map(|away| away.as_secs());
            tracing::info!(%pipeline, away_s, "it goes on counting");
            for step in anew {
                tracing::warn!(%pipeline, what = step.what, why = step.why, "begins anew");
            }
            Some((counting_since, events))
        }
        Err(error) => {
            tracing::warn!(%pipeline, %error, "it counts from nought");
            None
        }
    }
}

/// Why the thread stops.
enum End {
    /// The source came to its end.
    SourceEnded,
    /// The source showed as many seconds as were asked for.
    TimeOver,
    /// The source can't come back.
    SourceFailed(String),
    /// Somebody asked.
    Stopped,
}

/// When and in which pictures something happened.
#[derive(Debug, Clone, Copy)]
struct Moment<'f> {
    pictures: &'f Pictures,
    /// Source time.
    at: Duration,
    /// Whether a camera shows it now.
    is_live: bool,
}

struct WorkerThread {
    spec: PipelineSpec,
    shared: Arc<Shared>,
    run: Run,
    checkpointer: Checkpointer,
    /// When results were last published.
    published: Option<Instant>,
    services: Services,
    video: Option<VideoWriter>,
    /// The clips of its events, where a rule wants them.
    clips: Option<Clips>,
    screen: PreviewWindow,
    /// Its steps that do little else but fail.
    failing: StepFailures,
    /// Where the parts of the annotated video go; each pause ends one.
    recording: Option<Recording>,
}

impl WorkerThread {
    fn run_catching_panics(mut self) {
        let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.main())) else {
            return;
        };
        let why = format!("a fault of ours ended this pipeline ({})", said(&*panic));
        self.mark_finished();
        // What led to it may be in what it remembers, but not in how long it has watched.
        self.checkpointer.failed(self.run.elapsed());
        tracing::error!(pipeline = %self.spec.id, "a fault of ours ended the pipeline; the others go on");
        let message = format!("{why}; report the log");
        *self.shared.fault.lock() = Some(why);
        set_state(&self.shared, PipelineState::Failed { message });
        // What was left behind may be in any state. An event that is not ended now is ended at the next start.
        if catch_unwind(AssertUnwindSafe(|| self.shut_down())).is_err() {
            tracing::error!(pipeline = %self.spec.id, "nor could its events be ended");
        }
    }

    fn main(&mut self) {
        let end = self.frames();
        match end {
            // Before visits and events end: in the next process they may go on.
            End::Stopped => self.remember(),
            End::TimeOver => self.checkpointer.over(&self.spec),
            End::SourceEnded => self.checkpointer.forget(),
            // It has seen nothing: what was there before holds until it does.
            End::SourceFailed(_) if !self.run.has_seen() => {}
            End::SourceFailed(_) => self.checkpointer.failed(self.run.elapsed()),
        }
        let is_stored = self.shut_down();
        let state = match end {
            End::SourceFailed(message) => PipelineState::Failed { message },
            End::SourceEnded | End::TimeOver | End::Stopped if is_stored => PipelineState::Ended,
            End::SourceEnded | End::TimeOver | End::Stopped => PipelineState::Failed {
                message: NOT_STORED.to_owned(),
            },
        };
        tracing::info!(pipeline = %self.spec.id, ?state, "pipeline ended");
        set_state(&self.shared, state);
    }

    /// Nobody waits for frames any more, and nobody can wish for them.
    fn mark_finished(&self) {
        let in_recording = self.run.plays_recording();
        let shared = &self.shared;
        shared.in_recording.store(in_recording, Ordering::Relaxed);
        let mut wish = self.shared.wish.lock();
        if *wish != DesiredState::Stop {
            *wish = DesiredState::Over;
        }
    }

    /// Ends the events and the video. False when the last events could not be stored.
    fn shut_down(&mut self) -> bool {
        self.mark_finished();
        let changes = self.run.finish(&mut EventId::generate);
        self.hand_over(changes, None);
        self.end_of_failures();
        if let Some(recording) = &mut self.recording {
            recording.end();
        }
        self.end_of_films();
        self.publish();
        self.screen.close();
        self.flush()
    }

    fn frames(&mut self) -> End {
        let mut gone_since = None;
        loop {
            match self.next_wish() {
                DesiredState::Run => {}
                DesiredState::Pause => {
                    gone_since = None;
                    continue;
                }
                DesiredState::Stop | DesiredState::Over => return End::Stopped,
            }
            let Some(receiver) = self.services.sources.subscribe(&self.spec.source) else {
                // The manager deletes no source that is watched; a replacement is on its way.
                let since = *gone_since.get_or_insert_with(Instant::now);
                if since.elapsed() > GONE {
                    return End::SourceFailed("its source is not there any more".to_owned());
                }
                std::thread::sleep(PATIENCE);
                continue;
            };
            gone_since = None;
            *self.shared.leave.lock() = Some(receiver.leaving());
            let end = self.take_from(&receiver);
            drop(receiver);
            if let Some(end) = end {
                return end;
            }
            self.remember();
            self.end_of_failures();
            self.end_of_films();
            if *self.shared.wish.lock() == DesiredState::Pause && !self.flush() {
                tracing::warn!(pipeline = %self.spec.id, "paused with events that are not durable");
            }
        }
    }

    /// Waits until every event so far is durable, as long as nothing else is wanted. False when they are not.
    fn flush(&self) -> bool {
        let wish = *self.shared.wish.lock();
        let (mut said, mut told_to_stop) = (Instant::now(), None);
        loop {
            match self.services.recorder.flush(Some(&self.spec.id), PATIENCE) {
                Flushed::Durable => return true,
                Flushed::NotYet => {}
                Flushed::Lost => {
                    tracing::error!(pipeline = %self.spec.id, "the last events are lost");
                    return false;
                }
            }
            if said.elapsed() >= REPEAT {
                said = Instant::now();
                tracing::warn!(pipeline = %self.spec.id, "the last events are not durable yet");
            }
            let now = *self.shared.wish.lock();
            let is_enough = match now {
                DesiredState::Stop => {
                    let since = told_to_stop.get_or_insert_with(Instant::now);
                    since.elapsed() >= LAST_FLUSH
                }
                DesiredState::Run | DesiredState::Pause | DesiredState::Over => now != wish,
            };
            if is_enough {
                return false;
            }
        }
    }

    /// Has what it remembers kept, for the next process.
    fn remember(&mut self) {
        let Some(run) = self.run.save() else {
            return;
        };
        let status = self.shared.status.lock();
        let (counting_since, events) = (status.counting_since, status.events);
        drop(status);
        self.checkpointer.keep(PipelineMemory {
            counting_since,
            events,
            run,
        });
    }

    fn publish(&mut self) {
        *self.shared.published.lock() = Published::of(&self.run, self.recording.as_ref());
        self.published = Some(Instant::now());
    }

    fn publish_when_due(&mut self) {
        if self
            .published
            .is_none_or(|at| at.elapsed() >= PUBLISH_EVERY)
        {
            self.publish();
        }
    }

    /// Waits while paused; answers what to do now.
    fn next_wish(&mut self) -> DesiredState {
        let shared = Arc::clone(&self.shared);
        let mut wish = shared.wish.lock();
        if *wish == DesiredState::Pause {
            self.publish();
            set_state(&self.shared, PipelineState::Paused);
            self.shared
                .wished
                .wait_while(&mut wish, |w| *w == DesiredState::Pause);
        }
        if *wish == DesiredState::Run {
            let fresh = self.shared.status.lock().first_frame.is_none();
            let state = if fresh {
                PipelineState::Starting
            } else {
                PipelineState::Running
            };
            set_state(&self.shared, state);
        }
        *wish
    }

    /// Takes frames until something else is wanted; `Some` ends the pipeline.
    fn take_from(&mut self, receiver: &FrameReceiver) -> Option<End> {
        while *self.shared.wish.lock() == DesiredState::Run {
            match receiver.recv(PATIENCE) {
                Recv::Frame(frame) => {
                    if self.process_frame(&frame) {
                        return Some(End::TimeOver);
                    }
                }
                Recv::Timeout => {
                    if let Some(clips) = &mut self.clips {
                        clips.idle(Instant::now());
                    }
                }
                Recv::Ended => return Some(End::SourceEnded),
                Recv::Failed { message, .. } => {
                    *self.shared.lost_source.lock() = Some(Instant::now());
                    return Some(End::SourceFailed(message));
                }
                Recv::Closed => return None,
            }
        }
        None
    }

    /// Takes one frame; whether it was the last that is wanted.
    fn process_frame(&mut self, frame: &Frame) -> bool {
        let began = Instant::now();
        let outcome = self
            .run
            .process(frame, clock::local(frame.wall), &mut EventId::generate);
        let (is_last, at) = (outcome.is_last, outcome.at);
        let handing = Instant::now();
        if let Some(clips) = &mut self.clips {
            clips.see(frame, at);
        }
        if !outcome.processed {
            self.pass(at);
            return is_last;
        }
        let FrameOutcome {
            changes,
            clean,
            annotated,
            failures,
            skipped_steps,
            inferences,
            ..
        } = outcome;
        let pictures = Pictures { clean, annotated };
        let moment = Moment {
            pictures: &pictures,
            at,
            is_live: !frame.recorded,
        };
        self.hand_over(changes, Some(moment));
        self.pass(at);
        self.draw(frame, &pictures);
        *self.shared.latest.lock() = Latest {
            clean: Some(pictures.clean),
            annotated: pictures.annotated,
        };
        let metrics = &self.services.metrics;
        for (stage, spent) in self.run.spent_on_output(handing.elapsed()) {
            metrics.stage(stage.name(), spent);
        }
        for (model, spent) in inferences {
            metrics.inference(&model, spent);
        }
        for failure in &failures {
            metrics.step_error(&self.spec.id, &failure.step);
        }
        let failed: Vec<Failed<'_>> = failures
            .iter()
            .map(|failure| Failed {
                step: &failure.step,
                message: &failure.message,
                calls: failure.calls,
            })
            .collect();
        let records = self
            .failing
            .observe(at, &failed, &skipped_steps, &mut EventId::generate);
        self.tell(records);
        self.publish_when_due();
        if self.checkpointer.is_due(Instant::now()) {
            self.remember();
        }
        let done = Instant::now();
        let spent = done.saturating_duration_since(began);
        let waited = began.saturating_duration_since(frame.arrived);
        self.services.metrics.stage(STAGE_WAIT, waited);
        self.services.metrics.stage(STAGE_ALL, spent);
        let mut status = self.shared.status.lock();
        status.last_frame = Some(done);
        if status.first_frame.is_none() {
            status.first_frame = Some(began);
            status.counting_since.get_or_insert_with(clock::wall);
            status.state = PipelineState::Running;
            status.since = clock::wall();
        }
        is_last
    }

    /// Completes the clips that have all they want.
    fn pass(&mut self, at: Duration) {
        if let Some(clips) = &mut self.clips {
            clips.pass(at);
        }
    }

    fn hand_over(&mut self, changes: Vec<Change>, moment: Option<Moment<'_>>) {
        for change in changes {
            if change.phase == Phase::New {
                self.services.metrics.event(change.decision.verdict);
            }
            let moment = moment.filter(|_| change.phase == Phase::New);
            let clip = moment.zip(change.clip).and_then(|(moment, wanted)| {
                let clips = self.clips.as_mut()?;
                Some(clips.begin(wanted, moment.at, moment.is_live))
            });
            let draft = Event {
                schema: EVENT_SCHEMA,
                id: change.id,
                seq: EventSeq::default(),
                boot_id: self.services.boot_id.to_string(),
                mono_ms: clock::millis(self.services.started.elapsed()),
                at: clock::wall(),
                phase: change.phase,
                source: Some(self.spec.source.clone()),
                pipeline: Some(self.spec.id.clone()),
                severity: change.severity,
                body: EventBody::Rule(Box::new(change.event)),
                decision: change.decision,
                evidence: change.evidence,
                media: Vec::new(),
                clip,
                hash: String::new(),
            };
            // Told of its clip once it is on its way itself: the journal has the beginning first.
            let filmed = draft.clip.is_some().then(|| draft.clone());
            let pictures = moment.map(|moment| moment.pictures.clone());
            if self.services.recorder.record(draft, pictures) {
                if let (Some(filmed), Some(moment), Some(clips)) = (filmed, moment, &mut self.clips)
                {
                    clips.tell(filmed, moment.at);
                }
                if change.phase == Phase::New {
                    self.shared.status.lock().events += 1;
                }
            } else {
                tracing::error!(pipeline = %self.spec.id, "the recorder has stopped; an event is lost");
            }
        }
    }

    /// No more frames for now: what is said of steps that fail ends.
    fn end_of_failures(&mut self) {
        let records = self.failing.rest();
        self.tell(records);
    }

    /// Tells what the box knows of its own work in this pipeline.
    fn tell(&self, records: Vec<BoxRecord>) {
        for record in records {
            let services = &self.services;
            let mut event = box_event(record, &services.boot_id, services.started);
            event.source = Some(self.spec.source.clone());
            event.pipeline = Some(self.spec.id.clone());
            if !services.recorder.tell(event) {
                tracing::error!(pipeline = %self.spec.id, "the recorder has stopped; an event is lost");
            }
        }
    }

    /// Completes what is being filmed: clips, and the annotated video.
    fn end_of_films(&mut self) {
        if let Some(clips) = &mut self.clips {
            clips.close();
        }
        self.end_of_video();
        if let Some(clips) = &mut self.clips {
            clips.wait();
        }
    }

    /// Completes the part of the annotated video that is being written, if one is.
    fn end_of_video(&mut self) {
        let Some(video) = self.video.take() else {
            return;
        };
        match video.finish() {
            Ok(path) => {
                self.shared.recorded.lock().push(path);
                if let Some(recording) = &mut self.recording {
                    recording.done();
                }
            }
            Err(error) => self.not_recording(format!("a part could not be completed: {error}")),
        }
    }

    fn draw(&mut self, frame: &Frame, pictures: &Pictures) {
        let picture = pictures.annotated.as_ref().unwrap_or(&pictures.clean);
        self.begin_part(frame, picture.size());
        let is_shown = self.screen.wants();
        if self.video.is_none() && !is_shown {
            return;
        }
        let rgb = picture.rgb();
        if let Some(video) = &mut self.video {
            let image = if video.size() == [rgb.width, rgb.height] {
                to_image(&rgb)
            } else {
                fitted(&rgb, video.size())
            };
            if let Err(error) = video.push(image, frame.pts) {
                self.video = None;
                self.not_recording(error.to_string());
            }
        }
        if is_shown {
            self.screen.show(&rgb);
        }
    }

    /// Sees to it that there is a part to which a picture of `size` can be written, if one is wanted and possible.
    fn begin_part(&mut self, frame: &Frame, size: [u32; 2]) {
        let is_full = self.recording.as_mut().is_some_and(Recording::is_full);
        // A camera that is set to another resolution goes on in a part of its own; a recording is one piece.
        let is_other = !frame.recorded && self.video.as_ref().is_some_and(|v| v.size() != size);
        if is_full || is_other {
            self.end_of_video();
        }
        if self.video.is_some() {
            return;
        }
        let Some(path) = self.recording.as_mut().and_then(Recording::next_part) else {
            return;
        };
        match VideoWriter::create(&path, size, frame.fps.unwrap_or(25.0)) {
            Ok(writer) => {
                if let Some(recording) = &mut self.recording {
                    recording.writing(writer.path());
                }
                self.video = Some(writer);
            }
            Err(error) => self.not_recording(error.to_string()),
        }
    }

    fn not_recording(&mut self, why: String) {
        if let Some(recording) = &mut self.recording {
            recording.failed(why);
        }
    }
}

fn set_state(shared: &Shared, state: PipelineState) {
    let mut status = shared.status.lock();
    if status.state != state {
        status.state = state;
        status.since = clock::wall();
    }
}

#[cfg(test)]
mod tests;
