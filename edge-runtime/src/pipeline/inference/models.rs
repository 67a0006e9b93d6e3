//! Opens the models of this box with the configured back end, threads and folders.
//!
//! - Every pipeline asks with the same settings, so equal models share one session.
//! - The daemon loads only files that a child process has loaded before ([`first_load`]). The
//!   exception is TensorRT, which reads files in its own processes.
//! - In the daemon, `auto` serves with the back end that loads fastest, and changes it later
//!   ([`backend_changes`]). It never changes to one that was measured as slower, and begins with
//!   one that was faster and took over before ([`fastest`]).
//!   Commands begin with the fastest one.
//!
//! [`backend_changes`]: super::backend_changes
//! [`first_load`]: super::first_load
//! [`fastest`]: super::fastest

use std::sync::Arc;
use std::time::Duration;

use watchkeeper_config::Config;
use watchkeeper_contract::backend::{BackendReport, MeasuredModel};
use watchkeeper_contract::model::{ModelInfo, ModelState};
use watchkeeper_detect::change::{ChangeHost, ChangePolicy};
use watchkeeper_detect::trt::StopFlag;
use watchkeeper_detect::{BackendChoice, Claim, Detector, DetectorPool, OpenError};
use watchkeeper_models::manifest::Task;
use watchkeeper_models::{MOTION, Sha256Sum, Zoo, digest};

use super::backend_changes::BackendChanges;
use super::backends;
use super::change_events::ChangeEvents;
use super::child::ChildProgram;
use super::fastest::Fastest;
use super::first_load::{FirstLoadError, FirstLoads};
use super::settings::ModelSettings;

