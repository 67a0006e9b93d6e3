//! The thread of a pipeline: takes frames and publishes results until it ends.
//!
//! - Checkpoints are saved before visits and events end, so that the next process resumes them.
//! - After a panic only the elapsed time is saved: the rest may contain the cause.
//! - `Ended` is set after the last events are durable; otherwise the state is `Failed`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use watchkeeper_contract::coverage::SpanEnd;
use watchkeeper_contract::id::EventId;
use watchkeeper_contract::pipeline::{PipelineSpec, PipelineState};
use watchkeeper_engine::rules::FinishReason;

use super::preview_window::PreviewWindow;
use super::services::Services;
use super::shown_frames::ShownFrames;
use super::status::{DesiredState, Published, Shared, is_held};
use super::step_failures::StepFailures;
use super::thread_end::ThreadEnd;
use crate::capture::mailbox::{FrameReceiver, Recv};
use crate::coverage::CoverageRecorder;
use crate::media::video::VideoWriter;
use crate::pipeline::checkpoint::{CheckpointData, Checkpointer};
use crate::pipeline::clips::Clips;
use crate::pipeline::recorder::FlushResult;
use crate::pipeline::retention::recordings::Recording;
use crate::pipeline::run::Run;
use crate::thread::panic_message;

/// Longest wait for a frame before the desired state is checked again.
pub(super) const FRAME_TIMEOUT: Duration = Duration::from_millis(250);

/// Longest absence of a source while it is replaced.
const MAX_SOURCE_ABSENCE: Duration = Duration::from_secs(30);

/// Longest wait of a stopped pipeline for its last events to be durable.
const FINAL_FLUSH_TIMEOUT: Duration = Duration::from_secs(8);

/// Interval of the warning that the last events are not durable yet.
const FLUSH_WARNING_INTERVAL: Duration = Duration::from_secs(30);

/// Interval of publishing results, which allocates.
pub(crate) const PUBLISH_INTERVAL: Duration = Duration::from_millis(100);

/// The state of a pipeline that ended before its last events were durable.
const NOT_STORED: &str =
    "the pipeline has ended before its last events were stored; see the health of the runtime";

/// When something happened.
#[derive(Debug, Clone, Copy)]
pub(super) struct FrameMoment {
    /// Source time of the frame.
    pub(super) at: Duration,
    /// Whether a camera shows it now.
    pub(super) is_live: bool,
}

pub(super) struct WorkerThread {
    pub(super) spec: PipelineSpec,
    pub(super) shared: Arc<Shared>,
    pub(super) run: Run,
    pub(super) shown_frames: ShownFrames,
    pub(super) checkpointer: Checkpointer,
    pub(super) coverage: CoverageRecorder,
    /// Version of the answers that calibrate the rules, and since when they count.
    calibrated: Option<(u64, i64)>,
    /// When results were last published.
    published: Option<Instant>,
    pub(super) services: Services,
    pub(super) video: Option<VideoWriter>,
    /// Clips of its events, if a rule wants them.
    pub(super) clips: Option<Clips>,
    pub(super) window: PreviewWindow,
    pub(super) failures: StepFailures,
    /// Destination of the parts of the annotated video; each pause ends one.
    pub(super) recording: Option<Recording>,
}

impl WorkerThread {
    pub(super) fn new(
        spec: PipelineSpec,
        shared: Arc<Shared>,
        run: Run,
        checkpointer: Checkpointer,
        recording: Option<Recording>,
        services: Services,
    ) -> Self {
        let ledger = Arc::clone(&services.coverage);
        let coverage = CoverageRecorder::new(ledger, run.watched().clone());
        let window = PreviewWindow::new(spec.id.clone(), spec.show, Arc::clone(&shared.window));
        let clips = run.pre_roll_s().map(|pre_roll_s| {
            let (media, recorder) = (Arc::clone(&services.media), services.recorder.clone());
            let metrics = Arc::clone(&services.metrics);
            let rules = spec.rules.as_deref().unwrap_or_default();
            Clips::new(
                pre_roll_s,
                media,
                recorder,
                metrics,
                services.boot.started(),
            )
            .for_rules(rules)
        });
        Self {
            spec,
            shared,
            run,
            shown_frames: ShownFrames::default(),
            checkpointer,
            coverage,
            calibrated: None,
            published: None,
            services,
            video: None,
            clips,
            window,
            failures: StepFailures::default(),
            recording,
        }
    }

