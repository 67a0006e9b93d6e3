//! A job on disk.
//!
//! `jobs/ID/` holds `job.json` (the plan as it is run), `log.jsonl`, `results/STEP.json` and,
//! unless the caller chose another place, the output folder `files`. `seen.jsonl` has what tools
//! have found out. `lock` is locked by the process that runs the job or revises its plan.
//! `cancelled` asks that process to end, and keeps a later one from resuming the job automatically.
//!
//! - Only the user may enter the folder.
//! - An output folder belongs to one job: its marker, which only one process can create, says so.
//! - A job is described before it marks a folder: a crash leaves no folder that no job has.
//! - IDs sort by the time of creation: they begin with it in UTC.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use serde_json::{Map, Value};
use watchkeeper_store::chain::Hash;
use watchkeeper_store::durable;
use watchkeeper_store::private_folder::make_private;

use super::error::{JobFolderError, damaged, io_error};
use super::info::{JobId, JobInfo, Provenance};
use super::log::{self, JobLog, LogLine, LogRecord, StepResult};
use super::marker::{own, require_empty};
use crate::plan::{CheckedPlan, Plan};
use crate::target;
use crate::tool::is_name;

/// Description of a job: ID, origin and plan.
pub const INFO: &str = "job.json";
/// Log of a job.
pub const LOG: &str = "log.jsonl";
/// Folder of the results of steps.
pub const RESULTS: &str = "results";
/// Results of tools about contents.
const SEEN: &str = "seen.jsonl";
const FILES: &str = "files";
const LOCK: &str = "lock";
/// Begin of the name of a folder whose job is deleted.
const DELETED: &str = ".deleted-";

/// Attempts to take the lock, 20 ms apart: another process may be looking whether the job runs.
const LOCK_ATTEMPTS: u32 = 50;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Age from which a folder without a description counts as left by a crash.
const MAX_UNDESCRIBED: Duration = Duration::from_secs(3600);

/// Attempts to find an unused ID.
const MAX_IDS: u32 = 1000;

/// All jobs of a user.
#[derive(Debug, Clone)]
pub struct Jobs {
    root: PathBuf,
}

impl Jobs {
    /// Jobs in the folder `root`, which the first job creates.
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

    /// Creates a job with a given provenance, as [`Self::create`] does.
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
        let (id, created_ms, path) = self.unused()?;
        let output = output.unwrap_or_else(|| path.join(FILES));
        let info = JobInfo {
            id,
            created_ms,
            origin: origin.to_owned(),
            output,
            plan: as_value(plan.plan()),
            from,
        };
        let job = JobFolder { path, info };
        if let Err(error) = self.fill(&job) {
            // Without its description it is not a job, and no bound would remove it.
            target::remove(&job.path).ok();
            return Err(error);
        }
        if let Err(error) = own(&job.info.output, &job.info.id) {
            self.delete(&job.info.id).ok();
            return Err(error);
        }
        Ok(job)
    }

    /// Describes a new job; durable on return.
    fn fill(&self, job: &JobFolder) -> Result<(), JobFolderError> {
        let results = job.path.join(RESULTS);
        fs::create_dir(&results).map_err(io_error(&results))?;
        job.describe(&job.info)?;
        durable::sync_folder(&self.root).map_err(io_error(&self.root))
    }

    fn unused(&self) -> Result<(JobId, i64, PathBuf), JobFolderError> {
        let mut tries = 0;
        loop {
            let now = jiff::Timestamp::now();
            let id = id_at(now);
            let path = self.root.join(&id);
            match fs::create_dir(&path) {
                Ok(()) => return Ok((id, now.as_millisecond(), path)),
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
        self.open_exact(&self.whole_id(id)?)
    }

    /// Returns the ID of a job that is named by it or by a unique begin of it. The job may be
    /// damaged.
    ///
    /// # Errors
    /// If there is no such job, or the folder of the jobs can't be read.
    pub fn whole_id(&self, begin: &str) -> Result<JobId, JobFolderError> {
        let mut found = self.ids()?;
        if found.iter().any(|known| known == begin) {
            return Ok(begin.to_owned());
        }
        found.retain(|known| !begin.is_empty() && known.starts_with(begin));
        match (found.pop(), found.len()) {
            (Some(only), 0) => Ok(only),
            (Some(_), others) => Err(JobFolderError::Ambiguous {
                begin: begin.to_owned(),
                number: others + 1,
            }),
            (None, _) => Err(JobFolderError::Unknown(begin.to_owned())),
        }
    }

    /// Opens a job by its whole ID.
    ///
    /// # Errors
    /// If there is no such job, or its description can't be read.
    pub fn open_exact(&self, id: &str) -> Result<JobFolder, JobFolderError> {
        let path = self.folder_of(id)?;
        let file = path.join(INFO);
        let text = fs::read(&file).map_err(io_error(&file))?;
        let info = serde_json::from_slice(&text).map_err(|error| damaged(&file, error))?;
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
                name.filter(|name| !name.starts_with('.') && path.join(INFO).is_file())
                    .map(str::to_owned),
            );
        }
        ids.sort();
        Ok(ids)
    }

    /// Removes a job that does not run: its plan, log and results, and the output folder if that is
    /// in its own folder. The job may be damaged.
    ///
    /// # Errors
    /// If it runs, there is no job with this whole ID, or the disk refuses.
    pub fn delete(&self, id: &str) -> Result<(), JobFolderError> {
        let path = self.folder_of(id)?;
        self.delete_locked(id, lock_exclusive(&path, id)?)
    }

    /// Removes a job as [`Self::delete`] does; `lock` is its lock.
    pub(super) fn delete_locked(&self, id: &str, lock: File) -> Result<(), JobFolderError> {
        let path = self.root.join(id);
        // Under this name it is not a job any more; what a crash leaves of it is removed later.
        let deleted = self.root.join(format!("{DELETED}{id}"));
        fs::rename(&path, &deleted).map_err(io_error(&path))?;
        durable::sync_folder(&self.root).map_err(io_error(&self.root))?;
        let removed = target::remove(&deleted);
        drop(lock);
        match removed {
            // Another process may have removed the rest.
            Err(source) if deleted.exists() => Err(io_error(&deleted)(source)),
            _ => Ok(()),
        }
    }

    /// Returns the folder of the job with this whole ID.
    ///
    /// # Errors
    /// [`JobFolderError::Unknown`] if there is none.
    pub(super) fn folder_of(&self, id: &str) -> Result<PathBuf, JobFolderError> {
        let path = self.root.join(id);
        match is_name(id) && path.join(INFO).is_file() {
            true => Ok(path),
            false => Err(JobFolderError::Unknown(id.to_owned())),
        }
    }

    /// Removes what crashes have left of jobs that were being created or deleted. What can't be
    /// removed stays.
    pub(super) fn sweep(&self) {
        for entry in fs::read_dir(&self.root).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let is_deleted = name.to_str().is_some_and(|name| name.starts_with(DELETED));
            if is_deleted || is_old_and_undescribed(&entry.path()) {
                target::remove(&entry.path()).ok();
            }
        }
    }
}

