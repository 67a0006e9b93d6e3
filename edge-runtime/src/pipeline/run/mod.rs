//! One frame through a pipeline: detector, workflow, visits, rules.
//!
//! Owns the memory of one pipeline: the execution with its trackers and counters, the visits of its zones, the state of its rules.
//! No thread, no clock, no socket: frames go in, changes of events come out. Invariant: the same frames in the same order give the
//! same counts and events (identities apart), whatever the machine's speed and whatever the wall clock shows; every step, visit and
//! rule measures with one [`SourceClock`].

mod bounds_check;
#[cfg(test)]
mod motion_counts;
mod motion_filter;
mod source_clock;
mod stages;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;
use watchkeeper_contract::id::EventId;
use watchkeeper_contract::pipeline::{
    DetectMode, LineCount, PipelineResults, PipelineSpec, PipelineWarning, StepError,
};
use watchkeeper_engine::rules::{Change, LocalTime, Moment, NeedKind, NeedValue, RuleSet};
use watchkeeper_engine::workflow::{
    Execution, ImageValue, Overlay, Pixels, Restart, SlotId, StateError, StepFailure, VideoMeta,
};
use watchkeeper_vision::analytics::Visits;
use watchkeeper_vision::analytics::recent::Recent;
use watchkeeper_vision::frame::Frame;

use self::motion_filter::MotionFilter;
use self::source_clock::SourceClock;
use self::stages::{Stage, StageTimes};
use crate::pipeline::inference::host::DetectHost;
use crate::pipeline::pixels::FramePixels;
use crate::pipeline::plan::Plan;

/// Tracks of each tracker that are remembered for counting different ones; those not seen for longest are forgotten.
const TRACKS_REMEMBERED: usize = 4096;

/// What one frame brought.
#[derive(Debug)]
pub struct FrameOutcome {
    /// False when the detection mode skipped this frame, or when it lies beyond the end that was asked for.
    pub processed: bool,
    /// Whether no frame after this one is wanted: the seconds that were asked for are over.
    pub is_last: bool,
    /// Source time of the frame.
    pub at: Duration,
    /// What happened to events.
    pub changes: Vec<Change>,
    /// The frame as it came, to be converted by whoever needs it.
    pub clean: Arc<dyn Pixels>,
    /// The workflow's last drawing, to be rendered by whoever needs it.
    pub annotated: Option<Arc<dyn Pixels>>,
    /// Steps that failed, each element by itself.
    pub failures: Vec<StepFailure>,
    /// Steps that did not run.
    pub skipped_steps: Arc<Vec<Arc<str>>>,
    /// Models that were asked, with the time each took to infer.
    pub inferences: Vec<(String, Duration)>,
}

/// A pipeline in motion.
#[derive(Debug)]
pub struct Run {
    execution: Execution,
    host: DetectHost,
    rules: RuleSet,
    rule_names: Vec<String>,
    needs: Vec<(SlotId, NeedKind)>,
    lines: Vec<(String, SlotId, SlotId)>,
    zones: Vec<(String, SlotId, Visits)>,
    /// Outputs of the trackers, each with the tracks it has given out: every tracker counts from 1.
    tracked: Vec<(SlotId, Recent<()>)>,
    gate: Option<MotionFilter>,
    every_s: Option<f64>,
    stop_after_s: Option<f64>,
    last_run_s: Option<f64>,
    clock: SourceClock,
    first: Option<Duration>,
    /// From when on the seconds that were asked for are counted: the first frame that this process or one before it took.
    began: Option<Duration>,
    last: Option<Moment>,
    /// Whether its frames come from a camera, which goes on meanwhile; a recording begins again at its first picture, and so must its counts.
    is_live: bool,
    results: PipelineResults,
    stages: StageTimes,
    overlays: Vec<Overlay>,
    warnings: Vec<PipelineWarning>,
}

/// What a run remembers: another process goes on with it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Memory {
    /// As [`Execution::save`] has it.
    workflow: ByteBuf,
    /// Source time of the last frame.
    now: Duration,
    /// Source time of the first frame.
    #[serde(default)]
    began: Option<Duration>,
    tracks: u64,
    lines: BTreeMap<String, LineCount>,
    zones: BTreeMap<String, Visits>,
    /// In the order of the trackers.
    tracked: Vec<Recent<()>>,
}

/// How long it was dark where nothing tells: long enough that nobody who is seen after it is taken for somebody who was seen before.
const UNKNOWN: Duration = Duration::from_secs(24 * 60 * 60);

