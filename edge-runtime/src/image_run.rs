//! A workflow on still pictures: for the API, and without the daemon as `watchkeeper-runtime workflow-run`, which `watchkeeper workflow run`
//! calls because networks are this crate's business.
//!
//! Invariant: both give the result list of the run, one object a picture, as Roboflow's engine serialises it. The command prints it, and says on
//! standard error what went wrong.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value as Json, json};
use watchkeeper_config::{Config, bounded};
use watchkeeper_contract::effect::Effect;
use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::workflow::WorkflowError;
use watchkeeper_detect::{Detector, OpenError};
use watchkeeper_engine::deploy::ineffective_filters;
use watchkeeper_engine::workflow::{
    self, Anomaly, Array, ClassScore, Compiled, DetectRequest, Features, Gaze, Host, ImageValue,
    Layer, Packed, Pictures, PromptedMask, RgbPixels, RunWanted, RuntimeInput, StepFailure,
    VideoMeta, Writing, codec,
};
use watchkeeper_vision::detections::Detections;
use watchkeeper_vision::frame::{Frame, FrameId, Picture};
use watchkeeper_vision::geometry::BBox;

use crate::clock;
use crate::pipeline::inference::detectors::{Detectors, facts_of};
use crate::pipeline::inference::host::DetectHost;
use crate::pipeline::inference::models::Models;

/// Largest definition or picture that is read, in bytes.
const MAX_FILE: u64 = 64 << 20;

/// What to run on what.
#[derive(Debug, Clone, clap::Args)]
pub struct Request {
    /// The definition, in Roboflow's JSON.
    pub file: PathBuf,
    /// Pictures, JPEG or PNG; several are one batch. Every image input gets them.
    #[arg(long, num_args = 1.., value_name = "IMAGE")]
    pub image: Vec<PathBuf>,
    /// Value of another input, as NAME=JSON; what is no JSON is text.
    #[arg(long, value_name = "NAME=JSON")]
    pub param: Vec<String>,
    /// Model that takes the place of every detection model: a name in the zoo, a file, or the folder of a package.
    #[arg(long, value_name = "NAME-OR-FOLDER")]
    pub detector: Option<String>,
    /// Print what is wrong with the definition as JSON too; results are JSON in any case.
    #[arg(long)]
    pub json: bool,
}

