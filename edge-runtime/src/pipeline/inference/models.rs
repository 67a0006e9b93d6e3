//! The models of this box: which there are, and detectors over them as the configuration says.
//!
//! Invariant: every pipeline asks with the same back end, threads and folders, so equal models share one session.

use std::num::NonZeroUsize;

use watchkeeper_config::{Backend, Config};
use watchkeeper_contract::model::ModelInfo;
use watchkeeper_detect::motion::MotionSettings;
use watchkeeper_detect::{
    BackendChoice, Detector, DetectorPool, OpenError, OpenRequest, OrtPlaces,
};
use watchkeeper_models::Zoo;

/// Opens detectors the configured way.
#[derive(Debug)]
pub struct Models {
    pool: DetectorPool,
    request: OpenRequest,
}

impl Models {
    /// The models as `config` has them.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        Self {
            pool: DetectorPool::default(),
            request: OpenRequest {
                model: String::new(),
                backend: match config.inference.backend {
                    Backend::Auto => BackendChoice::Auto,
                    Backend::Rten => BackendChoice::Rten,
                    Backend::Ort => BackendChoice::Ort,
                },
                threads: config.inference.threads.and_then(NonZeroUsize::new),
                motion: MotionSettings::default(),
                models_dirs: config.models.folders(),
                ort: OrtPlaces {
                    library: config.inference.ort_library.clone(),
                    state_dir: Some(config.state_dir.clone()),
                },
            },
        }
    }

    /// A detector for one stream: a name in the zoo, a path to a model file, or `motion`.
    ///
    /// # Errors
    /// [`OpenError`], one sentence.
    pub fn open(&self, model: &str) -> Result<Box<dyn Detector>, OpenError> {
        self.pool.open(&OpenRequest {
            model: model.to_owned(),
            ..self.request.clone()
        })
    }

    /// Every model that is known, here or not.
    #[must_use]
    pub fn list(&self) -> Vec<ModelInfo> {
        Zoo::with_dirs(self.request.models_dirs.iter().cloned()).list()
    }
}
