//! One source: its thread, and what the rest of the runtime holds of it.
//!
//! The thread is a thin shell: it asks the [`Supervisor`] what to do, opens and closes feeds, stamps frames and hands
//! them to the subscribers. Invariants: a source is opened only while somebody is subscribed; frame numbers and
//! presentation times keep growing over reconnects; nothing here can bring down another source; dropping the
//! [`SourceHandle`] stops the thread and closes what is open.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::source::{
    Blindness, LossCause, Pace, SourceCounters, SourceSpec, SourceState, SourceStatus,
};
use watchkeeper_contract::time::{TimeQuality, Wall};

use super::address::Address;
use super::blind::{BlindChange, BlindWatch};
use super::demo::DemoFeed;
use super::feed::{Broken, Feed, Paced, Raw, Step};
use super::gst::{GstFeed, Origin};
use super::mailbox::{Demand, FrameReceiver, Hub, Outcome, Policy};
use super::rate::{Limiter, Meter};
use super::redact::{self, Redactor};
use super::stills::{self, Stills};
use super::supervise::{Action, BackOff, Deadlines, Input, State, Supervisor};
use super::timeline::Timeline;
use crate::frame::{Frame, FrameId};

/// Longest sleep of a source's thread while something is open, so that it notices closing soon.
const SLICE: Duration = Duration::from_millis(50);

/// Something the journal should know about a source.
#[derive(Debug, Clone, PartialEq)]
pub enum SourceNotice {
    /// Frames stopped coming, or never came. Said once an outage.
    Lost {
        /// Why.
        cause: LossCause,
        /// One sentence, free of credentials.
        message: String,
        /// When.
        at: Wall,
    },
    /// Frames come again.
    Back {
        /// How long they were missing.
        lasted: Duration,
        /// When they came back.
        at: Wall,
    },
    /// Frames come but show nothing.
    Blind {
        /// In which way.
        kind: Blindness,
        /// When it was noticed.
        at: Wall,
    },
    /// The picture is useful again.
    Seeing {
        /// How long it was not.
        lasted: Duration,
        /// When it was noticed.
        at: Wall,
    },
}

/// What a source needs from outside.
#[derive(Clone)]
pub struct Deps {
    /// Reads the wall clock and its quality.
    pub wall: Arc<dyn Fn() -> Wall + Send + Sync>,
    /// Where notices go. A full channel loses the notice, which is logged and counted in [`SourceHandle::notices_lost`].
    pub notices: Option<SyncSender<(SourceId, SourceNotice)>>,
    /// Decides the jitter of reconnects.
    pub seed: u64,
    /// Per-stage deadlines.
    pub deadlines: Deadlines,
    /// Pauses between attempts.
    pub back_off: BackOff,
}

impl std::fmt::Debug for Deps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Deps")
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}

impl Default for Deps {
    fn default() -> Self {
        Self {
            wall: Arc::new(system_wall),
            notices: None,
            seed: 0,
            deadlines: Deadlines::default(),
            back_off: BackOff::default(),
        }
    }
}

/// The system clock; known to be wrong when it shows a time before this was written.
fn system_wall() -> Wall {
    const WRITTEN_MS: i64 = 1_760_000_000_000;
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let unix_ms = since.map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX));
    Wall {
        unix_ms,
        quality: if unix_ms < WRITTEN_MS {
            TimeQuality::Unsynced
        } else {
            TimeQuality::Estimated
        },
    }
}

/// Starts sources.
#[derive(Debug)]
pub struct Source;

