//! One frame through a pipeline: detector, workflow, rules.
//!
//! - Owns the execution with its trackers and counters, and the rules with their state and the
//!   stays in zones. No thread, no clock, no socket: frames go in, changes of events come out.
//! - The same frames in the same order give the same counts and events, identities apart, whatever
//!   the speed of the machine and the wall clock.
//! - Every step, stay and rule measures time with one [`SourceClock`].

mod class_mask;
mod damage;
mod motion_filter;
mod pace;
mod results;
mod reused;
mod source_clock;
mod stages;
mod state;
mod values;
mod warnings;
mod watched;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use watchkeeper_contract::coverage::Watched;
use watchkeeper_contract::id::EventId;
use watchkeeper_contract::pipeline::{
    DetectMode, LineCount, PipelineResults, PipelineSpec, PipelineWarning, WarningKind,
};
use watchkeeper_contract::privacy::PrivacyMask;
use watchkeeper_contract::review::Calibration;
use watchkeeper_engine::rules::{
    Change, FinishReason, LocalTime, Moment, NeedKind, NeedValue, RuleSet,
};
use watchkeeper_engine::workflow::{
    Execution, ImageValue, Overlay, Pixels, RunReport, SlotId, StepFailure, VideoMeta,
};
use watchkeeper_vision::analytics::recent::Recent;
use watchkeeper_vision::detections::Detection;
use watchkeeper_vision::frame::{Frame, Picture};

pub use self::state::RunState;

use self::class_mask::ClassMask;
use self::damage::DamageWatch;
use self::motion_filter::MotionFilter;
use self::pace::Pace;
use self::reused::FrameMemory;
use self::source_clock::{SourceClock, StopPosition, stop_position};
pub use self::stages::own_time;
use self::stages::{Stage, StageTimes};
use self::values::need_value;
use self::watched::watched;
use crate::pipeline::inference::detectors::ModelsInUse;
use crate::pipeline::inference::host::DetectHost;
use crate::pipeline::pixels::FramePixels;
use crate::pipeline::plan::Plan;

/// Tracks remembered per tracker to count distinct ones; the longest unseen are forgotten first.
const TRACKS_REMEMBERED: usize = 4096;

/// The result of one frame.
#[derive(Debug)]
pub struct FrameOutcome {
    /// The requested duration is over: no further frame is wanted.
    pub is_last: bool,
    /// Source time of the frame.
    pub at: Duration,
    /// The frame that may leave: as it came, or with the objects of a privacy mask hidden. Absent
    /// for a frame under such a mask in which nothing was looked for.
    pub picture: Option<Picture>,
    /// Absent when the detection mode skipped the frame, or when it lies after the requested end.
    pub processed: Option<ProcessedFrame>,
}

/// Result of the workflow and the rules for one frame.
#[derive(Debug)]
pub struct ProcessedFrame {
    /// Whether the frame shows an object that a tracker follows or a rule reads.
    pub has_objects: bool,
    /// Events that began, changed or ended.
    pub changes: Vec<Change>,
    /// The frame that may leave, converted on demand.
    pub clean: Arc<FramePixels>,
    /// The workflow's last drawing, rendered on demand.
    pub annotated: Option<Arc<dyn Pixels>>,
    /// Failed steps, one entry per element.
    pub failures: Vec<StepFailure>,
    /// Whether a step failed on which a rule depends.
    pub rules_failed: bool,
    /// Steps that did not run.
    pub skipped_steps: Arc<Vec<Arc<str>>>,
}

/// Makes the ids of new events.
type NewId<'a> = &'a mut dyn FnMut() -> EventId;

/// A running pipeline, without its thread.
pub struct Run {
    execution: Execution,
    host: DetectHost,
    rules: RuleSet,
    rule_names: Vec<String>,
    needs: Vec<(SlotId, NeedKind)>,
    lines: Vec<(String, SlotId, SlotId)>,
    /// Tracker outputs with the tracks seen on each; every tracker counts from 1.
    tracked: Vec<(SlotId, Recent<()>)>,
    motion_filter: Option<MotionFilter>,
    class_mask: Option<ClassMask>,
    pace: Pace,
    /// Name of the source, as workflows know it.
    video_identifier: Arc<str>,
    memory: FrameMemory,
    stop_after_s: Option<f64>,
    clock: SourceClock,
    damage: DamageWatch,
    first: Option<Duration>,
    /// Start of the requested duration: the first frame that this process or an earlier one took.
    began: Option<Duration>,
    last: Option<Moment>,
    /// False for a recording: it restarts at its first picture, so its counts restart too.
    is_live: bool,
    results: PipelineResults,
    stages: StageTimes,
    overlays: Vec<Overlay>,
    /// Size of the latest picture.
    size: Option<[u32; 2]>,
    warnings: Vec<PipelineWarning>,
    watched: Watched,
    /// Steps on which the rules depend.
    behind_rules: BTreeSet<String>,
}

