//! The thread of a source.
//!
//! A thin shell: it asks the [`Supervisor`] what to do, opens and closes feeds, stamps frames and hands them to the
//! subscribers. Invariant: what the status shows was decided by the supervisor.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use watchkeeper_contract::source::{LossCause, Pace, SourceSpec};
use watchkeeper_vision::frame::{Frame, FrameId};

use super::shared::{Deps, Shared};
use crate::capture::address::Address;
use crate::capture::animation::{self, Animation};
use crate::capture::blind::{BlindChange, BlindWatch};
use crate::capture::cause;
use crate::capture::demo::DemoFeed;
use crate::capture::feed::{Broken, Feed, Paced, Raw, Step};
use crate::capture::gst::{GstFeed, Origin};
use crate::capture::mailbox::{Demand, Outcome, Policy};
use crate::capture::notices::SourceNotice;
use crate::capture::rate::Limiter;
use crate::capture::redact::{self, Redactor};
use crate::capture::stills::{self, Stills};
use crate::capture::supervise::{Action, DEFAULT_STALL, Input, State, Supervisor};
use crate::capture::timeline::Timeline;
use crate::thread::panic_message;

/// Longest sleep of a source's thread while something is open, so that it notices closing soon.
const SLICE: Duration = Duration::from_millis(50);

/// How long the source may go without a picture, where its specification says so.
fn stall(spec: &SourceSpec) -> Option<Duration> {
    spec.stall_s
        .and_then(|s| Duration::try_from_secs_f64(s).ok())
}

/// The source's thread.
pub(super) struct Worker {
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
    /// The demand that was acted upon last.
    seen: Demand,
    /// The picture showed nothing when the source was closed, and nobody was told that this is over.
    left_blind: bool,
}

impl Worker {
    pub(super) fn new(spec: SourceSpec, deps: Deps, shared: Arc<Shared>) -> Self {
        let address = Address::parse(&spec.uri).map_err(|error| Broken {
            cause: LossCause::Other,
            message: error.to_string(),
            heals: false,
        });
        let redactor = address
            .as_ref()
            .map_or_else(|_| Redactor::default(), Address::redactor);
        let deadlines =
            stall(&spec).map_or(deps.deadlines, |stall| deps.deadlines.with_stall(stall));
        Self {
            supervisor: Supervisor::new(deadlines, deps.back_off, deps.seed),
            limiter: Limiter::new(spec.max_fps),
            redactor,
            address,
            feed: None,
            timeline: Timeline::default(),
            blind: BlindWatch::default(),
            seq: 0,
            seen: Demand {
                wanted: false,
                left: 0,
                closed: false,
            },
            left_blind: false,
            spec,
            deps,
            shared,
        }
    }

