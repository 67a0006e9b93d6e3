//! Recognises actions in a video with a model that looks at runs of frames.
//!
//! A run covers the model's duration in source time; at each of its moments it has the frame that
//! was current then. A slow camera thus repeats frames, as in training, and nothing is recognised
//! before a run is covered.
//!
//! - State of a video: its timeline, of bounded length, and small copies of the frames of one run;
//!   for few videos at a time.

use std::collections::VecDeque;

use watchkeeper_vision::frame::Picture;
use watchkeeper_vision::shrink;

use super::object_detection_model::MODEL;
use crate::workflow::block_api::host::{ClassScore, RunWanted};
use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::per_video::PerVideo;

/// Maximum actions per video; beyond it, those that ended first are evicted.
const MAX_ACTIONS: usize = 5000;
/// Maximum videos with frames; beyond it, the one unseen for longest is evicted.
const MAX_VIDEOS: usize = 8;
/// Share of the frame interval by which a frame may come early: the rate of cameras varies.
const EARLY: f64 = 0.1;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/roboflow_action_recognition_model@v1",
    summary: "Recognises actions in a video, each from one frame to another.",
    role: Role::OtherModel(Task::Actions),
    properties: &[
        IMAGES,
        Property::optional("class_filter", Shape::Texts(0)).about("only these classes"),
        MODEL,
        Property::optional(
            "confidence",
            Shape::OneOf(&[SHARE, Shape::Choice(&["best", "default"])]),
        )
        .about("minimum score of an action; best, default and null mean the model's own")
        .kinds(&[Kind::Float, Kind::Text]),
        Property::optional("stride_seconds", NUMBER)
            .about("seconds between two runs; by default the duration of a run"),
    ],
    outputs: &[
        Output::new("timeline", &[Kind::ActionRecognition]),
        Output::new("error_status", &[Kind::Text]),
    ],
    batch: &["images"],
    build,
    ..Manifest::of("model")
}];

fn build(setup: &Setup<'_>) -> Result<Box<dyn Instance>, String> {
    if let Some(stride) = setup.literals.get("stride_seconds").and_then(Json::as_f64) {
        check_stride(stride)?;
    }
    Ok(stateful(run))
}

fn check_stride(stride: f64) -> Result<f64, String> {
    if stride > 0.0 && stride.is_finite() {
        Ok(stride)
    } else {
        Err(format!("stride_seconds is {stride} and has to be above 0"))
    }
}

/// A frame that may become part of a run.
#[derive(Debug, Clone)]
struct Sample {
    /// Source time in seconds.
    at: f64,
    number: u64,
    pixels: Arc<RgbPixels>,
}

#[derive(Debug, Clone, PartialEq)]
struct Action {
    class: Arc<str>,
    class_id: i64,
    /// Numbers of the first and last frame.
    frames: [u64; 2],
    /// Source times of these frames in seconds.
    times: [f64; 2],
}

#[derive(Debug, Default)]
struct Video {
    last_number: u64,
    /// The settings: another filter, stride or model resets the video.
    asked: Option<(String, Vec<String>, f64)>,
    samples: VecDeque<Sample>,
    /// Time at which to keep the next frame.
    next_sample: Option<f64>,
    /// Time of the last run, or of the start of the video.
    last_look: Option<f64>,
    actions: Vec<Action>,
    /// The timeline as an output value, rebuilt when it changes.
    timeline: Value,
}

fn run(
    videos: &mut Unsaved<PerVideo<Video, MAX_VIDEOS>>,
    call: &mut Call<'_>,
) -> Result<(), String> {
    let image = call.image(arg!("images"))?;
    let model_id = call.text(arg!("model_id"))?;
    let wanted = call.host.wants_run(model_id)?;
    let classes = call.optional(arg!("class_filter"), Call::texts)?;
    let classes: Vec<String> = classes
        .into_iter()
        .flatten()
        .map(ToString::to_string)
        .collect();
    let least = match call.arg(arg!("confidence")) {
        Value::Null | Value::Text(_) => wanted.confidence,
        _ => call.number(arg!("confidence"))?,
    };
    let window = wanted.frames as f64 / wanted.fps;
    let stride = call.optional(arg!("stride_seconds"), Call::number)?;
    let stride = stride.map_or(Ok(window), check_stride)?;
    let video = videos
        .0
        .get(&image.meta.video_identifier, || Ok(Video::default()))?;
    let asked = (model_id.to_owned(), classes.clone(), stride);
    let number = image.meta.frame_number;
    if video.asked.as_ref() != Some(&asked) || number < video.last_number {
        *video = Video {
            asked: Some(asked),
            ..Video::default()
        };
    }
    video.last_number = number;
    let now = image.meta.time_s();
    video.take(image, now, &wanted);
    let mut error = String::new();
    if video.is_due(now, stride)
        && let Some(run) = video.covering(now, &wanted)
    {
        video.last_look = Some(now);
        let pixels: Vec<Arc<RgbPixels>> = run
            .iter()
            .map(|sample| Arc::clone(&sample.pixels))
            .collect();
        match call.host.recognise(model_id, &pixels) {
            Ok(scores) => {
                let happens = happening(scores, &classes, least, wanted.several);
                video.note(&run, happens, &wanted);
            }
            // The video continues; the next run is recognised again.
            Err(why) => error = why,
        }
    }
    let timeline = match &video.timeline {
        Value::Null => Value::list(Vec::new()),
        timeline => timeline.clone(),
    };
    call.finish_all((timeline, error))
}

