//! A job on disk.
//!
//! `jobs/ID/` holds `job.json` (the plan as it is run), `log.jsonl`, `results/STEP.json` and,
//! unless the caller chose another place, the output folder `files`. `lock` is locked by the
//! process that runs the job; `cancel` asks it to end.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use watchkeeper_store::durable;

use super::journal::{self, Journal, JournalError, Line, Record, StepResult};
use crate::plan::CheckedPlan;
use crate::tool::is_name;

const INFO: &str = "job.json";
const LOG: &str = "log.jsonl";
const RESULTS: &str = "results";
const FILES: &str = "files";
const LOCK: &str = "lock";
const CANCEL: &str = "cancel";

/// Attempts to find an unused ID.
const MAX_IDS: u32 = 100;

/// ID of a job: time and three random letters, such as `20261128-141502-kxq`.
pub type JobId = String;

/// What is known of a job when it is created.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobInfo {
    pub id: JobId,
    /// Milliseconds since 1970.
    pub created_ms: i64,
    /// File, or words of a person.
    pub origin: String,
    /// Absolute path of the output folder.
    pub output: PathBuf,
    /// The plan after its repair.
    pub plan: Value,
}

#[derive(Debug, thiserror::Error)]
pub enum JobFolderError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("no job {0:?}; `watchkeeper job list` shows all")]
    Unknown(String),
    #[error("job {0} is running in another process")]
    Running(String),
    #[error("the output folder {} is not empty; choose a new one with --output", .0.display())]
    NotEmpty(PathBuf),
    #[error("{} is damaged: {why}", path.display())]
    Damaged { path: PathBuf, why: String },
    #[error(transparent)]
    Journal(#[from] JournalError),
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> JobFolderError {
    let path = path.to_owned();
    move |source| JobFolderError::Io { path, source }
}

/// All jobs of a user.
#[derive(Debug, Clone)]
pub struct Jobs {
    root: PathBuf,
}

impl Jobs {
    /// Jobs in the folder `root`, which the first job creates.
    #[must_use]
    pub fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// Creates a job. It is durable on return and not yet run.
    ///
    /// # Errors
    /// If `output` is not empty, or the disk refuses.
    pub fn create(
        &self,
        plan: &CheckedPlan,
        origin: &str,
        output: Option<&Path>,
    ) -> Result<JobFolder, JobFolderError> {
        fs::create_dir_all(&self.root).map_err(io_error(&self.root))?;
        let now = jiff::Zoned::now();
        let (id, path) = self.unused(&now)?;
        let output = match output {
            Some(output) => {
                let output = std::path::absolute(output).map_err(io_error(output))?;
                empty(&output)?;
                output
            }
            None => path.join(FILES),
        };
        let info = JobInfo {
            id,
            created_ms: now.timestamp().as_millisecond(),
            origin: origin.to_owned(),
            output,
            // A plan is a map with text keys, which always serialises.
            plan: serde_json::to_value(plan.plan()).unwrap_or_default(),
        };
        let results = path.join(RESULTS);
        fs::create_dir(&results).map_err(io_error(&results))?;
        let file = path.join(INFO);
        let text = serde_json::to_vec_pretty(&info).unwrap_or_default();
        durable::replace(&file, &text).map_err(io_error(&file))?;
        durable::sync_folder(&self.root).map_err(io_error(&self.root))?;
        Ok(JobFolder { path, info })
    }

    fn unused(&self, now: &jiff::Zoned) -> Result<(JobId, PathBuf), JobFolderError> {
        let mut tries = 0;
        loop {
            let letters: String = (0..3).map(|_| fastrand::lowercase()).collect();
            let id = format!("{}-{letters}", now.strftime("%Y%m%d-%H%M%S"));
            let path = self.root.join(&id);
            match fs::create_dir(&path) {
                Ok(()) => return Ok((id, path)),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists && tries < MAX_IDS => tries += 1,
                Err(source) => return Err(JobFolderError::Io { path, source }),
            }
        }
    }

    /// Opens a job by its ID, or by the begin of it if that is unique.
    ///
    /// # Errors
    /// If there is no such job, or its description can't be read.
    pub fn open(&self, id: &str) -> Result<JobFolder, JobFolderError> {
        let unknown = || JobFolderError::Unknown(id.to_owned());
        if !is_name(id) {
            return Err(unknown());
        }
        let mut found = self
            .ids()?
            .into_iter()
            .filter(|known| known.starts_with(id));
        let first = found.next().ok_or_else(unknown)?;
        if first != id && found.next().is_some() {
            return Err(unknown());
        }
        let path = self.root.join(&first);
        let file = path.join(INFO);
        let text = fs::read(&file).map_err(io_error(&file))?;
        let info = serde_json::from_slice(&text).map_err(|error| JobFolderError::Damaged {
            path: file,
            why: error.to_string(),
        })?;
        Ok(JobFolder { path, info })
    }

    /// Returns the IDs of all jobs, oldest first.
    ///
    /// # Errors
    /// If the folder can't be read.
    pub fn ids(&self) -> Result<Vec<JobId>, JobFolderError> {
        let entries = match fs::read_dir(&self.root) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(io_error(&self.root)(source)),
        };
        let mut ids = Vec::new();
        for entry in entries {
            let path = entry.map_err(io_error(&self.root))?.path();
            // A job without description was being created when the machine stopped.
            if path.join(INFO).is_file() {
                ids.extend(
                    path.file_name()
                        .and_then(|name| name.to_str())
                        .map(str::to_owned),
                );
            }
        }
        ids.sort();
        Ok(ids)
    }
}