impl Source {
    /// Starts the thread of a source. Nothing is opened before the first [`SourceHandle::subscribe`]; an address that
    /// can't be read shows as [`SourceState::Failed`].
    #[must_use]
    pub fn spawn(spec: SourceSpec, deps: Deps) -> SourceHandle {
        let shown = SourceSpec {
            uri: redact::uri(&spec.uri),
            ..spec.clone()
        };
        let shared = Arc::new(Shared {
            hub: Arc::new(Hub::default()),
            board: Mutex::new(Board {
                state: State::Idle,
                since: (deps.wall)(),
                blind: None,
                size: None,
                nominal_fps: None,
                counters: SourceCounters::default(),
                meter: Meter::default(),
                notices_lost: 0,
            }),
        });
        let worker = Worker::new(spec, deps, shared.clone());
        let name = format!("source-{}", shown.id);
        let thread = match std::thread::Builder::new()
            .name(name)
            .spawn(|| worker.run())
        {
            Ok(thread) => Some(thread),
            Err(error) => {
                let (cause, message) = (LossCause::Other, format!("no thread: {error}"));
                shared.board.lock().state = State::Failed {
                    cause,
                    message: message.clone(),
                };
                shared.hub.finish(Outcome::Failed { cause, message });
                None
            }
        };
        SourceHandle {
            shown,
            shared,
            thread,
        }
    }
}

struct Shared {
    hub: Arc<Hub>,
    board: Mutex<Board>,
}

/// What status answers are made of.
struct Board {
    state: State,
    since: Wall,
    blind: Option<Blindness>,
    size: Option<[u32; 2]>,
    nominal_fps: Option<f64>,
    counters: SourceCounters,
    meter: Meter,
    notices_lost: u64,
}

/// A running source. Dropping it stops it.
pub struct SourceHandle {
    shown: SourceSpec,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for SourceHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SourceHandle")
            .field("spec", &self.shown)
            .finish_non_exhaustive()
    }
}

impl SourceHandle {
    /// Subscribes to the frames. The first subscriber opens the source; when the last one leaves it is closed, and the
    /// next one starts a recording from its beginning.
    #[must_use]
    pub fn subscribe(&self) -> FrameReceiver {
        self.shared.hub.subscribe()
    }

    /// What was asked for, credentials replaced by `***`.
    #[must_use]
    pub fn spec(&self) -> &SourceSpec {
        &self.shown
    }

    /// How the source is doing.
    #[must_use]
    pub fn status(&self) -> SourceStatus {
        let now = Instant::now();
        let board = self.shared.board.lock();
        let state = match &board.state {
            State::Idle => SourceState::Idle,
            State::Connecting { attempt, .. } | State::Opening { attempt, .. } => {
                SourceState::Connecting { attempt: *attempt }
            }
            State::Live { .. } => SourceState::Live { blind: board.blind },
            State::Waiting {
                until,
                cause,
                message,
                ..
            } => SourceState::Lost {
                cause: *cause,
                message: message.clone(),
                retry_in_s: until.saturating_duration_since(now).as_secs_f64(),
            },
            State::Ended => SourceState::Ended,
            State::Failed { cause, message } => SourceState::Failed {
                cause: *cause,
                message: message.clone(),
            },
        };
        SourceStatus {
            spec: self.shown.clone(),
            state,
            since: board.since,
            size: board.size,
            nominal_fps: board.nominal_fps,
            counters: SourceCounters {
                fps: board.meter.fps(now),
                ..board.counters
            },
        }
    }

    /// Notices that were lost because nobody took them from the channel.
    #[must_use]
    pub fn notices_lost(&self) -> u64 {
        self.shared.board.lock().notices_lost
    }
}

impl Drop for SourceHandle {
    fn drop(&mut self) {
        self.shared.hub.close();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!(source = %self.shown.id, "the source's thread had panicked");
        }
    }
}

/// The source's thread.
struct Worker {
    spec: SourceSpec,
    deps: Deps,
    shared: Arc<Shared>,
    address: Result<Address, Broken>,
    redactor: Redactor,
    supervisor: Supervisor,
    feed: Option<Box<dyn Feed>>,
    timeline: Timeline,
    limiter: Option<Limiter>,
    blind: BlindWatch,
    seq: u64,
}

impl Worker {
    fn new(spec: SourceSpec, deps: Deps, shared: Arc<Shared>) -> Self {
        let address = Address::parse(&spec.uri).map_err(|error| Broken {
            cause: LossCause::Other,
            message: error.to_string(),
            heals: false,
        });
        let redactor = address
            .as_ref()
            .map_or_else(|_| Redactor::default(), Address::redactor);
        Self {
            supervisor: Supervisor::new(deps.deadlines, deps.back_off, deps.seed),
            limiter: Limiter::new(spec.max_fps),
            redactor,
            address,
            feed: None,
            timeline: Timeline::default(),
            blind: BlindWatch::default(),
            seq: 0,
            spec,
            deps,
            shared,
        }
    }

