//! Replays a pipeline on the detection history of its source: what it would have reported.
//!
//! - Everything behind the detector is the code of a deployed pipeline ([`Run`]), so the events are
//!   those that it would have made. Nothing is journaled, stored, drawn or listed.
//! - The detectors return what the history has of their model. A pipeline that needs another model,
//!   several, or pixels is not replayed; the report says why.
//! - It ends after at most [`MAX_FRAMES`], of which the latest are taken, after [`MAX_WALL`], or
//!   when the caller is gone.

mod recorded;
mod report;

use std::time::{Duration, Instant};

use watchkeeper_contract::backtest::{Backtest, BacktestReport, MAX_BACKTEST_HOURS};
use watchkeeper_contract::id::EventId;
use watchkeeper_contract::pipeline::{DetectMode, PipelineSpec};
use watchkeeper_contract::problem::{Problem, ProblemCode};
use watchkeeper_contract::time::{TimeQuality, Wall};
use watchkeeper_vision::frame::{Frame, FrameId, Picture};

use self::recorded::{RecordedDetector, RecordedFrame};
use self::report::ReportWriter;
use crate::clock;
use crate::history::{ChunkHead, DetectionHistory, SeenFrame};
use crate::pipeline::inference::detectors::{Detectors, models_of};
use crate::pipeline::inference::host::DetectHost;
use crate::pipeline::manager::Manager;
use crate::pipeline::plan::{self, Plan};
use crate::pipeline::run::Run;

/// Maximum number of replayed frames.
const MAX_FRAMES: usize = 1_000_000;
/// Maximum real time.
const MAX_WALL: Duration = Duration::from_secs(20);
/// Frames between two checks of the time and the caller.
const CHECK_EVERY: usize = 500;

/// One chunk of the history.
type Chunk = (ChunkHead, Vec<SeenFrame>);

/// Replays the pipeline in `request` until it is done or `is_gone` reports that the caller has left.
///
/// # Errors
/// [`Problem`] when it could not be deployed, or the caller is gone.
pub fn run(
    manager: &Manager,
    request: &Backtest,
    is_gone: &dyn Fn() -> bool,
) -> Result<BacktestReport, Problem> {
    let hours = request.hours;
    if !(hours > 0.0 && hours <= MAX_BACKTEST_HOURS) {
        let detail =
            format!("hours is {hours}; use a number over 0 and at most {MAX_BACKTEST_HOURS}");
        let problem = Problem::new(422, ProblemCode::InvalidRequest, detail);
        return Err(problem.at("hours", hours.to_string()));
    }
    let spec = PipelineSpec {
        record: false,
        show: false,
        paused: false,
        stop_after_s: None,
        detect: DetectMode::Always,
        ..request.pipeline.clone()
    };
    manager.check_channels(&spec)?;
    let plan = plan::plan(&spec)?;
    let model = match replayed_model(&spec, &plan) {
        Ok(model) => model,
        Err(why) => return Ok(not_replayed(why)),
    };
    let from_ms = clock::wall().unix_ms - (hours * 3_600_000.0) as i64;
    let chunks = latest_chunks(&manager.parts().history, &spec, &model, from_ms);
    let Some((head, _)) = chunks.last() else {
        let why = format!(
            "there is no history of {model} on {} yet; it grows while a pipeline with this model \
             watches it",
            spec.source
        );
        return Ok(not_replayed(why));
    };
    let (head, shown) = (head.clone(), RecordedFrame::default());
    let detectors = Detectors::open(&spec, &plan, &|model| {
        let detector = RecordedDetector::new(model, &head, shown.clone());
        Ok(Box::new(detector))
    })?;
    let mut replay = Replay {
        out: ReportWriter::new(plan.rule_names.clone()),
        run: Run::new(plan, DetectHost::new(detectors, fastrand::u64(..)), &spec),
        spec,
        shown,
        head,
        began: Instant::now(),
        frames: 0,
        source_s: 0.0,
    };
    for chunk in &chunks {
        if !replay.play(chunk, from_ms, is_gone)? {
            replay
                .out
                .limit("it ended early: the history is long, and the box is slow");
            break;
        }
    }
    Ok(replay.finish())
}

fn not_replayed(why: String) -> BacktestReport {
    BacktestReport {
        not_replayed: Some(why),
        ..BacktestReport::default()
    }
}

