//! A workflow on still pictures: for the API, and as the command `watchkeeper-runtime workflow-run`
//! without the daemon.
//!
//! - `watchkeeper workflow run` calls the command, because only this crate opens models.
//! - Both give one result object per picture, as Roboflow's engine serialises it. The command
//!   prints them, and errors to standard error.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use watchkeeper_config::{Config, bounded};
use watchkeeper_contract::workflow::WorkflowError;
use watchkeeper_detect::Detector;
use watchkeeper_engine::deploy::ineffective_filters;
use watchkeeper_engine::workflow::{
    self, Compiled, ImageValue, Packed, Pictures, RgbPixels, RuntimeInput, StepFailure, VideoMeta,
    codec,
};
use watchkeeper_vision::picture_file;

use crate::clock;
use crate::output::write_line;
use crate::pipeline::inference::detectors::{Detectors, facts_of};
use crate::pipeline::inference::host::DetectHost;
use crate::pipeline::inference::models::{ModelError, Models};

/// Arguments of `workflow-run`.
#[derive(Debug, Clone, clap::Args)]
pub struct Request {
    /// Workflow definition in Roboflow's JSON
    pub file: PathBuf,
    /// Pictures, JPEG, PNG or WebP; several are one batch for every image input
    #[arg(long, num_args = 1.., value_name = "IMAGE")]
    pub image: Vec<PathBuf>,
    /// Value of another input; a value that is not JSON is a string
    #[arg(long, value_name = "NAME=JSON")]
    pub param: Vec<String>,
    /// Model for every detection step: a name in the zoo, a file, or the folder of a package
    #[arg(long, value_name = "NAME-OR-FOLDER")]
    pub detector: Option<String>,
    /// Print errors of the definition as JSON too; results are always JSON
    #[arg(long)]
    pub json: bool,
}

/// Error of the command.
#[derive(Debug, thiserror::Error)]
pub enum ImageRunError {
    /// A file cannot be read.
    #[error("can't read {}: {message}", file.display())]
    File {
        file: PathBuf,
        /// Reason, as part of a sentence.
        message: String,
    },
    /// A parameter is malformed.
    #[error("--param {written:?} is not NAME=JSON; write it like --param count=3")]
    Param { written: String },
    /// The workflow was not run.
    #[error(transparent)]
    NotRun(#[from] NotRun),
}

/// Reason why a workflow was not run.
#[derive(Debug, thiserror::Error)]
pub enum NotRun {
    /// The definition or its inputs are invalid.
    #[error("the workflow cannot be run")]
    Workflow(Vec<WorkflowError>),
    /// A model cannot be opened.
    #[error(transparent)]
    Model(#[from] ModelError),
}

/// Result of a run.
#[derive(Debug)]
pub struct Outcome {
    /// One object per picture.
    pub rows: Vec<Json>,
    /// Steps that failed.
    pub failures: Vec<StepFailure>,
    /// Remarks about inputs and filters without effect, one sentence each.
    pub notes: Vec<String>,
}

/// Runs and prints; returns exit code 0, 1 if a step failed, 2 for an invalid request.
#[must_use]
pub fn main(request: &Request, config: &Config) -> ExitCode {
    let (mut out, mut err) = (io::stdout(), io::stderr());
    match write_result(run(request, config), request.json, &mut out, &mut err) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            // Nothing can be reported without standard error.
            write_line(&mut err, &format_args!("cannot write the result: {error}")).ok();
            ExitCode::from(EXIT_UNWRITTEN)
        }
    }
}

/// Exit code if the result could not be written.
const EXIT_UNWRITTEN: u8 = 3;

