//! Models for pipelines, with shared networks.
//!
//! - Pipelines that open the same file with the same manifest, back end and number of threads
//!   share one network. The second one prepares it for several streams. A file that was replaced is
//!   loaded again by the next one that opens it.
//! - A network is loaded once and unloaded with the last detector that uses it. A second request
//!   waits for the first one's loading.
//! - With a [`ChangeHost`], `auto` serves with the back end that loads fastest, and changes it in
//!   the background. Only networks that take a picture change.
//! - Networks are loaded one after another, because loading needs more memory than running. A
//!   request for a loaded network does not wait.

mod changes;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use watchkeeper_models::manifest::Task;
use watchkeeper_models::{FileStamp, MOTION, Manifest, Resolved, Zoo, ZooError};

use self::changes::Changes;
use super::actions::{self, ActionModel};
use super::backend::{self, BackendChoice, NetworkFile, WarmUp};
use super::change::{ChangeHost, ChangePolicy};
use super::fair_semaphore::{Claim, FairSemaphore};
use super::gaze::GazeModel;
use super::motion::{MotionDetector, MotionSettings};
use super::network::{LoadError, Network, Signature, WAIT_FOR_EACH_OTHER};
use super::neural::NeuralDetector;
use super::ort_library::OrtSettings;
use super::picture_network::PictureNetwork;
use super::prompted::{self, PromptedSegmenter};
use super::read::{self, TextReader};
use super::stream_network::{QueuedNetwork, SharedNetwork};
use super::text::{self, TextEncoder, TextTokenizer, TokenizerError};
use super::trt::TrtSettings;
use super::whole_image::WholeImageModel;
use crate::detector::Detector;
use crate::error::DetectError;

/// Model that a pipeline opens, with its settings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OpenRequest {
    /// `motion`, a name in the zoo, or a path to a model file.
    pub model: String,
    pub backend: BackendChoice,
    /// Whether `auto` serves with the back end that loads fastest.
    pub at_once: bool,
    /// Back ends that may take over from the one that served `at_once`, the fastest first.
    pub candidates: Vec<BackendChoice>,
    /// Threads of the network; `None` lets the back end choose up to [`backend::default_threads`].
    pub threads: Option<NonZeroUsize>,
    /// Folders of model files and of the user's manifests; the first match wins.
    pub models_dirs: Vec<PathBuf>,
    /// Where to search ONNX Runtime, besides the system's folders.
    pub ort: OrtSettings,
    /// TensorRT; `None` if it must not be used, or `auto` found no shim.
    pub trt: Option<TrtSettings>,
    /// Settings of the motion detector; networks have none.
    pub motion: MotionSettings,
}

impl OpenRequest {
    /// Whether the back end that loads fastest serves.
    fn is_at_once(&self) -> bool {
        self.backend == BackendChoice::Auto && self.at_once
    }
}

/// Why a model can't be opened. One sentence each.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The model is unknown, or its file is missing.
    #[error(transparent)]
    Model(#[from] ZooError),
    /// The back end can't load or run the file.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The tokenizer's vocabulary is missing or invalid.
    #[error(transparent)]
    TextTokenizer(#[from] TokenizerError),
    /// A network that the model depends on failed.
    #[error(transparent)]
    Asked(#[from] DetectError),
    /// The manifest's face model does not find faces.
    #[error(
        "manifest `{manifest}`: `faces` names `{model}`, a model for {}; \
         name a model for object-detection",
        .task.name()
    )]
    Faces {
        manifest: String,
        /// The model that the manifest names.
        model: String,
        /// The task of that model.
        task: Task,
    },
}

/// The loaded networks.
#[derive(Clone, Default)]
pub struct DetectorPool {
    slots: Arc<Mutex<Vec<(Key, Slot)>>>,
    loading: Arc<Mutex<()>>,
    changes: Option<Changes>,
}

/// Loads a network from its path.
type Load<'a> = &'a dyn Fn(&Path) -> Result<Box<dyn Network>, LoadError>;

/// A loaded network; the mutex is held during loading.
type Slot = Arc<Mutex<Weak<QueuedNetwork>>>;

