//! Opens the models of this box with the configured back end, threads and folders.
//!
//! - Every pipeline asks with the same settings, so equal models share one session.
//! - The daemon loads only files that a child process has loaded before ([`first_load`]).
//! - In the daemon, `auto` serves with the back end that loads fastest, and changes it later
//!   ([`backend_changes`]). Commands begin with the fastest one.
//!
//! [`backend_changes`]: super::backend_changes
//! [`first_load`]: super::first_load

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use watchkeeper_config::Config;
use watchkeeper_contract::model::ModelInfo;
use watchkeeper_detect::change::{ChangeHost, ChangePolicy};
use watchkeeper_detect::{Detector, DetectorPool, OpenError};
use watchkeeper_models::{MOTION, Zoo};

use super::backend_changes::BackendChanges;
use super::change_events::ChangeEvents;
use super::first_load::{FirstLoadError, FirstLoads};
use super::settings::ModelSettings;

/// Opens detectors as configured.
#[derive(Debug)]
pub struct Models {
    pool: DetectorPool,
    settings: ModelSettings,
    /// Absent where a crash costs only this process.
    first_loads: Option<Arc<FirstLoads>>,
    changes: Option<Arc<BackendChanges>>,
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
            first_loads: None,
            changes: None,
        }
    }

    /// Like [`Self::new`], but each file is loaded by `program model-check` first. `is_stopping`
    /// ends such checks.
    #[must_use]
    pub fn checked(
        config: &Config,
        program: impl Into<PathBuf>,
        is_stopping: Arc<AtomicBool>,
    ) -> Self {
        let settings = ModelSettings::new(config);
        let first_loads = FirstLoads::new(settings.clone(), program, is_stopping);
        Self {
            first_loads: Some(Arc::new(first_loads)),
            ..Self::with_settings(settings)
        }
    }

    /// Like [`Self::checked`], and `auto` changes back ends in the background, which `events`
    /// reports.
    #[must_use]
    pub fn changing(
        config: &Config,
        program: impl Into<PathBuf>,
        is_stopping: Arc<AtomicBool>,
        events: ChangeEvents,
    ) -> Self {
        let settings = ModelSettings::new(config).at_once();
        let first_loads = FirstLoads::new(settings.clone(), program, is_stopping);
        let first_loads = Arc::new(first_loads);
        let changes = BackendChanges::new(Arc::clone(&first_loads), settings.clone(), events);
        let changes = Arc::new(changes);
        let host = Arc::clone(&changes) as Arc<dyn ChangeHost>;
        Self {
            pool: DetectorPool::changing(host, ChangePolicy::default()),
            settings,
            first_loads: Some(first_loads),
            changes: Some(changes),
        }
    }

    /// Waits at most `timeout` for the ends of changes. All detectors must be dropped before.
    pub fn shut_down(&self, timeout: Duration) {
        if let Some(changes) = &self.changes {
            changes.shut_down(timeout);
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
        Ok(self.pool.open(&self.settings.request(model))?)
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
