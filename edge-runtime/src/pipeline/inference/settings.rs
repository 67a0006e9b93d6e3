//! What opening a model depends on besides the model: back end, threads and folders.
//!
//! - A child process that checks a model receives them as JSON. So it does what the daemon would
//!   do, also after an edit of the configuration file.

use std::num::NonZeroUsize;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use watchkeeper_config::{Backend, Config, Precision as ConfigPrecision};
use watchkeeper_detect::motion::MotionSettings;
use watchkeeper_detect::trt::{StopFlag, TrtSettings};
use watchkeeper_detect::{BackendChoice, OpenRequest, OrtSettings, Precision};
use watchkeeper_models::model_check::THIS_PROGRAM;

/// First part of the names of providers' libraries.
const PROVIDERS: &str = "libonnxruntime_providers_";

/// Settings of inference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelSettings {
    backend: BackendChoice,
    /// Whether `auto` serves with the back end that loads fastest, and changes it later.
    #[serde(default)]
    at_once: bool,
    pub(super) threads: Option<usize>,
    pub(super) models_dirs: Vec<PathBuf>,
    ort_library: Option<PathBuf>,
    trt_library: Option<PathBuf>,
    engine_dir: PathBuf,
    #[serde(default)]
    precision: Precision,
    /// Folders of fetched libraries.
    library_folders: Vec<PathBuf>,
    pub(super) state_dir: PathBuf,
    /// Whether a child process checks a model with these settings. It leaves TensorRT out: engines
    /// are built in their own processes, which need more than a check may use.
    #[serde(skip)]
    is_check: bool,
}

impl ModelSettings {
    #[must_use]
    pub fn new(config: &Config) -> Self {
        Self {
            backend: match config.inference.backend {
                Backend::Auto => BackendChoice::Auto,
                Backend::Rten => BackendChoice::Rten,
                Backend::Ort => BackendChoice::Ort,
                Backend::Trt => BackendChoice::Trt,
            },
            at_once: false,
            threads: config.inference.threads,
            models_dirs: config.models.folders(),
            ort_library: config.inference.ort_library.clone(),
            trt_library: config.inference.trt_library.clone(),
            engine_dir: config
                .inference
                .engine_dir
                .clone()
                .unwrap_or_else(|| config.state_dir.join("engines")),
            precision: match config.inference.precision {
                ConfigPrecision::Fp32 => Precision::Fp32,
                ConfigPrecision::Fp16 => Precision::Fp16,
                ConfigPrecision::Int8 => Precision::Int8,
            },
            library_folders: config.library_folders(),
            state_dir: config.state_dir.clone(),
            is_check: false,
        }
    }

    /// Reads what [`Self::to_json`] wrote.
    ///
    /// # Errors
    /// One sentence.
    pub fn from_json(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|e| format!("--settings: {e}"))
    }

    /// Writes the settings for a child process.
    ///
    /// # Errors
    /// The folder, or the library, whose path is not UTF-8.
    pub(super) fn to_json(&self) -> Result<String, PathBuf> {
        let state_dir = std::iter::once(&self.state_dir);
        let libraries = self.ort_library.iter().chain(&self.trt_library);
        let folders = state_dir.chain(&self.models_dirs).chain([&self.engine_dir]);
        let mut paths = folders.chain(&self.library_folders).chain(libraries);
        match paths.find(|path| path.to_str().is_none()) {
            Some(path) => Err(path.clone()),
            // Writing strings and numbers as JSON does not fail.
            None => Ok(serde_json::to_string(self).unwrap_or_default()),
        }
    }

    /// The settings of a process that checks a model: it leaves TensorRT out.
    #[must_use]
    pub fn for_check(mut self) -> Self {
        self.is_check = true;
        self
    }

    /// Lets `auto` serve with the back end that loads fastest.
    #[must_use]
    pub(super) fn at_once(mut self) -> Self {
        self.at_once = self.backend() == BackendChoice::Auto;
        self
    }

    /// Replaces the back end.
    #[must_use]
    pub(crate) fn with_backend(mut self, backend: BackendChoice) -> Self {
        self.backend = backend;
        self.at_once = false;
        self
    }

    /// Everything about the back end that decides how a model is loaded. A check leaves TensorRT
    /// out, so float16 is nothing to it.
    pub(super) fn backend_stamp(&self) -> String {
        let how = if self.at_once { " at once" } else { "" };
        let calibrated = match self.precision {
            Precision::Int8 => " int8",
            Precision::Fp16 | Precision::Fp32 => "",
        };
        format!("{:?}{how}{calibrated}", self.backend())
    }

    pub(super) fn backend(&self) -> BackendChoice {
        match self.backend {
            BackendChoice::Trt if self.is_check => BackendChoice::Auto,
            backend => backend,
        }
    }

    /// Locations of TensorRT's shim and engines.
    pub(super) fn trt_settings(&self) -> TrtSettings {
        TrtSettings {
            library: self.trt_library.clone(),
            folders: self.library_folders.clone(),
            engine_dir: self.engine_dir.clone(),
            precision: self.precision,
            program: THIS_PROGRAM.into(),
            stop: StopFlag::default(),
        }
    }

    /// TensorRT's settings, where it may serve. With `auto` that needs the shim.
    #[must_use]
    pub fn trt(&self) -> Option<TrtSettings> {
        let settings = self.trt_settings();
        match self.backend() {
            _ if self.is_check => None,
            BackendChoice::Trt => Some(settings),
            BackendChoice::Auto => settings.library_file().is_ok().then_some(settings),
            BackendChoice::Rten | BackendChoice::Ort => None,
        }
    }

    /// The request that opens `model`.
    pub(crate) fn request(&self, model: &str) -> OpenRequest {
        OpenRequest {
            model: model.to_owned(),
            backend: self.backend(),
            at_once: self.at_once,
            threads: self.threads.and_then(NonZeroUsize::new),
            motion: MotionSettings::default(),
            models_dirs: self.models_dirs.clone(),
            ort: self.ort_settings(),
            trt: self.trt(),
            candidates: BackendChoice::CANDIDATES.to_vec(),
        }
    }

    pub(crate) fn ort_settings(&self) -> OrtSettings {
        OrtSettings {
            library: self.ort_library.clone(),
            folders: self.library_folders.clone(),
            precision: self.precision,
            measured_threads: None,
        }
    }

    /// Path, size and time of the library that runs networks, and of its providers' libraries
    /// beside it; empty if the back end needs none.
    pub(super) fn library_stamp(&self) -> String {
        if self.backend() == BackendChoice::Rten {
            return String::new();
        }
        let Some(path) = self.ort_settings().library_file() else {
            return String::new();
        };
        let mut files = providers_beside(&path);
        files.insert(0, path);
        let stamps = files.iter().map(|path| {
            let file = std::fs::metadata(path).map(|file| (file.size(), file.mtime()));
            // A run sees the folder of libraries by its own link.
            let path = path.canonicalize();
            format!("{path:?} {file:?}")
        });
        stamps.collect::<Vec<_>>().join(", ")
    }
}