fn is_old_and_undescribed(job: &Path) -> bool {
    let Ok(found) = job.symlink_metadata() else {
        return false;
    };
    let age = found.modified().ok().and_then(|at| at.elapsed().ok());
    let is_old = age.is_some_and(|age| age >= MAX_UNDESCRIBED);
    is_old && found.is_dir() && matches!(job.join(INFO).try_exists(), Ok(false))
}

/// Time in UTC, with three letters for the part of the second.
fn id_at(now: jiff::Timestamp) -> JobId {
    const LETTERS: u32 = 26;
    let nanoseconds = u64::try_from(now.subsec_nanosecond()).unwrap_or_default();
    let part = nanoseconds * u64::from(LETTERS.pow(3)) / 1_000_000_000;
    let letter = |place: u32| {
        let number = part / u64::from(LETTERS.pow(place)) % u64::from(LETTERS);
        char::from(b'a' + u8::try_from(number).unwrap_or_default())
    };
    let letters: String = [letter(2), letter(1), letter(0)].into_iter().collect();
    format!("{}-{letters}", now.strftime("%Y%m%d-%H%M%S"))
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
}

impl JobFolder {
    pub(super) fn seen_file(&self) -> PathBuf {
        self.path.join(SEEN)
    }

    pub const fn info(&self) -> &JobInfo {
        &self.info
    }

    /// Folder with [`INFO`], [`LOG`] and [`RESULTS`].
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the records so far.
    ///
    /// # Errors
    /// If the log can't be read or is damaged.
    pub fn log(&self) -> Result<Vec<LogLine>, JobFolderError> {
        Ok(self.log_from(0)?.0)
    }