/// Writes the result of a run and returns the exit code.
fn write_result(
    result: Result<Outcome, ImageRunError>,
    errors_as_json: bool,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<u8> {
    match result {
        Ok(outcome) => {
            write_line(out, &Json::Array(outcome.rows))?;
            for note in &outcome.notes {
                write_line(err, &format_args!("note: {note}"))?;
            }
            for StepFailure { step, message, .. } in &outcome.failures {
                write_line(err, &format_args!("step {step} failed: {message}"))?;
            }
            Ok(u8::from(!outcome.failures.is_empty()))
        }
        Err(error) => {
            write_line(err, &error)?;
            if let ImageRunError::NotRun(NotRun::Workflow(errors)) = &error {
                if errors_as_json {
                    write_line(out, &json!({"ok": false, "errors": errors}))?;
                }
                for error in errors {
                    write_line(err, &format_args!("  {}", error.message))?;
                }
            }
            Ok(2)
        }
    }
}

/// Runs a workflow on still pictures.
///
/// # Errors
/// [`ImageRunError`] if nothing was run.
pub fn run(request: &Request, config: &Config) -> Result<Outcome, ImageRunError> {
    let refused = |message: String| ImageRunError::File {
        file: request.file.clone(),
        message,
    };
    let text = bounded::read_up_to(&request.file, bounded::MAX_BYTES)
        .map_err(|error| refused(error.to_string()))?;
    let definition: Json = serde_json::from_slice(bounded::without_mark(&text))
        .map_err(|error| refused(error.to_string()))?;
    let pictures = request
        .image
        .iter()
        .map(|file| read_picture(file))
        .collect::<Result<Vec<_>, _>>()?;
    let run = PictureRun {
        definition: &definition,
        params: &parameters(&request.param)?,
        pictures: &pictures,
        max_pixels: u64::MAX,
        detector: request.detector.as_deref(),
        ignores_unknown_inputs: true,
    };
    Ok(run.run(&Models::new(config))?)
}

/// A run on decoded pictures.
#[derive(Debug)]
pub struct PictureRun<'a> {
    /// Workflow definition in Roboflow's JSON.
    pub definition: &'a Json,
    /// Values of the inputs other than pictures.
    pub params: &'a BTreeMap<String, Json>,
    /// One batch; every image input gets it.
    pub pictures: &'a [Arc<RgbPixels>],
    /// Max pixels of the pictures among the parameters.
    pub max_pixels: u64,
    /// Model for every detection step.
    pub detector: Option<&'a str>,
    /// Whether values for unknown inputs are noted and ignored, for scripts that pass one set of
    /// values to many definitions; otherwise they are refused.
    pub ignores_unknown_inputs: bool,
}

