//! Replays recorded detections through a workflow: what trackers, lines and zones report per frame.
//!
//! - The same recording always gives the same result; no clock is read.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value as Json, json};
use watchkeeper_contract::workflow::WorkflowError;
use watchkeeper_vision::detections::{Detection, DetectionId, Detections};
use watchkeeper_vision::geometry::BBox;

use crate::workflow::block_api::host::{DetectRequest, Host};
use crate::workflow::block_api::manifest::Role;
use crate::workflow::language::definition::InputType;
use crate::workflow::language::error::ErrorClass;
use crate::workflow::language::kinds::Kind;
use crate::workflow::plan::compiled::{Compiled, PlanInput, SlotId};
use crate::workflow::run::execution::{Execution, RunReport};
use crate::workflow::run::step_run::StepFailure;
use crate::workflow::values::image::{ImageValue, Pixels, RgbPixels, VideoMeta};
use crate::workflow::values::json::{Pictures, detection_id};
use crate::workflow::values::value::Value;

/// Format of a recording. A box is left, top, right and bottom in pixels, score from 0 to 1, and
/// index of its class in `class_names`.
const FORM: &str = r#"{"width": 1280, "height": 720, "fps": 30, "class_names": ["person"], "frames": [[[x1, y1, x2, y2, score, class], …], …]}"#;

/// Recorded detections, frame by frame.
#[derive(Debug, Clone, Deserialize)]
#[serde(expecting = "an object with width, height, fps, class_names and frames")]
pub struct Recording {
    width: u32,
    height: u32,
    fps: f64,
    class_names: Vec<Arc<str>>,
    frames: Vec<Vec<[f64; 6]>>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Replay {
    /// One object per frame: `frame` (from 1), and of the first line `count_in` and `count_out`. Of
    /// the first tracker `tracked`, pairs of track and detection; of the first zone `timed`, pairs
    /// of track and seconds. `outputs`, if requested, are those of the workflow, pictures by size.
    pub frames: Vec<Json>,
    /// Failed steps with their frame.
    pub failures: Vec<(u64, StepFailure)>,
}

/// A black picture, of which only the size is known.
#[derive(Debug)]
struct Black([u32; 2]);

impl Pixels for Black {
    fn size(&self) -> [u32; 2] {
        self.0
    }

    fn rgb(&self) -> Arc<RgbPixels> {
        let [width, height] = self.0;
        let data = vec![0; width as usize * height as usize * 3];
        Arc::new(RgbPixels {
            width,
            height,
            data,
        })
    }
}

/// Answers every detection step with the recorded detections of the frame.
#[derive(Debug)]
struct Recorded(Detections);

impl Host for Recorded {
    fn detect(&mut self, _: &DetectRequest<'_>) -> Result<Detections, String> {
        Ok(self.0.clone())
    }
}

impl Recording {
    /// Reads a recording from JSON.
    ///
    /// # Errors
    /// What is wrong, where, and the remedy.
    pub fn read(json: &[u8]) -> Result<Self, String> {
        let read: Self = serde_json::from_slice(json)
            .map_err(|error| format!("not a recording of detections: {error}; write {FORM}"))?;
        match read.wrong() {
            Some(wrong) => Err(wrong),
            None => Ok(read),
        }
    }

    /// Returns the first implausible value.
    fn wrong(&self) -> Option<String> {
        for (side, pixels) in [("width", self.width), ("height", self.height)] {
            if pixels == 0 {
                return Some(format!(
                    "{side} is 0; give the size of the pictures in pixels"
                ));
            }
        }
        let boxes = self.frames.iter().enumerate();
        let mut boxes = boxes.flat_map(|(f, rows)| {
            let rows = rows.iter().enumerate();
            rows.map(move |(b, row)| (f, b, row))
        });
        let names = self.class_names.len();
        boxes.find_map(|(f, b, [.., score, class])| {
            if !(0.0..=1.0).contains(score) {
                return Some(format!(
                    "frames[{f}][{b}] has the score {score}; a score is from 0 to 1"
                ));
            }
            if class.fract() != 0.0 || *class < 0.0 {
                return Some(format!(
                    "frames[{f}][{b}] has the class {class}; a class is a whole number from 0, its \
                     place in class_names"
                ));
            }
            let is_named = names == 0 || *class < names as f64;
            (!is_named).then(|| {
                format!(
                    "frames[{f}][{b}] has the class {class}, but class_names has {names}; use 0 to \
                     {}, or add names",
                    names - 1
                )
            })
        })
    }

