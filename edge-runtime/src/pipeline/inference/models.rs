//! Opens the models of this box with the configured back end, threads and folders.
//!
//! - Every pipeline asks with the same settings, so equal models share one session.
//! - The daemon loads only files that a child process has loaded before ([`first_load`]).
//!
//! [`first_load`]: super::first_load

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use watchkeeper_config::Config;
use watchkeeper_contract::model::ModelInfo;
use watchkeeper_detect::trt::StopFlag;
use watchkeeper_detect::{Detector, DetectorPool, OpenError};
use watchkeeper_models::{MOTION, Zoo};

use super::first_load::{FirstLoadError, FirstLoads};
use super::settings::ModelSettings;

/// Opens detectors as configured.
#[derive(Debug)]
pub struct Models {
    pool: DetectorPool,
    settings: ModelSettings,
    /// Set when the daemon stops.
    is_stopping: Arc<AtomicBool>,
    /// Absent where a crash costs only this process.
    first_loads: Option<FirstLoads>,
}

/// Why a model is not opened. One sentence each.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    #[error(transparent)]
    Check(#[from] FirstLoadError),
    #[error(transparent)]
    Open(#[from] OpenError),
}

impl Models {
    /// Reads back end, threads and folders from `config`. Files are loaded unchecked: for commands
    /// that a model may end.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        Self::with_settings(ModelSettings::new(config))
    }

    /// Like [`Self::new`], with the settings of another process.
    #[must_use]
    pub fn with_settings(settings: ModelSettings) -> Self {
        Self {
            pool: DetectorPool::default(),
            settings,
            is_stopping: Arc::default(),
            first_loads: None,
        }
    }

    /// Like [`Self::new`], but each file is loaded by `program model-check` first. `is_stopping`
    /// ends such checks, and builds of engines.
    #[must_use]
    pub fn checked(
        config: &Config,
        program: impl Into<PathBuf>,
        is_stopping: Arc<AtomicBool>,
    ) -> Self {
        let settings = ModelSettings::new(config);
        let stop = Arc::clone(&is_stopping);
        let first_loads = FirstLoads::new(settings.clone(), program, stop);
        Self {
            is_stopping,
            first_loads: Some(first_loads),
            ..Self::with_settings(settings)
        }
    }

    /// Opens a detector for one stream: a name in the zoo, a path to a model file, or `motion`.
    ///
    /// # Errors
    /// [`ModelError`] when the model is unknown or can't be loaded.
    pub fn open(&self, model: &str) -> Result<Box<dyn Detector>, ModelError> {
        if let Some(first_loads) = &self.first_loads
            && model != MOTION
        {
            first_loads.check(model, &self.zoo())?;
        }
        let mut request = self.settings.request(model);
        if let Some(trt) = &mut request.trt {
            trt.stop = StopFlag(Arc::clone(&self.is_stopping));
        }
        Ok(self.pool.open(&request)?)
    }

    /// Whether opening the model has it checked first, which may take minutes.
    #[must_use]
    pub fn is_unchecked(&self, model: &str) -> bool {
        let first_loads = self.first_loads.as_ref().filter(|_| model != MOTION);
        first_loads.is_some_and(|first_loads| first_loads.is_unchecked(model, &self.zoo()))
    }

    /// Every known model, installed or not.
    #[must_use]
    pub fn list(&self) -> Vec<ModelInfo> {
        self.zoo().list()
    }

    fn zoo(&self) -> Zoo {
        Zoo::with_dirs(self.settings.models_dirs.iter().cloned())
    }
}
