//! Replays a pipeline on the detection history of its source: what it would have reported.
//!
//! - Everything after the detector is the code of a deployed pipeline ([`Run`]), so the events are
//!   those that it would have made. Nothing is journaled, stored, drawn or listed.
//! - The detectors return what the history has of their model. A pipeline that needs another model,
//!   several, or pixels is not replayed; the report says why.
//! - It reads one chunk at a time, and ends after [`MAX_WALL`], or when the caller is gone. Of a
//!   history that takes longer the newest hours are replayed, and a limit says so.
//! - Each replay is in the order of the frames, because rules have a memory. So it is tried on the
//!   last [`FIRST_SPAN_MS`], then on [`GROWTH`] times as much, or all of it, while the time
//!   suffices.

mod recorded;
mod report;
mod strip;
mod unmoved;

use std::ops::Range;
use std::time::{Duration, Instant};

use watchkeeper_contract::backtest::{Backtest, BacktestReport, MAX_BACKTEST_HOURS};
use watchkeeper_contract::id::{EventId, SourceId};
use watchkeeper_contract::pipeline::{DetectMode, PipelineSpec};
use watchkeeper_contract::problem::Problem;
use watchkeeper_contract::time::{TimeQuality, Wall};
use watchkeeper_engine::rules::FinishReason;
use watchkeeper_engine::workflow::Task;
use watchkeeper_vision::frame::{Frame, FrameId, Picture};

use self::recorded::{RecordedDetector, RecordedFrame};
use self::report::{Moment, ReportWriter};
use self::unmoved::UnmovedTracks;
use crate::clock;
use crate::history::{ChunkHead, DetectionHistory, SeenFrame, StoredChunk};
use crate::pipeline::inference::detectors::{Detectors, models_of};
use crate::pipeline::inference::host::DetectHost;
use crate::pipeline::manager::Manager;
use crate::pipeline::plan::{self, Plan};
use crate::pipeline::run::Run;

/// Maximum real time without drawing pictures; shorter than the next run waits for its turn.
pub(crate) const MAX_WALL: Duration = Duration::from_secs(8);
/// First span that is replayed, in milliseconds.
const FIRST_SPAN_MS: i64 = 300_000;
/// Growth from one span to the next.
const GROWTH: f64 = 4.0;
/// Share of the fitting span up to which the whole history is replayed: other hours may be busier.
const WHOLE_SHARE: f64 = 0.8;
/// Frames between two checks of the caller.
const CHECK_EVERY: usize = 500;

/// Replays the pipeline in `request` until it is done, or `is_gone` says that the caller has left.
///
/// # Errors
/// [`Problem`] when it could not be deployed, or the caller is gone.
pub fn run(
    manager: &Manager,
    request: &Backtest,
    is_gone: &dyn Fn() -> bool,
) -> Result<BacktestReport, Problem> {
    let began = Instant::now();
    let hours = request.hours;
    check_hours(hours)?;
    let spec = replayed_spec(&request.pipeline);
    manager.check_channels(&spec)?;
    manager.check_source_exists(&spec)?;
    let plan = plan::plan(&spec)?;
    manager.check_class_mask(&spec, &plan)?;
    let model = match replayed_model(manager, &spec, &plan) {
        Ok(model) => model,
        Err(why) => return Ok(not_replayed(why)),
    };
    let now_ms = clock::wall().unix_ms;
    let from_ms = now_ms - (hours * 3_600_000.0) as i64;
    let (chunks, left_out) = latest_chunks(&manager.parts().history, &spec, &model, from_ms);
    let Some(first) = chunks.first() else {
        let disk_error = manager.parts().history.disk_error();
        let why = why_no_history(&model, &spec.source, disk_error.as_deref());
        return Ok(not_replayed(why));
    };
    let earliest_ms = from_ms.max(first.head.start_ms);
    let mut report = replay_newest(&spec, &chunks, earliest_ms..now_ms, began, is_gone)?;
    if left_out > 0 {
        report.limits.push(format!(
            "{left_out} parts of the history are of another picture size or of other classes"
        ));
    }
    if request.pictures {
        report.strip = strip::draw(&chunks, &report.events, is_gone);
    }
    Ok(report)
}

/// Why nothing of `model` on `source` can be replayed; the history may not be written because of
/// `disk_error`.
fn why_no_history(model: &str, source: &SourceId, disk_error: Option<&str>) -> String {
    match disk_error {
        Some(error) => format!(
            "there is no history of {model} on {source}: the detection history can't be written: \
             {error}"
        ),
        None => format!(
            "there is no history of {model} on {source} yet; it grows while a pipeline with this \
             model watches it"
        ),
    }
}