    /// The boxes of one frame; their ids are `frame-box`, both from 0.
    fn detections(&self, frame: usize) -> Detections {
        let rows = self.frames.get(frame).map(Vec::as_slice);
        let boxes = rows.unwrap_or_default().iter().enumerate();
        let boxes = boxes.map(|(i, [x1, y1, x2, y2, score, class])| {
            let class_id = *class as i64;
            let name = usize::try_from(class_id).ok();
            let name = name.and_then(|n| self.class_names.get(n).cloned());
            Detection::new(
                BBox::new(*x1, *y1, *x2, *y2),
                *score,
                class_id,
                name.unwrap_or_else(|| Arc::from(format!("class_{class_id}"))),
                DetectionId::Given(Arc::from(format!("{frame}-{i}"))),
            )
        });
        Detections {
            boxes: boxes.collect(),
            size: [self.width, self.height],
        }
    }
}

/// Runs a workflow on a recording. The boxes go to every batch input that takes detections, and
/// answer every detection step.
///
/// # Errors
/// If the workflow can't run on a recording.
pub fn replay(
    compiled: &Compiled,
    recording: &Recording,
    with_outputs: bool,
) -> Result<Replay, WorkflowError> {
    let mut player = Player::new(compiled, recording)?;
    let mut replay = Replay {
        frames: Vec::with_capacity(recording.frames.len()),
        failures: Vec::new(),
    };
    for (frame, number) in (0..recording.frames.len()).zip(1..) {
        let report = player.play(&mut player.frame(frame))?;
        let failures = report.errors.into_iter();
        replay.failures.extend(failures.map(|f| (number, f)));
        let mut row = compiled.replay_row(&player.run, number);
        if with_outputs {
            let outputs = player.run.rows_json(Pictures::Size).into_iter().next();
            row.insert("outputs".into(), outputs.unwrap_or_default());
        }
        replay.frames.push(Json::Object(row));
    }
    Ok(replay)
}

/// A workflow that replays a recording.
pub struct Player<'a> {
    compiled: &'a Compiled,
    recording: &'a Recording,
    run: Execution,
}

#[derive(Debug)]
pub struct Frame {
    image: ImageValue,
    batches: Vec<(SlotId, Value)>,
    host: Recorded,
    now: Duration,
}

impl<'a> Player<'a> {
    /// Starts before the first frame.
    ///
    /// # Errors
    /// If the recording has no frame rate.
    pub fn new(compiled: &'a Compiled, recording: &'a Recording) -> Result<Self, WorkflowError> {
        let fps = recording.fps;
        if !(fps.is_finite() && fps > 0.0) {
            let message = format!("fps of the recording is {fps}; use a number above 0");
            return Err(ErrorClass::RuntimeInputError.problem(message).done());
        }
        Ok(Self {
            compiled,
            recording,
            run: compiled.instantiate(),
        })
    }

    pub fn frames(&self) -> usize {
        self.recording.frames.len()
    }

    /// A frame, from 0; one beyond the last has no boxes.
    pub fn frame(&self, frame: usize) -> Frame {
        let number = frame as u64 + 1;
        let seconds = number as f64 / self.recording.fps;
        let size = [self.recording.width, self.recording.height];
        let image = ImageValue::new(
            Arc::new(Black(size)),
            VideoMeta {
                video_identifier: Arc::from("replay"),
                frame_number: number,
                frame_timestamp: seconds,
                source_s: None,
                fps: Some(self.recording.fps),
                comes_from_video_file: true,
            },
        );
        let boxes = self.recording.detections(frame);
        Frame {
            image,
            batches: self.compiled.replay_batches(&boxes),
            host: Recorded(boxes),
            now: Duration::try_from_secs_f64(seconds).unwrap_or_default(),
        }
    }

    /// Plays a frame.
    ///
    /// # Errors
    /// If the workflow needs an input that a recording lacks.
    pub fn play(&mut self, frame: &mut Frame) -> Result<RunReport, WorkflowError> {
        let batches = &frame.batches;
        let is_missing = |number: usize, what: &InputType| {
            matches!(what, InputType::Batch { .. }) && batches.iter().all(|(s, _)| s.0 != number)
        };
        let mut inputs = self.compiled.plan.inputs.iter().enumerate();
        if let Some((_, input)) = inputs.find(|(number, i)| is_missing(*number, &i.what)) {
            let message = format!("input {} is missing", input.name);
            let problem = ErrorClass::RuntimeInputError.problem(message);
            return Err(problem.step("$inputs").property(&*input.name).done());
        }
        let image = frame.image.clone();
        Ok(self.run.run(image, batches, frame.now, &mut frame.host))
    }

    /// The workflow after the last frame played.
    pub fn execution(&self) -> &Execution {
        &self.run
    }

