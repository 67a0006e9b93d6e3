//! Networks of int8 out of networks of float32, by frames of this box.
//!
//! - The first half of the frames gives the ranges of the tensors ([`ranges`]). The second half is
//!   golden: it decides whether the result is kept ([`acceptance`]). Neighbours would be too alike.
//! - Ranges and golden outputs are those of the network of float32 on ONNX Runtime, or on rten
//!   where its library is missing.
//! - Inner tensors are read in groups, so that those of one run are at most [`MAX_GROUP_BYTES`].
//! - The result appears beside its origin only after it passed, and its engine of TensorRT among
//!   the others only then.
//! - Not here: where frames come from, and which network a back end runs (`precision`).

mod acceptance;
mod ranges;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Instant;

use tempfile::TempDir;
use watchkeeper_models::manifest::{Manifest, Task};
use watchkeeper_models::onnx::OnnxError;
use watchkeeper_models::onnx::quantize::{ObservedFile, Origin, Quantizable};
use watchkeeper_models::replace::replace;
use watchkeeper_models::{Resolved, Sha256Sum, Zoo};
use watchkeeper_vision::frame::Picture;

use self::acceptance::Figures;
use self::ranges::Magnitudes;
use crate::backend::{self, BackendChoice, NetworkFile};
use crate::change::{ChangeCount, Comparison, GoldenFrame};
use crate::error::DetectError;
use crate::network::{Feed, LoadError, Network, Signature, Tensor, input_shape};
use crate::night_gain::Gamma;
use crate::pool::{OpenError, OpenRequest};
use crate::precision::{Precision, calibrated_file};
use crate::preprocess::Preprocessor;
use crate::trt::{adopt_engines, availability};

/// Runs of both networks before they are measured.
const WARM_UP_RUNS: usize = 3;

/// Most bytes of the inner tensors that one run returns; a larger tensor is alone.
const MAX_GROUP_BYTES: usize = 256 << 20;

/// How a calibration ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    /// Name of the back end on which it was measured.
    pub backend: &'static str,
    /// Tensors that became int8.
    pub tensors: usize,
    /// Frames that gave ranges, and golden frames.
    pub frames: [usize; 2],
    /// Golden boxes, and those that changed.
    pub boxes: usize,
    pub changed: usize,
    /// Median time of one run: of the network of fp16, which is the file itself on ONNX Runtime,
    /// and of that of int8.
    pub times_ms: [f64; 2],
    /// The file, if it was kept; otherwise why not, in one clause with the figures.
    pub kept: Result<PathBuf, String>,
}

/// Why nothing could be calibrated. One sentence each.
#[derive(Debug, thiserror::Error)]
pub enum CalibrationError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error("{path} can't be quantised: {why}", path = .0.display(), why = .1)]
    Onnx(PathBuf, OnnxError),
    #[error(
        "{model} is a model for {task}; only models that detect objects or classify pictures \
             are calibrated"
    )]
    Task { model: String, task: &'static str },
    #[error(
        "{0} runs int8 on no back end here: install ONNX Runtime with `watchkeeper backends \
             pull onnxruntime`, or TensorRT"
    )]
    Backend(String),
    #[error(
        "{found} frames are too few, at least {needed} are needed; take more with --frames, from a \
         source that has them"
    )]
    Frames { found: usize, needed: usize },
    #[error("{model} could not be run for its calibration: {why}")]
    Run { model: String, why: String },
    #[error(transparent)]
    Picture(#[from] DetectError),
    #[error("the network of int8 can't be written: {0}")]
    Write(#[from] io::Error),
}

/// A frame, and its curve where it is dark.
pub type CalibrationFrame<'a> = (&'a Picture, Option<Gamma>);