/// Why the command ran nothing.
#[derive(Debug, thiserror::Error)]
pub enum StillError {
    /// A file can't be read.
    #[error("can't read {}: {message}", file.display())]
    File {
        file: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// A parameter isn't written as one.
    #[error("--param {written:?} has to be NAME=JSON")]
    Param {
        /// What was written.
        written: String,
    },
    /// The workflow was not run.
    #[error(transparent)]
    NotRun(#[from] NotRun),
}

/// Why a workflow was not run on pictures that were read.
#[derive(Debug, thiserror::Error)]
pub enum NotRun {
    /// The definition or its inputs are wrong.
    #[error("the workflow can't be run")]
    Workflow(Vec<WorkflowError>),
    /// A model can't be had.
    #[error(transparent)]
    Model(#[from] OpenError),
}

/// What a run gave.
#[derive(Debug)]
pub struct Outcome {
    /// One object a picture.
    pub rows: Vec<Json>,
    /// Steps that failed.
    pub failures: Vec<StepFailure>,
    /// What was given and had no effect, or can't do what was meant, each as a sentence.
    pub notes: Vec<String>,
}

/// Runs and prints; the exit code is 2 for a request that is wrong and 1 where a step failed.
#[must_use]
pub fn main(request: &Request, config: &Config) -> ExitCode {
    let (mut out, mut aside) = (io::stdout(), io::stderr());
    match answer(run(request, config), request.json, &mut out, &mut aside) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            // Nothing can be told to anybody when standard error is gone.
            put(&mut aside, &format_args!("can't write the answer: {error}")).ok();
            ExitCode::from(UNWRITTEN)
        }
    }
}

/// Exit code where the answer could not be written.
const UNWRITTEN: u8 = 3;

/// Writes what came of a run; answers the exit code.
fn answer(
    ran: Result<Outcome, StillError>,
    errors_as_json: bool,
    out: &mut dyn Write,
    aside: &mut dyn Write,
) -> io::Result<u8> {
    match ran {
        Ok(outcome) => {
            put(out, &Json::Array(outcome.rows))?;
            for note in &outcome.notes {
                put(aside, &format_args!("note: {note}"))?;
            }
            for StepFailure { step, message, .. } in &outcome.failures {
                put(aside, &format_args!("step {step} failed: {message}"))?;
            }
            Ok(u8::from(!outcome.failures.is_empty()))
        }
        Err(error) => {
            put(aside, &error)?;
            if let StillError::NotRun(NotRun::Workflow(errors)) = &error {
                if errors_as_json {
                    put(out, &json!({"ok": false, "errors": errors}))?;
                }
                for error in errors {
                    put(aside, &format_args!("  {}", error.message))?;
                }
            }
            Ok(2)
        }
    }
}

/// Writes a line. A reader that went away (`| head`) has read enough, which is no failure.
pub(crate) fn put(out: &mut dyn Write, line: &dyn Display) -> io::Result<()> {
    match writeln!(out, "{line}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Runs a workflow on still pictures.
///
/// # Errors
/// [`StillError`] where nothing could be run.
pub fn run(request: &Request, config: &Config) -> Result<Outcome, StillError> {
    let text =
        bounded::read_up_to(&request.file, bounded::MAX_BYTES).map_err(|e| StillError::File {
            file: request.file.clone(),
            message: e.to_string(),
        })?;
    let definition: Json =
        serde_json::from_slice(bounded::without_mark(&text)).map_err(|e| StillError::File {
            file: request.file.clone(),
            message: e.to_string(),
        })?;
    let pictures = request
        .image
        .iter()
        .map(|file| picture(file))
        .collect::<Result<Vec<_>, _>>()?;
    let still = Still {
        definition: &definition,
        params: &parameters(&request.param)?,
        pictures: &pictures,
        room: u64::MAX,
        detector: request.detector.as_deref(),
        ignores_strangers: true,
    };
    Ok(still.run(&Models::new(config))?)
}

/// A run on pictures that were read.
#[derive(Debug)]
pub struct Still<'a> {
    /// The definition, in Roboflow's JSON.
    pub definition: &'a Json,
    /// Values of inputs that are no pictures.
    pub params: &'a BTreeMap<String, Json>,
    /// One batch; every image input gets it.
    pub pictures: &'a [Arc<RgbPixels>],
    /// Most pixels of the pictures among the parameters.
    pub room: u64,
    /// Model that takes the place of every detection model.
    pub detector: Option<&'a str>,
    /// Whether values for inputs that the workflow doesn't have are left out and told of, as a script needs that passes one
    /// set of them to many definitions; otherwise they are refused.
    pub ignores_strangers: bool,
}

impl Still<'_> {
    /// What filters on classes can't do with the models that are asked, the values of this run being those of its inputs.
    fn ineffective_filters(
        &self,
        params: &BTreeMap<String, Json>,
        opened: &BTreeMap<String, Box<dyn Detector>>,
    ) -> Vec<String> {
        let facts = opened.iter();
        let facts = facts
            .map(|(name, d)| (name.clone(), facts_of(d.info())))
            .collect();
        // Values of inputs that are no parameters are none of these.
        let Ok(compiled) = workflow::compile_for_run(self.definition, params) else {
            return Vec::new();
        };
        let warnings = ineffective_filters(&compiled, self.detector, &facts).into_iter();
        warnings.map(|warning| warning.message).collect()
    }

    /// Runs the workflow once.
    ///
    /// # Errors
    /// [`NotRun`] where nothing could be run.
    pub fn run(&self, models: &Models) -> Result<Outcome, NotRun> {
        let compiled =
            workflow::compile(self.definition, &BTreeMap::new()).map_err(NotRun::Workflow)?;
        let refuse = |error| NotRun::Workflow(vec![error]);
        let mut params = Cow::Borrowed(self.params);
        let mut notes = Vec::new();
        if self.ignores_strangers {
            for (name, nearest) in compiled.unknown_inputs(self.params.keys()) {
                let meant = nearest
                    .map(|n| format!("; did you mean {n}?"))
                    .unwrap_or_default();
                notes.push(format!(
                    "the workflow has no input {name}, its value is left out{meant}"
                ));
                params.to_mut().remove(name);
            }
        }
        let params = &*params;
        let pictures = self.pictures;
        let mut inputs = compiled
            .inputs_from_json(params, self.room)
            .map_err(refuse)?;
        for name in compiled.image_inputs() {
            if pictures.is_empty() || inputs.contains_key(name) {
                continue;
            }
            let images = match pictures {
                [one] => vec![still(one, name).into()],
                several => (0..)
                    .zip(several)
                    .map(|(i, picture)| still(picture, &format!("{name}.[{i}]")).into())
                    .collect(),
            };
            inputs.insert(name.to_owned(), RuntimeInput::Many(images));
        }
        let opened = detectors(&compiled, params, self.detector, models)?;
        notes.extend(self.ineffective_filters(params, &opened));
        let is_package = self.detector.is_some_and(|d| Path::new(d).is_dir());
        let mut host = StillHost {
            inner: DetectHost::new(
                Detectors::by_model(opened, self.detector.map(str::to_owned)),
                0,
            )
            .keeping_flat(is_package),
            whole_pixels: is_package,
        };
        let mut execution = compiled.instantiate();
        let report = execution
            .run_batch(inputs, Duration::ZERO, &mut host)
            .map_err(refuse)?;
        Ok(Outcome {
            rows: execution.rows_json(Pictures::Jpeg),
            failures: report.errors,
            notes,
        })
    }
}

fn read(file: &Path) -> Result<Vec<u8>, StillError> {
    bounded::read_up_to(file, MAX_FILE).map_err(|e| StillError::File {
        file: file.to_owned(),
        message: e.to_string(),
    })
}

fn picture(file: &Path) -> Result<Arc<RgbPixels>, StillError> {
    codec::decode(&read(file)?).map_err(|message| StillError::File {
        file: file.to_owned(),
        message,
    })
}

/// A picture as an input. It is named by the input in which it came, and by its place among several, each of which is a video of its own to what
/// remembers.
fn still(pixels: &Arc<RgbPixels>, input: &str) -> ImageValue {
    #[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 fit")]
    let now = clock::wall().unix_ms as f64 / 1000.0;
    let meta = VideoMeta {
        frame_timestamp: now,
        ..VideoMeta::still(input)
    };
    let mut image = ImageValue::new(Arc::new(Packed(Arc::clone(pixels))), meta);
    image.id = Arc::from(input);
    image
}

fn parameters(written: &[String]) -> Result<BTreeMap<String, Json>, StillError> {
    written
        .iter()
        .map(|one| match one.split_once('=') {
            Some((name, value)) if !name.is_empty() => {
                let json = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
                Ok((name.to_owned(), json))
            }
            _ => Err(StillError::Param {
                written: one.clone(),
            }),
        })
        .collect()
}

/// The models that the workflow names, or the one that stands for all of them. One that is named by a parameter only is
/// looked for under the value of the parameter.
fn detectors(
    compiled: &Compiled,
    params: &BTreeMap<String, Json>,
    replacement: Option<&str>,
    models: &Models,
) -> Result<BTreeMap<String, Box<dyn Detector>>, NotRun> {
    let mut names = compiled.model_ids();
    if !params.is_empty() {
        let known: BTreeSet<String> = models.list().into_iter().map(|m| m.name).collect();
        let named = params.values().filter_map(|v| known.get(v.as_str()?));
        names.extend(named.cloned());
    }
    if let Some(one) = replacement {
        names = if compiled.needs_detector() {
            vec![one.to_owned()]
        } else {
            Vec::new()
        };
    }
    names.extend(compiled.asked_ids());
    let mut opened = BTreeMap::new();
    for name in names {
        // A model that the caller replaces by a parameter need not be here.
        match models.open(&name) {
            Ok(detector) => {
                opened.insert(name, detector);
            }
            Err(error) if params.is_empty() || replacement.is_some() => return Err(error.into()),
            Err(error) => tracing::debug!(%error, model = name, "a model is not here"),
        }
    }
    Ok(opened)
}

/// Serves detection steps: each picture is a frame of its own.
struct StillHost {
    inner: DetectHost,
    /// Whether boxes are cut to whole pixels, as the engine does from whose package the model is.
    whole_pixels: bool,
}

impl StillHost {
    /// Asks about a picture, which is a frame for as long as it takes.
    fn of<T>(
        &mut self,
        image: &ImageValue,
        ask: impl FnOnce(&mut DetectHost) -> Result<T, String>,
    ) -> Result<T, String> {
        let pixels = &image.pixels;
        self.inner.begin(&frame(&pixels.rgb()), pixels, false);
        let said = ask(&mut self.inner);
        self.inner.end();
        said
    }
}

impl Host for StillHost {
    fn detect(&mut self, request: &DetectRequest<'_>) -> Result<Detections, String> {
        let mut found = self.of(request.image, |host| host.detect(request))?;
        if self.whole_pixels {
            for d in &mut found.boxes {
                let b = d.bbox;
                let [x1, y1, x2, y2] = [b.x1, b.y1, b.x2, b.y2].map(f64::round_ties_even);
                d.bbox = BBox::new(x1, y1, x2, y2);
            }
        }
        Ok(found)
    }