impl PictureRun<'_> {
    /// Returns warnings about class filters that have no effect with the opened models.
    fn ineffective_filters(
        &self,
        params: &BTreeMap<String, Json>,
        opened: &BTreeMap<String, Box<dyn Detector>>,
    ) -> Vec<String> {
        let facts = opened.iter();
        let facts = facts
            .map(|(name, d)| (name.clone(), facts_of(d.info())))
            .collect();
        // Values of image inputs are not parameters of the compilation.
        let Ok(compiled) = workflow::compile_for_run(self.definition, params) else {
            return Vec::new();
        };
        let warnings = ineffective_filters(&compiled, self.detector, &facts).into_iter();
        warnings.map(|warning| warning.message).collect()
    }

    /// Runs the workflow once.
    ///
    /// # Errors
    /// [`NotRun`] if nothing was run.
    pub fn run(&self, models: &Models) -> Result<Outcome, NotRun> {
        let compiled =
            workflow::compile(self.definition, &BTreeMap::new()).map_err(NotRun::Workflow)?;
        let refuse = |error| NotRun::Workflow(vec![error]);
        let mut params = Cow::Borrowed(self.params);
        let mut notes = Vec::new();
        if self.ignores_unknown_inputs {
            for (name, nearest) in compiled.unknown_inputs(self.params.keys()) {
                let meant = nearest
                    .map(|n| format!("; did you mean {n}?"))
                    .unwrap_or_default();
                notes.push(format!(
                    "the workflow has no input {name}; its value is ignored{meant}"
                ));
                params.to_mut().remove(name);
            }
        }
        let params = &*params;
        let pictures = self.pictures;
        let mut inputs = compiled
            .inputs_from_json(params, self.max_pixels)
            .map_err(refuse)?;
        for name in compiled.image_inputs() {
            if pictures.is_empty() || inputs.contains_key(name) {
                continue;
            }
            let images = match pictures {
                [one] => vec![image_input(one, name).into()],
                several => (0..)
                    .zip(several)
                    .map(|(i, picture)| image_input(picture, &format!("{name}.[{i}]")).into())
                    .collect(),
            };
            inputs.insert(name.to_owned(), RuntimeInput::Many(images));
        }
        let opened = open_models(&compiled, params, self.detector, models)?;
        notes.extend(self.ineffective_filters(params, &opened));
        let is_package = self.detector.is_some_and(|d| Path::new(d).is_dir());
        let detectors = Detectors::by_model(opened, self.detector.map(str::to_owned));
        let host = DetectHost::new(detectors, 0).for_pictures();
        let mut host = host.like_roboflow(is_package);
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

fn read_file(file: &Path) -> Result<Vec<u8>, ImageRunError> {
    bounded::read_up_to(file, picture_file::MAX_FILE_BYTES).map_err(|e| ImageRunError::File {
        file: file.to_owned(),
        message: e.to_string(),
    })
}

fn read_picture(file: &Path) -> Result<Arc<RgbPixels>, ImageRunError> {
    codec::decode(&read_file(file)?).map_err(|message| ImageRunError::File {
        file: file.to_owned(),
        message,
    })
}

/// Wraps a picture as an input. Its id is the input's name and its index in a batch: steps with
/// state treat each as a separate video.
fn image_input(pixels: &Arc<RgbPixels>, input: &str) -> ImageValue {
    let now = clock::wall().unix_ms as f64 / 1000.0;
    let meta = VideoMeta {
        frame_timestamp: now,
        ..VideoMeta::still(input)
    };
    let mut image = ImageValue::new(Arc::new(Packed(Arc::clone(pixels))), meta);
    image.id = Arc::from(input);
    image
}

fn parameters(written: &[String]) -> Result<BTreeMap<String, Json>, ImageRunError> {
    written
        .iter()
        .map(|one| match one.split_once('=') {
            Some((name, value)) if !name.is_empty() => {
                let json = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
                Ok((name.to_owned(), json))
            }
            _ => Err(ImageRunError::Param {
                written: one.clone(),
            }),
        })
        .collect()
}

/// Opens the models that the workflow names, or the replacement for all of them. A model that only
/// a parameter names is found by the parameter's value.
fn open_models(
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
        // A model that a parameter replaces need not be installed.
        match models.open(&name) {
            Ok(detector) => {
                opened.insert(name, detector);
            }
            Err(error) if params.is_empty() || replacement.is_some() => return Err(error.into()),
            Err(error) => tracing::debug!(%error, model = name, "model not installed"),
        }
    }
    Ok(opened)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use std::io::{self, Write};

    use super::{ImageRunError, Outcome, parameters, write_result};

    /// A writer that fails, like a closed pipe or a full disk.
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
    fn closed_pipe_is_no_failure_but_a_full_disk_is() {
        let result = || {
            Ok(Outcome {
                rows: vec![json!({"a": 1})],
                failures: Vec::new(),
                notes: vec!["seen".to_owned()],
            })
        };
        let mut err = Vec::new();
        let mut gone = Refusing(io::ErrorKind::BrokenPipe);
        let code = write_result(result(), false, &mut gone, &mut err);
        assert!(matches!(code, Ok(0)), "{code:?}");
        assert_eq!(String::from_utf8_lossy(&err), "note: seen\n");
        let mut full = Refusing(io::ErrorKind::StorageFull);
        assert!(write_result(result(), false, &mut full, &mut Vec::new()).is_err());
        let mut out = Vec::new();
        let code = write_result(result(), false, &mut out, &mut gone);
        assert!(matches!(code, Ok(0)), "{code:?}");
        assert_eq!(String::from_utf8_lossy(&out), "[{\"a\":1}]\n");
    }

    #[test]
    fn parameter_is_json_or_text() {
        let written = ["a=1", "b=[1, 2]", "c=yes=no", "d=\"1\""].map(str::to_owned);
        let read = parameters(&written).unwrap_or_default();
        assert_eq!(read.get("a"), Some(&json!(1)));
        assert_eq!(read.get("b"), Some(&json!([1, 2])));
        assert_eq!(read.get("c"), Some(&json!("yes=no")));
        assert_eq!(read.get("d"), Some(&json!("1")));
        let wrong = parameters(&["nothing".to_owned()]);
        assert!(matches!(wrong, Err(ImageRunError::Param { .. })));
    }
}