/// Replays the newest part of the chunks in `range_ms` that fits in [`MAX_WALL`] after `began`.
fn replay_newest(
    spec: &PipelineSpec,
    chunks: &[StoredChunk],
    range_ms: Range<i64>,
    began: Instant,
    is_gone: &dyn Fn() -> bool,
) -> Result<BacktestReport, Problem> {
    let until = began + MAX_WALL;
    let whole_ms = range_ms.end - range_ms.start;
    let (mut span_ms, mut done) = (FIRST_SPAN_MS.min(whole_ms), None);
    loop {
        let attempt = Instant::now();
        let mut replay = Replay::new(spec, chunks, until)?;
        if !replay.play_all(chunks, range_ms.end - span_ms, is_gone)? {
            break;
        }
        if let Some(why) = replay.failure {
            return Ok(not_replayed(why));
        }
        done = Some((replay.finish(), span_ms));
        let left = until.saturating_duration_since(Instant::now());
        match next_span(span_ms, whole_ms, attempt.elapsed(), left) {
            Some(next) => span_ms = next,
            None => break,
        }
    }
    let max_s = MAX_WALL.as_secs();
    let Some((mut report, span_ms)) = done else {
        let minutes = span_ms / 60_000;
        return Ok(not_replayed(format!(
            "the box takes over {max_s} s to replay the last {minutes} min"
        )));
    };
    report.results.elapsed_s = began.elapsed().as_secs_f64();
    if span_ms < whole_ms {
        report.limits.push(format!(
            "only the last {} min of {} min are replayed, to end within {max_s} s",
            span_ms / 60_000,
            whole_ms / 60_000,
        ));
    }
    Ok(report)
}

/// The span to replay after one that took `took`; none where all is done, or where `left` does not
/// suffice for more. Half of the time is spared for busier hours; the whole may take
/// [`WHOLE_SHARE`] of it.
fn next_span(span_ms: i64, whole_ms: i64, took: Duration, left: Duration) -> Option<i64> {
    let fitting = left.as_secs_f64() / took.as_secs_f64();
    let growth = whole_ms as f64 / span_ms as f64;
    let next = if growth <= GROWTH.min(fitting * WHOLE_SHARE) {
        whole_ms
    } else {
        whole_ms.min((span_ms as f64 * GROWTH.min(fitting / 2.0)) as i64)
    };
    (next > span_ms).then_some(next)
}

fn check_hours(hours: f64) -> Result<(), Problem> {
    if !(hours > 0.0 && hours <= MAX_BACKTEST_HOURS) {
        let detail =
            format!("hours is {hours}; use a number over 0 and at most {MAX_BACKTEST_HOURS}");
        let problem = Problem::invalid_value(detail);
        return Err(problem.at("hours", hours.to_string()));
    }
    Ok(())
}

fn not_replayed(why: String) -> BacktestReport {
    BacktestReport {
        not_replayed: Some(why),
        ..BacktestReport::default()
    }
}

/// The pipeline as it is replayed. Motion is not in the history, so every frame of it is taken.
fn replayed_spec(wanted: &PipelineSpec) -> PipelineSpec {
    let detect = match wanted.detect {
        DetectMode::OnMotion { .. } => DetectMode::Always,
        other => other,
    };
    PipelineSpec {
        record: false,
        show: false,
        paused: false,
        stop_after_s: None,
        detect,
        ..wanted.clone()
    }
}

/// The one model whose history the pipeline needs; the error says why it can't be replayed.
fn replayed_model(manager: &Manager, spec: &PipelineSpec, plan: &Plan) -> Result<String, String> {
    if manager.class_mask(&spec.source).is_some() {
        return Err(format!(
            "{} has a privacy mask of classes, and then no history is kept",
            spec.source
        ));
    }
    if let Some(step) = plan.compiled.picture_step() {
        return Err(format!(
            "its step {step} reads pixels, which the history does not keep"
        ));
    }
    let questions = plan.compiled.questions();
    let steps = plan.compiled.detections();
    let others = steps.iter().filter(|step| step.task != Task::Boxes);
    if let Some(step) = questions.iter().chain(others).next() {
        return Err(format!(
            "its step {} asks for more than boxes, which the history does not keep",
            step.name
        ));
    }
    let mut models: Vec<&String> = models_of(spec, plan).collect();
    models.sort_unstable();
    models.dedup();
    match models.as_slice() {
        [model] => Ok((*model).clone()),
        [] => Err("it has no detector".to_owned()),
        [..] => Err("it has several detectors".to_owned()),
    }
}