    fn classify(&mut self, model_id: &str, image: &ImageValue) -> Result<Vec<ClassScore>, String> {
        self.of(image, |host| host.classify(model_id, image))
    }

    fn embed(&mut self, model_id: &str, image: &ImageValue) -> Result<Vec<f32>, String> {
        self.of(image, |host| host.embed(model_id, image))
    }

    fn embed_text(&mut self, model_id: &str, text: &str) -> Result<Vec<f32>, String> {
        self.inner.embed_text(model_id, text)
    }

    fn read_text(&mut self, model_id: &str, image: &ImageValue) -> Result<Writing, String> {
        self.of(image, |host| host.read_text(model_id, image))
    }

    fn segment(
        &mut self,
        model_id: &str,
        image: &ImageValue,
        confidence: Option<f64>,
    ) -> Result<Detections, String> {
        self.of(image, |host| host.segment(model_id, image, confidence))
    }

    fn segment_prompted(
        &mut self,
        model_id: &str,
        image: &ImageValue,
        boxes: &[BBox],
        several: bool,
    ) -> Result<Vec<PromptedMask>, String> {
        self.of(image, |host| {
            host.segment_prompted(model_id, image, boxes, several)
        })
    }

    fn features(
        &mut self,
        model_id: &str,
        image: &ImageValue,
        layer: Layer,
    ) -> Result<Features, String> {
        self.of(image, |host| host.features(model_id, image, layer))
    }