impl Run {
    /// Starts `plan`, made from `spec`, with the detectors in `host`.
    pub fn new(plan: Plan, host: DetectHost, spec: &PipelineSpec) -> Self {
        let execution = plan.compiled.instantiate();
        let watched = watched(spec, &plan, host.detectors());
        let needs = plan.needs.iter().map(|(slot, _)| *slot);
        let behind_rules = plan.compiled.steps_behind(needs);
        let motion_filter = match spec.detect {
            DetectMode::OnMotion { refresh_s } => Some(MotionFilter::new(refresh_s)),
            DetectMode::Always | DetectMode::Periodic { .. } => None,
        };
        let mut results = PipelineResults::default();
        for (name, ..) in &plan.lines {
            results.lines.insert(name.clone(), LineCount::default());
        }
        let warnings = host.detectors().warnings().to_vec();
        let unseen = |slot| (slot, Recent::new(TRACKS_REMEMBERED));
        Self {
            execution,
            host,
            rules: plan.rules,
            rule_names: plan.rule_names,
            needs: plan.needs,
            lines: plan.lines,
            tracked: plan.tracked.into_iter().map(unseen).collect(),
            motion_filter,
            class_mask: None,
            pace: Pace::new(spec),
            video_identifier: spec.source.as_str().into(),
            memory: FrameMemory::default(),
            stop_after_s: spec.stop_after_s,
            clock: SourceClock::default(),
            damage: DamageWatch::default(),
            first: None,
            began: None,
            last: None,
            is_live: false,
            results,
            stages: StageTimes::default(),
            overlays: [plan.compiled.overlays(), plan.compiled.filter_zones()].concat(),
            size: None,
            warnings,
            watched,
            behind_rules,
        }
    }

    /// Hides the classes of a privacy mask in every picture that leaves.
    #[must_use]
    pub fn masking(mut self, mask: Arc<PrivacyMask>) -> Self {
        if !mask.classes.is_empty() {
            self.host = self.host.masking(mask.classes.clone().into());
            self.class_mask = Some(ClassMask::new(mask));
            // Each frame that leaves is looked at: what moves too little for the filter shows too.
            self.motion_filter = None;
        }
        self
    }

    /// Looks at no more than `granted_fps` frames a second, besides its own limits. They hold for
    /// cameras, and for a recording that drops late frames.
    pub fn limit_rate(&mut self, granted_fps: Option<f64>, drops_late: bool) {
        self.pace.limit(granted_fps, drops_late);
    }

    /// The models and back ends in use, such as `yolox-nano on rten`.
    pub fn detector(&self) -> Option<String> {
        self.models().describe()
    }

    /// The models and the back ends that run them, also after a change.
    pub fn models(&self) -> ModelsInUse {
        self.host.detectors().models()
    }

    /// The models that ran on the latest processed frame, with the time of each inference.
    pub fn inferences(&self) -> &[(Arc<str>, Duration)] {
        self.host.inferences()
    }

    /// Names of the rules in force.
    pub fn rule_names(&self) -> &[String] {
        &self.rule_names
    }

    /// Seconds of video that its rules want from before an event; `None` when no rule wants a clip.
    pub fn pre_roll_s(&self) -> Option<f64> {
        self.rules.pre_roll_s()
    }

    /// Calibrates the confidence of the rules with these names; all others lose theirs.
    pub fn set_calibrations(&mut self, by_rule: &BTreeMap<String, Calibration>) {
        self.rules.set_calibrations(by_rule);
    }

    /// Objects and events that it watches.
    pub fn watched(&self) -> &Watched {
        &self.watched
    }