/// Makes the network of int8 of a model, and keeps it if it proves itself on the back end of the
/// request. With `auto` that is TensorRT, else ONNX Runtime.
///
/// # Errors
/// [`CalibrationError`].
pub fn calibrate(
    request: &OpenRequest,
    frames: &[CalibrationFrame<'_>],
) -> Result<Calibration, CalibrationError> {
    let subject = Subject::find(request)?;
    let count = ChangeCount::new(Comparison::of(&subject.resolved.manifest));
    let (found, needed) = (frames.len(), 2 * count.min_frames());
    if found < needed {
        return Err(CalibrationError::Frames { found, needed });
    }
    let (seen, golden) = frames.split_at(found.div_ceil(2));
    let path = &subject.resolved.path;
    let file = fs::read(path)?;
    let origin = Origin {
        sha256: Sha256Sum::of(&file).to_string(),
        backend: subject.backend.name().to_owned(),
    };
    let refused = |why| CalibrationError::Onnx(path.clone(), why);
    let network = Quantizable::read(file.into()).map_err(refused)?;
    // Its child processes find the files there by name.
    let folder = tempfile::tempdir()?;
    let observe = |file: Result<ObservedFile, OnnxError>| {
        let ObservedFile { bytes, names } = file.map_err(refused)?;
        subject.observe(&folder.path().join("seen.onnx"), &bytes, &names)
    };
    let sizes = observe(network.sized())?.sizes(&subject, seen)?;
    let mut ranges = BTreeMap::new();
    for group in groups(network.tensors(), &sizes) {
        ranges.extend(observe(network.observed(group))?.ranges(&subject, seen)?);
    }
    let mut observed = observe(network.observed(&[]))?;
    let int8 = network.convert(&ranges, &origin).map_err(refused)?;
    let candidate = Aside::write(&folder, &int8)?;
    let former = subject.load(path, Precision::Fp16, None, request.threads)?;
    // A comparison of times needs equal threads.
    let threads = former.threads().and_then(NonZeroUsize::new);
    let engines = Some(candidate.engines.as_path());
    let int8_network = subject.load(&candidate.file, Precision::Int8, engines, threads)?;
    let networks = [former, int8_network];
    let figures = compare(&subject, &mut observed, networks, golden, count)?;
    let kept = match figures.refusal() {
        Some(why) => Err(why),
        None => Ok(subject.keep(&candidate, &int8)?),
    };
    let counted = figures.count.so_far();
    Ok(Calibration {
        backend: subject.backend.name(),
        tensors: network.tensors().len(),
        frames: [seen.len(), golden.len()],
        boxes: counted.boxes,
        changed: counted.changed,
        times_ms: figures.times_ms(),
        kept,
    })
}

/// The network of int8 before it is kept.
struct Aside {
    file: PathBuf,
    /// Folder of its engines of TensorRT.
    engines: PathBuf,
}

impl Aside {
    fn write(folder: &TempDir, network: &[u8]) -> io::Result<Self> {
        // By this name it runs as it is, or not at all.
        let file = calibrated_file(&folder.path().join("model.onnx"));
        fs::write(&file, network)?;
        let engines = folder.path().join("engines");
        Ok(Self { file, engines })
    }
}

/// The model and the back end of a calibration.
struct Subject<'a> {
    request: &'a OpenRequest,
    resolved: Resolved,
    backend: BackendChoice,
}

impl<'a> Subject<'a> {
    fn find(request: &'a OpenRequest) -> Result<Self, CalibrationError> {
        let zoo = Zoo::with_dirs(request.models_dirs.iter().cloned());
        let resolved = zoo.resolve(&request.model).map_err(OpenError::Model)?;
        let model = request.model.clone();
        match resolved.manifest.task {
            Task::ObjectDetection
            | Task::InstanceSegmentation
            | Task::KeypointDetection
            | Task::Classification => {}
            task => {
                let task = task.name();
                return Err(CalibrationError::Task { model, task });
            }
        }
        let has_ort = BackendChoice::Ort.is_installed(&request.ort, None);
        let has_trt = || {
            request
                .trt
                .as_ref()
                .is_some_and(|trt| availability(trt).is_ok())
        };
        let backend = match request.backend {
            BackendChoice::Auto if has_trt() => BackendChoice::Trt,
            BackendChoice::Auto if has_ort => BackendChoice::Ort,
            BackendChoice::Auto | BackendChoice::Rten => {
                return Err(CalibrationError::Backend(model));
            }
            named => named,
        };
        Ok(Self {
            request,
            resolved,
            backend,
        })
    }

    fn manifest(&self) -> &Manifest {
        &self.resolved.manifest
    }

    fn failed(&self, why: String) -> CalibrationError {
        let model = self.request.model.clone();
        CalibrationError::Run { model, why }
    }

    /// Loads the network in a precision on the back end of the calibration; `engines` replaces
    /// the folder of engines of TensorRT.
    fn load(
        &self,
        path: &Path,
        precision: Precision,
        engines: Option<&Path>,
        threads: Option<NonZeroUsize>,
    ) -> Result<Box<dyn Network>, CalibrationError> {
        let (mut ort, mut trt) = (self.request.ort.clone(), self.request.trt.clone());
        ort.precision = precision;
        if let Some(trt) = &mut trt {
            trt.precision = precision;
            if let Some(engines) = engines {
                engines.clone_into(&mut trt.engine_dir);
            }
        }
        let manifest = self.manifest();
        let loaded = backend::load(self.backend, path, manifest, threads, &ort, trt.as_ref());
        Ok(loaded?)
    }

