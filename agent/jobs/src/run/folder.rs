//! A job on disk.
//!
//! `jobs/ID/` holds `job.json` (the plan as it is run), `log.jsonl`, `results/STEP.json` and,
//! unless the caller chose another place, the output folder `files`. `lock` is locked by the
//! process that runs the job and names the run; `cancel` names the run that is asked to end.
//!
//! - Only the user may enter the folder.
//! - An output folder belongs to one job: its marker, which only one process can create, says so.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use watchkeeper_pictures::folder::JOB_MARKER;
use watchkeeper_store::durable;
use watchkeeper_store::private_folder::make_private;

use super::info::{JobId, JobInfo, Provenance};
use super::log::{self, JobLog, LogError, LogLine, LogRecord, StepResult};
use crate::plan::{CheckedPlan, Plan};
use crate::tool::is_name;

/// Description of a job: ID, origin and plan.
pub const INFO: &str = "job.json";
/// Log of a job.
pub const LOG: &str = "log.jsonl";
/// Folder of the results of steps.
pub const RESULTS: &str = "results";
const FILES: &str = "files";
const LOCK: &str = "lock";
const CANCEL: &str = "cancel";

/// Attempts to take the lock, 20 ms apart: another process may be looking whether the job runs.
const LOCK_ATTEMPTS: u32 = 50;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Attempts to cancel, 100 ms apart, until the run has taken the request.
const CANCEL_ATTEMPTS: u32 = 30;
const CANCEL_PAUSE: Duration = Duration::from_millis(100);

/// Attempts to find an unused ID.
const MAX_IDS: u32 = 100;

#[derive(Debug, thiserror::Error)]
pub enum JobFolderError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("no job {0:?}; `watchkeeper job list` shows all")]
    Unknown(String),
    #[error("{number} jobs begin with {begin:?}; add letters")]
    Ambiguous { begin: String, number: usize },
    #[error("step {step} of job {job} is not done; `watchkeeper job resume {job}` goes on")]
    NotDone { job: String, step: String },
    #[error("job {0} is running in another process")]
    Running(String),
    #[error("the output folder {} is not empty; choose a new one with --output", .0.display())]
    NotEmpty(PathBuf),
    #[error("the path {} is not UTF-8; choose another output folder", .0.display())]
    NotText(PathBuf),
    #[error("the output folder {} is no longer that of this job; move it back", .0.display())]
    NotOwned(PathBuf),
    #[error("{} is damaged: {why}", path.display())]
    Damaged { path: PathBuf, why: String },
    #[error(transparent)]
    JobLog(#[from] LogError),
}

pub(super) fn io_error(path: &Path) -> impl FnOnce(io::Error) -> JobFolderError {
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
        self.create_from(plan, origin, output, Provenance::default())
    }

    /// Creates a job for somebody else than a user of the command line, as [`Self::create`] does.
    ///
    /// # Errors
    /// Those of [`Self::create`].
    pub fn create_from(
        &self,
        plan: &CheckedPlan,
        origin: &str,
        output: Option<&Path>,
        from: Provenance,
    ) -> Result<JobFolder, JobFolderError> {
        let output = output.map(|path| std::path::absolute(path).map_err(io_error(path)));
        let output = output.transpose()?;
        if let Some(output) = &output {
            if output.to_str().is_none() {
                return Err(JobFolderError::NotText(output.clone()));
            }
            require_empty(output)?;
        }
        make_private(&self.root).map_err(io_error(&self.root))?;
        let now = jiff::Zoned::now();
        let (id, path) = self.unused(&now)?;
        let output = output.unwrap_or_else(|| path.join(FILES));
        own(&output, &id)?;
        let file = path.join(INFO);
        let damaged = |error: serde_json::Error| JobFolderError::Damaged {
            path: file.clone(),
            why: error.to_string(),
        };
        let info = JobInfo {
            id,
            created_ms: now.timestamp().as_millisecond(),
            origin: origin.to_owned(),
            output,
            plan: serde_json::to_value(plan.plan()).map_err(damaged)?,
            from,
        };
        let results = path.join(RESULTS);
        fs::create_dir(&results).map_err(io_error(&results))?;
        let text = serde_json::to_vec_pretty(&info).map_err(damaged)?;
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
        let all = self.ids()?;
        if all.iter().any(|known| known == id) {
            return self.open_exact(id);
        }
        let mut found = all
            .iter()
            .filter(|known| !id.is_empty() && known.starts_with(id));
        match (found.next(), found.count()) {
            (Some(first), 0) => self.open_exact(first),
            (Some(_), others) => Err(JobFolderError::Ambiguous {
                begin: id.to_owned(),
                number: others + 1,
            }),
            (None, _) => Err(JobFolderError::Unknown(id.to_owned())),
        }
    }

    /// Opens a job by its whole ID.
    ///
    /// # Errors
    /// If there is no such job, or its description can't be read.
    pub fn open_exact(&self, id: &str) -> Result<JobFolder, JobFolderError> {
        let path = self.root.join(id);
        let file = path.join(INFO);
        if !is_name(id) || !file.is_file() {
            return Err(JobFolderError::Unknown(id.to_owned()));
        }
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
            let name = path.file_name().and_then(|name| name.to_str());
            // A job without description was being created when the machine stopped.
            ids.extend(
                name.filter(|_| path.join(INFO).is_file())
                    .map(str::to_owned),
            );
        }
        ids.sort();
        Ok(ids)
    }

    /// Removes a job that does not run: its plan, log and results, and the output folder if that is
    /// in its own folder.
    ///
    /// # Errors
    /// If it runs, or the disk refuses.
    pub fn delete(&self, job: JobFolder) -> Result<(), JobFolderError> {
        let lock = job.lock_exclusive()?;
        // Without its description it is no job any more, even if the rest stays.
        let info = job.path.join(INFO);
        fs::remove_file(&info).map_err(io_error(&info))?;
        fs::remove_dir_all(&job.path).map_err(io_error(&job.path))?;
        drop(lock);
        durable::sync_folder(&self.root).map_err(io_error(&self.root))
    }
}

