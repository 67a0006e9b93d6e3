//! Checks a model in a child process before this process loads it for the first time.
//!
//! - A file that needs too much memory or time, or that crashes its back end, ends the child only.
//! - What was checked is named by checksums ([`subject`]): a file with other contents, another
//!   manifest, back end, program or limit is checked again.
//! - Results that the file causes are kept ([`results`]), so a later start runs no child, and a
//!   refused file is refused at once. A refusal with a sentence of its own is not kept.
//! - Checks run one at a time. A model that was checked before waits for none.
//!
//! Not here: how the child is run, its limits and the reading of its end
//! (`watchkeeper_models::model_check`).

mod digests;
mod results;
mod subject;

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use watchkeeper_models::model_check::{self, Ending, MAX_SECONDS, Outcome};
use watchkeeper_models::{Resolved, Zoo, ZooError};

use self::digests::Digests;
use self::results::{CheckResult, CheckResults};
use self::subject::{CheckedModel, Key, Subject};
use super::settings::ModelSettings;

/// Longest wait for the end of another model's check.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(MAX_SECONDS);

/// Name of the child in the list of processes.
const CHILD_NAME: &str = "watchkeeper-runtime";

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
    #[error(
        "{path} is not checked yet: the check of another model takes longer than {MAX_SECONDS} s; \
         try again in a minute"
    )]
    Busy { path: PathBuf },
    #[error("{path} can't be checked in a process of its own: {source}; free some memory")]
    Child { path: PathBuf, source: io::Error },
}

/// Checks models, and remembers the results.
#[derive(Debug)]
pub struct FirstLoads {
    /// Program of the child, which is this program.
    program: PathBuf,
    settings: ModelSettings,
    results: CheckResults,
    digests: Digests,
    /// Held during a check.
    turn: Mutex<()>,
}

impl FirstLoads {
    /// Keeps results in the state folder of `settings`; `program` is started as the child.
    #[must_use]
    pub fn new(settings: ModelSettings, program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            results: CheckResults::new(&settings.state_dir),
            settings,
            digests: Digests::default(),
            turn: Mutex::default(),
        }
    }

    /// Checks the model of this name or path, unless its files were checked before.
    ///
    /// # Errors
    /// [`FirstLoadError`]: this process must not load it.
    pub fn check(&self, model: &str, zoo: &Zoo) -> Result<(), FirstLoadError> {
        let resolved = zoo.resolve(model)?;
        // A manifest may name a second model, which is loaded with the first.
        let faces = resolved.manifest.faces.as_deref();
        let faces = faces.map(|faces| zoo.resolve(faces)).transpose()?;
        let all: Vec<Resolved> = [Some(resolved.clone()), faces]
            .into_iter()
            .flatten()
            .collect();
        let key = self.key(&all)?;
        if let Some(result) = self.results.get(&key) {
            return self.answer(&resolved.path, &key, result);
        }
        let Some(_turn) = self.turn.try_lock_for(QUEUE_TIMEOUT) else {
            let path = resolved.path;
            return Err(FirstLoadError::Busy { path });
        };
        // Another request may have checked it meanwhile.
        if let Some(result) = self.results.get(&key) {
            return self.answer(&resolved.path, &key, result);
        }
        let outcome = self.run_child(model, &resolved.path)?;
        if self.key(&all)? != key {
            let path = resolved.path;
            return Err(FirstLoadError::Changed { path });
        }
        let result = match outcome {
            Outcome::Refused(sentence) => return Err(FirstLoadError::Refused(sentence)),
            Outcome::Loaded => CheckResult::Loaded,
            Outcome::Ended(ending) => CheckResult::Ended(ending),
        };
        self.results.put(&key, result, &resolved.path);
        self.answer(&resolved.path, &key, result)
    }

    fn key(&self, models: &[Resolved]) -> Result<Key, FirstLoadError> {
        let checked = models.iter().map(|model| {
            let parts = model.manifest.parts().map(|part| model.part(part));
            let files = std::iter::once(model.path.clone()).chain(parts);
            let sums = files.map(|path| {
                let sum = self.digests.of(&path).map(|sum| sum.to_string());
                sum.map_err(|source| FirstLoadError::Unreadable { path, source })
            });
            Ok(CheckedModel {
                // Not the file's text: comments change nothing, and built-in ones have no file.
                manifest: format!("{:?}", model.manifest),
                sums: sums.collect::<Result<_, _>>()?,
            })
        });
        let models = checked.collect::<Result<Vec<_>, FirstLoadError>>()?;
        Ok(Subject::new(&self.settings, models).key())
    }

    fn run_child(&self, model: &str, path: &Path) -> Result<Outcome, FirstLoadError> {
        let failed = |source| FirstLoadError::Child {
            path: path.to_owned(),
            source,
        };
        let began = Instant::now();
        let settings = self.settings.to_json().map_err(failed)?;
        let mut command = Command::new(&self.program);
        command
            .arg0(CHILD_NAME)
            .arg(model_check::SUBCOMMAND)
            .args([OsString::from("--settings"), settings.into()])
            .args(["--", model]);
        let outcome = model_check::run(&mut command).map_err(failed)?;
        let ms = began.elapsed().as_millis();
        tracing::info!(model, ms, ?outcome, "model checked in a process of its own");
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

#[cfg(test)]
mod tests;