/// Where a frame stands in the seconds that were asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Within,
    /// Exactly at the end.
    Last,
    Beyond,
}

/// A frame `at_s` seconds after the first. Half a millisecond is the noise of time stamps in 90 kHz and 600 Hz ticks.
fn place(at_s: f64, stop_after_s: f64) -> Place {
    const NOISE_S: f64 = 5e-4;
    if at_s > stop_after_s + NOISE_S {
        Place::Beyond
    } else if at_s >= stop_after_s - NOISE_S {
        Place::Last
    } else {
        Place::Within
    }
}

impl Run {
    /// A run of `plan`, which was made from `spec`, with the detectors in `host`.
    #[must_use]
    pub fn new(plan: Plan, host: DetectHost, spec: &PipelineSpec) -> Self {
        let execution = plan.compiled.instantiate();
        let (gate, every_s) = match spec.detect {
            DetectMode::Always => (None, None),
            DetectMode::OnMotion { refresh_s } => (Some(MotionFilter::new(refresh_s)), None),
            DetectMode::Periodic { every_s } => (None, Some(every_s)),
        };
        let mut results = PipelineResults::default();
        for (name, ..) in &plan.lines {
            results.lines.insert(name.clone(), LineCount::default());
        }
        for (name, _) in &plan.zones {
            results.zones.insert(name.clone(), Default::default());
        }
        let warnings = host.detectors().warnings().to_vec();
        Self {
            execution,
            host,
            rules: plan.rules,
            rule_names: plan.rule_names,
            needs: plan.needs,
            lines: plan.lines,
            zones: plan
                .zones
                .into_iter()
                .map(|(name, slot)| (name, slot, Visits::default()))
                .collect(),
            tracked: plan
                .tracked
                .into_iter()
                .map(|slot| (slot, Recent::new(TRACKS_REMEMBERED)))
                .collect(),
            gate,
            every_s,
            stop_after_s: spec.stop_after_s,
            last_run_s: None,
            clock: SourceClock::default(),
            first: None,
            began: None,
            last: None,
            is_live: false,
            results,
            stages: StageTimes::default(),
            overlays: plan.compiled.overlays(),
            warnings,
        }
    }

    /// What detects, such as `yolox-nano on rten`.
    #[must_use]
    pub fn detector(&self) -> Option<String> {
        self.host.detectors().describe()
    }

    /// Names of the rules in force.
    #[must_use]
    pub fn rule_names(&self) -> &[String] {
        &self.rule_names
    }

    /// Seconds before an event that its rules want in clips; absent where none wants one.
    #[must_use]
    pub fn pre_roll_s(&self) -> Option<f64> {
        self.rules.pre_roll_s()
    }

    /// What was asked for and can't happen; what depends on the picture is known from the first frame on.
    #[must_use]
    pub fn warnings(&self) -> &[PipelineWarning] {
        &self.warnings
    }

