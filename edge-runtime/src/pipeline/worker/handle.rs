//! The handle of a pipeline's thread: start, queries, pause and stop.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use watchkeeper_contract::pipeline::{
    LookRate, PipelineResults, PipelineSpec, PipelineState, PipelineStatus, PipelineWarning,
};
use watchkeeper_contract::problem::{Problem, ProblemCode};
use watchkeeper_contract::time::Wall;
use watchkeeper_engine::workflow::RgbPixels;

use super::services::Services;
use super::status::{DesiredState, MAX_PARTS, ResumedCounts, Shared, Status};
use super::thread::WorkerThread;
use crate::clock;
use crate::load::Grant;
use crate::pipeline::checkpoint::{CheckpointData, Checkpointer, RestoredCheckpoint, Resume};
use crate::pipeline::inference::detectors::ModelsInUse;
use crate::pipeline::retention::recordings::Recording;
use crate::pipeline::run::Run;
use crate::thread::Thread;

/// Time from which on a pipeline that works on one frame hangs: well above that of the largest
/// model on a slow board.
pub(super) const MAX_FRAME_TIME: Duration = Duration::from_secs(60);

/// The note of a pipeline that can't make events.
const NO_RULES: &str = "no rules: no events; deploy it with `rules` to get some";

/// A pipeline and its thread.
pub struct Worker {
    spec: PipelineSpec,
    pub(super) shared: Arc<Shared>,
    models: ModelsInUse,
    rules: Vec<String>,
    is_paused: AtomicBool,
    stop_timeout: Duration,
    thread: Thread,
}

impl Worker {
    /// Starts the thread of `spec` over `run`, from a checkpoint if there is one. `recording` is
    /// where the annotated video goes, if one is wanted.
    ///
    /// # Errors
    /// When the system starts no thread.
    pub fn spawn(
        spec: PipelineSpec,
        mut run: Run,
        checkpoint: Option<RestoredCheckpoint>,
        checkpointer: Checkpointer,
        recording: Option<Recording>,
        services: Services,
    ) -> std::io::Result<Self> {
        let counts = checkpoint
            .and_then(|checkpoint| resume(&spec, &mut run, checkpoint))
            .unwrap_or_default();
        let models = run.models();
        let rules = run.rule_names().to_vec();
        let shared = Arc::new(Shared::new(spec.paused, &run, counts));
        let stop_timeout = services.stop_timeout;
        let body = WorkerThread::new(
            spec.clone(),
            Arc::clone(&shared),
            run,
            checkpointer,
            recording,
            services,
        );
        let thread = Thread::spawn(format!("pipe-{}", spec.id), move || {
            body.run_catching_panics();
            watchkeeper_board::memory::release_freed();
        })?;
        Ok(Self {
            is_paused: AtomicBool::new(spec.paused),
            spec,
            shared,
            models,
            rules,
            stop_timeout,
            thread,
        })
    }

    /// The deployed specification.
    pub fn spec(&self) -> &PipelineSpec {
        &self.spec
    }

    /// State, warnings and results.
    pub fn status(&self) -> PipelineStatus {
        let results = self.results();
        let warnings = self.warnings();
        // With the current pause, so that editing and deploying this answer does not resume it.
        let spec = PipelineSpec {
            paused: self.is_paused(),
            ..self.spec.clone()
        };
        let status = self.shared.status.lock();
        PipelineStatus {
            spec,
            state: status.state.clone(),
            since: status.since,
            paused_until: None,
            detector: self.models.describe(),
            backend_changes: self.models.changes(),
            rules: self.rules.clone(),
            note: self.note(status.incomplete_after),
            warnings,
            window: self.shared.window.lock().clone(),
            looks: self.looks(),
            results,
        }
    }

    /// Rate of its looks at a camera; `None` for a recording, and before the first frame.
    pub fn looks(&self) -> Option<LookRate> {
        let (grant, offered) = (*self.shared.grant.lock(), self.offered_fps());
        let meter = self.shared.looks.lock();
        let is_live = self.shared.is_live.load(Ordering::Relaxed);
        is_live.then(|| meter.rate(&self.spec, grant, offered, Instant::now()))
    }

    /// Frames a second of its source; `None` without a subscription.
    fn offered_fps(&self) -> Option<f64> {
        self.shared.unsubscriber.lock().as_ref()?.delivered_fps()
    }