    /// Runs the pipeline; a panic ends it with a message and ends its events.
    pub(super) fn run_catching_panics(mut self) {
        let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.main())) else {
            return;
        };
        let why = format!(
            "an internal error ended this pipeline ({})",
            panic_message(&*panic)
        );
        self.mark_finished();
        // The saved state may contain the cause; the elapsed time can't.
        self.checkpointer.save_failed(self.run.elapsed());
        tracing::error!(pipeline = %self.spec.id, "an internal error ended the pipeline; other pipelines continue");
        let message = format!("{why}; please report it with the log");
        *self.shared.internal_error.lock() = Some(why);
        self.shared.set_state(PipelineState::Failed { message });
        // The run may be in any state. An event that does not end now is ended at the next start.
        let shut_down = || self.shut_down(FinishReason::InternalError, true);
        if catch_unwind(AssertUnwindSafe(shut_down)).is_err() {
            tracing::error!(pipeline = %self.spec.id, "could not end the events of the failed pipeline");
        }
    }

    fn main(&mut self) {
        let end = self.take_frames();
        self.coverage.close(end.span_end());
        match end {
            // Before visits and events end: the next process may resume them.
            ThreadEnd::Stopped => self.save_checkpoint(false),
            ThreadEnd::TimeOver => self.checkpointer.mark_finished(&self.spec),
            ThreadEnd::SourceEnded => self.checkpointer.remove(),
            // Without a frame, the earlier checkpoint stays valid.
            ThreadEnd::SourceFailed(_) if !self.run.has_seen() => {}
            ThreadEnd::SourceFailed(_) => self.checkpointer.save_failed(self.run.elapsed()),
        }
        let resumes = matches!(end, ThreadEnd::Stopped) && !self.run.plays_recording();
        let is_stored = self.shut_down(end.reason(), resumes);
        let state = match end {
            ThreadEnd::SourceFailed(message) => PipelineState::Failed { message },
            ThreadEnd::SourceEnded | ThreadEnd::TimeOver | ThreadEnd::Stopped if is_stored => {
                PipelineState::Ended
            }
            ThreadEnd::SourceEnded | ThreadEnd::TimeOver | ThreadEnd::Stopped => {
                PipelineState::Failed {
                    message: NOT_STORED.to_owned(),
                }
            }
        };
        tracing::info!(pipeline = %self.spec.id, ?state, "pipeline ended");
        self.shared.set_state(state);
    }

    /// Sets the desired state to finished: no frames are taken any more.
    fn mark_finished(&self) {
        let in_recording = self.run.plays_recording();
        let shared = &self.shared;
        shared.in_recording.store(in_recording, Ordering::Relaxed);
        let mut desired = shared.desired.lock();
        if *desired != DesiredState::Stop {
            *desired = DesiredState::Finished;
        }
    }

    /// Ends events, clips and the video. With `resumes`, lines decide nothing: another process may
    /// resume the saved state, unless the pipeline was deleted or replaced. Returns false when the
    /// last events are not stored yet, or lost.
    fn shut_down(&mut self, reason: FinishReason, resumes: bool) -> bool {
        self.mark_finished();
        let changes = if resumes {
            self.run.interrupt(reason, &mut EventId::generate)
        } else {
            self.run.finish(reason, &mut EventId::generate)
        };
        self.send_changes(changes, None);
        self.end_step_failures();
        if let Some(recording) = &mut self.recording {
            recording.clear_error();
        }
        self.finish_clips_and_video();
        self.publish();
        self.window.close();
        self.flush()
    }

    fn take_frames(&mut self) -> ThreadEnd {
        let mut gone_since = None;
        loop {
            match self.wait_while_paused() {
                DesiredState::Run => {}
                DesiredState::Pause => {
                    gone_since = None;
                    continue;
                }
                DesiredState::Stop | DesiredState::Finished => return ThreadEnd::Stopped,
            }
            let Some(receiver) = self.services.sources.subscribe(&self.spec.source) else {
                // A watched source can't be deleted, so a replacement is on its way.
                let since = *gone_since.get_or_insert_with(Instant::now);
                if since.elapsed() > MAX_SOURCE_ABSENCE {
                    let message = format!(
                        "its source {} no longer exists; add it again, or deploy the pipeline on \
                         another one",
                        self.spec.source
                    );
                    return ThreadEnd::SourceFailed(message);
                }
                std::thread::sleep(FRAME_TIMEOUT);
                continue;
            };
            gone_since = None;
            *self.shared.unsubscriber.lock() = Some(receiver.unsubscriber());
            let end = self.take_from(&receiver);
            drop(receiver);
            if let Some(end) = end {
                return end;
            }
            self.save_checkpoint(true);
            self.end_step_failures();
            self.finish_clips_and_video();
            if *self.shared.desired.lock() == DesiredState::Pause && !self.flush() {
                tracing::warn!(pipeline = %self.spec.id, "paused with events that are not durable");
            }
        }
    }

    /// Waits until all events are durable or another state is wanted. Returns false when they are
    /// not durable.
    fn flush(&self) -> bool {
        let desired = *self.shared.desired.lock();
        let (mut warned, mut stop_requested) = (Instant::now(), None);
        let recorder = &self.services.recorder;
        loop {
            match recorder.flush(Some(&self.spec.id), FRAME_TIMEOUT) {
                FlushResult::Durable => return true,
                FlushResult::NotYet => {}
                FlushResult::Lost => {
                    tracing::error!(pipeline = %self.spec.id, "the last events are lost");
                    return false;
                }
            }
            if warned.elapsed() >= FLUSH_WARNING_INTERVAL {
                warned = Instant::now();
                tracing::warn!(pipeline = %self.spec.id, "the last events are not durable yet");
            }
            let now = *self.shared.desired.lock();
            let gives_up = match now {
                DesiredState::Stop => {
                    let since = stop_requested.get_or_insert_with(Instant::now);
                    since.elapsed() >= FINAL_FLUSH_TIMEOUT
                }
                DesiredState::Run | DesiredState::Pause | DesiredState::Finished => now != desired,
            };
            if gives_up {
                return false;
            }
        }
    }

    /// Saves the state; `is_interim` unless the run ends with it.
    pub(super) fn save_checkpoint(&mut self, is_interim: bool) {
        let Some(run) = self.run.save() else {
            return;
        };
        let status = self.shared.status.lock();
        let data = CheckpointData {
            counting_since: status.counting_since,
            events: status.events,
            is_interim,
            incomplete_after: status.incomplete_after,
            run,
        };
        drop(status);
        self.checkpointer.save(data);
    }

    fn publish(&mut self) {
        *self.shared.published.lock() = Published::of(&self.run, self.recording.as_ref());
        self.published = Some(Instant::now());
    }

    pub(super) fn publish_when_due(&mut self) {
        if self
            .published
            .is_none_or(|at| at.elapsed() >= PUBLISH_INTERVAL)
        {
            self.publish();
        }
    }

    /// Waits while the pipeline is paused, and returns the desired state.
    fn wait_while_paused(&mut self) -> DesiredState {
        let shared = Arc::clone(&self.shared);
        let mut desired = shared.desired.lock();
        if is_held(&shared, *desired) {
            self.show_paused(match *desired {
                // Nobody asked for this pause.
                DesiredState::Run => SpanEnd::Heat,
                _ => SpanEnd::Paused,
            });
            let changed = &self.shared.desired_changed;
            changed.wait_while(&mut desired, |desired| is_held(&shared, *desired));
        }
        if *desired == DesiredState::Run {
            let is_new = self.shared.status.lock().first_frame.is_none();
            let state = if is_new {
                PipelineState::Starting
            } else {
                PipelineState::Running
            };
            self.shared.set_state(state);
        }
        *desired
    }

    /// Publishes the results so far and the state of a pipeline that takes no frames for now.
    pub(super) fn show_paused(&mut self, end: SpanEnd) {
        self.coverage.close(end);
        self.publish();
        self.shared.set_state(PipelineState::Paused);
    }

    /// Takes frames until another state is wanted; `Some` ends the pipeline.
    fn take_from(&mut self, receiver: &FrameReceiver) -> Option<ThreadEnd> {
        if let Some(clips) = &mut self.clips {
            clips.listen(receiver);
        }
        while self.takes_frames() {
            match receiver.recv(FRAME_TIMEOUT) {
                Recv::Frame(frame) => {
                    self.shared.status.lock().busy_since = Some(Instant::now());
                    let is_last = self.process_frame(&frame, receiver);
                    self.shared.status.lock().busy_since = None;
                    if is_last {
                        return Some(ThreadEnd::TimeOver);
                    }
                }
                Recv::Timeout => {
                    if let Some(clips) = &mut self.clips {
                        clips.idle(Instant::now());
                    }
                    self.finish_old_part();
                }
                Recv::Ended => return Some(ThreadEnd::SourceEnded),
                Recv::Failed { message, .. } => {
                    *self.shared.lost_source.lock() = Some(Instant::now());
                    return Some(ThreadEnd::SourceFailed(message));
                }
                Recv::Closed => return None,
            }
        }
        None
    }

    /// Calibrates the rules where the answers, or the time from which they count, have changed.
    pub(super) fn calibrate(&mut self) {
        let since = self.shared.status.lock().counting_since;
        let state = since.map(|since| (self.services.answers.version(), since.unix_ms));
        if let Some((_, since_ms)) = state.filter(|_| state != self.calibrated) {
            let answers = &self.services.answers;
            let by_rule = answers.calibrations(&self.spec.id, since_ms);
            self.run.set_calibrations(&by_rule);
            self.calibrated = state;
        }
    }
}