    /// Keeps the network of int8 and its engines; returns its file, which is durable.
    fn keep(&self, candidate: &Aside, network: &[u8]) -> io::Result<PathBuf> {
        let file = calibrated_file(&self.resolved.path);
        replace(&file, &[network])?;
        if let Some(trt) = &self.request.trt
            && let Err(error) = adopt_engines(&candidate.engines, &trt.engine_dir)
        {
            tracing::warn!(%error, "the engine of int8 can't be kept; the next start builds it");
        }
        Ok(file)
    }

    /// Loads the network of float32 with further outputs, named as `names` has them.
    fn observe(
        &self,
        path: &Path,
        file: &[u8],
        names: &[(String, String)],
    ) -> Result<Observed, CalibrationError> {
        fs::write(path, file)?;
        let mut ort = self.request.ort.clone();
        ort.precision = Precision::Fp32;
        let choice = match BackendChoice::Ort.is_installed(&ort, None) {
            true => BackendChoice::Ort,
            false => BackendChoice::Rten,
        };
        let manifest = self.manifest();
        let mut outputs = manifest.decode.outputs.clone();
        if !outputs.is_empty() {
            outputs.extend(names.iter().map(|(seen, _)| seen.clone()));
        }
        let signature = Signature {
            outputs: &outputs,
            ..Signature::of(manifest)
        };
        let file = NetworkFile {
            path,
            signature: &signature,
            // Its outputs are more than those of the manifest.
            warm_up_run: &|_| Ok(()),
        };
        let threads = Some(
            self.request
                .threads
                .unwrap_or_else(backend::default_threads),
        );
        let network = backend::load_as(choice, file, threads, &ort, None)?;
        Ok(Observed {
            network,
            preprocessor: Preprocessor::new(manifest.input.clone()),
            shape: input_shape(&manifest.input),
            tensors: names.iter().map(|(_, tensor)| tensor.clone()).collect(),
        })
    }
}