/// The recognised classes: all above the minimum score, or the best one if the model allows only
/// one at a time.
fn happening(
    mut scores: Vec<ClassScore>,
    classes: &[String],
    least: f64,
    several: bool,
) -> Vec<ClassScore> {
    if !several {
        let best = scores
            .into_iter()
            .max_by(|a, b| a.confidence.total_cmp(&b.confidence));
        scores = best.into_iter().collect();
    }
    scores.retain(|s| {
        let is_asked_for = classes.is_empty() || classes.iter().any(|c| **c == *s.class);
        is_asked_for && s.confidence >= least
    });
    scores
}

impl Video {
    /// Keeps a frame if one is due, and drops those that no run needs any more.
    fn take(&mut self, image: &ImageValue, now: f64, wanted: &RunWanted) {
        let step = 1.0 / wanted.fps;
        let due = self.next_sample.unwrap_or(now);
        self.last_look.get_or_insert(now);
        if now >= due - EARLY * step {
            self.samples.push_back(Sample {
                at: now,
                number: image.meta.frame_number,
                pixels: small(&image.pixels.rgb(), wanted.longest),
            });
            // On an even grid, so that rounding to frames does not accumulate; restarted after a
            // gap.
            self.next_sample = Some((due + step).max(now + EARLY * step));
        }
        // The frame before the run was current at its start.
        let begins = now - wanted.frames as f64 * step;
        while self.samples.len() > wanted.frames + 1
            || self
                .samples
                .get(1)
                .is_some_and(|second| second.at <= begins)
        {
            self.samples.pop_front();
        }
    }

    fn is_due(&self, now: f64, stride: f64) -> bool {
        self.last_look.is_some_and(|last| now >= last + stride)
    }

    /// The frames of the run that ends now: the newest one at each of its moments. `None` if there
    /// was no frame at its first moment, or after a gap longer than a run.
    fn covering(&self, now: f64, wanted: &RunWanted) -> Option<Vec<Sample>> {
        let step = 1.0 / wanted.fps;
        let window = wanted.frames as f64 * step;
        let oldest = self.samples.front()?;
        if oldest.at < now - 2.0 * window {
            return None;
        }
        (1..=wanted.frames)
            .map(|k| {
                let moment = now - window + (k as f64 + EARLY) * step;
                let there = self.samples.iter().rev().find(|s| s.at <= moment);
                there.cloned()
            })
            .collect()
    }

    fn note(&mut self, run: &[Sample], happens: Vec<ClassScore>, wanted: &RunWanted) {
        let (Some(first), Some(last)) = (run.first(), run.last()) else {
            return;
        };
        // No frame of a run lies between two that are closer than this.
        let apart = 1.5 / wanted.fps;
        for score in happens {
            let mut action = Action {
                class: score.class,
                class_id: score.class_id,
                frames: [first.number, last.number],
                times: [first.at, last.at],
            };
            self.actions.retain(|other| {
                let touches = other.class == action.class
                    && other.times[0] <= action.times[1] + apart
                    && action.times[0] <= other.times[1] + apart;
                if touches {
                    action = action.with(other);
                }
                !touches
            });
            self.actions.push(action);
        }
        if self.actions.len() > MAX_ACTIONS {
            self.actions.sort_by_key(|a| a.frames[1]);
            self.actions.drain(..self.actions.len() - MAX_ACTIONS);
        }
        self.actions
            .sort_by_key(|a| (a.frames[0], a.class_id, a.frames[1]));
        self.timeline = Value::list(self.actions.iter().map(Action::value).collect());
    }
}

impl Action {
    /// From the start of the earlier to the end of the later one.
    fn with(&self, other: &Self) -> Self {
        let [start, end] = self.times;
        Self {
            class: Arc::clone(&self.class),
            class_id: self.class_id,
            frames: [
                self.frames[0].min(other.frames[0]),
                self.frames[1].max(other.frames[1]),
            ],
            times: [start.min(other.times[0]), end.max(other.times[1])],
        }
    }

    fn value(&self) -> Value {
        let number = |n: u64| Value::from(n);
        Value::dict([
            ("start_frame_idx", number(self.frames[0])),
            ("end_frame_idx", number(self.frames[1])),
            ("class", Value::Text(Arc::clone(&self.class))),
            ("class_id", Value::Int(self.class_id)),
        ])
    }
}