    /// Frames a second that it looks at.
    pub fn looked_fps(&self) -> f64 {
        self.shared.looks.lock().looked_fps(Instant::now())
    }

    /// Frames a second that it would look at.
    pub fn wanted_fps(&self) -> f64 {
        let (grant, offered) = (*self.shared.grant.lock(), self.offered_fps());
        let meter = self.shared.looks.lock();
        meter.wanted_fps(&self.spec, grant, offered)
    }

    /// Sets what the level of shedding leaves to it, from its next frame on.
    pub fn set_grant(&self, grant: Grant) {
        let desired = self.shared.desired.lock();
        *self.shared.grant.lock() = grant;
        drop(desired);
        self.shared.desired_changed.notify_all();
    }

    /// Note of its status: events that it can't make, counts that it misses.
    fn note(&self, incomplete_after: Option<Wall>) -> Option<String> {
        let rules = self.rules.is_empty().then(|| NO_RULES.to_owned());
        let missing = incomplete_after.map(|at| {
            let at = clock::utc(at.unix_ms);
            format!(
                "the runtime stopped unexpectedly after {at}; counts from then to the stop may be missing; the journal has the events"
            )
        });
        let notes: Vec<String> = rules.into_iter().chain(missing).collect();
        (!notes.is_empty()).then(|| notes.join("; "))
    }

    /// The state without results.
    pub fn state(&self) -> PipelineState {
        self.shared.status.lock().state.clone()
    }

    /// A sentence about the frame on which its thread hangs, if it does.
    pub fn stall(&self) -> Option<String> {
        let busy = self.shared.status.lock().busy_since?.elapsed();
        (busy >= MAX_FRAME_TIME).then(|| {
            format!(
                "it has worked on one frame for {} s and watches nothing meanwhile; a model, the \
                 encoder of the video or the disk hangs; restart the runtime if it does not end",
                busy.as_secs()
            )
        })
    }

    /// The internal error that ended the pipeline, a sentence without its end.
    pub fn internal_error(&self) -> Option<String> {
        self.shared.internal_error.lock().clone()
    }

    /// Problems that do not stop the pipeline.
    pub fn warnings(&self) -> Vec<PipelineWarning> {
        self.shared.published.lock().warnings.clone()
    }

    /// Counts, at most one frame and one publishing interval old; complete once it is paused or has
    /// ended.
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

    /// Whether a rule of this name is in force.
    pub fn has_rule(&self, name: &str) -> bool {
        self.rules.iter().any(|rule| rule == name)
    }

    /// The last processed frame, annotated if the workflow draws.
    pub fn latest_annotated(&self) -> Option<Arc<RgbPixels>> {
        let latest = self.shared.latest.lock().clone();
        latest.annotated.or(latest.clean).map(|pixels| pixels.rgb())
    }

    /// The file of a part of the annotated video, counted from 1; by default the last complete one.
    ///
    /// # Errors
    /// [`Problem`] when the pipeline records no video, the part does not exist, or none is
    /// complete.
    pub fn recording(&self, part: Option<usize>) -> Result<PathBuf, Problem> {
        if !self.spec.record {
            return Err(Problem::not_found(format!(
                "pipeline {:?} records no video; deploy it with \"record\": true",
                self.spec.id.as_str()
            )));
        }
        let parts = self.shared.video_parts.lock();
        if parts.count() == 0 {
            return Err(Problem::new(
                409,
                ProblemCode::NotReady,
                "the video is complete when the pipeline has ended or is paused",
            ));
        }
        parts.get(part).cloned().ok_or_else(|| {
            let part = part.unwrap_or_default().to_string();
            Problem::not_found(format!(
                "there is no part {part}; {} parts are complete, counted from 1, and the last \
                     {MAX_PARTS} can be downloaded",
                parts.count()
            ))
            .at("part", part)
        })
    }

    /// Whether it takes frames, or would if there were any; false once it has ended or failed.
    pub fn wants_frames(&self) -> bool {
        *self.shared.desired.lock() == DesiredState::Run
    }

    /// Whether it watched its source at that moment: it takes frames, or its source failed later.
    #[must_use]
    pub fn watched_at(&self, at: Instant) -> bool {
        self.wants_frames()
            || self
                .shared
                .lost_source
                .lock()
                .is_some_and(|lost| at <= lost)
    }