    /// Processes one frame. `local` is the box's time, for schedules; `None` while that is wrong.
    pub fn process(
        &mut self,
        frame: &Frame,
        local: Option<LocalTime>,
        new_id: NewId<'_>,
    ) -> FrameOutcome {
        let now = self.clock.advance(frame);
        self.damage.observe(now, frame.is_damaged);
        let since =
            |moment: Option<Duration>| now.saturating_sub(moment.unwrap_or(now)).as_secs_f64();
        let since_began = since(self.began);
        let position = self.stop_after_s.map_or(StopPosition::Within, |stop| {
            stop_position(since_began, stop)
        });
        let is_masked = self.class_mask.is_some();
        let mut outcome = FrameOutcome {
            is_last: position != StopPosition::Within,
            at: now,
            picture: (!is_masked).then(|| frame.picture.clone()),
            processed: None,
        };
        if position == StopPosition::Beyond || !self.pace.admit(frame, now) {
            return outcome;
        }
        self.stages.begin_frame();
        self.clock.processed();
        let pixels = FramePixels::new(frame.picture.clone());
        let clean = self.memory.pixels.put(pixels);
        let pixels: Arc<dyn Pixels> = Arc::clone(&clean) as _;
        let report = self.run_workflow(frame, &pixels, now);
        let changes = self.apply_rules(frame, now.as_secs_f64(), local, new_id);

        self.began.get_or_insert(now);
        self.first.get_or_insert(now);
        self.check_size([frame.picture.width, frame.picture.height]);
        self.results.frames += 1;
        self.results.source_s = since(self.first);
        let mut failed = report.errors.iter();
        let mut processed = ProcessedFrame {
            has_objects: self.has_objects(),
            changes,
            clean,
            annotated: self.execution.output_image(),
            rules_failed: failed.any(|error| self.behind_rules.contains(&error.step)),
            failures: report.errors,
            skipped_steps: report.skipped,
        };
        if let Some(masked) = self.mask_objects(frame, &pixels, now, &mut processed) {
            outcome.picture = Some(masked);
        }
        outcome.processed = Some(processed);
        outcome
    }

    /// Hides the objects of a privacy mask, if there is one, in the pictures of `processed`, and
    /// returns the masked frame. A drawing that can't be repeated on it is left out.
    fn mask_objects(
        &mut self,
        frame: &Frame,
        whole: &Arc<dyn Pixels>,
        now: Duration,
        processed: &mut ProcessedFrame,
    ) -> Option<Picture> {
        let mask = self.class_mask.as_mut()?;
        let found = self.host.masked_boxes();
        let picture = mask.apply(&frame.picture, found, now);
        processed.clean = Arc::new(FramePixels::new(picture.clone()));
        let clean: Arc<dyn Pixels> = Arc::clone(&processed.clean) as _;
        let drawn = processed.annotated.take();
        processed.annotated = drawn.and_then(|drawn| drawn.redrawn(whole, &clean));
        let warning = found.is_none().then(|| mask.warning());
        self.replace_warnings(&[WarningKind::PrivacyMask], warning);
        Some(picture)
    }

    /// Runs the steps of the workflow on a frame, and counts their times and errors.
    fn run_workflow(
        &mut self,
        frame: &Frame,
        pixels: &Arc<dyn Pixels>,
        now: Duration,
    ) -> RunReport {
        let time_s = now.as_secs_f64();
        let hold = self
            .motion_filter
            .as_mut()
            .is_some_and(|motion_filter| !motion_filter.admit(&frame.picture, time_s));
        let started = Instant::now();
        let timed = Frame {
            pts: now,
            ..frame.clone()
        };
        self.host.begin(timed, pixels, hold);
        if *self.video_identifier != *frame.id.source.as_str() {
            self.video_identifier = frame.id.source.as_str().into();
        }
        // A camera that reports no rate gets the one at which this pipeline sees it.
        let measured = || (!frame.recorded).then(|| self.clock.fps()).flatten();
        let meta = VideoMeta {
            video_identifier: Arc::clone(&self.video_identifier),
            frame_number: frame.id.seq,
            frame_timestamp: frame.wall.unix_ms as f64 / 1e3,
            source_s: Some(time_s),
            fps: frame.fps.or_else(measured),
            comes_from_video_file: frame.recorded,
        };
        let image = ImageValue {
            pixels: Arc::clone(pixels),
            meta: self.memory.metas.put(meta),
            id: Arc::clone(&self.memory.image_id),
            place: None,
        };
        let report = self.execution.run(image, &[], now, &mut self.host);
        let times = self.host.end();
        let workflow = started.elapsed();
        for (stage, spent) in [
            (Stage::Preprocess, times.preprocess),
            (Stage::Infer, times.infer),
            (Stage::Postprocess, times.postprocess),
        ] {
            self.stages.add(stage, spent);
        }
        let detecting = times.preprocess + times.infer + times.postprocess;
        self.stages
            .add(Stage::Workflow, workflow.saturating_sub(detecting));
        self.count_errors(&report);
        report
    }