    fn run(mut self) {
        let hub = self.shared.hub.clone();
        let mut seen = Demand {
            wanted: false,
            left: 0,
            closed: false,
        };
        loop {
            let demand = hub.demand();
            if demand.closed {
                return;
            }
            if demand != seen {
                // Somebody left and somebody came in between: that is a new beginning.
                if demand.left != seen.left {
                    self.input(Input::Wanted(false));
                }
                self.input(Input::Wanted(demand.wanted));
                seen = demand;
            }
            self.supervisor.tick(Instant::now());
            self.act();
            let deadline = self.supervisor.deadline();
            match &mut self.feed {
                Some(feed) => {
                    let left =
                        deadline.map_or(SLICE, |d| d.saturating_duration_since(Instant::now()));
                    let step = feed.next(left.min(SLICE));
                    let recording = feed.is_recording();
                    self.step(step, recording);
                }
                None => hub.wait(seen, deadline),
            }
        }
    }

    fn input(&mut self, input: Input) {
        self.supervisor.handle(Instant::now(), input);
        self.act();
    }

    fn broken(&mut self, broken: Broken) {
        self.input(Input::Error {
            cause: broken.cause,
            message: self.redactor.text(&broken.message),
            heals: broken.heals,
        });
    }

    fn step(&mut self, step: Step, recording: bool) {
        match step {
            Step::Picture(raw) => self.picture(raw, recording),
            Step::Connected => self.input(Input::Connected),
            Step::Nothing => {}
            Step::End => self.input(Input::End { recording }),
            Step::Broken(broken) => self.broken(broken),
        }
    }

    /// Carries out what the supervisor decided, then shows the new state.
    fn act(&mut self) {
        while let Some(action) = self.supervisor.poll() {
            let source = self.spec.id.clone();
            match action {
                Action::Open { attempt } => {
                    tracing::debug!(%source, attempt, uri = %redact::uri(&self.spec.uri), "opening");
                    self.timeline.reconnect();
                    match self.open() {
                        Ok(feed) => self.feed = Some(feed),
                        Err(broken) => {
                            let input = Input::Error {
                                cause: broken.cause,
                                message: self.redactor.text(&broken.message),
                                heals: broken.heals,
                            };
                            self.supervisor.handle(Instant::now(), input);
                        }
                    }
                }
                Action::Close => {
                    self.feed = None;
                    self.blind = BlindWatch::default();
                    self.shared.board.lock().blind = None;
                }
                Action::Live => {
                    tracing::info!(%source, "live");
                    self.shared.board.lock().counters.connects += 1;
                }
                Action::Lost { cause, message } => {
                    tracing::warn!(%source, ?cause, message, "lost");
                    self.shared.board.lock().counters.losses += 1;
                    let at = (self.deps.wall)();
                    self.notice(SourceNotice::Lost { cause, message, at });
                }
                Action::Back { lasted } => {
                    tracing::info!(%source, lasted_s = lasted.as_secs_f64(), "back");
                    let at = (self.deps.wall)();
                    self.notice(SourceNotice::Back { lasted, at });
                }
                Action::Ended => {
                    tracing::info!(%source, frames = self.seq, "ended");
                    self.shared.hub.finish(Outcome::Ended);
                }
                Action::Failed { cause, message } => {
                    tracing::error!(%source, ?cause, message, "failed");
                    self.shared.hub.finish(Outcome::Failed { cause, message });
                }
            }
        }
        let mut board = self.shared.board.lock();
        let state = self.supervisor.state();
        if std::mem::discriminant(&board.state) != std::mem::discriminant(state) {
            board.since = (self.deps.wall)();
        }
        if board.state != *state {
            board.state = state.clone();
        }
    }