/// Refuses a folder with content: what is there is not of this job.
fn require_empty(output: &Path) -> Result<(), JobFolderError> {
    match fs::read_dir(output) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => Err(JobFolderError::NotEmpty(output.to_owned())),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(io_error(output)(source)),
    }
}

/// Creates the output folder and marks it as the job's, durably.
fn own(output: &Path, id: &str) -> Result<(), JobFolderError> {
    fs::create_dir_all(output).map_err(io_error(output))?;
    let marker = output.join(JOB_MARKER);
    let mut file = match File::create_new(&marker) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(JobFolderError::NotEmpty(output.to_owned()));
        }
        Err(source) => return Err(io_error(&marker)(source)),
    };
    let written = file.write_all(id.as_bytes()).and_then(|()| file.sync_all());
    written.map_err(io_error(&marker))?;
    let above = output.parent().unwrap_or(Path::new("/"));
    let synced = durable::sync_folder(output).and_then(|()| durable::sync_folder(above));
    synced.map_err(io_error(output))
}

/// One job on disk, run or not.
#[derive(Debug)]
pub struct JobFolder {
    pub(super) path: PathBuf,
    info: JobInfo,
}

/// The right to run a job, until it is dropped.
#[derive(Debug)]
pub(crate) struct RunLock {
    _file: File,
    /// Name of the run, in requests to cancel it.
    run: String,
}

impl JobFolder {
    #[must_use]
    pub const fn info(&self) -> &JobInfo {
        &self.info
    }

