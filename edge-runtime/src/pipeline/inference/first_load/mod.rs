//! Checks a model in a child process before this process loads it for the first time.
//!
//! - A file that needs too much memory or time, or that crashes its back end, ends the child only.
//! - What was checked is named by checksums ([`subject`]): a file with other contents, another
//!   manifest, back end, program or limit is checked again.
//! - Results that the file causes are kept ([`results`]), so a later start runs no child, and a
//!   refused file is refused at once. A refusal with its own sentence is not kept, nor is an end
//!   that the box may have caused. The next request checks the model again.
//! - Checks run one at a time, and at most [`MAX_WAITING`] wait. A model that was checked before
//!   waits for none.
//! - A stop of the daemon ends the check and all waits.
//!
//! Not here: how the child is run, its limits and the reading of its end
//! (`watchkeeper_models::model_check`).

mod results;
mod subject;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use watchkeeper_detect::BackendChoice;
use watchkeeper_detect::precision::{Precision, calibrated_file};
use watchkeeper_models::model_check::{self, Ending, Interruption, Outcome};
use watchkeeper_models::{Resolved, Zoo, ZooError, digest};

use self::results::{CheckResult, CheckResults};
use self::subject::{CheckedModel, Subject};
use super::child::ChildProgram;
use super::kept_files::Key;
use super::settings::ModelSettings;

/// Most models that wait for the check of another: each holds a call of the API.
const MAX_WAITING: usize = 8;

/// Pause between two looks at the stop, while another model is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Why a model is not loaded. One sentence each.
#[derive(Debug, thiserror::Error)]
pub enum FirstLoadError {
    /// The model is unknown, or its file is missing.
    #[error(transparent)]
    Model(#[from] ZooError),
    /// The sentence with which the child refused it.
    #[error("{0}")]
    Refused(String),
    /// A limit or a crash ended the child.
    #[error("{path} is not loaded: {ending}; to have it checked again, {remedy}")]
    Ended {
        path: PathBuf,
        ending: Ending,
        /// How to have the result forgotten.
        remedy: String,
    },
    #[error("{path} can't be read: {source}; check the file and its permissions")]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{path} changed while it was checked; try again when it is complete")]
    Changed { path: PathBuf },
    /// The check says nothing about the file.
    #[error("{path} is not loaded: {why}")]
    Interrupted { path: PathBuf, why: Interruption },
    #[error(
        "{path} is not checked yet: {MAX_WAITING} models wait for their checks already; try again \
         in some minutes"
    )]
    Busy { path: PathBuf },
    #[error("{path} can't be checked in a child process: {source}; {remedy}", remedy =
        model_check::start_remedy(source))]
    Child { path: PathBuf, source: io::Error },
    #[error(
        "{path} can't be checked: the folder {folder:?} is not UTF-8, which settings of a check \
         must be; rename it, or configure another models.dir or runtime.state_dir"
    )]
    Folder { path: PathBuf, folder: PathBuf },
}

/// Checks models, and remembers the results.
#[derive(Debug)]
pub struct FirstLoads {
    child: ChildProgram,
    /// Names this build of the program.
    program_stamp: String,
    settings: ModelSettings,
    results: CheckResults,
    /// Held during a check.
    turn: Mutex<()>,
    /// Models that wait for their turn.
    waiting: AtomicUsize,
}

impl FirstLoads {
    /// Keeps results in the state folder of `settings`.
    #[must_use]
    pub fn new(settings: ModelSettings, child: ChildProgram) -> Self {
        Self {
            program_stamp: child.stamp(),
            child,
            results: CheckResults::new(&settings.state_dir),
            settings,
            turn: Mutex::default(),
            waiting: AtomicUsize::default(),
        }
    }

    pub(super) fn child(&self) -> &ChildProgram {
        &self.child
    }

    /// Whether [`Self::check`] would run a child. False also for a model that can't be found or
    /// read.
    pub fn is_unchecked(&self, model: &str, zoo: &Zoo) -> bool {
        if self.settings.backend() == BackendChoice::Trt {
            return true;
        }
        let key = all_of(model, zoo).and_then(|all| self.key(&all, &self.settings));
        key.is_ok_and(|key| self.results.get(&key).is_none())
    }

    /// Checks the model of this name or path, unless its files were checked before.
    ///
    /// # Errors
    /// [`FirstLoadError`]: this process must not load it.
    pub fn check(&self, model: &str, zoo: &Zoo) -> Result<(), FirstLoadError> {
        self.check_with(&self.settings, model, zoo)
    }

    /// Like [`Self::check`], with another back end than the configured one.
    ///
    /// # Errors
    /// [`FirstLoadError`]: this process must not load it with that back end.
    pub fn check_backend(
        &self,
        backend: BackendChoice,
        model: &str,
        zoo: &Zoo,
    ) -> Result<(), FirstLoadError> {
        let settings = self.settings.clone().with_backend(backend);
        self.check_with(&settings, model, zoo)
    }