    fn notice(&mut self, notice: SourceNotice) {
        let Some(notices) = &self.deps.notices else {
            return;
        };
        if notices.try_send((self.spec.id.clone(), notice)).is_err() {
            tracing::warn!(source = %self.spec.id, "notice lost, nobody takes them");
            self.shared.board.lock().notices_lost += 1;
        }
    }

    fn open(&self) -> Result<Box<dyn Feed>, Broken> {
        let address = self.address.as_ref().map_err(Clone::clone)?;
        let native_pace = self.spec.pace == Pace::Native;
        let paced = |feed: Box<dyn Feed>| -> Box<dyn Feed> {
            if native_pace {
                Box::new(Paced::new(feed))
            } else {
                feed
            }
        };
        let origin = match address {
            Address::Demo(options) => return Ok(paced(Box::new(DemoFeed::new(options)))),
            Address::Path(path) => {
                let metadata = std::fs::metadata(path);
                let metadata = metadata.map_err(|e| super::cause::of_path(path, &e))?;
                if metadata.is_dir() || stills::is_picture(path) {
                    return Ok(paced(Box::new(Stills::open(path)?)));
                }
                // Opened here once because the operating system's error is exact and the element's is not.
                std::fs::File::open(path).map_err(|e| super::cause::of_path(path, &e))?;
                Origin::File { path, native_pace }
            }
            Address::Rtsp { url, credentials } => Origin::Rtsp {
                url,
                credentials: credentials.as_ref(),
                transport: self.spec.rtsp_transport,
            },
            Address::Http { url, credentials } => Origin::Http {
                url,
                credentials: credentials.as_ref(),
                native_pace,
            },
            Address::V4l2 { device, size, fps } => {
                std::fs::metadata(device).map_err(|e| Broken {
                    heals: true,
                    ..super::cause::of_path(device, &e)
                })?;
                Origin::V4l2 {
                    device,
                    size: *size,
                    fps: *fps,
                }
            }
        };
        Ok(Box::new(GstFeed::open(&origin)?))
    }

    fn picture(&mut self, raw: Raw, recording: bool) {
        let arrived = Instant::now();
        self.seq += 1;
        let fps = raw.fps;
        let interval = fps.map(|fps| Duration::from_secs_f64(1.0 / fps));
        let pts = self.timeline.next(raw.pts, interval, arrived, recording);
        self.input(Input::Frame);
        {
            let mut board = self.shared.board.lock();
            board.counters.frames += 1;
            board.meter.count(arrived);
            board.size = Some([raw.picture.width, raw.picture.height]);
            board.nominal_fps = fps;
        }
        // The time of a recording is its own, also for what its pictures show.
        if let Some(change) = self.blind.observe(pts, &raw.picture) {
            self.tell_blind(change);
        }
        if self
            .limiter
            .as_mut()
            .is_none_or(|limiter| limiter.admit(pts))
        {
            let frame = Frame {
                id: FrameId {
                    source: self.spec.id.clone(),
                    seq: self.seq,
                },
                pts,
                arrived,
                wall: (self.deps.wall)(),
                fps,
                recorded: recording,
                picture: raw.picture,
            };
            let policy = if recording && self.spec.pace == Pace::Fast {
                Policy::Lossless
            } else {
                Policy::Newest
            };
            let dropped = self.shared.hub.deliver(&frame, policy);
            if dropped > 0 {
                self.shared.board.lock().counters.dropped += dropped;
            }
        }
        // Once more after delivery: time spent waiting for a slow subscriber is not a stall of the source.
        self.input(Input::Frame);
    }

    fn tell_blind(&mut self, change: BlindChange) {
        let (at, source) = ((self.deps.wall)(), &self.spec.id);
        match change {
            BlindChange::Blind(kind) => {
                tracing::warn!(%source, ?kind, "the picture shows nothing");
                self.shared.board.lock().blind = Some(kind);
                self.notice(SourceNotice::Blind { kind, at });
            }
            BlindChange::Seeing { lasted } => {
                tracing::info!(%source, lasted_s = lasted.as_secs_f64(), "the picture is useful again");
                self.shared.board.lock().blind = None;
                self.notice(SourceNotice::Seeing { lasted, at });
            }
        }
    }
}

#[cfg(test)]
mod tests;