/// Reads the inputs of a run, its outputs, and the inner tensors.
type ReadRun<'a> = &'a mut dyn FnMut(&[Feed<'_>], &[Tensor<'_>], &[Tensor<'_>]);

/// The network of float32, which returns its inner tensors after its outputs.
struct Observed {
    network: Box<dyn Network>,
    preprocessor: Preprocessor,
    shape: [usize; 4],
    tensors: Vec<String>,
}

impl Observed {
    /// Runs the network on a frame.
    fn run(
        &mut self,
        subject: &Subject<'_>,
        (picture, gain): CalibrationFrame<'_>,
        read: ReadRun<'_>,
    ) -> Result<(), CalibrationError> {
        self.preprocessor.set_gain(gain);
        self.preprocessor.run(picture)?;
        let feeds = [Feed::floats(&self.shape, self.preprocessor.tensor())];
        let inner = self.tensors.len();
        let ran = self.network.infer(&feeds, &mut |tensors| {
            let (outputs, inner) = tensors.split_at(tensors.len().saturating_sub(inner));
            read(&feeds, outputs, inner);
        });
        ran.map_err(|why| subject.failed(why))
    }

    /// Bytes of each inner tensor of a network that returns their numbers of values.
    fn sizes(
        &mut self,
        subject: &Subject<'_>,
        frames: &[CalibrationFrame<'_>],
    ) -> Result<Vec<usize>, CalibrationError> {
        let mut sizes = Vec::new();
        for frame in frames.iter().take(1) {
            self.run(subject, *frame, &mut |_, _, inner| {
                let count = |tensor: &Tensor<'_>| tensor.data.first().copied().unwrap_or(0.0);
                let counts = inner.iter().map(|tensor| count(tensor) as usize);
                sizes = counts.map(|count| count.saturating_mul(4)).collect();
            })?;
        }
        Ok(sizes)
    }

    /// The range of each inner tensor over all frames.
    fn ranges(
        &mut self,
        subject: &Subject<'_>,
        frames: &[CalibrationFrame<'_>],
    ) -> Result<BTreeMap<String, f32>, CalibrationError> {
        let mut all = vec![Magnitudes::new(); self.tensors.len()];
        for frame in frames {
            self.run(subject, *frame, &mut |_, _, inner| {
                for (magnitudes, tensor) in all.iter_mut().zip(inner) {
                    magnitudes.add(tensor.data);
                }
            })?;
        }
        let ranges = self.tensors.iter().cloned().zip(&all);
        Ok(ranges.map(|(name, all)| (name, all.range())).collect())
    }
}

/// Splits tensors of these bytes into groups of at most [`MAX_GROUP_BYTES`] or one tensor.
fn groups<'a>(tensors: &'a [String], sizes: &[usize]) -> Vec<&'a [String]> {
    let (mut groups, mut first, mut bytes) = (Vec::new(), 0, 0_usize);
    for (place, size) in sizes.iter().enumerate().take(tensors.len()) {
        bytes = bytes.saturating_add(*size);
        if bytes > MAX_GROUP_BYTES && place > first {
            groups.push(&tensors[first..place]);
            (first, bytes) = (place, *size);
        }
    }
    groups.push(&tensors[first..]);
    groups
}

/// Examines the former network and the candidate on golden frames.
fn compare(
    subject: &Subject<'_>,
    observed: &mut Observed,
    [former, candidate]: [Box<dyn Network>; 2],
    frames: &[CalibrationFrame<'_>],
    count: ChangeCount,
) -> Result<Figures, CalibrationError> {
    let began = Instant::now();
    let clock = || began.elapsed();
    let mut figures = Figures::new(count);
    let mut is_warm = false;
    for frame in frames {
        let mut golden = None;
        observed.run(subject, *frame, &mut |feeds, outputs, _| {
            golden = GoldenFrame::copy(feeds, outputs).ok();
        })?;
        let too_large = || subject.failed("its outputs are too large to be compared".to_owned());
        let golden = golden.ok_or_else(too_large)?;
        let failed = |why| subject.failed(why);
        if !is_warm {
            for network in [&former, &candidate] {
                for _ in 0..WARM_UP_RUNS {
                    network
                        .infer(&golden.feeds(), &mut |_| {})
                        .map_err(failed)?;
                }
            }
            is_warm = true;
        }
        figures
            .examine(&golden, former.as_ref(), candidate.as_ref(), &clock)
            .map_err(failed)?;
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::rgb_frame;

    /// The error of a calibration with frames of one colour; the file is not a network.
    fn refused(task: &str, decode: &str, frames: usize) -> String {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("m.onnx");
        fs::write(&path, "no network").expect("written");
        let manifest = format!(
            "name = \"m\"\ntask = \"{task}\"\nconfidence = 0.5\nlabels = [\"a\", \"b\"]\n\
             [input]\nwidth = 8\nheight = 8\nlayout = \"nchw\"\ncolour = \"rgb\"\n\
             dtype = \"f32\"\nfit = \"stretch\"\n[decode]\n{decode}\n"
        );
        fs::write(path.with_extension("toml"), manifest).expect("written");
        let request = OpenRequest {
            model: path.display().to_string(),
            backend: BackendChoice::Ort,
            ..OpenRequest::default()
        };
        let frame = rgb_frame(8, 8, [9, 9, 9]);
        let frames = vec![(&frame.picture, None); frames];
        let refused = calibrate(&request, &frames).expect_err("refused");
        refused.to_string()
    }

    #[test]
    fn too_few_frames_are_refused_before_the_file_is_read() {
        let classes = ("classification", "kind = \"classes\"\nscores = \"softmax\"");
        let few = refused(classes.0, classes.1, 99);
        assert!(
            few.starts_with("99 frames are too few, at least 100"),
            "{few}"
        );
        let enough = refused(classes.0, classes.1, 100);
        assert!(enough.contains("can't be quantised"), "{enough}");
        let boxes = "kind = \"yolov8\"\n[nms]\niou = 0.5\nclass_agnostic = false";
        let one = refused("object-detection", boxes, 1);
        assert!(one.starts_with("1 frames are too few, at least 2"), "{one}");
    }

    #[test]
    fn groups_hold_every_tensor_once_and_few_bytes() {
        let tensors: Vec<String> = (0..6).map(|n| n.to_string()).collect();
        let part = MAX_GROUP_BYTES / 2;
        let sizes = [part, part, 1, 3 * part, part, part];
        let lengths: Vec<usize> = groups(&tensors, &sizes).iter().map(|g| g.len()).collect();
        assert_eq!(lengths, [2, 1, 1, 2]);
        assert_eq!(groups(&tensors, &sizes).concat(), tensors);
        assert_eq!(groups(&tensors, &[1; 6]), [&tensors[..]]);
    }
}