    /// Whether its source failed.
    pub fn has_lost_source(&self) -> bool {
        self.shared.lost_source.lock().is_some()
    }

    /// Whether it ended in the middle of a recording; a restart would count the beginning twice.
    pub fn in_recording(&self) -> bool {
        self.shared.in_recording.load(Ordering::Relaxed)
    }

    /// Whether it takes no more frames: it has ended, failed or was stopped. Its last events may
    /// not be durable yet.
    pub fn is_finished(&self) -> bool {
        matches!(
            *self.shared.desired.lock(),
            DesiredState::Stop | DesiredState::Finished
        )
    }

    /// Takes no frames until [`Worker::resume`].
    pub fn pause(&self) {
        self.is_paused.store(true, Ordering::Relaxed);
        self.shared.request(DesiredState::Pause);
    }

    /// Takes frames again.
    pub fn resume(&self) {
        self.is_paused.store(false, Ordering::Relaxed);
        self.shared.request(DesiredState::Run);
    }

    /// Waits until the thread has paused or resumed as requested, at most `timeout`; usually not
    /// longer than one frame.
    pub fn settle(&self, timeout: Duration) {
        let is_changing = |status: &mut Status| match status.state {
            PipelineState::Starting | PipelineState::Running => self.is_paused(),
            PipelineState::Paused => !self.is_paused(),
            PipelineState::Ended | PipelineState::Stopped | PipelineState::Failed { .. } => false,
        };
        let mut status = self.shared.status.lock();
        let changed = &self.shared.state_changed;
        changed.wait_while_for(&mut status, is_changing, timeout);
    }

    /// Whether a pause is requested; stays true after its end.
    pub fn is_paused(&self) -> bool {
        self.is_paused.load(Ordering::Relaxed)
    }

    /// Requests the stop and returns at once, so that many pipelines can stop in parallel.
    pub fn begin_stop(&self) {
        self.shared.request(DesiredState::Stop);
        // A hanging pipeline would hold up a recording for its other subscribers.
        if let Some(unsubscriber) = self.shared.unsubscriber.lock().take() {
            unsubscriber.unsubscribe();
        }
    }

    /// Stops the pipeline and waits for its thread: open events end and are durable. A hanging
    /// thread is abandoned after [`Services::stop_timeout`].
    pub fn stop(&self) {
        self.stop_within(self.stop_timeout);
    }

    /// Stops the pipeline, waiting at most `timeout` for its thread.
    pub fn stop_within(&self, timeout: Duration) {
        self.begin_stop();
        self.thread.join(timeout);
    }
}

impl Drop for Worker {
    /// Drop may run under a lock; a join that already timed out is not repeated.
    fn drop(&mut self) {
        self.begin_stop();
        self.thread.join_once(self.stop_timeout);
    }
}

/// Resumes `run` from a checkpoint, and returns what it has of the earlier run.
fn resume(
    spec: &PipelineSpec,
    run: &mut Run,
    checkpoint: RestoredCheckpoint,
) -> Option<ResumedCounts> {
    let pipeline = &spec.id;
    let data = match checkpoint.resume {
        Resume::Data(data) => data,
        Resume::Elapsed(elapsed) => {
            let elapsed_s = elapsed.as_secs();
            tracing::info!(%pipeline, elapsed_s, "counting from zero; the watch time continues");
            run.resume_elapsed(elapsed, checkpoint.away);
            return None;
        }
    };
    let CheckpointData {
        counting_since,
        events,
        is_interim,
        incomplete_after,
        run: state,
    } = data;
    match run.restore(state, checkpoint.away) {
        Ok(restarts) => {
            let away_s = checkpoint.away.map(|away| away.as_secs());
            tracing::info!(%pipeline, away_s, "resumed from the checkpoint");
            for step in restarts {
                tracing::warn!(%pipeline, what = step.what, why = step.why, "restarted from zero");
            }
            let missing = is_interim.then_some(checkpoint.saved_at);
            Some(ResumedCounts {
                counting_since,
                events,
                incomplete_after: missing.or(incomplete_after),
            })
        }
        Err(error) => {
            tracing::warn!(%pipeline, %error, "can't restore the checkpoint; counting from zero");
            None
        }
    }
}
