//! Counts crossings in a sequence as `watchkeeper run --line` does, from published detections.
//!
//! - Everything after the detector is the product: tracker, line counters, rules, evidence.
//! - Events below the last gate are reported too, so that their evidence is seen.

use std::time::{Duration, Instant};

use anyhow::anyhow;
use jiff::Zoned;
use jiff::tz::TimeZone;
use serde_json::json;
use watchkeeper_contract::event::{Phase, Verdict};
use watchkeeper_contract::id::EventId;
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::rule::Gates;
use watchkeeper_contract::time::{TimeQuality, Wall};
use watchkeeper_detect::{
    DetectError, DetectParams, DetectTimes, Detector, DetectorInfo, OwnThresholds, RawDetection,
};
use watchkeeper_engine::rules::decide::verdict;
use watchkeeper_engine::rules::{Change, FinishReason};
use watchkeeper_engine::templates::shape::NamedLine;
use watchkeeper_engine::templates::watch::{TRACKED, Watch, workflow};
use watchkeeper_models::manifest::Task as ModelTask;
use watchkeeper_runtime::clock;
use watchkeeper_runtime::pipeline::inference::detectors::Detectors;
use watchkeeper_runtime::pipeline::inference::host::DetectHost;
use watchkeeper_runtime::pipeline::plan;
use watchkeeper_runtime::pipeline::run::Run;
use watchkeeper_vision::frame::{Frame, FrameId, Picture};

use super::files::{Found, Frames, Sequence};
use super::truth_crossings::Reported;

/// Name of the detector that reads the sequence.
const MODEL: &str = "published";

/// A crossing event with its evidence.
#[derive(Debug, Clone)]
pub struct CrossingEvent {
    pub reported: Reported,
    pub change: Change,
    /// Verdict by the default gates; `change` has one by lower gates.
    pub verdict: Verdict,
}

/// Counts the crossings of `lines`.
///
/// # Errors
/// If the product refuses the lines.
pub fn count(sequence: &Sequence, lines: &[NamedLine]) -> anyhow::Result<Vec<CrossingEvent>> {
    let changes = replay(sequence, &spec(lines)?)?;
    let new = changes.into_iter().filter(|c| c.phase == Phase::New);
    Ok(new.filter_map(event).collect())
}

/// Runs a rule on every object that appears.
///
/// # Errors
/// If the product refuses the rule.
pub fn appearances(sequence: &Sequence) -> anyhow::Result<Vec<Change>> {
    let spec: PipelineSpec = serde_json::from_value(json!({
        "id": "appear",
        "source": "sequence",
        "workflow": workflow(&Watch::default(), MODEL),
        "rules": [{
            "name": "appears", "when": {"kind": "appears", "detections": TRACKED},
        }],
    }))?;
    let mut changes = replay(sequence, &spec)?;
    changes.retain(|change| change.phase == Phase::New);
    Ok(changes)
}

/// Runs a pipeline on the detections of a sequence.
fn replay(sequence: &Sequence, spec: &PipelineSpec) -> anyhow::Result<Vec<Change>> {
    let plan = plan::plan(spec).map_err(|p| anyhow!("{}", p.detail))?;
    let open = |_: &str| Ok(Box::new(Published::new(&sequence.found)) as Box<dyn Detector>);
    let detectors = Detectors::open(spec, &plan, &open).map_err(|p| anyhow!("{}", p.detail))?;
    let mut run = Run::new(plan, DetectHost::new(detectors, 0), spec);
    let [width, height] = [sequence.info.width, sequence.info.height];
    // No step reads pixels, so all frames share one picture.
    let picture = Picture::rgb(width, height, vec![0; width as usize * height as usize * 3]);
    let mut changes = Vec::new();
    for number in 0..sequence.found.len() {
        let frame = frame(spec, number, sequence.info.fps, &picture);
        let local = clock::local_time(&Zoned::new(jiff::Timestamp::UNIX_EPOCH, TimeZone::UTC));
        let outcome = run.process(&frame, Some(local), &mut EventId::generate);
        changes.extend(outcome.processed.into_iter().flat_map(|seen| seen.changes));
    }
    changes.extend(run.finish(FinishReason::SourceEnded, &mut EventId::generate));
    Ok(changes)
}

/// The specification of a watch on these lines, with a rule for each.
fn spec(lines: &[NamedLine]) -> anyhow::Result<PipelineSpec> {
    let watch = Watch {
        lines: lines.to_vec(),
        ..Watch::default()
    };
    let gates = Gates {
        escalate: 0.0,
        ..Gates::default()
    };
    let rules = lines.iter().map(|line| {
        json!({
            "name": line.name,
            "when": {"kind": "crosses", "line": line.name},
            "gates": gates,
        })
    });
    Ok(serde_json::from_value(json!({
        "id": "count",
        "source": "sequence",
        "workflow": workflow(&watch, MODEL),
        "rules": rules.collect::<Vec<_>>(),
    }))?)
}

/// Frame `number`, counted from 0.
fn frame(spec: &PipelineSpec, number: usize, fps: f64, picture: &Picture) -> Frame {
    Frame {
        id: FrameId {
            source: spec.source.clone(),
            seq: number as u64 + 1,
        },
        pts: Duration::from_secs_f64(number as f64 / fps),
        arrived: Instant::now(),
        wall: Wall {
            unix_ms: 0,
            quality: TimeQuality::Synced,
        },
        fps: Some(fps),
        recorded: true,
        is_damaged: false,
        picture: picture.clone(),
    }
}

fn event(change: Change) -> Option<CrossingEvent> {
    let event = &change.event;
    let reported = Reported {
        line: event.line.clone()?,
        is_in: event.direction.as_deref() == Some("in"),
        frame: event.frame.saturating_sub(1) as usize,
        track: event.tracks.first()?.0,
    };
    let verdict = verdict(change.decision.confidence, &Gates::default());
    Some(CrossingEvent {
        reported,
        change,
        verdict,
    })
}

/// Detector that returns the detections of a sequence.
struct Published {
    info: DetectorInfo,
    found: Frames<Found>,
}

impl Published {
    fn new(found: &Frames<Found>) -> Self {
        Self {
            info: DetectorInfo {
                model: MODEL.into(),
                backend: "det.txt".into(),
                threads: None,
                tensor_copies: None,
                task: ModelTask::ObjectDetection,
                labels: ["object".into()].into(),
                knows_classes: true,
                follows_one_picture: false,
                input: None,
                space: None,
                own: OwnThresholds::default(),
            },
            found: found.clone(),
        }
    }
}

impl Detector for Published {
    fn info(&self) -> &DetectorInfo {
        &self.info
    }

    fn detect(
        &mut self,
        frame: &Frame,
        params: &DetectParams,
        out: &mut Vec<RawDetection>,
    ) -> Result<DetectTimes, DetectError> {
        out.clear();
        let index = frame.id.seq.saturating_sub(1) as usize;
        for found in self.found.get(index).into_iter().flatten() {
            let score = found.score as f32;
            if params.confidence.is_none_or(|least| score >= least) {
                out.push(RawDetection {
                    bbox: found.bbox,
                    score,
                    class_id: 0,
                    column: 0,
                });
            }
        }
        Ok(DetectTimes::default())
    }
}