    /// Runs until the source is closed. A fault of ours ends this source, says so, and touches no other; it is begun anew with the pipelines that watch it.
    pub(super) fn run(mut self) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.turns())) {
            let said = panic_message(&*panic);
            let message = format!("a fault of ours ended this source ({said}); report the log");
            self.shared.give_up(&self.spec.id, &self.deps, message);
        }
    }

    fn turns(&mut self) {
        let hub = self.shared.hub.clone();
        loop {
            let demand = hub.demand();
            if demand.closed {
                return;
            }
            let seen = std::mem::replace(&mut self.seen, demand);
            if demand != seen {
                // Somebody left and somebody came in between: that is a new beginning.
                if demand.left != seen.left {
                    self.input(Input::Wanted(false));
                    self.forget_blindness();
                }
                self.input(Input::Wanted(demand.wanted));
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
                None => hub.wait(self.seen, deadline),
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
                    // Opening may take long, or hang: until then the status says what is being tried.
                    self.show();
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
                    self.left_blind |= self.shared.board.lock().blind.take().is_some();
                }
                Action::Live => {
                    tracing::info!(%source, "live");
                    self.shared.board.lock().counters.connects += 1;
                }
                Action::Lost { cause, message } => {
                    tracing::warn!(%source, ?cause, message, "lost");
                    self.shared.board.lock().counters.losses += 1;
                    // From here on it is the loss that ends.
                    self.left_blind = false;
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
                    self.shared.hub.finish(Outcome::Ended, self.seen.left);
                    self.forget_blindness();
                }
                Action::Failed { cause, message } => {
                    tracing::error!(%source, ?cause, message, "failed");
                    let at = (self.deps.wall)();
                    self.notice(SourceNotice::Lost {
                        cause,
                        message: message.clone(),
                        at,
                    });
                    let outcome = Outcome::Failed { cause, message };
                    self.shared.hub.finish(outcome, self.seen.left);
                }
                Action::Forgotten => {
                    let at = (self.deps.wall)();
                    self.notice(SourceNotice::Forgotten { at });
                }
            }
        }
        self.show();
    }

    /// Shows the state that the supervisor is in.
    fn show(&self) {
        let mut board = self.shared.board.lock();
        let state = self.supervisor.state();
        let was_lost = board.lost.is_some();
        board.lost = match state {
            State::Waiting { cause, message, .. } => Some((*cause, message.clone())),
            // An attempt is no news: whoever is told would hear of a recovery and a new loss with each.
            State::Connecting { .. } | State::Opening { .. } => board.lost.take(),
            State::Idle | State::Live { .. } | State::Ended | State::Failed { .. } => None,
        };
        let is_still_lost = was_lost && board.lost.is_some();
        if !is_still_lost && std::mem::discriminant(&board.state) != std::mem::discriminant(state) {
            board.since = (self.deps.wall)();
        }
        if board.state != *state {
            board.state = state.clone();
        }
    }

    /// Nobody looks any more, so nobody can say when the picture became useful again.
    fn forget_blindness(&mut self) {
        if std::mem::take(&mut self.left_blind) {
            let at = (self.deps.wall)();
            self.notice(SourceNotice::Forgotten { at });
        }
    }

    fn notice(&self, notice: SourceNotice) {
        self.deps.notify(&self.spec.id, notice);
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
        let silence = stall(&self.spec).unwrap_or(DEFAULT_STALL);
        let origin = match address {
            Address::Demo(options) => return Ok(paced(Box::new(DemoFeed::new(options)))),
            Address::Path(path) => {
                let metadata = std::fs::metadata(path);
                let metadata = metadata.map_err(|e| cause::of_path(path, &e))?;
                if metadata.is_dir() || stills::is_picture(path) {
                    return Ok(paced(Box::new(Stills::open(path)?)));
                }
                if animation::is_animation(path) {
                    return Ok(paced(Box::new(Animation::open(path)?)));
                }
                // Opened here once because the operating system's error is exact and the element's is not.
                std::fs::File::open(path).map_err(|e| cause::of_path(path, &e))?;
                Origin::File { path, native_pace }
            }
            Address::Rtsp { url, credentials } => Origin::Rtsp {
                url,
                credentials: credentials.as_ref(),
                transport: self.spec.rtsp_transport,
                tls_verify: self.spec.tls_verify,
                silence,
            },
            Address::Http { url, credentials } => Origin::Http {
                url,
                credentials: credentials.as_ref(),
                native_pace,
                tls_verify: self.spec.tls_verify,
                silence,
            },
            Address::V4l2 { device, size, fps } => {
                std::fs::metadata(device).map_err(|e| Broken {
                    heals: true,
                    ..cause::of_path(device, &e)
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
        self.input(Input::Frame { recording });
        {
            let mut board = self.shared.board.lock();
            board.counters.frames += 1;
            board.meter.count(arrived);
            board.size = Some([raw.picture.width, raw.picture.height]);
            board.nominal_fps = fps;
            board.counters.time_jumps = self.timeline.jumps();
        }
        // A camera that shows nothing is an outage; a recording that shows nothing is what was recorded. Played at its
        // own pace it stands in for a camera.
        let played_fast = recording && self.spec.pace == Pace::Fast;
        if !played_fast && let Some(change) = self.blind.observe(pts, &raw.picture) {
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
            let policy = if played_fast {
                Policy::Lossless
            } else {
                Policy::Newest
            };
            let dropped = self.shared.hub.deliver(&frame, policy, self.seen.left);
            if dropped > 0 {
                self.shared.board.lock().counters.dropped += dropped;
            }
        }
        // Once more after delivery: time spent waiting for a slow subscriber is not a stall of the source.
        self.input(Input::Frame { recording });
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