/// Refuses a folder with content: what is there belongs to somebody else.
fn empty(output: &Path) -> Result<(), JobFolderError> {
    match fs::read_dir(output) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => Err(JobFolderError::NotEmpty(output.to_owned())),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(io_error(output)(source)),
    }
}

/// A job that exists on disk.
#[derive(Debug)]
pub struct JobFolder {
    path: PathBuf,
    info: JobInfo,
}

impl JobFolder {
    #[must_use]
    pub const fn info(&self) -> &JobInfo {
        &self.info
    }

    /// Returns the records so far.
    ///
    /// # Errors
    /// If the log can't be read or is damaged.
    pub fn log(&self) -> Result<Vec<Line>, JobFolderError> {
        let path = self.path.join(LOG);
        match journal::read(&path) {
            Err(JournalError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(Vec::new())
            }
            read => Ok(read?),
        }
    }

    /// Returns the values of a finished step.
    ///
    /// # Errors
    /// If the step is not finished, or its file is missing or damaged.
    pub fn result(&self, step: &str) -> Result<Map<String, Value>, JobFolderError> {
        let path = self.path.join(RESULTS).join(format!("{step}.json"));
        let damaged = |why: String| JobFolderError::Damaged {
            path: path.clone(),
            why,
        };
        let finished = finished(&self.log()?);
        let result = finished.into_iter().rev().find(|(name, _)| name == step);
        let (_, result) = result.ok_or_else(|| damaged(format!("step {step} is not done")))?;
        let bytes = fs::read(&path).map_err(io_error(&path))?;
        if hex(&bytes) != result.sha256 {
            return Err(damaged("its SHA-256 is not that of the log".to_owned()));
        }
        serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))
    }

    /// Stores the values of a step; durable on return. Returns their SHA-256.
    pub(crate) fn store(
        &self,
        step: &str,
        values: &Map<String, Value>,
    ) -> Result<String, JobFolderError> {
        let path = self.path.join(RESULTS).join(format!("{step}.json"));
        let bytes = serde_json::to_vec(values).unwrap_or_default();
        durable::replace(&path, &bytes).map_err(io_error(&path))?;
        Ok(hex(&bytes))
    }

    /// Locks the job for this process and opens its log.
    pub(crate) fn begin(&self) -> Result<(File, Journal, Vec<Line>), JobFolderError> {
        let lock = self
            .lock()?
            .ok_or_else(|| JobFolderError::Running(self.info.id.clone()))?;
        let (journal, lines) = Journal::open(&self.path.join(LOG))?;
        durable::sync_folder(&self.path).map_err(io_error(&self.path))?;
        Ok((lock, journal, lines))
    }

    /// Removes a request to cancel. Called at the end of a run, while its lock is held: a request
    /// that comes as the run begins must not be lost.
    pub(crate) fn forget_cancel(&self) -> Result<(), JobFolderError> {
        let path = self.path.join(CANCEL);
        durable::remove_leftover(&path).or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => Ok(()),
            _ => Err(io_error(&path)(error)),
        })
    }

    /// Takes the lock; `None` if another process has it.
    fn lock(&self) -> Result<Option<File>, JobFolderError> {
        let path = self.path.join(LOCK);
        let mut options = File::options();
        let file = options.create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(io_error(&path))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(source)) => Err(JobFolderError::Io { path, source }),
        }
    }

    /// Returns whether a process runs the job now.
    ///
    /// # Errors
    /// If the lock can't be tried.
    pub fn is_running(&self) -> Result<bool, JobFolderError> {
        Ok(self.lock()?.is_none())
    }

    /// Asks the process that runs the job to end. Returns false if none runs it.
    ///
    /// # Errors
    /// If the request can't be written.
    pub fn cancel(&self) -> Result<bool, JobFolderError> {
        if !self.is_running()? {
            return Ok(false);
        }
        let path = self.path.join(CANCEL);
        File::create(&path).map_err(io_error(&path))?;
        Ok(true)
    }

    pub(crate) fn is_cancel_wanted(&self) -> bool {
        self.path.join(CANCEL).exists()
    }
}

/// The results of the finished steps, in order.
pub(crate) fn finished(log: &[Line]) -> Vec<(String, StepResult)> {
    let records = log.iter().filter_map(|line| match &line.record {
        Record::Finished { step, result } => Some((step.clone(), result.clone())),
        _ => None,
    });
    records.collect()
}

fn hex(bytes: &[u8]) -> String {
    let hash = Sha256::digest(bytes);
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}
