//! The thread of a source.
//!
//! - A thin shell around [`Supervisor`]: opens and closes feeds, stamps frames and delivers them.
//! - The status shows what the supervisor decided.

mod blindness;
mod losses;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use watchkeeper_contract::source::{LossCause, Pace, SourceSpec};
use watchkeeper_vision::frame::{Frame, FrameId};

use self::losses::CountedLosses;
use super::shared::{Deps, LeftOut, Shared};
use crate::capture::address::Address;
use crate::capture::blind::BlindWatch;
use crate::capture::cause;
use crate::capture::controls;
use crate::capture::demo::DemoFeed;
use crate::capture::feed::{Feed, FeedError, Paced, Raw, Step};
use crate::capture::gst::{GstFeed, Origin, Request, check_decoder};
use crate::capture::mailbox::{Demand, Outcome, Policy};
use crate::capture::notices::SourceNotice;
use crate::capture::privacy::Masker;
use crate::capture::rate::Limiter;
use crate::capture::redact::{self, Redactor};
use crate::capture::stills::{self, Stills};
use crate::capture::supervise::{Action, DEFAULT_STALL, Input, State, Supervisor};
use crate::capture::timeline::Timeline;
use crate::thread::panic_message;

/// Max sleep of the thread while a feed is open, so that it notices a close soon.
const MAX_SLEEP: Duration = Duration::from_millis(50);

/// Returns the longest time without a picture, if the spec sets it.
fn max_silence(spec: &SourceSpec) -> Option<Duration> {
    spec.stall_s
        .and_then(|s| Duration::try_from_secs_f64(s).ok())
}

/// State of the source's thread.
pub(super) struct Worker {
    spec: SourceSpec,
    deps: Deps,
    shared: Arc<Shared>,
    address: Result<Address, FeedError>,
    redactor: Redactor,
    supervisor: Supervisor,
    feed: Option<Box<dyn Feed>>,
    timeline: Timeline,
    limiter: Option<Limiter>,
    blind: BlindWatch,
    /// When it was published what is known of the view.
    view_published: Instant,
    masker: Masker,
    /// Why hardware decodes no longer.
    decoder_failure: Option<String>,
    /// Whether the status has the decoder of the open feed.
    has_decoder: bool,
    losses: CountedLosses,
    /// Why the processor decodes, as it was last reported.
    reported_fallback: Option<String>,
    seq: u64,
    /// Demand at the last turn.
    seen: Demand,
    /// The source closed while blind, and no notice ended the blindness.
    closed_blind: bool,
}

impl Worker {
    pub(super) fn new(spec: SourceSpec, mut deps: Deps, shared: Arc<Shared>) -> Self {
        let address = Address::parse(&spec.uri).map_err(|error| FeedError {
            cause: LossCause::Other,
            message: error.to_string(),
            is_retryable: false,
        });
        let redactor = address
            .as_ref()
            .map_or_else(|_| Redactor::default(), Address::redactor);
        let deadlines =
            max_silence(&spec).map_or(deps.deadlines, |stall| deps.deadlines.with_stall(stall));
        Self {
            supervisor: Supervisor::new(deadlines, deps.back_off, deps.seed),
            limiter: Limiter::new(spec.max_fps),
            redactor,
            address,
            feed: None,
            timeline: Timeline::default(),
            blind: BlindWatch::new(spec.fixed_view, deps.known_view.take()),
            view_published: Instant::now(),
            masker: Masker::new(deps.privacy.clone()),
            decoder_failure: None,
            has_decoder: false,
            losses: CountedLosses::default(),
            reported_fallback: None,
            seq: 0,
            seen: Demand {
                wanted: false,
                departures: 0,
                closed: false,
            },
            closed_blind: false,
            spec,
            deps,
            shared,
        }
    }