    /// Returns the records from byte `begin` of the log on, and the byte at which they end.
    ///
    /// # Errors
    /// Those of [`Self::log`].
    pub fn log_from(&self, begin: u64) -> Result<(Vec<LogLine>, u64), JobFolderError> {
        match log::read_from(&self.path.join(LOG), begin) {
            Err(JobFolderError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok((Vec::new(), begin))
            }
            read => read,
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
        let mut info = self.info.clone();
        info.plan = as_value(plan);
        if let Some(planned) = &mut info.from.planned {
            planned.revisions += 1;
        }
        self.describe(&info)?;
        self.info = info;
        Ok(())
    }

    /// Writes the description of the job; durable on return.
    fn describe(&self, info: &JobInfo) -> Result<(), JobFolderError> {
        let file = self.path.join(INFO);
        // It fails on paths that are not UTF-8.
        let text = serde_json::to_vec_pretty(info).map_err(|e| io_error(&file)(e.into()))?;
        durable::replace(&file, &text).map_err(io_error(&file))
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
        if Hash::of(&bytes).to_string() != sha256 {
            return Err(damaged(&path, "its SHA-256 is not that of the log"));
        }
        serde_json::from_slice(&bytes).map_err(|error| damaged(&path, error))
    }

    /// Stores the values of a step; durable on return. Returns their SHA-256.
    pub(crate) fn store(
        &self,
        step: &str,
        values: &Map<String, Value>,
    ) -> Result<String, JobFolderError> {
        let path = self.result_file(step);
        let bytes = serde_json::to_vec(values).map_err(|e| io_error(&path)(e.into()))?;
        durable::replace(&path, &bytes).map_err(io_error(&path))?;
        Ok(Hash::of(&bytes).to_string())
    }

    /// Locks the job for this process.
    pub(crate) fn lock(&self) -> Result<RunLock, JobFolderError> {
        let _file = self.lock_exclusive()?;
        Ok(RunLock { _file })
    }

    /// Opens the log of a locked job, and marks its output folder if a crash came before that.
    pub(crate) fn begin(&self, _: &RunLock) -> Result<(JobLog, Vec<LogLine>), JobFolderError> {
        self.require_output()?;
        let opened = JobLog::open(&self.path.join(LOG))?;
        durable::sync_folder(&self.path).map_err(io_error(&self.path))?;
        Ok(opened)
    }

    pub(super) fn lock_exclusive(&self) -> Result<File, JobFolderError> {
        lock_exclusive(&self.path, &self.info.id)
    }

    /// Returns whether a process runs the job now.
    ///
    /// # Errors
    /// If the lock can't be tried.
    pub fn is_running(&self) -> Result<bool, JobFolderError> {
        // Not created: a full disk must not hide how a job ended.
        let path = self.path.join(LOCK);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(io_error(&path)(error)),
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(source)) => Err(io_error(&self.path)(source)),
        }
    }
}

/// Makes JSON of a plan. Plain data with string keys: serde_json can't fail on it.
fn as_value(plan: &Plan) -> Value {
    serde_json::to_value(plan).unwrap_or_default()
}

/// Opens the lock of the job in the folder `job`.
fn lock_file(job: &Path) -> Result<File, JobFolderError> {
    let path = job.join(LOCK);
    let mut options = File::options();
    let file = options
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(&path);
    file.map_err(io_error(&path))
}

fn lock_exclusive(job: &Path, id: &str) -> Result<File, JobFolderError> {
    let file = lock_file(job)?;
    for _ in 0..LOCK_ATTEMPTS {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => thread::sleep(LOCK_PAUSE),
            Err(TryLockError::Error(source)) => return Err(io_error(job)(source)),
        }
    }
    Err(JobFolderError::Running(id.to_owned()))
}

/// The results of the finished steps, in order.
pub(crate) fn finished(log: &[LogLine]) -> Vec<(String, StepResult)> {
    let records = log.iter().filter_map(|line| match &line.record {
        LogRecord::Finished { step, result } => Some((step.clone(), result.clone())),
        _ => None,
    });
    records.collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use std::time::SystemTime;

    use serde_json::json;

    use super::*;
    use crate::plan::{check, read};
    use crate::run::JobLimits;
    use crate::tools::picture_tools;

    fn plan() -> CheckedPlan {
        let step = json!({"name": "list", "tool": "list_pictures", "params": {"folder": "/a"}});
        let plan = read(&json!({"name": "x", "steps": [step]})).unwrap();
        check(plan, &picture_tools()).unwrap()
    }

    #[test]
    fn question_whether_a_job_runs_writes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let jobs = Jobs::new(folder.path().to_owned());
        let job = jobs.create(&plan(), "test", None).unwrap();
        let lock = job.path.join(LOCK);
        fs::remove_file(&lock).ok();
        assert!(!job.is_running().unwrap());
        assert!(!lock.exists());
    }

    #[test]
    fn old_folder_without_description_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let jobs = Jobs::new(folder.path().to_owned());
        let job = jobs.create(&plan(), "test", None).unwrap();
        let [old, new] = ["20260101-000000-aaa", "20260101-000000-bbb"];
        for name in [old, new] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let past = SystemTime::now() - MAX_UNDESCRIBED;
        for path in [&folder.path().join(old), &job.path] {
            File::open(path).unwrap().set_modified(past).unwrap();
        }
        jobs.prune(&JobLimits::default(), 0).unwrap();
        assert!(!folder.path().join(old).exists());
        assert!(folder.path().join(new).exists() && job.path.exists());
    }
}