    /// The workflow, to restore state.
    #[cfg(test)]
    pub(crate) fn execution_mut(&mut self) -> &mut Execution {
        &mut self.run
    }
}

impl Compiled {
    /// The boxes for every batch input that takes detections.
    fn replay_batches(&self, boxes: &Detections) -> Vec<(SlotId, Value)> {
        let takes_boxes = |input: &PlanInput| {
            let kinds = [Kind::Any, Kind::ObjectDetection];
            matches!(input.what, InputType::Batch { depth: 1 })
                && kinds.iter().any(|kind| input.kinds.has(*kind))
        };
        let each = self.plan.inputs.iter().enumerate();
        let slots = each.filter(|(_, i)| takes_boxes(i)).map(|(n, _)| SlotId(n));
        slots.map(|slot| (slot, boxes.clone().into())).collect()
    }

    /// The named output of the first step with a role.
    fn of_role<'a>(&self, run: &'a Execution, role: Role, output: &str) -> Option<&'a Value> {
        let step = self.plan.steps.iter().find(|s| s.manifest.role == role)?;
        run.value(step.slot(output)?)
    }

    fn replay_row(&self, run: &Execution, number: u64) -> Map<String, Json> {
        let has = |role: Role| self.plan.steps.iter().any(|s| s.manifest.role == role);
        let mut row = Map::new();
        row.insert("frame".into(), json!(number));
        if has(Role::Line) {
            for name in ["count_in", "count_out"] {
                let count = self.of_role(run, Role::Line, name);
                row.insert(name.into(), count.map_or(Json::Null, Value::to_json));
            }
        }
        if has(Role::Tracker) {
            let tracked = self.of_role(run, Role::Tracker, "tracked_detections");
            let pairs = pairs(tracked, &|d| json!([d.track, detection_id(&d.id)]));
            row.insert("tracked".into(), pairs);
        }
        if has(Role::Zone) {
            let timed = self.of_role(run, Role::Zone, "timed_detections");
            let seconds = |d: &Detection| d.time_in_zone;
            // To a tenth of a millisecond, like recorded results.
            let rounded = |s: f64| (s * 10_000.0).round_ties_even() / 10_000.0;
            let pairs = pairs(timed, &|d| json!([d.track, seconds(d).map(rounded)]));
            row.insert("timed".into(), pairs);
        }
        row
    }
}

/// Pairs of track and a value of its detection, sorted by track.
fn pairs(value: Option<&Value>, of: &dyn Fn(&Detection) -> Json) -> Json {
    let Some(Value::Detections(all)) = value else {
        return Json::Null;
    };
    let mut boxes: Vec<&Detection> = all.boxes.iter().collect();
    boxes.sort_by_key(|d| d.track);
    boxes.into_iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(change: impl FnOnce(&mut Json)) -> Result<usize, String> {
        let mut recording = json!({"width": 640, "height": 480, "fps": 10.0, "class_names": ["person", "car"],
            "frames": [[], [[0, 0, 9, 9, 0.5, 0], [0, 0, 9, 9, 1, 1]]]});
        change(&mut recording);
        Recording::read(recording.to_string().as_bytes()).map(|read| read.frames.len())
    }

    #[test]
    fn recording_without_class_names_may_have_any_class() {
        assert_eq!(read(|_| ()), Ok(2));
        let unnamed = read(|r| {
            r["class_names"] = json!([]);
            r["frames"][1][0][5] = json!(40);
        });
        assert_eq!(unnamed, Ok(2));
    }

    #[test]
    fn implausible_recording_is_refused_with_the_remedy() {
        type Change = fn(&mut Json);
        let cases: [(Change, &str, &str); 6] = [
            (
                |r| r["frames"][1][0][4] = json!(3.5),
                "frames[1][0] has the score 3.5",
                "from 0 to 1",
            ),
            (
                |r| r["frames"][1][1][5] = json!(2),
                "frames[1][1] has the class 2",
                "use 0 to 1",
            ),
            (
                |r| r["frames"][1][1][5] = json!(-1),
                "the class -1",
                "a whole number from 0",
            ),
            (
                |r| r["frames"][1][1][5] = json!(0.5),
                "the class 0.5",
                "a whole number from 0",
            ),
            (|r| r["width"] = json!(0), "width is 0", "in pixels"),
            (
                |r| *r = json!([[1, 2]]),
                "not a recording of detections",
                "\"class_names\": [\"person\"]",
            ),
        ];
        for (change, what, remedy) in cases {
            let told = read(change).err().unwrap_or_default();
            assert!(told.contains(what) && told.contains(remedy), "{told}");
            assert!(!told.contains("struct"), "{told}");
        }
    }
}