    /// Runs until the source is closed.
    ///
    /// A panic ends this source alone, with a notice. It restarts with its pipelines.
    pub(super) fn run(mut self) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.run_loop())) {
            let reason = panic_message(&*panic);
            let message = format!(
                "an internal error ended this source ({reason}); please report it with the log"
            );
            self.shared.give_up(&self.spec.id, &self.deps, message);
        }
    }

    /// Adds what the feed lost since the last call to the counters, if that is due.
    fn count_losses(&mut self) {
        if self.losses.is_due() {
            self.add_losses();
        }
    }

    /// Adds what the feed lost in its last moments; the next feed counts from zero.
    fn finish_losses(&mut self) {
        self.add_losses();
        self.losses = CountedLosses::default();
    }

    fn add_losses(&mut self) {
        let Some(feed) = &self.feed else { return };
        let new = self.losses.advance(feed.losses());
        let mut board = self.shared.board.lock();
        let counters = &mut board.counters;
        counters.lost_packets += new.packets;
        counters.undecoded += new.undecoded;
        counters.frames += new.replaced;
        counters.dropped += new.replaced;
    }

    fn run_loop(&mut self) {
        let hub = self.shared.hub.clone();
        loop {
            let demand = hub.demand();
            if demand.closed {
                return;
            }
            let seen = std::mem::replace(&mut self.seen, demand);
            if demand != seen {
                // The last subscriber left and another one came: that is a new start.
                if demand.departures != seen.departures {
                    self.handle_input(Input::Wanted(false));
                    self.end_blindness();
                }
                self.handle_input(Input::Wanted(demand.wanted));
            }
            self.pass_time(Instant::now());
            self.execute_actions();
            let deadline = self.supervisor.deadline();
            match &mut self.feed {
                Some(feed) => {
                    let wait =
                        deadline.map_or(MAX_SLEEP, |d| d.saturating_duration_since(Instant::now()));
                    let step = feed.next(wait.min(MAX_SLEEP));
                    let recording = feed.is_recording();
                    self.handle_step(step, recording);
                    self.count_losses();
                }
                None => hub.wait(self.seen, deadline),
            }
        }
    }

    /// Applies the passage of time. A hardware decoder that gave no picture until the deadline is
    /// the cause, not the camera. A file is not a camera that could be off.
    fn pass_time(&mut self, now: Instant) {
        let is_late = match self.supervisor.state() {
            State::Connecting { until, .. }
            | State::Opening { until, .. }
            | State::Live { until, .. } => now >= *until,
            _ => false,
        };
        let feed = self.feed.as_ref().filter(|_| is_late);
        match feed.and_then(|feed| feed.silent_decoder()) {
            Some(error) => self.handle_decoder_failure(error),
            None => match (self.supervisor.state(), &self.address) {
                (State::Connecting { .. } | State::Opening { .. }, Ok(Address::Path(path)))
                    if is_late =>
                {
                    let error = cause::from_slow_file(path);
                    self.handle_input(self.error_input(error));
                }
                _ => self.supervisor.tick(now),
            },
        }
    }

    /// Ends the feed; the next one decodes on the processor.
    fn handle_decoder_failure(&mut self, error: FeedError) {
        self.decoder_failure = Some(self.redactor.text(&error.message));
        self.handle_input(self.error_input(error));
    }

    fn handle_input(&mut self, input: Input) {
        self.supervisor.handle(Instant::now(), input);
        self.execute_actions();
    }

    fn error_input(&self, error: FeedError) -> Input {
        Input::Error {
            cause: error.cause,
            message: self.redactor.text(&error.message),
            is_retryable: error.is_retryable,
        }
    }

    fn handle_step(&mut self, step: Step, recording: bool) {
        match step {
            Step::Picture(raw) => self.handle_picture(raw, recording),
            Step::Connected => self.handle_input(Input::Connected),
            Step::Nothing => {}
            Step::End => self.handle_input(Input::End { recording }),
            Step::Broken(error) => self.handle_input(self.error_input(error)),
            Step::LeftOut(error) => {
                let message = self.redactor.text(&error.message);
                tracing::warn!(source = %self.spec.id, why = message, "the recording is incomplete");
                self.shared.board.lock().left_out.add(message);
            }
            Step::DecoderFailed(error) => self.handle_decoder_failure(error),
        }
    }

    /// Executes the supervisor's actions, then updates the status.
    fn execute_actions(&mut self) {
        while let Some(action) = self.supervisor.poll() {
            let source = self.spec.id.clone();
            match action {
                Action::Open { attempt } => self.open(attempt),
                Action::Close => {
                    self.finish_losses();
                    self.feed = None;
                    self.blind.restart();
                    self.closed_blind |= self.shared.board.lock().blind.take().is_some();
                    self.shared.hub.set_blind(None);
                }
                Action::Live => {
                    tracing::info!(%source, "live");
                    self.shared.board.lock().counters.connects += 1;
                }
                Action::Lost { cause, message } => {
                    tracing::warn!(%source, ?cause, message, "lost");
                    let mut board = self.shared.board.lock();
                    board.counters.losses += u64::from(board.lost.is_none());
                    drop(board);
                    // The loss is an outage of its own.
                    self.end_blindness();
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
                    self.shared.hub.finish(Outcome::Ended, self.seen.departures);
                    self.end_blindness();
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
                    self.shared.hub.finish(outcome, self.seen.departures);
                }
                Action::Forgotten => {
                    let at = (self.deps.wall)();
                    self.notice(SourceNotice::Forgotten { at });
                }
            }
        }
        self.update_status();
    }

    fn open(&mut self, attempt: u32) {
        let (source, uri) = (&self.spec.id, redact::uri(&self.spec.uri));
        tracing::debug!(%source, attempt, %uri, "opening");
        self.timeline.reconnect();
        if let Some(packets) = &self.shared.hub.packets {
            packets.begin_session();
        }
        self.has_decoder = false;
        self.shared.board.lock().left_out = LeftOut::default();
        // Opening may take long or hang; the status shows the attempt meanwhile.
        self.update_status();
        match self.check_decoder().and_then(|()| self.open_feed()) {
            Ok(feed) => self.feed = Some(feed),
            Err(error) => {
                let input = self.error_input(error);
                self.supervisor.handle(Instant::now(), input);
            }
        }
    }

    /// Copies the supervisor's state to the status.
    fn update_status(&self) {
        let mut board = self.shared.board.lock();
        let state = self.supervisor.state();
        let was_lost = board.lost.is_some();
        board.lost = match state {
            State::Waiting { cause, message, .. } => Some((*cause, message.clone())),
            // An attempt is no news: it would look like a recovery and a new loss each time.
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

    fn notice(&self, notice: SourceNotice) {
        self.deps.notify(&self.spec.id, notice);
    }

    /// Slows a feed down, if the specification asks for it.
    fn paced(&self, feed: Box<dyn Feed>) -> Box<dyn Feed> {
        match self.spec.pace {
            Pace::Native => Box::new(Paced::new(feed)),
            Pace::Fast => feed,
        }
    }

    fn check_decoder(&self) -> Result<(), FeedError> {
        check_decoder(self.spec.decoder).map_err(|message| FeedError {
            cause: LossCause::Codec,
            message,
            is_retryable: false,
        })
    }

    fn open_feed(&self) -> Result<Box<dyn Feed>, FeedError> {
        let address = self.address.as_ref().map_err(Clone::clone)?;
        let native_pace = self.spec.pace == Pace::Native;
        let silence = max_silence(&self.spec).unwrap_or(DEFAULT_STALL);
        let origin = match address {
            Address::Demo(options) => return Ok(self.paced(Box::new(DemoFeed::new(options)))),
            Address::Path(path) => {
                let metadata = std::fs::metadata(path);
                let metadata = metadata.map_err(|e| cause::from_path(path, &e))?;
                if metadata.is_dir() || stills::is_picture(path) {
                    return Ok(self.paced(Box::new(Stills::open(path)?)));
                }
                // Opened once here because the error of the operating system is more exact.
                let file = std::fs::File::open(path).map_err(|e| cause::from_path(path, &e))?;
                stills::refuse_gif(path, file)?;
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
                std::fs::metadata(device).map_err(|e| FeedError {
                    is_retryable: true,
                    ..cause::from_path(device, &e)
                })?;
                controls::apply(device, &self.spec.controls)?;
                Origin::V4l2 {
                    device,
                    size: *size,
                    fps: *fps,
                    max_fps: self.spec.max_fps,
                }
            }
            Address::Csi { sensor, size, fps } => Origin::Csi {
                sensor: *sensor,
                size: *size,
                fps: *fps,
            },
        };
        let request = Request {
            origin,
            decoder: self.spec.decoder,
            scale: self.spec.scale,
            failure: self.decoder_failure.as_deref(),
        };
        let packets = self.shared.hub.packets.clone();
        Ok(Box::new(GstFeed::open(&request, packets)?))
    }

    fn handle_picture(&mut self, raw: Raw, recording: bool) {
        let arrived = Instant::now();
        self.seq += 1;
        let (fps, is_damaged) = (raw.fps, raw.is_damaged);
        let picture = self.masker.mask(raw.picture);
        let interval = fps.map(|fps| Duration::from_secs_f64(1.0 / fps));
        let pts = self.timeline.next(raw.pts, interval, arrived, recording);
        if let (Some(packets), Some(raw)) = (&self.shared.hub.packets, raw.pts) {
            packets.align(raw, pts);
        }
        // Before the notice of a return, which must not give its place to this one.
        self.report_decoder();
        self.handle_input(Input::Frame { recording });
        {
            let mut board = self.shared.board.lock();
            board.counters.frames += 1;
            board.meter.count(arrived);
            board.size = Some([picture.width, picture.height]);
            board.nominal_fps = fps;
            board.counters.time_jumps = self.timeline.jumps();
        }
        // A blind camera is an outage; a blind recording was recorded that way, unless its native
        // pace makes it stand in for a camera.
        let played_fast = recording && self.spec.pace == Pace::Fast;
        if !played_fast {
            self.watch_for_blindness(pts, &picture);
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
                is_damaged,
                picture,
            };
            let policy = if played_fast {
                Policy::Lossless
            } else {
                Policy::Newest
            };
            let dropped = self
                .shared
                .hub
                .deliver(&frame, policy, self.seen.departures);
            if dropped > 0 {
                self.shared.board.lock().counters.dropped += dropped;
            }
        }
        // Again after delivery: waiting for a slow subscriber is not a stall of the source.
        self.handle_input(Input::Frame { recording });
    }

    /// Copies the decoder of a new feed to the status.
    fn report_decoder(&mut self) {
        if std::mem::replace(&mut self.has_decoder, true) {
            return;
        }
        let decoder = self.feed.as_ref().and_then(|feed| feed.decoder());
        let fallback = decoder.as_ref().and_then(|decoder| {
            let why = decoder.fallback.clone()?;
            Some((decoder.element.clone(), why))
        });
        if let Some((element, why)) = fallback
            && self.reported_fallback.as_ref() != Some(&why)
        {
            tracing::warn!(source = %self.spec.id, why, "decoded on the processor");
            self.reported_fallback = Some(why.clone());
            let at = (self.deps.wall)();
            self.notice(SourceNotice::DecoderFallback { element, why, at });
        }
        self.shared.board.lock().decoder = decoder;
    }
}