    /// Processes one frame. `local` is the box's local time, for schedules.
    pub fn process(
        &mut self,
        frame: &Frame,
        local: LocalTime,
        new_id: &mut dyn FnMut() -> EventId,
    ) -> FrameOutcome {
        let now = self.clock.advance(frame);
        let time_s = now.as_secs_f64();
        let clean: Arc<dyn Pixels> = Arc::new(FramePixels::new(frame.picture.clone()));
        let since =
            |moment: Option<Duration>| now.saturating_sub(moment.unwrap_or(now)).as_secs_f64();
        let since_first = since(self.first);
        let since_began = since(self.began);
        let place = self
            .stop_after_s
            .map_or(Place::Within, |stop| place(since_began, stop));
        if place == Place::Beyond || self.is_skipped(time_s) {
            return FrameOutcome {
                processed: false,
                is_last: place != Place::Within,
                at: now,
                changes: Vec::new(),
                clean,
                annotated: None,
                failures: Vec::new(),
                skipped_steps: Arc::default(),
                inferences: Vec::new(),
            };
        }
        self.clock.processed();
        let hold = self
            .gate
            .as_mut()
            .is_some_and(|gate| !gate.admit(&frame.picture, time_s));

        let started = Instant::now();
        let timed = Frame {
            pts: now,
            ..frame.clone()
        };
        self.host.begin(&timed, &clean, hold);
        // Cameras that tell no rate have the one at which this pipeline sees them.
        let measured = || (!frame.recorded).then(|| self.clock.fps()).flatten();
        let image = ImageValue::new(
            Arc::clone(&clean),
            VideoMeta {
                video_identifier: frame.id.source.as_str().into(),
                frame_number: frame.id.seq,
                frame_timestamp: frame.wall.unix_ms as f64 / 1e3,
                source_s: Some(time_s),
                fps: frame.fps.or_else(measured),
                comes_from_video_file: frame.recorded,
            },
        );
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
        for error in &report.errors {
            let entry = self
                .results
                .step_errors
                .entry(error.step.clone())
                .or_insert_with(|| StepError {
                    count: 0,
                    message: String::new(),
                });
            entry.count += 1;
            entry.message.clone_from(&error.message);
        }

        let started = Instant::now();
        self.count(time_s);
        let moment = Moment {
            time_s,
            frame: frame.id.seq,
            size: [frame.picture.width, frame.picture.height],
            local,
        };
        let inputs: Vec<NeedValue<'_>> = self
            .needs
            .iter()
            .map(|(slot, kind)| input(&self.execution, *slot, *kind))
            .collect();
        let changes = self.rules.observe(&moment, &inputs, new_id);
        self.last = Some(moment);
        self.is_live = !frame.recorded;
        self.stages.add(Stage::Heuristics, started.elapsed());

        self.began.get_or_insert(now);
        if self.first.is_none() {
            self.first = Some(now);
            let size = [frame.picture.width, frame.picture.height];
            self.warnings
                .extend(bounds_check::outside(&self.overlays, size));
        }
        self.results.frames += 1;
        self.results.source_s = since_first;
        FrameOutcome {
            processed: true,
            is_last: place != Place::Within,
            at: now,
            changes,
            clean,
            annotated: self.execution.output_image(),
            failures: report.errors,
            skipped_steps: report.skipped,
            inferences: self.host.take_inferences(),
        }
    }

    /// Whether frames of a recording were taken.
    #[must_use]
    pub fn plays_recording(&self) -> bool {
        self.last.is_some() && !self.is_live
    }

    /// Whether a frame was taken.
    #[must_use]
    pub fn has_seen(&self) -> bool {
        self.last.is_some()
    }

    /// What another process needs to go on after the last frame. Nothing before the first one, and of a recording.
    #[must_use]
    pub fn save(&self) -> Option<Memory> {
        if !self.is_live {
            return None;
        }
        let saved = self.execution.save();
        for left_out in &saved.left_out {
            tracing::debug!(what = left_out.what, why = left_out.why, "is not kept");
        }
        let zones = self.zones.iter();
        Some(Memory {
            workflow: ByteBuf::from(saved.bytes),
            now: self.clock.now(),
            began: self.began,
            tracks: self.results.tracks,
            lines: self.results.lines.clone(),
            zones: zones
                .map(|(name, _, v)| (name.clone(), v.clone()))
                .collect(),
            tracked: self.tracked.iter().map(|(_, t)| t.clone()).collect(),
        })
    }

    /// How much of the seconds that were asked for has passed. Nothing where none were, before the first frame of all, and of a recording.
    #[must_use]
    pub fn elapsed(&self) -> Option<Duration> {
        self.stop_after_s?;
        let began = self.began.filter(|_| !self.plays_recording())?;
        Some(self.clock.reached(Instant::now()).saturating_sub(began))
    }

    /// Goes on in time and in nothing else: so much had passed `away` ago. Before the first frame; where nothing tells how long it was dark, that does not count
    /// as watched.
    pub fn go_on(&mut self, elapsed: Duration, away: Option<Duration>) {
        self.go_on_from(elapsed, Some(Duration::ZERO), away);
    }

    fn go_on_from(&mut self, now: Duration, began: Option<Duration>, away: Option<Duration>) {
        let (dark, unwatched) = away.map_or((UNKNOWN, UNKNOWN), |away| (away, Duration::ZERO));
        self.clock.go_on(now, dark);
        self.began = began.map(|began| began.saturating_add(unwatched));
    }

    /// Goes on with what was saved `away` ago, before the first frame. Answers which steps begin anew all the same. Where nothing tells how long it was dark,
    /// that does not count as watched.
    ///
    /// # Errors
    /// When it can't be read; nothing has changed then.
    pub fn restore(
        &mut self,
        memory: Memory,
        away: Option<Duration>,
    ) -> Result<Vec<Restart>, StateError> {
        let restored = self.execution.restore(&memory.workflow)?;
        self.go_on_from(memory.now, memory.began, away);
        self.results.tracks = memory.tracks;
        for (name, count) in memory.lines {
            if let Some(line) = self.results.lines.get_mut(&name) {
                *line = count;
            }
        }
        // Where a tracker begins anew, so do its identities: who stays and who was counted would be told by those of others.
        if restored.restarted.is_empty() && memory.tracked.len() == self.tracked.len() {
            let mut zones = memory.zones;
            for (name, _, visits) in &mut self.zones {
                if let Some(saved) = zones.remove(name) {
                    *visits = saved;
                }
            }
            for ((_, seen), saved) in self.tracked.iter_mut().zip(memory.tracked) {
                *seen = saved;
            }
        }
        Ok(restored.restarted)
    }

