//! Detectors for pipelines, with networks shared among them.
//!
//! Two pipelines that ask for the same file, back end and number of threads get two detectors over one session. Invariant:
//! a network is loaded once and stays loaded exactly as long as a detector uses it; of two requests for the same one at the same time the
//! second waits for the first one's loading. Networks are loaded one after the other, because loading takes more memory than running; whoever asks for
//! one that is there waits for none.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use watchkeeper_models::{MOTION, Resolved, Zoo, ZooError};

use super::Detector;
use super::backend::{self, BackendChoice, OrtPlaces};
use super::motion::{MotionDetector, MotionSettings};
use super::network::{LoadError, Network};
use super::neural::NeuralDetector;
use super::shared::Turnstile;

/// What a pipeline asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OpenRequest {
    /// `motion`, a name in the zoo, or a path to a model file.
    pub model: String,
    /// Which back end.
    pub backend: BackendChoice,
    /// Threads of the network; absent: [`backend::default_threads`].
    pub threads: Option<NonZeroUsize>,
    /// Folders of model files and of the user's manifests, the first wins.
    pub models_dirs: Vec<PathBuf>,
    /// Where to look for ONNX Runtime besides the usual places.
    pub ort: OrtPlaces,
    /// Times of the motion detector; networks have none.
    pub motion: MotionSettings,
}

/// Why there is no detector. One sentence each.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// No such model, or its file is not here.
    #[error(transparent)]
    Model(#[from] ZooError),
    /// The file can't be run.
    #[error(transparent)]
    Load(#[from] LoadError),
}

/// The networks in use.
#[derive(Debug, Clone, Default)]
pub struct DetectorPool {
    places: Arc<Mutex<BTreeMap<Key, Place>>>,
    loading: Arc<Mutex<()>>,
}

/// Where a network is once it is loaded; locked while it is being loaded.
type Place = Arc<Mutex<Weak<Turnstile<Box<dyn Network>>>>>;

/// File, manifest, back end and threads.
type Key = (PathBuf, String, BackendChoice, usize);

impl DetectorPool {
    /// A detector for one stream.
    ///
    /// # Errors
    /// [`OpenError`]: the model is unknown, absent, damaged, not what its manifest says, or the back end is not here.
    pub fn open(&self, request: &OpenRequest) -> Result<Box<dyn Detector>, OpenError> {
        if request.model == MOTION {
            return Ok(Box::new(MotionDetector::new(request.motion)));
        }
        let zoo = Zoo::with_dirs(request.models_dirs.iter().cloned());
        for problem in zoo.problems() {
            tracing::warn!(%problem, "a model manifest is left out");
        }
        let Resolved { manifest, path } = zoo.resolve(&request.model)?;
        let threads = request
            .threads
            .map_or_else(backend::default_threads, NonZeroUsize::get);
        let path = path.canonicalize().unwrap_or(path);
        let key = (path, manifest.name.clone(), request.backend, threads);

        let place = self.place(&key);
        let mut place = place.lock();
        let network = match place.upgrade() {
            Some(network) => network,
            None => {
                let _loading = self.loading.lock();
                let network =
                    backend::load(request.backend, &key.0, &manifest, threads, &request.ort)?;
                tracing::info!(
                    model = manifest.name,
                    backend = network.backend(),
                    threads,
                    path = %key.0.display(),
                    "network loaded"
                );
                let network = Arc::new(Turnstile::new(network));
                *place = Arc::downgrade(&network);
                network
            }
        };
        drop(place);
        Ok(Box::new(NeuralDetector::new(manifest, network)))
    }

    /// The place of one network. Places that nobody looks at and whose network is gone are given up.
    fn place(&self, key: &Key) -> Place {
        let mut places = self.places.lock();
        places.retain(|_, place| Arc::strong_count(place) > 1 || is_loaded(place));
        Arc::clone(places.entry(key.clone()).or_default())
    }

    /// How many networks are loaded.
    #[must_use]
    pub fn loaded(&self) -> usize {
        let places = self.places.lock();
        places.values().filter(|place| is_loaded(place)).count()
    }
}

/// Not while it is being loaded: nobody waits for that here.
fn is_loaded(place: &Place) -> bool {
    place
        .try_lock()
        .is_some_and(|network| network.strong_count() > 0)
}

impl std::fmt::Debug for dyn Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.backend())
    }
}

#[cfg(test)]
mod tests;