/// Scales a picture down to this longest side; a small one is shared.
fn small(rgb: &Arc<RgbPixels>, longest: u32) -> Arc<RgbPixels> {
    if rgb.width.max(rgb.height) <= longest {
        return Arc::clone(rgb);
    }
    let picture = Picture::rgb(rgb.width, rgb.height, rgb.data.clone());
    match shrink::within(&picture, longest) {
        Ok(small) => Arc::new(RgbPixels {
            width: small.width(),
            height: small.height(),
            data: small.into_raw(),
        }),
        // It has fewer samples than its size; readers of it report that.
        Err(_) => Arc::clone(rgb),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::super::super::tests::bench::{Bench, picture};
    use super::Kind;

    /// The bench's model uses four frames per second, four at once, of a video with 30.
    fn bench(more: &Json) -> Bench {
        let mut step = json!({"type": "roboflow_core/roboflow_action_recognition_model@v1", "images": "$inputs.image",
            "model_id": "mine"});
        for (key, value) in more.as_object().unwrap() {
            step[key] = value.clone();
        }
        Bench::new(step, &[("image", Kind::Image)])
    }

    /// The last result for frames of these grey values.
    fn watch(
        bench: &mut Bench,
        frames: impl Iterator<Item = u64>,
        grey: impl Fn(u64) -> u8,
    ) -> Json {
        let mut out = Json::Null;
        for number in frames {
            let frame = picture(number, [16, 8], |_, _| [grey(number); 3]);
            out = bench.feed(&[("image", frame)]).unwrap();
        }
        out
    }

    fn actions(out: &Json) -> Vec<(String, u64, u64)> {
        let each = out["timeline"].as_array().unwrap().iter();
        each.map(|a| {
            let frame = |name: &str| a[name].as_u64().unwrap();
            let class = a["class"].as_str().unwrap().to_owned();
            (class, frame("start_frame_idx"), frame("end_frame_idx"))
        })
        .collect()
    }

    #[test]
    fn action_needs_a_full_run_and_equal_runs_merge() {
        let mut bench = bench(&json!({}));
        let early = watch(&mut bench, 1..=25, |_| 255);
        assert_eq!(
            (actions(&early), &early["error_status"]),
            (vec![], &json!(""))
        );
        let out = watch(&mut bench, 26..=125, |_| 255);
        let all = actions(&out);
        assert!(all.len() == 1 && all[0].0 == "light", "{all:?}");
        assert!(all[0].1 <= 10 && all[0].2 >= 110, "{all:?}");
    }

    #[test]
    fn other_class_is_another_action_and_filter_drops_classes() {
        let grey = |number: u64| if number <= 62 { 255 } else { 40 };
        let out = watch(&mut bench(&json!({})), 1..=130, grey);
        let classes: Vec<String> = actions(&out).into_iter().map(|a| a.0).collect();
        assert_eq!(classes, ["light", "dark"]);
        let filtered = json!({"class_filter": ["dark"]});
        let out = watch(&mut bench(&filtered), 1..=130, grey);
        assert_eq!(actions(&out).len(), 1);
        let sure = json!({"confidence": 0.9});
        let out = watch(&mut bench(&sure), 1..=130, grey);
        assert_eq!(actions(&out)[0].0, "light");
        assert_eq!(actions(&out).len(), 1, "40 of 255 is not dark enough");
    }

    #[test]
    fn slow_camera_repeats_frames() {
        // Two frames per second.
        let out = watch(&mut bench(&json!({})), (1..=200).step_by(15), |_| 255);
        let all = actions(&out);
        assert!(all.len() == 1 && all[0].2 >= 150, "{all:?}");
    }

    #[test]
    fn failed_run_is_reported_and_the_video_continues() {
        let mut bench = bench(&json!({"stride_seconds": 0.5}));
        let mut told = Vec::new();
        for number in 1..=60 {
            let out = watch(&mut bench, number..=number, |_| 0);
            told.push(out["error_status"].as_str().unwrap().to_owned());
        }
        let told: Vec<_> = told.iter().filter(|t| !t.is_empty()).collect();
        assert!(
            (2..=3).contains(&told.len()) && told[0].contains("black"),
            "{told:?}"
        );
        let out = watch(&mut bench, 61..=120, |_| 255);
        assert_eq!(actions(&out).len(), 1);
    }

    #[test]
    fn restarted_video_drops_actions_and_a_still_has_none() {
        let mut bench = bench(&json!({}));
        assert_eq!(actions(&watch(&mut bench, 1..=70, |_| 255)).len(), 1);
        assert_eq!(actions(&watch(&mut bench, 1..=1, |_| 255)), vec![]);
    }

    #[test]
    fn stride_of_zero_is_refused() {
        let step = json!({"type": "roboflow_core/roboflow_action_recognition_model@v1", "images": "$inputs.image",
            "model_id": "mine", "stride_seconds": 0.0});
        assert!(Bench::refusal(step).contains("above 0"));
    }
}