    fn check_with(
        &self,
        settings: &ModelSettings,
        model: &str,
        zoo: &Zoo,
    ) -> Result<(), FirstLoadError> {
        let all = all_of(model, zoo)?;
        // TensorRT reads files in its own processes, which build engines.
        if settings.backend() == BackendChoice::Trt {
            return Ok(());
        }
        let path = all.first().map(|first| first.path.clone());
        let path = path.unwrap_or_default();
        let key = self.key(&all, settings)?;
        if let Some(result) = self.results.get(&key) {
            return self.answer(&path, &key, result);
        }
        let _turn = self.wait_for_turn(&path)?;
        // Another request may have checked it meanwhile.
        if let Some(result) = self.results.get(&key) {
            return self.answer(&path, &key, result);
        }
        let outcome = self.run_child(settings, model, &path)?;
        if self.key(&all, settings)? != key {
            return Err(FirstLoadError::Changed { path });
        }
        let result = match outcome {
            // A damaged file of the zoo has a remedy that the back end doesn't know.
            Outcome::Refused(sentence) => {
                zoo.verify(model)?;
                return Err(FirstLoadError::Refused(sentence));
            }
            Outcome::Interrupted(why) => return Err(FirstLoadError::Interrupted { path, why }),
            Outcome::Loaded => CheckResult::Loaded,
            Outcome::Ended(ending) => CheckResult::Ended(ending),
        };
        self.results.put(&key, result, &path);
        self.answer(&path, &key, result)
    }

    /// Waits until no other model is checked. Every check ends, so every wait does.
    fn wait_for_turn(&self, path: &Path) -> Result<MutexGuard<'_, ()>, FirstLoadError> {
        if let Some(turn) = self.turn.try_lock() {
            return Ok(turn);
        }
        let path = || path.to_owned();
        let place = WaitingSlot(&self.waiting);
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= MAX_WAITING {
            return Err(FirstLoadError::Busy { path: path() });
        }
        loop {
            let turn = self.turn.try_lock_for(POLL_INTERVAL);
            if self.child.is_stopping() {
                let why = Interruption::Cancelled;
                return Err(FirstLoadError::Interrupted { path: path(), why });
            }
            if let Some(turn) = turn {
                drop(place);
                return Ok(turn);
            }
        }
    }

    fn key(&self, models: &[Resolved], settings: &ModelSettings) -> Result<Key, FirstLoadError> {
        let is_int8 = settings.ort_settings().precision == Precision::Int8;
        let checked = models.iter().map(|model| {
            let parts = model.manifest.parts().map(|part| model.part(part));
            let int8 = Some(calibrated_file(&model.path));
            let int8 = int8.filter(|file| is_int8 && file.exists());
            let files = std::iter::once(model.path.clone()).chain(parts).chain(int8);
            let sums = files.map(|path| {
                let sum = digest::of_unchanged_file(&path).map(|sum| sum.to_string());
                sum.map_err(|source| FirstLoadError::Unreadable { path, source })
            });
            Ok(CheckedModel {
                // Not the file's text: comments change nothing, and built-in ones have no file.
                manifest: format!("{:?}", model.manifest),
                sums: sums.collect::<Result<_, _>>()?,
            })
        });
        let models = checked.collect::<Result<Vec<_>, FirstLoadError>>()?;
        let program = self.program_stamp.clone();
        Ok(Subject::new(program, settings, models).key())
    }

    fn run_child(
        &self,
        settings: &ModelSettings,
        model: &str,
        path: &Path,
    ) -> Result<Outcome, FirstLoadError> {
        let failed = |source| FirstLoadError::Child {
            path: path.to_owned(),
            source,
        };
        let began = Instant::now();
        let command = self
            .child
            .command(model_check::SUBCOMMAND, settings, &["--", model]);
        let mut command = command.map_err(|folder| FirstLoadError::Folder {
            path: path.to_owned(),
            folder,
        })?;
        let is_stopping = || self.child.is_stopping();
        let outcome = model_check::run(&mut command, &is_stopping).map_err(failed)?;
        let ms = began.elapsed().as_millis();
        tracing::info!(model, ms, ?outcome, "model checked in a child process");
        Ok(outcome)
    }

    fn answer(&self, path: &Path, key: &Key, result: CheckResult) -> Result<(), FirstLoadError> {
        match result {
            CheckResult::Loaded => Ok(()),
            CheckResult::Ended(ending) => Err(FirstLoadError::Ended {
                path: path.to_owned(),
                ending,
                remedy: self.results.remedy(key),
            }),
        }
    }
}

/// Frees its place among the waiting models.
struct WaitingSlot<'a>(&'a AtomicUsize);

impl Drop for WaitingSlot<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A model, and the second one that its manifest may name and that is loaded with it.
fn all_of(model: &str, zoo: &Zoo) -> Result<Vec<Resolved>, FirstLoadError> {
    let resolved = zoo.resolve(model)?;
    let faces = resolved.manifest.faces.as_deref();
    let faces = faces.map(|faces| zoo.resolve(faces)).transpose()?;
    Ok([Some(resolved), faces].into_iter().flatten().collect())
}

#[cfg(test)]
mod tests;