    /// Folder with [`INFO`], [`LOG`] and [`RESULTS`].
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the records so far.
    ///
    /// # Errors
    /// If the log can't be read or is damaged.
    pub fn log(&self) -> Result<Vec<LogLine>, JobFolderError> {
        let path = self.path.join(LOG);
        match log::read(&path) {
            Err(LogError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
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
        let finished = finished(&self.log()?);
        let result = finished.into_iter().rev().find(|(name, _)| name == step);
        let (_, result) = result.ok_or_else(|| JobFolderError::NotDone {
            job: self.info.id.clone(),
            step: step.to_owned(),
        })?;
        self.load(step, &result.sha256)
    }

    /// Stores another plan for the steps that are not done, and counts the revision.
    pub(super) fn replace_plan(&mut self, plan: &Plan) -> Result<(), JobFolderError> {
        let _lock = self.lock_exclusive()?;
        let file = self.path.join(INFO);
        let damaged = |error: serde_json::Error| JobFolderError::Damaged {
            path: file.clone(),
            why: error.to_string(),
        };
        let mut info = self.info.clone();
        info.plan = serde_json::to_value(plan).map_err(damaged)?;
        if let Some(planned) = &mut info.from.planned {
            planned.revisions += 1;
        }
        let text = serde_json::to_vec_pretty(&info).map_err(damaged)?;
        durable::replace(&file, &text).map_err(io_error(&file))?;
        self.info = info;
        Ok(())
    }

    fn result_file(&self, step: &str) -> PathBuf {
        self.path.join(RESULTS).join(format!("{step}.json"))
    }

    /// Reads the values of a step whose file has this SHA-256.
    pub(crate) fn load(
        &self,
        step: &str,
        sha256: &str,
    ) -> Result<Map<String, Value>, JobFolderError> {
        let path = self.result_file(step);
        let bytes = fs::read(&path).map_err(io_error(&path))?;
        let damaged = |why: String| JobFolderError::Damaged { path, why };
        if hex(&bytes) != sha256 {
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
        let path = self.result_file(step);
        let bytes = serde_json::to_vec(values).map_err(|error| JobFolderError::Damaged {
            path: path.clone(),
            why: error.to_string(),
        })?;
        durable::replace(&path, &bytes).map_err(io_error(&path))?;
        Ok(hex(&bytes))
    }

    /// Locks the job for this process and opens its log.
    pub(crate) fn begin(&self) -> Result<(RunLock, JobLog, Vec<LogLine>), JobFolderError> {
        if !self.owns_output() {
            return Err(JobFolderError::NotOwned(self.info.output.clone()));
        }
        let mut file = self.lock_exclusive()?;
        let run: String = (0..12).map(|_| fastrand::lowercase()).collect();
        let named = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| file.write_all(run.as_bytes()));
        named.map_err(io_error(&self.path))?;
        let (log, lines) = JobLog::open(&self.path.join(LOG))?;
        durable::sync_folder(&self.path).map_err(io_error(&self.path))?;
        Ok((RunLock { _file: file, run }, log, lines))
    }

    /// Whether the marker in the output folder names this job.
    pub(super) fn owns_output(&self) -> bool {
        let owner = fs::read_to_string(self.info.output.join(JOB_MARKER));
        owner.is_ok_and(|owner| owner == self.info.id)
    }

    fn lock_file(&self) -> Result<File, JobFolderError> {
        let path = self.path.join(LOCK);
        let mut options = File::options();
        let file = options
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path);
        file.map_err(io_error(&path))
    }

    pub(super) fn lock_exclusive(&self) -> Result<File, JobFolderError> {
        let file = self.lock_file()?;
        for _ in 0..LOCK_ATTEMPTS {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) => thread::sleep(LOCK_PAUSE),
                Err(TryLockError::Error(source)) => return Err(io_error(&self.path)(source)),
            }
        }
        Err(JobFolderError::Running(self.info.id.clone()))
    }

    /// Returns whether a process runs the job now.
    ///
    /// # Errors
    /// If the lock can't be tried.
    pub fn is_running(&self) -> Result<bool, JobFolderError> {
        match self.lock_file()?.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(source)) => Err(io_error(&self.path)(source)),
        }
    }

    /// Asks the process that runs the job to end, and waits until it has taken the request.
    /// Returns false if none runs it, or it takes nothing for three seconds.
    ///
    /// # Errors
    /// If the request can't be written.
    pub fn cancel(&self) -> Result<bool, JobFolderError> {
        let path = self.path.join(CANCEL);
        for attempt in 0..CANCEL_ATTEMPTS {
            if attempt > 0 && !path.exists() {
                return Ok(true);
            }
            if !self.is_running()? {
                break;
            }
            let mut run = String::new();
            let read = self.lock_file()?.read_to_string(&mut run);
            read.map_err(io_error(&self.path))?;
            durable::replace(&path, run.as_bytes()).map_err(io_error(&path))?;
            thread::sleep(CANCEL_PAUSE);
        }
        match durable::remove_leftover(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error(&path)(error)),
            _ => Ok(false),
        }
    }

    /// Takes a request to cancel this run. One for an earlier run is removed.
    pub(crate) fn takes_cancel(&self, lock: &RunLock) -> bool {
        let path = self.path.join(CANCEL);
        let Ok(run) = fs::read_to_string(&path) else {
            return false;
        };
        // If it stays, the process that asks sees that it was not taken.
        fs::remove_file(&path).ok();
        run == lock.run
    }
}

/// The results of the finished steps, in order.
pub(crate) fn finished(log: &[LogLine]) -> Vec<(String, StepResult)> {
    let records = log.iter().filter_map(|line| match &line.record {
        LogRecord::Finished { step, result } => Some((step.clone(), result.clone())),
        _ => None,
    });
    records.collect()
}

fn hex(bytes: &[u8]) -> String {
    let hash = Sha256::digest(bytes);
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}