    /// Updates the counts and feeds the outputs of the workflow to the rules.
    fn apply_rules(
        &mut self,
        frame: &Frame,
        time_s: f64,
        local: Option<LocalTime>,
        new_id: NewId<'_>,
    ) -> Vec<Change> {
        let started = Instant::now();
        self.update_counts();
        let is_damaged = self.damage.is_in_doubt(self.clock.now());
        let moment = Moment {
            time_s,
            is_damaged,
            frame: frame.id.seq,
            size: [frame.picture.width, frame.picture.height],
            local,
        };
        let value = |need| need_value(&self.execution, self.needs.get(need));
        let changes = self
            .rules
            .observe(&moment, Some(&frame.picture), value, new_id);
        let visits = self.rules.visits();
        self.damage.counts.frames += u64::from(is_damaged);
        self.damage.count(is_damaged, &self.results, visits);
        self.last = Some(moment);
        self.is_live = !frame.recorded;
        self.stages.add(Stage::Heuristics, started.elapsed());
        changes
    }

    /// Whether frames of a recording were taken.
    pub fn plays_recording(&self) -> bool {
        self.last.is_some() && !self.is_live
    }

    /// Whether a frame was taken.
    pub fn has_seen(&self) -> bool {
        self.last.is_some()
    }

    /// The boxes of all trackers in the latest frame.
    pub fn tracked_boxes(&self) -> impl Iterator<Item = &Detection> {
        let outputs = self.tracked.iter();
        let found = outputs.filter_map(|(slot, _)| self.execution.detections(*slot));
        found.flat_map(|detections| &detections.boxes)
    }

    /// Frames that events show of objects of the last `kept_s` seconds, once out of sight.
    pub fn good_frames(&self, kept_s: f64) -> impl Iterator<Item = u64> {
        self.rules.good_frames(kept_s)
    }

    /// Ends open stays and events for good. Lines count what they left undecided.
    pub fn finish(&mut self, reason: FinishReason, new_id: NewId<'_>) -> Vec<Change> {
        let Some(last) = self.last else {
            return Vec::new();
        };
        let report = self.execution.finish(&mut self.host);
        self.count_errors(&report);
        self.update_counts();
        let value = |need| need_value(&self.execution, self.needs.get(need));
        let changes = self.rules.finish(reason, &last, value, new_id);
        let visits = self.rules.visits();
        self.damage.count(last.is_damaged, &self.results, visits);
        changes
    }

    /// Ends open stays and events when the pipeline stops, and another process may resume it.
    pub fn interrupt(&mut self, reason: FinishReason, new_id: NewId<'_>) -> Vec<Change> {
        let Some(last) = self.last else {
            return Vec::new();
        };
        self.rules
            .finish(reason, &last, |_| NeedValue::Missing, new_id)
    }

    /// Adds the time spent on output, and returns what each stage of this frame cost. The thread
    /// that processed the frame calls it.
    pub fn finish_frame(&mut self, spent: Duration) -> impl Iterator<Item = (Stage, Duration)> {
        self.stages.add(Stage::Output, spent);
        self.memory.release_pictures();
        self.stages.frame_done()
    }

    /// Whether a tracker's output, or detections that a rule reads, hold an object found in this
    /// frame.
    fn has_objects(&self) -> bool {
        let tracked = self.tracked.iter().map(|(slot, _)| *slot);
        let read = self.needs.iter();
        let read = read.filter(|(_, kind)| matches!(kind, NeedKind::Detections));
        tracked
            .chain(read.map(|(slot, _)| *slot))
            .filter_map(|slot| self.execution.detections(slot))
            .any(|detections| detections.boxes.iter().any(|d| !d.held))
    }
}

#[cfg(test)]
mod tests;
