//! One frame of a pipeline: through its run, then to the recorder, the ledger of coverage, clips,
//! video, metrics and the checkpoint.
//!
//! Not here: where frames come from (`thread`), how events and pictures are sent (`events`,
//! `video`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use watchkeeper_contract::event::Phase;
use watchkeeper_contract::id::EventId;
use watchkeeper_contract::pipeline::PipelineState;
use watchkeeper_vision::frame::Frame;

use super::shown_frames::KEPT_S;
use super::status::Latest;
use super::step_failures::FailedStepRun;
use super::thread::{FrameMoment, WorkerThread};
use crate::capture::mailbox::FrameReceiver;
use crate::clock;
use crate::coverage::Sight;
use crate::pipeline::recorder::Pictures;
use crate::pipeline::run::{FrameOutcome, ProcessedFrame};

/// Name in metrics of the time from a frame's arrival to its processing.
const STAGE_WAIT: &str = "wait";

/// Name in metrics of the whole time spent on a frame.
const STAGE_ALL: &str = "pipeline";

impl WorkerThread {
    /// Processes one frame. Returns true when it was the last one wanted.
    pub(super) fn process_frame(&mut self, frame: &Frame, receiver: &FrameReceiver) -> bool {
        let began = Instant::now();
        let local = clock::schedule_time(frame.wall);
        self.calibrate();
        let grant = *self.shared.grant.lock();
        self.run.limit_rate(grant.max_fps, receiver.drops_late());
        let FrameOutcome {
            is_last,
            at,
            picture,
            processed,
        } = self.run.process(frame, local, &mut EventId::generate);
        if processed.as_ref().is_some_and(|seen| seen.has_objects) {
            receiver.report_objects(frame.pts);
        }
        let output_began = Instant::now();
        self.count_look(frame, processed.is_some(), receiver);
        if let (Some(clips), Some(picture)) = (&mut self.clips, &picture)
            && (grant.may_clip || clips.is_recording())
        {
            clips.add_frame(frame, picture, at);
        }
        let sight = sight(receiver, processed.as_ref());
        let Some(processed) = processed else {
            self.coverage.look(frame, sight);
            self.finish_due_clips(at);
            return is_last;
        };
        self.hand_out(frame, at, sight, output_began, processed);
        self.update_status(frame, began);
        if frame.recorded && !is_last {
            self.pace_recording(began);
        }
        is_last
    }

    /// Hands what was made of a frame to the recorder, the ledger of coverage, clips, video,
    /// metrics and the checkpoint.
    fn hand_out(
        &mut self,
        frame: &Frame,
        at: Duration,
        sight: Sight,
        began: Instant,
        mut processed: ProcessedFrame,
    ) {
        let pictures = Pictures::new(Arc::clone(&processed.clean), processed.annotated.take());
        let needed = self.run.good_frames(KEPT_S);
        self.shown_frames.advance(frame.id.seq, &pictures, needed);
        let moment = FrameMoment {
            at,
            is_live: !frame.recorded,
        };
        let changes = std::mem::take(&mut processed.changes);
        let has_new_event = changes.iter().any(|change| change.phase == Phase::New);
        if !changes.is_empty() {
            self.coverage.note_handover();
        }
        let sent = Instant::now();
        self.send_changes(changes, Some(moment));
        // After its events: a report on the span waits for them.
        self.coverage.look(frame, sight);
        self.coverage.end_if_held_up(sent.elapsed());
        self.finish_due_clips(at);
        self.draw(frame, &pictures);
        *self.shared.latest.lock() = Latest {
            clean: Some(pictures.clean),
            annotated: pictures.annotated,
        };
        for (stage, spent) in self.run.finish_frame(began.elapsed()) {
            self.services.metrics.observe_stage(stage.name(), spent);
        }
        self.report_inferences_and_failures(at, &processed);
        self.publish_when_due();
        if self.checkpointer.is_due(Instant::now(), has_new_event) {
            self.save_checkpoint(true);
        }
    }

    /// Counts inferences and failed steps, and reports steps that keep failing.
    fn report_inferences_and_failures(&mut self, at: Duration, processed: &ProcessedFrame) {
        let metrics = &self.services.metrics;
        for (model, spent) in self.run.inferences() {
            metrics.observe_inference(model, *spent);
        }
        for failure in &processed.failures {
            metrics.count_step_error(&self.spec.id, &failure.step);
        }
        let failed: Vec<FailedStepRun<'_>> = processed
            .failures
            .iter()
            .map(|failure| FailedStepRun {
                step: &failure.step,
                message: &failure.message,
                calls: failure.calls,
            })
            .collect();
        let skipped = &processed.skipped_steps;
        let records = self
            .failures
            .observe(at, &failed, skipped, &mut EventId::generate);
        self.send_box_records(records);
    }

    fn update_status(&self, frame: &Frame, began: Instant) {
        let done = Instant::now();
        let spent = done.saturating_duration_since(began);
        let waited = began.saturating_duration_since(frame.arrived);
        self.services.metrics.observe_stage(STAGE_WAIT, waited);
        self.services.metrics.observe_stage(STAGE_ALL, spent);
        let mut status = self.shared.status.lock();
        status.last_frame = Some(done);
        // What follows is a wait for the pace of a recording.
        status.busy_since = None;
        if status.first_frame.is_none() {
            status.first_frame = Some(began);
            status.counting_since.get_or_insert_with(clock::wall);
            status.state = PipelineState::Running;
            status.since = clock::wall();
            self.shared.state_changed.notify_all();
        }
    }
}

/// A frame's evidence about its source.
fn sight(receiver: &FrameReceiver, processed: Option<&ProcessedFrame>) -> Sight {
    if let Some((kind, since)) = receiver.blindness() {
        return Sight::Blind { kind, since };
    }
    match processed {
        Some(processed) if processed.rules_failed => Sight::StepFailed,
        Some(_) => Sight::Clear,
        None => Sight::Skipped,
    }
}