/// The chunks from `from_ms` on, oldest first, and the number of those whose picture or classes
/// differ from the latest one's.
fn latest_chunks(
    history: &DetectionHistory,
    spec: &PipelineSpec,
    model: &str,
    from_ms: i64,
) -> (Vec<StoredChunk>, usize) {
    let mut chunks = history.chunks(&spec.source, model, from_ms);
    let all = chunks.len();
    if let Some(last) = chunks.last().map(|chunk| chunk.head.clone()) {
        chunks.retain(|chunk| chunk.head.size == last.size && chunk.head.labels == last.labels);
    }
    let left_out = all - chunks.len();
    (chunks, left_out)
}

/// A replay in progress.
struct Replay {
    run: Run,
    spec: PipelineSpec,
    /// Frame that the detectors see next.
    shown: RecordedFrame,
    unmoved: UnmovedTracks,
    out: ReportWriter,
    until: Instant,
    frames: usize,
    /// Source time of the last frame.
    source_s: f64,
    /// Why a step on which a rule depends failed.
    failure: Option<String>,
}

impl Replay {
    /// Prepares a replay of chunks that ends at `until`.
    fn new(spec: &PipelineSpec, chunks: &[StoredChunk], until: Instant) -> Result<Self, Problem> {
        let plan = plan::plan(spec)?;
        let shown = RecordedFrame::default();
        let detectors = Detectors::open(spec, &plan, &|model| {
            let head = chunks.last().map(|chunk| &chunk.head);
            let head = head.ok_or_else(|| Problem::internal("no chunk"))?;
            Ok(Box::new(RecordedDetector::new(model, head, shown.clone())))
        })?;
        Ok(Self {
            out: ReportWriter::new(plan.rule_names.clone()),
            run: Run::new(plan, DetectHost::new(detectors, fastrand::u64(..)), spec),
            spec: spec.clone(),
            shown,
            unmoved: UnmovedTracks::default(),
            until,
            frames: 0,
            source_s: 0.0,
            failure: None,
        })
    }

    /// Replays the frames from `from_ms` on; false at the end of the time.
    fn play_all(
        &mut self,
        chunks: &[StoredChunk],
        from_ms: i64,
        is_gone: &dyn Fn() -> bool,
    ) -> Result<bool, Problem> {
        // A chunk ends where the next one starts, or earlier.
        let later = chunks
            .iter()
            .skip(1)
            .take_while(|chunk| chunk.head.start_ms <= from_ms);
        for chunk in chunks.iter().skip(later.count()) {
            if !self.play(chunk, from_ms, is_gone)? {
                return Ok(false);
            }
            if self.failure.is_some() {
                break;
            }
        }
        Ok(true)
    }