/// Opens detectors as configured.
pub struct Models {
    pool: DetectorPool,
    settings: ModelSettings,
    /// Absent if a crash costs only this process: files and libraries are opened in it.
    first_loads: Option<Arc<FirstLoads>>,
    /// Absent if the back end is not chosen by measurements.
    fastest: Option<Arc<Fastest>>,
    /// Absent where back ends stay.
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
            fastest: None,
            changes: None,
        }
    }

    /// Like [`Self::new`], but each file is loaded by `child` first, whose flag ends builds of
    /// engines too.
    #[must_use]
    pub fn checked(config: &Config, child: ChildProgram) -> Self {
        let settings = ModelSettings::new(config);
        let first_loads = FirstLoads::new(settings.clone(), child);
        Self {
            first_loads: Some(Arc::new(first_loads)),
            ..Self::with_settings(settings)
        }
    }

    /// Like [`Self::checked`], and `auto` changes back ends in the background, which `events`
    /// reports.
    #[must_use]
    pub fn changing(config: &Config, child: ChildProgram, events: ChangeEvents) -> Self {
        let settings = ModelSettings::new(config).at_once();
        let first_loads = Arc::new(FirstLoads::new(settings.clone(), child));
        let changes = BackendChanges::new(Arc::clone(&first_loads), settings.clone(), events);
        let changes = Arc::new(changes);
        let host = Arc::clone(&changes) as Arc<dyn ChangeHost>;
        Self {
            pool: DetectorPool::changing(host, ChangePolicy::default()),
            first_loads: Some(first_loads),
            changes: Some(changes),
            ..Self::with_settings(settings)
        }
    }

    /// Waits at most `timeout` for the ends of changes, and for that of a measurement, once the
    /// daemon stops. All detectors must be dropped before.
    pub fn shut_down(&self, timeout: Duration) {
        if let Some(changes) = &self.changes {
            changes.shut_down(timeout);
        }
        if let Some(fastest) = &self.fastest {
            fastest.shut_down(timeout);
        }
    }

    /// Has opened models measured in the background, where the back end is `auto` or `ort`.
    #[must_use]
    pub fn measuring(mut self) -> Self {
        let may_be_ort = [BackendChoice::Auto, BackendChoice::Ort];
        let is_measured = may_be_ort.contains(&self.settings.backend());
        let child = self.child().filter(|_| is_measured).cloned();
        self.fastest = child.map(|child| Arc::new(Fastest::spawn(self.settings.clone(), child)));
        if let Some((changes, fastest)) = self.changes.as_ref().zip(self.fastest.as_ref()) {
            changes.keep_results(Arc::clone(fastest));
        }
        self
    }

    fn child(&self) -> Option<&ChildProgram> {
        self.first_loads.as_ref().map(|first| first.child())
    }

    /// Opens a detector for one stream: a name in the zoo, a path to a model file, or `motion`.
    ///
    /// # Errors
    /// [`ModelError`] when the model is unknown or can't be loaded.
    pub fn open(&self, model: &str) -> Result<Box<dyn Detector>, ModelError> {
        self.open_with(model, &Arc::default())
    }

    /// Like [`Self::open`], with a claim to the model's networks.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub fn open_with(
        &self,
        model: &str,
        claim: &Arc<Claim>,
    ) -> Result<Box<dyn Detector>, ModelError> {
        let zoo = self.zoo();
        if let Some(first_loads) = &self.first_loads
            && model != MOTION
        {
            first_loads.check(model, &zoo)?;
        }
        let mut request = self.settings.request(model);
        if let Some((trt, child)) = request.trt.as_mut().zip(self.child()) {
            trt.stop = StopFlag(child.stop_flag());
        }
        let sum = self.network_sum(model, &zoo);
        if let Some((fastest, sum)) = self.fastest.as_ref().zip(sum.as_ref()) {
            fastest.apply(sum, &mut request);
        }
        let detector = self.pool.open_with(&request, claim)?;
        if let Some((fastest, sum)) = self.fastest.as_ref().zip(sum) {
            fastest.want(model, &sum);
        }
        Ok(detector)
    }

    /// Checksum of the file that ONNX Runtime opens for a model; only where models are measured.
    fn network_sum(&self, model: &str, zoo: &Zoo) -> Option<Sha256Sum> {
        self.fastest.as_ref().filter(|_| model != MOTION)?;
        let precision = self.settings.ort_settings().precision;
        let path = zoo.resolve(model).ok()?.path;
        let (file, _) = precision.network_file(&path, BackendChoice::Ort.name());
        digest::of_unchanged_file(&file).ok()
    }

    /// The back ends of this box, and the models measured on them.
    #[must_use]
    pub fn backends(&self) -> BackendReport {
        let backends = match self.child() {
            Some(child) => backends::ask(&self.settings, child),
            None => backends::list(&self.settings),
        };
        let measured = self.measured();
        BackendReport { backends, measured }
    }

    fn measured(&self) -> Vec<MeasuredModel> {
        self.fastest
            .as_ref()
            .map_or_else(Vec::new, |fastest| fastest.list())
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

    /// Like [`Self::list`], with the digests of models that detect objects or make embeddings.
    /// Their files are read in full once, and again when they changed.
    #[must_use]
    pub fn list_with_digests(&self) -> Vec<ModelInfo> {
        let zoo = self.zoo();
        let mut models = self.list();
        let has_digest = |model: &&mut ModelInfo| {
            let is_used = model.makes_embeddings || model.task == Task::ObjectDetection.name();
            is_used && matches!(model.state, ModelState::Present { .. })
        };
        for model in models.iter_mut().filter(has_digest) {
            let resolved = zoo.resolve(&model.name).ok();
            let digest = resolved.and_then(|model| model.digest().ok());
            model.digest = digest.map(|sum| sum.to_string());
        }
        models
    }

    fn zoo(&self) -> Zoo {
        Zoo::with_dirs(self.settings.models_dirs.iter().cloned())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test that can't set up has failed")]
mod tests {
    use super::*;

    /// A file that says that it was calibrated on ONNX Runtime for the file with this checksum.
    fn calibrated(sum: Sha256Sum) -> Vec<u8> {
        let field = |tag: u8, bytes: &[u8]| [&[tag, bytes.len() as u8], bytes].concat();
        let property = |key: &str, value: &str| {
            let pair = [field(0x0a, key.as_bytes()), field(0x12, value.as_bytes())];
            field(0x72, &pair.concat())
        };
        let graph = field(0x3a, &[]);
        let origin = property("watchkeeper.origin", &sum.to_string());
        [graph, origin, property("watchkeeper.backend", "ort")].concat()
    }

    #[test]
    fn calibrated_network_has_a_measurement_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let manifest = include_str!("../../../../models/zoo/yolox-nano.toml");
        let file = |name: &str| folder.path().join(name);
        std::fs::write(file("m.toml"), manifest.replace("yolox-nano", "m")).unwrap();
        std::fs::write(file("m.onnx"), "a network").unwrap();
        let [original, int8] = [
            b"a network".to_vec(),
            calibrated(Sha256Sum::of(b"a network")),
        ];
        let rows = [("auto", "fp32", &original), ("ort", "int8", &int8)];
        for (backend, precision, measured) in rows {
            std::fs::remove_file(file("m.int8.onnx")).ok();
            let settings = serde_json::json!({
                "backend": backend, "precision": precision, "threads": null,
                "models_dirs": [folder.path()], "ort_library": null, "library_folders": [],
                "trt_library": null, "engine_dir": file("engines"), "state_dir": folder.path(),
            });
            let settings = ModelSettings::from_json(&settings.to_string()).unwrap();
            let child = ChildProgram::new(file("program"), Arc::default());
            let first_loads = FirstLoads::new(settings.clone(), child);
            let mut models = Models::with_settings(settings);
            models.first_loads = Some(Arc::new(first_loads));
            let models = models.measuring();
            let sum = || models.network_sum("m", &models.zoo());
            assert_eq!(sum(), Some(Sha256Sum::of(&original)), "{precision}");
            std::fs::write(file("m.int8.onnx"), &int8).unwrap();
            assert_eq!(sum(), Some(Sha256Sum::of(measured)), "{precision}");
        }
    }
}