/// The one model whose history the pipeline needs; the error says why it can't be replayed.
fn replayed_model(spec: &PipelineSpec, plan: &Plan) -> Result<String, String> {
    if let Some(step) = plan.compiled.picture_step() {
        return Err(format!(
            "its step {step} reads pixels, which the history does not keep"
        ));
    }
    if let Some(step) = plan.compiled.questions().first() {
        return Err(format!(
            "its step {} asks a model that the history does not keep",
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

/// The latest chunks of at most [`MAX_FRAMES`], oldest first. Those whose picture or classes differ
/// from the latest one's are left out.
fn latest_chunks(
    history: &DetectionHistory,
    spec: &PipelineSpec,
    model: &str,
    from_ms: i64,
) -> Vec<Chunk> {
    let mut chunks: Vec<Chunk> = Vec::new();
    history.read(&spec.source, model, from_ms, |head, frames| {
        chunks.push((head, frames));
        let mut all: usize = chunks.iter().map(|(_, frames)| frames.len()).sum();
        while all > MAX_FRAMES && chunks.len() > 1 {
            all -= chunks.remove(0).1.len();
        }
        true
    });
    if let Some((last, _)) = chunks.last().cloned() {
        chunks.retain(|(head, _)| head.size == last.size && head.labels == last.labels);
    }
    chunks
}

/// A replay in progress.
struct Replay {
    run: Run,
    spec: PipelineSpec,
    /// What the detectors see next.
    shown: RecordedFrame,
    /// Head of the latest chunk.
    head: ChunkHead,
    out: ReportWriter,
    began: Instant,
    frames: usize,
    /// Source time of the last frame.
    source_s: f64,
}

impl Replay {
    /// Replays a chunk from `from_ms` on; false at the end of the time.
    fn play(
        &mut self,
        (head, frames): &Chunk,
        from_ms: i64,
        is_gone: &dyn Fn() -> bool,
    ) -> Result<bool, Problem> {
        let [width, height] = head.size;
        // No step reads pixels, so all frames share one picture.
        let pixels = vec![0; width as usize * height as usize * 3];
        let picture = Picture::rgb(width, height, pixels);
        let wall_of = |frame: &SeenFrame| head.start_ms + i64::from(frame.wall_ms);
        let frames = frames.iter().filter(|frame| wall_of(frame) >= from_ms);
        let mut earlier: Option<(i64, u32)> = None;
        for frame in frames {
            let wall_ms = wall_of(frame);
            self.source_s += match earlier {
                Some((_, source_ms)) => f64::from(frame.source_ms.saturating_sub(source_ms)) / 1e3,
                None => self.out.seconds_since_last(wall_ms),
            };
            self.out.frame(wall_ms, earlier.map(|(at, _)| at));
            earlier = Some((wall_ms, frame.source_ms));
            self.process(frame, head, wall_ms, &picture);
            self.frames += 1;
            if self.frames.is_multiple_of(CHECK_EVERY) {
                if is_gone() {
                    let detail = "the caller of the backtest is gone";
                    return Err(Problem::new(503, ProblemCode::NotReady, detail));
                }
                if self.began.elapsed() > MAX_WALL {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn process(&mut self, seen: &SeenFrame, head: &ChunkHead, wall_ms: i64, picture: &Picture) {
        let wall = Wall {
            unix_ms: wall_ms,
            quality: TimeQuality::Synced,
        };
        let frame = Frame {
            id: FrameId {
                source: self.spec.source.clone(),
                seq: self.frames as u64 + 1,
            },
            pts: Duration::try_from_secs_f64(self.source_s).unwrap_or_default(),
            arrived: Instant::now(),
            wall,
            fps: head.fps,
            recorded: head.recorded,
            picture: picture.clone(),
        };
        self.shown.set(seen);
        let outcome = self
            .run
            .process(&frame, clock::local(wall), &mut EventId::generate);
        self.out.add(wall_ms, outcome.changes);
    }

    fn finish(mut self) -> BacktestReport {
        let changes = self.run.finish(&mut EventId::generate);
        self.out.add_last(changes);
        if self.head.on_motion {
            self.out.limit(
                "the history has no frames without motion, so objects at rest may be missing",
            );
        }
        if self.shown.lacks_weaker() {
            self.out.limit(&format!(
                "the history has no detections with a score below {:.2}",
                self.head.confidence
            ));
        }
        self.out.finish(self.run.results())
    }
}
