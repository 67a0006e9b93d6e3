//! Opens the models of this box with the configured back end, threads and folders.
//!
//! - Every pipeline asks with the same settings, so equal models share one session.

use std::num::NonZeroUsize;

use watchkeeper_config::{Backend, Config};
use watchkeeper_contract::model::ModelInfo;
use watchkeeper_detect::motion::MotionSettings;
use watchkeeper_detect::{
    BackendChoice, Detector, DetectorPool, OpenError, OpenRequest, OrtPlaces,
};
use watchkeeper_models::Zoo;

/// Opens detectors as configured.
#[derive(Debug)]
pub struct Models {
    pool: DetectorPool,
    request: OpenRequest,
}

impl Models {
    /// Reads back end, threads and folders from `config`.
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

    /// Opens a detector for one stream: a name in the zoo, a path to a model file, or `motion`.
    ///
    /// # Errors
    /// [`OpenError`] when the model is unknown or can't be loaded.
    pub fn open(&self, model: &str) -> Result<Box<dyn Detector>, OpenError> {
        self.pool.open(&OpenRequest {
            model: model.to_owned(),
            ..self.request.clone()
        })
    }

    /// Every known model, installed or not.
    #[must_use]
    pub fn list(&self) -> Vec<ModelInfo> {
        Zoo::with_dirs(self.request.models_dirs.iter().cloned()).list()
    }
}