/// What streams that share a network have in common.
#[derive(Clone, PartialEq)]
struct Key {
    path: PathBuf,
    /// The file as it was when it was opened.
    stamp: Option<FileStamp>,
    /// By content: a changed manifest may want other inputs and outputs.
    manifest: Arc<Manifest>,
    backend: BackendChoice,
    /// The configured number of threads.
    threads: Option<NonZeroUsize>,
}

impl DetectorPool {
    /// Lets requests with `at_once` change their back ends.
    #[must_use]
    pub fn changing(host: Arc<dyn ChangeHost>, policy: ChangePolicy) -> Self {
        Self {
            changes: Some(Changes::new(host, policy)),
            ..Self::default()
        }
    }

    /// Opens a model for one stream.
    ///
    /// # Errors
    /// [`OpenError`]: the model is unknown, missing, damaged, does not match its manifest, or its
    /// back end is missing.
    pub fn open(&self, request: &OpenRequest) -> Result<Box<dyn Detector>, OpenError> {
        self.open_with(request, &Arc::default())
    }

    /// Opens a model for a stream with a claim to its networks.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub fn open_with(
        &self,
        request: &OpenRequest,
        claim: &Arc<Claim>,
    ) -> Result<Box<dyn Detector>, OpenError> {
        if request.model == MOTION {
            return Ok(Box::new(MotionDetector::new(request.motion)));
        }
        let zoo = Zoo::with_dirs(request.models_dirs.iter().cloned());
        for problem in zoo.problems() {
            tracing::warn!(%problem, "model manifest ignored");
        }
        let resolved = zoo.resolve(&request.model)?;
        let opening = Opening {
            pool: self,
            claim,
            request,
            resolved: &resolved,
        };
        let manifest = Arc::clone(&resolved.manifest);
        Ok(match manifest.task {
            Task::ObjectDetection
            | Task::InstanceSegmentation
            | Task::KeypointDetection
            | Task::Classification => Box::new(NeuralDetector::new(manifest, opening.pictures()?)),
            Task::ZeroShotDetection => {
                let mut encoder = opening.text_encoder()?;
                // The length of an embedding is not in the manifest.
                let sample = encoder.as_mut().map(|encoder| encoder.embedding("a thing"));
                let length = sample.transpose()?.map_or(0, |embedding| embedding.len());
                let network = opening.picture_network(Some(length))?;
                let detector = NeuralDetector::new(manifest, network);
                match encoder {
                    Some(encoder) => Box::new(detector.with_text_encoder(encoder)),
                    None => Box::new(detector),
                }
            }
            Task::ImageEmbedding
            | Task::ImageTextEmbedding
            | Task::SemanticSegmentation
            | Task::DepthEstimation
            | Task::AnomalyDetection => {
                let encoder = opening.text_encoder()?;
                let network = opening.pictures()?;
                Box::new(WholeImageModel::new(manifest, network, encoder))
            }
            Task::TextReading => Box::new(opening.reader()?),
            Task::GazeEstimation => {
                let faces = opening.faces()?;
                Box::new(GazeModel::new(manifest, opening.pictures()?, faces))
            }
            Task::PromptedSegmentation => Box::new(opening.prompted()?),
            Task::ActionRecognition => Box::new(ActionModel::new(manifest, opening.runs()?)),
        })
    }

    /// Returns a loaded network, or loads it.
    fn network(
        &self,
        request: &OpenRequest,
        path: PathBuf,
        manifest: &Arc<Manifest>,
        load: Load<'_>,
    ) -> Result<Arc<QueuedNetwork>, LoadError> {
        let path = path.canonicalize().unwrap_or(path);
        let key = Key {
            stamp: FileStamp::of(&path).ok(),
            path: path.clone(),
            manifest: Arc::clone(manifest),
            backend: request.backend,
            threads: request.threads,
        };
        let model = manifest.name.as_str();

        let slot = self.slot(key);
        let mut slot = slot.lock();
        if let Some(network) = slot.upgrade() {
            let (path, shared) = (path.display(), network.value().share());
            match shared {
                Ok(()) => {
                    let lanes = network.value().lanes();
                    tracing::info!(model, %path, lanes, "network shared");
                }
                Err(why) => {
                    tracing::warn!(model, %path, why, "{WAIT_FOR_EACH_OTHER}");
                }
            }
            return Ok(network);
        }
        let _loading = self.loading.lock();
        let network = load(&path)?;
        tracing::info!(
            model,
            backend = network.backend(),
            threads = network.threads(),
            path = %path.display(),
            "network loaded"
        );
        let network = Arc::new(FairSemaphore::new(network));
        *slot = Arc::downgrade(&network);
        Ok(network)
    }

    /// The slot of one network. Drops the slots of unloaded networks that no request is waiting
    /// for.
    fn slot(&self, key: Key) -> Slot {
        let mut slots = self.slots.lock();
        slots.retain(|(_, slot)| Arc::strong_count(slot) > 1 || is_loaded(slot));
        if let Some((_, slot)) = slots.iter().find(|(known, _)| *known == key) {
            return Arc::clone(slot);
        }
        let slot = Slot::default();
        slots.push((key, Arc::clone(&slot)));
        slot
    }

    /// Number of loaded networks.
    #[cfg(test)]
    fn loaded(&self) -> usize {
        let slots = self.slots.lock();
        slots.iter().filter(|(_, slot)| is_loaded(slot)).count()
    }
}