    fn anomaly(&mut self, model_id: &str, image: &ImageValue) -> Result<Anomaly, String> {
        self.of(image, |host| host.anomaly(model_id, image))
    }

    fn wants_run(&mut self, model_id: &str) -> Result<RunWanted, String> {
        self.inner.wants_run(model_id)
    }

    fn recognise(
        &mut self,
        model_id: &str,
        frames: &[Arc<RgbPixels>],
    ) -> Result<Vec<ClassScore>, String> {
        self.inner.recognise(model_id, frames)
    }

    fn depth(&mut self, model_id: &str, image: &ImageValue) -> Result<Array, String> {
        self.of(image, |host| host.depth(model_id, image))
    }

    fn gaze(
        &mut self,
        model_id: &str,
        image: &ImageValue,
        finds_faces: bool,
    ) -> Result<Vec<Gaze>, String> {
        self.of(image, |host| host.gaze(model_id, image, finds_faces))
    }

    fn emit(&mut self, step: &str, effect: Effect) -> Result<(), String> {
        self.inner.emit(step, effect)
    }

    fn has_secret(&self, name: &str) -> bool {
        self.inner.has_secret(name)
    }

    fn wall_clock(&self) -> Option<Timestamp> {
        self.inner.wall_clock()
    }

    fn knows_classes(&self, request: &DetectRequest<'_>) -> bool {
        self.inner.knows_classes(request)
    }
}

fn frame(rgb: &RgbPixels) -> Frame {
    let id = FrameId {
        source: SourceId::new("still").expect("a valid name"),
        seq: 1,
    };
    let picture = Picture::rgb(rgb.width, rgb.height, rgb.data.clone());
    Frame::still(id, std::time::Instant::now(), clock::wall(), picture)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use std::io::{self, Write};

    use super::{Outcome, StillError, answer, parameters};

    /// A reader that went away, or a disk that is full.
    struct Refusing(io::ErrorKind);

    impl Write for Refusing {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(self.0.into())
        }
    }

    #[test]
    fn a_reader_that_went_away_is_no_failure_and_a_full_disk_is() {
        let ran = || {
            Ok(Outcome {
                rows: vec![json!({"a": 1})],
                failures: Vec::new(),
                notes: vec!["seen".to_owned()],
            })
        };
        let mut aside = Vec::new();
        let mut gone = Refusing(io::ErrorKind::BrokenPipe);
        let code = answer(ran(), false, &mut gone, &mut aside);
        assert!(matches!(code, Ok(0)), "{code:?}");
        assert_eq!(String::from_utf8_lossy(&aside), "note: seen\n");
        let mut full = Refusing(io::ErrorKind::StorageFull);
        assert!(answer(ran(), false, &mut full, &mut Vec::new()).is_err());
        let mut out = Vec::new();
        let code = answer(ran(), false, &mut out, &mut gone);
        assert!(matches!(code, Ok(0)), "{code:?}");
        assert_eq!(String::from_utf8_lossy(&out), "[{\"a\":1}]\n");
    }

    #[test]
    fn a_parameter_is_json_or_text() {
        let written = ["a=1", "b=[1, 2]", "c=yes=no", "d=\"1\""].map(str::to_owned);
        let read = parameters(&written).unwrap_or_default();
        assert_eq!(read.get("a"), Some(&json!(1)));
        assert_eq!(read.get("b"), Some(&json!([1, 2])));
        assert_eq!(read.get("c"), Some(&json!("yes=no")));
        assert_eq!(read.get("d"), Some(&json!("1")));
        let wrong = parameters(&["nothing".to_owned()]);
        assert!(matches!(wrong, Err(StillError::Param { .. })));
    }
}