/// Libraries of execution providers beside ONNX Runtime's.
fn providers_beside(library: &Path) -> Vec<PathBuf> {
    let folder = library.parent().and_then(|dir| std::fs::read_dir(dir).ok());
    let files = folder.into_iter().flatten().flatten();
    let providers = files.filter(|file| {
        let name = file.file_name();
        name.to_string_lossy().starts_with(PROVIDERS)
    });
    let mut providers: Vec<PathBuf> = providers.map(|file| file.path()).collect();
    providers.sort();
    providers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_the_same_after_the_way_to_a_child() {
        let settings = ModelSettings {
            backend: BackendChoice::Rten,
            at_once: false,
            threads: Some(3),
            models_dirs: vec!["/a b".into(), "/c".into()],
            ort_library: Some("/lib/x.so".into()),
            trt_library: Some("/lib/y.so".into()),
            engine_dir: "/engines".into(),
            precision: Precision::Int8,
            library_folders: vec!["/state/lib".into()],
            state_dir: "/state".into(),
            is_check: false,
        };
        let text = settings.to_json().unwrap_or_default();
        assert_eq!(ModelSettings::from_json(&text), Ok(settings));
        let wrong = ModelSettings::from_json(&text.replace("rten", "abacus"));
        assert!(wrong.is_err_and(|why| why.contains("abacus")));
        assert!(ModelSettings::from_json("{").is_err());
    }

    fn settings(threads: Option<usize>, folder: PathBuf) -> ModelSettings {
        ModelSettings {
            backend: BackendChoice::Rten,
            at_once: false,
            threads,
            models_dirs: vec![folder],
            ort_library: None,
            trt_library: None,
            engine_dir: "/engines".into(),
            precision: Precision::Fp32,
            library_folders: Vec::new(),
            state_dir: "/state".into(),
            is_check: false,
        }
    }

    #[test]
    fn check_opens_a_model_with_the_threads_of_the_daemon() {
        for configured in [None, Some(1), Some(8)] {
            let settings = settings(configured, "/m".into());
            let threads = settings.request("m").threads;
            assert_eq!(settings.for_check().request("m").threads, threads);
        }
    }

    #[cfg(feature = "ort")]
    #[test]
    fn library_has_one_stamp_through_every_link_to_its_folder() -> std::io::Result<()> {
        let dir = tempfile::tempdir()?;
        let library = |folder: &str| dir.path().join(folder).join("libonnxruntime.so");
        std::fs::create_dir(dir.path().join("lib"))?;
        std::fs::write(library("lib"), "library")?;
        let stamp_in = |folder: &str| {
            let mut settings = settings(None, "/m".into());
            settings.backend = BackendChoice::Ort;
            settings.ort_library = Some(library(folder));
            settings.library_stamp()
        };
        for run in ["one", "two"] {
            std::os::unix::fs::symlink(dir.path().join("lib"), dir.path().join(run))?;
            assert_eq!(stamp_in(run), stamp_in("lib"));
        }
        let before = stamp_in("one");
        std::fs::write(library("lib"), "another library")?;
        assert_ne!(stamp_in("one"), before);
        Ok(())
    }

    #[test]
    fn folder_that_no_json_can_hold_is_named() {
        use std::os::unix::ffi::OsStringExt as _;
        let folder = PathBuf::from(std::ffi::OsString::from_vec(b"/m\xff".to_vec()));
        let written = settings(None, folder.clone()).to_json();
        assert_eq!(written, Err(folder));
    }
}