    /// The source ended or the pipeline stops: open events end.
    pub fn finish(&mut self, new_id: &mut dyn FnMut() -> EventId) -> Vec<Change> {
        let Some(last) = self.last else {
            return Vec::new();
        };
        for (name, _, visits) in &mut self.zones {
            visits.finish();
            self.results.zones.insert(name.clone(), visits.summary());
        }
        self.rules.finish(&last, new_id)
    }

    /// Accounts time that was spent on handing results over, and answers what each stage of this frame cost.
    pub fn spent_on_output(&mut self, spent: Duration) -> impl Iterator<Item = (Stage, Duration)> {
        self.stages.add(Stage::Output, spent);
        self.stages.frame_done()
    }

    /// Numbers so far. Event counts and elapsed time are the worker's to fill in.
    #[must_use]
    pub fn results(&self) -> PipelineResults {
        let mut results = self.results.clone();
        for (name, _, visits) in &self.zones {
            results.zones.insert(name.clone(), visits.summary());
        }
        results.stages_ms = self.stages.means_ms();
        results.discarded = self.rules.discarded();
        results.unwatched = self.rules.unwatched();
        results.outputs = self.execution.outputs_json();
        results.left_s = self.stop_after_s.map(|stop| {
            let now = self.clock.now();
            let watched = now.saturating_sub(self.began.unwrap_or(now));
            (stop - watched.as_secs_f64()).max(0.0)
        });
        results
    }

    fn is_skipped(&mut self, time_s: f64) -> bool {
        let Some(every) = self.every_s else {
            return false;
        };
        // A tolerance of a millisecond keeps "every second" on the frame of that second.
        let due = self
            .last_run_s
            .is_none_or(|last| time_s - last >= every - 1e-3 || time_s < last);
        if due {
            self.last_run_s = Some(time_s);
        }
        !due
    }

    fn count(&mut self, time_s: f64) {
        for (slot, seen) in &mut self.tracked {
            let Some(detections) = self.execution.detections(*slot) else {
                continue;
            };
            seen.next_round(u64::MAX);
            for track in detections.boxes.iter().filter_map(|d| d.track) {
                if seen.touch(track).is_none() {
                    seen.touch_or_insert(track, ());
                    self.results.tracks += 1;
                }
            }
        }
        for (name, count_in, count_out) in &self.lines {
            if let Some(line) = self.results.lines.get_mut(name) {
                line.r#in = whole(self.execution.number(*count_in)).unwrap_or(line.r#in);
                line.out = whole(self.execution.number(*count_out)).unwrap_or(line.out);
            }
        }
        for (_, slot, visits) in &mut self.zones {
            let boxes = self
                .execution
                .detections(*slot)
                .map_or(&[][..], |detections| &detections.boxes);
            let tracks = |held: bool| {
                let those = boxes.iter().filter(move |d| d.is_held() == held);
                those.filter_map(|d| d.track)
            };
            visits.observe(tracks(false), tracks(true), time_s);
        }
    }
}

fn whole(number: Option<f64>) -> Option<u64> {
    number
        .filter(|n| n.is_finite() && *n >= 0.0)
        .map(|n| n as u64)
}

fn input(execution: &Execution, slot: SlotId, kind: NeedKind) -> NeedValue<'_> {
    match kind {
        NeedKind::Detections => execution
            .detections(slot)
            .map_or(NeedValue::Missing, NeedValue::Detections),
        NeedKind::Number => execution
            .number(slot)
            .map_or(NeedValue::Missing, NeedValue::Number),
        NeedKind::Boolean => execution
            .boolean(slot)
            .map_or(NeedValue::Missing, NeedValue::Boolean),
        NeedKind::NumberOrBoolean => match (execution.boolean(slot), execution.number(slot)) {
            (Some(b), _) => NeedValue::Boolean(b),
            (None, Some(n)) => NeedValue::Number(n),
            (None, None) => NeedValue::Missing,
        },
    }
}

#[cfg(test)]
mod tests;
