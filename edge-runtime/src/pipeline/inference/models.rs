//! Opens the models of this box with the configured back end, threads and folders.
//!
//! - Every pipeline asks with the same settings, so equal models share one session.
//! - The daemon loads only files that a child process has loaded before ([`first_load`]).
//! - Where the back end is `auto`, the one that was measured as the fastest comes first
//!   ([`fastest`]).
//!
//! [`first_load`]: super::first_load
//! [`fastest`]: super::fastest

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use watchkeeper_config::Config;
use watchkeeper_contract::backend::{BackendReport, MeasuredModel};
use watchkeeper_contract::model::ModelInfo;
use watchkeeper_detect::trt::StopFlag;
use watchkeeper_detect::{BackendChoice, Detector, DetectorPool, OpenError};
use watchkeeper_models::{MOTION, Sha256Sum, Zoo};

use super::backends;
use super::child::ChildProgram;
use super::fastest::Fastest;
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
    /// Absent where libraries are opened in this process.
    child: Option<ChildProgram>,
    /// Absent where the back end is not chosen by measurements.
    fastest: Option<Fastest>,
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
            child: None,
            fastest: None,
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
        let (settings, program) = (ModelSettings::new(config), program.into());
        let child = ChildProgram::new(program.clone(), Arc::clone(&is_stopping));
        let stop = Arc::clone(&is_stopping);
        let first_loads = FirstLoads::new(settings.clone(), program, stop);
        Self {
            is_stopping,
            first_loads: Some(first_loads),
            child: Some(child),
            ..Self::with_settings(settings)
        }
    }

    /// Has opened models measured in the background, where the back end is `auto`.
    #[must_use]
    pub fn measuring(mut self, program: impl AsRef<Path>) -> Self {
        let is_auto = self.settings.backend() == BackendChoice::Auto;
        let child = self.child.clone().filter(|_| is_auto);
        let settings = self.settings.clone();
        self.fastest = child.map(|child| Fastest::spawn(settings, child, program.as_ref()));
        self
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
        if let Some(choice) = self.preferred(model) {
            request.backend = choice;
            match self.pool.open(&request) {
                Ok(detector) => return Ok(detector),
                Err(reason) => {
                    tracing::warn!(model, %reason, "the measured back end fails");
                }
            }
            request.backend = self.settings.backend();
        }
        let detector = self.pool.open(&request)?;
        if let Some((fastest, sum)) = self.fastest.as_ref().zip(self.network_sum(model)) {
            fastest.want(model, &sum);
        }
        Ok(detector)
    }

    /// Returns the back end to try first for a model: measured as the fastest on this box, where
    /// that differs from the usual order. `None` leaves the configured order.
    #[must_use]
    pub fn preferred(&self, model: &str) -> Option<BackendChoice> {
        let choice = self.fastest.as_ref()?.choice(&self.network_sum(model)?)?;
        // `auto` begins with ONNX Runtime, and equal requests share one session.
        (choice != BackendChoice::Ort).then_some(choice)
    }

    /// Checksum of a model's network; only where back ends are chosen by measurements.
    fn network_sum(&self, model: &str) -> Option<Sha256Sum> {
        let first_loads = self.first_loads.as_ref()?;
        self.fastest.as_ref().filter(|_| model != MOTION)?;
        first_loads.network_sum(model, &self.zoo())
    }

    /// The back ends of this box, and the models measured on them.
    #[must_use]
    pub fn backends(&self) -> BackendReport {
        let backends = match &self.child {
            Some(child) => backends::ask(&self.settings, child),
            None => backends::list(&self.settings),
        };
        let measured = self.measured();
        BackendReport { backends, measured }
    }

    fn measured(&self) -> Vec<MeasuredModel> {
        self.fastest.as_ref().map_or_else(Vec::new, Fastest::list)
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
        let measured = self.measured();
        let mut models = self.zoo().list();
        for model in &mut models {
            model.measured = measured.iter().find(|m| m.model == model.name).cloned();
        }
        models
    }

    fn zoo(&self) -> Zoo {
        Zoo::with_dirs(self.settings.models_dirs.iter().cloned())
    }
}