    /// Replays a chunk from `from_ms` on; false at the end of the time.
    fn play(
        &mut self,
        chunk: &StoredChunk,
        from_ms: i64,
        is_gone: &dyn Fn() -> bool,
    ) -> Result<bool, Problem> {
        let head = &chunk.head;
        self.shown.begin_chunk(head);
        let [width, height] = head.size;
        // No step reads pixels, so all frames share one picture.
        let pixels = vec![0; width as usize * height as usize * 3];
        let picture = Picture::rgb(width, height, pixels);
        let moment = |frame: &SeenFrame| Moment {
            wall_ms: head.start_ms + i64::from(frame.wall_ms),
            source_ms: frame.source_ms,
        };
        let frames = chunk.frames();
        let frames = frames.iter().filter(|f| moment(f).wall_ms >= from_ms);
        let mut earlier: Option<Moment> = None;
        for frame in frames {
            let at = moment(frame);
            if let Some(earlier) = earlier {
                self.shown.set(&[]);
                for between in left_out_between(earlier, at, frame.left_out) {
                    if !self.has_time(is_gone)? {
                        return Ok(false);
                    }
                    self.process(head, between, Some(earlier), &picture);
                }
            }
            self.shown.set(&frame.boxes);
            self.process(head, at, earlier, &picture);
            earlier = Some(at);
            if !self.has_time(is_gone)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether time is left for the next frame; asks for the caller every [`CHECK_EVERY`] frames.
    fn has_time(&self, is_gone: &dyn Fn() -> bool) -> Result<bool, Problem> {
        if self.frames.is_multiple_of(CHECK_EVERY) && is_gone() {
            return Err(Problem::not_ready("the caller of the backtest is gone"));
        }
        Ok(Instant::now() <= self.until)
    }

    /// Replays one frame; `earlier` is the last recorded one before it in its chunk.
    fn process(
        &mut self,
        head: &ChunkHead,
        at: Moment,
        earlier: Option<Moment>,
        picture: &Picture,
    ) {
        self.source_s += match (earlier, self.out.last()) {
            (Some(_), Some(last)) => f64::from(at.source_ms.saturating_sub(last.source_ms)) / 1e3,
            (None, Some(last)) => (at.wall_ms - last.wall_ms).max(0) as f64 / 1e3,
            (_, None) => 0.0,
        };
        self.out.frame(at, head.looks.max_gap_s());
        self.frames += 1;
        let wall = Wall {
            unix_ms: at.wall_ms,
            quality: TimeQuality::Synced,
        };
        let frame = Frame {
            id: FrameId {
                source: self.spec.source.clone(),
                seq: self.frames as u64,
            },
            pts: Duration::try_from_secs_f64(self.source_s).unwrap_or_default(),
            arrived: Instant::now(),
            wall,
            fps: head.fps,
            recorded: head.recorded,
            is_damaged: false,
            picture: picture.clone(),
        };
        let outcome = self
            .run
            .process(&frame, clock::schedule_time(wall), &mut EventId::generate);
        let Some(processed) = outcome.processed else {
            return;
        };
        if processed.rules_failed {
            let failed = processed.failures.first();
            let why = failed.map(|f| format!("its step {} fails: {}", f.step, f.message));
            self.failure = why.or(Some("a step fails".to_owned()));
        }
        self.unmoved.observe(self.run.tracked_boxes());
        self.out.add(at.wall_ms, processed.changes);
    }

    fn finish(mut self) -> BacktestReport {
        let changes = self
            .run
            .finish(FinishReason::SourceEnded, &mut EventId::generate);
        self.out.add_last(changes);
        for limit in self.shown.limits() {
            self.out.limit(limit);
        }
        let mut report = self.out.finish(self.run.results());
        report.limits.extend(self.unmoved.limit(&report.events));
        report.warnings = self.run.warnings().to_vec();
        report
    }
}

/// The clocks of the frames that were left out between two recorded ones, evenly spaced.
fn left_out_between(from: Moment, to: Moment, left_out: u16) -> impl Iterator<Item = Moment> {
    let parts = f64::from(left_out) + 1.0;
    let wall = (to.wall_ms - from.wall_ms) as f64 / parts;
    let source = f64::from(to.source_ms.saturating_sub(from.source_ms)) / parts;
    (1..=left_out).map(move |n| Moment {
        wall_ms: from.wall_ms + (wall * f64::from(n)) as i64,
        source_ms: from.source_ms + (source * f64::from(n)) as u32,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn missing_history_names_the_disk_that_refuses_it() {
        let yard = SourceId::new("yard").expect("an id");
        let grows = why_no_history("yolox-nano", &yard, None);
        assert!(grows.contains("yet; it grows"), "{grows}");
        let refused = why_no_history("yolox-nano", &yard, Some("it is full"));
        assert!(
            refused.ends_with("can't be written: it is full"),
            "{refused}"
        );
    }

    #[test]
    fn frames_that_were_left_out_are_put_back_evenly() {
        let from = Moment {
            wall_ms: 1_000,
            source_ms: 500,
        };
        let to = Moment {
            wall_ms: 2_000,
            source_ms: 1_500,
        };
        let between = left_out_between(from, to, 3).map(|at| (at.wall_ms, at.source_ms));
        let between: Vec<_> = between.collect();
        assert_eq!(between, [(1_250, 750), (1_500, 1_000), (1_750, 1_250)]);
        assert_eq!(left_out_between(from, to, 0).count(), 0);
    }

    #[test]
    fn history_that_fits_with_a_reserve_is_replayed_whole() {
        let seconds = Duration::from_secs;
        assert_eq!(next_span(100, 300, seconds(2), seconds(8)), Some(300));
        // One that just fits leaves half of the time: a busier hour would not fit.
        assert_eq!(next_span(100, 300, seconds(2), seconds(6)), Some(150));
        assert_eq!(next_span(100, 1_000, seconds(1), seconds(60)), Some(400));
        assert_eq!(next_span(300, 300, seconds(1), seconds(6)), None);
    }

    proptest! {
        /// At a steady pace all of the history is replayed, or the last replay takes over a quarter
        /// of the time. No replay exceeds the time.
        #[test]
        fn newest_part_grows_while_the_time_suffices(
            whole_ms in 1_000i64..86_400_000, ms_an_hour in 0.001f64..20_000.0,
        ) {
            let took = |span_ms: i64| {
                Duration::from_secs_f64(span_ms as f64 / 3.6e6 * ms_an_hour / 1e3)
            };
            let (mut span_ms, mut left) = (FIRST_SPAN_MS.min(whole_ms), MAX_WALL);
            loop {
                prop_assert!(took(span_ms) <= left);
                left -= took(span_ms);
                match next_span(span_ms, whole_ms, took(span_ms), left) {
                    Some(next) => span_ms = next,
                    None => break,
                }
            }
            prop_assert!(span_ms == whole_ms || took(span_ms) * 4 > MAX_WALL);
        }
    }
}