/// A model during its opening, network by network.
struct Opening<'a> {
    pool: &'a DetectorPool,
    claim: &'a Arc<Claim>,
    request: &'a OpenRequest,
    resolved: &'a Resolved,
}

impl Opening<'_> {
    fn manifest(&self) -> &Manifest {
        &self.resolved.manifest
    }

    /// Returns a network that takes no picture or one of any size, or loads it. Its run has no
    /// usual time, so its number of threads does not follow from one.
    fn load(
        &self,
        path: PathBuf,
        signature: &Signature<'_>,
        warm_up_run: WarmUp<'_>,
    ) -> Result<SharedNetwork, LoadError> {
        let request = self.request;
        let load = |path: &Path| {
            let (choice, ort) = (request.backend, &request.ort);
            // Engines are built in the background only, for networks that take a picture.
            let trt = request.trt.as_ref().filter(|_| !request.is_at_once());
            let threads = Some(request.threads.unwrap_or_else(backend::default_threads));
            let file = NetworkFile {
                path,
                signature,
                warm_up_run,
            };
            backend::load_as(choice, file, threads, ort, trt)
        };
        self.shared(path, &load)
    }

    /// Returns a loaded network, or loads it; the turns are those of this opening.
    fn shared(&self, path: PathBuf, load: Load<'_>) -> Result<SharedNetwork, LoadError> {
        let manifest = &self.resolved.manifest;
        let network = self.pool.network(self.request, path, manifest, load)?;
        Ok(SharedNetwork::shared(network, Arc::clone(self.claim)))
    }

    /// Loads the network that takes one picture, and embeddings of `described` values where it is
    /// an open-vocabulary one. Its back end may change.
    fn picture_network(&self, described: Option<usize>) -> Result<SharedNetwork, LoadError> {
        let request = self.request;
        let load = |path: &Path| {
            let picture = PictureNetwork {
                path: path.to_owned(),
                manifest: Arc::clone(&self.resolved.manifest),
                described,
                threads: request.threads,
                ort: request.ort.clone(),
                trt: request.trt.clone(),
            };
            if !request.is_at_once() {
                return picture.load(request.backend);
            }
            let stamp = FileStamp::of(path).ok();
            let network = picture.load_at_once()?;
            Ok(match &self.pool.changes {
                Some(changes) => {
                    let (model, candidates) = (&request.model, &request.candidates);
                    changes.begin(model, candidates, network, &picture, stamp)
                }
                None => network,
            })
        };
        self.shared(self.resolved.path.clone(), &load)
    }

    /// Loads the network that takes one picture.
    fn pictures(&self) -> Result<SharedNetwork, LoadError> {
        self.picture_network(None)
    }

    /// Loads the network that takes a sequence of frames.
    fn runs(&self) -> Result<SharedNetwork, LoadError> {
        let manifest = self.manifest();
        let warm_up_run = |network: &dyn Network| actions::warm_up(network, manifest);
        let path = self.resolved.path.clone();
        self.load(path, &actions::signature(manifest), &warm_up_run)
    }

    /// Loads the text encoder, where the model has one.
    fn text_encoder(&self) -> Result<Option<TextEncoder>, TokenizerError> {
        let manifest = self.manifest();
        let Some(described) = &manifest.text else {
            return Ok(None);
        };
        let tokenizer = TextTokenizer::read(self.resolved, described)?;
        let warm_up_run = |network: &dyn Network| text::warm_up(network, &tokenizer);
        let network = self.load(
            self.resolved.part(&described.part),
            &text::signature(&manifest.name, described),
            &warm_up_run,
        )?;
        Ok(Some(TextEncoder::new(&manifest.name, tokenizer, network)))
    }

    /// Loads the text recogniser, with the line finder where the model has one.
    fn reader(&self) -> Result<TextReader, LoadError> {
        let manifest = self.manifest();
        let warm_up_run = |network: &dyn Network| read::warm_up(network, manifest);
        let path = self.resolved.path.clone();
        let network = self.load(path, &read::signature(manifest), &warm_up_run)?;
        let lines = match &manifest.lines {
            None => None,
            Some(lines) => {
                let warm_up_run = |network: &dyn Network| read::warm_up_lines(network, lines);
                let path = self.resolved.part(&lines.part);
                let signature = read::lines_signature(manifest, lines);
                Some((lines.clone(), self.load(path, &signature, &warm_up_run)?))
            }
        };
        Ok(TextReader::new(
            Arc::clone(&self.resolved.manifest),
            network,
            lines,
        ))
    }

    /// Loads the networks of promptable segmentation.
    fn prompted(&self) -> Result<PromptedSegmenter, OpenError> {
        let manifest = self.manifest();
        let pictures = self.pictures()?;
        let Some(masks) = &manifest.masks else {
            let message = "its manifest names no network that makes masks";
            return Err(pictures.failed(&manifest.name, message).into());
        };
        let features = prompted::sample(manifest, &pictures)?;
        let warm_up_run =
            |network: &dyn Network| prompted::warm_up(network, manifest, masks, &features);
        let network = self.load(
            self.resolved.part(&masks.part),
            &prompted::signature(manifest, masks, &features),
            &warm_up_run,
        )?;
        Ok(PromptedSegmenter::new(
            Arc::clone(&self.resolved.manifest),
            pictures,
            masks.clone(),
            network,
        ))
    }

    /// Opens the model that finds faces, where the manifest names one.
    fn faces(&self) -> Result<Option<Box<dyn Detector>>, OpenError> {
        let manifest = self.manifest();
        let Some(model) = &manifest.faces else {
            return Ok(None);
        };
        let zoo = Zoo::with_dirs(self.request.models_dirs.iter().cloned());
        let resolved = zoo.resolve(model)?;
        match resolved.manifest.task {
            Task::ObjectDetection | Task::KeypointDetection | Task::InstanceSegmentation => {}
            // Models with their own model are refused: manifests that name each other would recurse
            // without end.
            task => {
                return Err(OpenError::Faces {
                    manifest: manifest.name.clone(),
                    model: model.clone(),
                    task,
                });
            }
        }
        let opening = Opening {
            resolved: &resolved,
            ..*self
        };
        let network = opening.pictures()?;
        let detector = NeuralDetector::new(Arc::clone(&resolved.manifest), network);
        Ok(Some(Box::new(detector)))
    }
}

/// False while it is being loaded, without waiting for it.
fn is_loaded(slot: &Slot) -> bool {
    slot.try_lock()
        .is_some_and(|network| network.strong_count() > 0)
}

impl std::fmt::Debug for dyn Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.backend())
    }
}

#[cfg(test)]
mod tests;
