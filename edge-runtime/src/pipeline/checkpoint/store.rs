//! The folder of checkpoints and the thread that writes there.
//!
//! - A pipeline never waits for the disk: its newest job is queued, and replaces an older one.
//! - A written file, and a removal, is durable once its job is done.
//! - A failed write is lost; a failed removal is retried, because a restart would resume from the
//!   file.
//! - Not here: the queue (`write_queue`), what a file contains (`file`).

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use watchkeeper_contract::id::{PipelineId, SourceId};
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::time::Wall;
use watchkeeper_store::durable::{is_disk_refusal, replace, sync_folder};
use watchkeeper_store::private_folder::make_private;

use super::checkpointer::{Checkpointer, NOT_SAVED};
use super::file::{
    CheckpointData, CheckpointFile, MAX_BYTES, Stamp, decode, file_name, fingerprint_of,
};
use super::write_queue::{SharedQueue, WriteOp};
use crate::thread::Thread;

/// Name of the folder within the state folder.
pub(super) const FOLDER: &str = "states";

/// Longest wait for the disk when a checkpoint is removed or read.
const DISK_TIMEOUT: Duration = Duration::from_secs(2);

/// State from which a run can resume.
#[derive(Debug)]
pub enum Resume {
    /// The complete state.
    Data(CheckpointData),
    /// The elapsed part of the duration of a failed run. Its counts are not resumed, because they
    /// may contain the cause of the failure.
    Elapsed(Duration),
}

/// A checkpoint that was read back.
#[derive(Debug)]
pub struct RestoredCheckpoint {
    pub resume: Resume,
    pub saved_at: Wall,
    /// Time since it was saved; `None` if no clock shows it.
    pub away: Option<Duration>,
}

/// The folder of checkpoints and the thread that writes there.
#[derive(Debug)]
pub struct CheckpointStore {
    folder: PathBuf,
    shared: Arc<SharedQueue>,
    disk_timeout: Duration,
    thread: Thread,
}

impl CheckpointStore {
    /// Creates the folder and starts the thread.
    ///
    /// # Errors
    /// When the folder can't be created, unless the disk is full or read-only, or the system starts
    /// no thread.
    pub fn spawn(state_dir: &Path) -> io::Result<Self> {
        Self::spawn_with_timeout(state_dir, DISK_TIMEOUT)
    }

    /// Like [`Self::spawn`], with another timeout for the disk.
    pub(in crate::pipeline) fn spawn_with_timeout(
        state_dir: &Path,
        disk_timeout: Duration,
    ) -> io::Result<Self> {
        let folder = state_dir.join(FOLDER);
        match make_private(&folder) {
            // Made with the first checkpoint.
            Err(error) if is_disk_refusal(&error) => {}
            made => made?,
        }
        let shared = Arc::<SharedQueue>::default();
        let (at, of) = (folder.clone(), Arc::clone(&shared));
        let thread = Thread::spawn("states".to_owned(), move || run_writer(&at, &of))?;
        Ok(Self {
            folder,
            shared,
            disk_timeout,
            thread,
        })
    }

    /// Reads the checkpoint of a pipeline that watches `source`.
    ///
    /// # Errors
    /// A phrase for the log that says why the file can't be used.
    pub fn load(
        &self,
        id: &PipelineId,
        source: &SourceId,
    ) -> Result<Option<RestoredCheckpoint>, String> {
        let Some(file) = self.read(id, source)? else {
            return Ok(None);
        };
        let (away, saved_at) = (file.at.until(&Stamp::now()), file.at.wall);
        let elapsed = file.elapsed.map(Resume::Elapsed);
        let resume = file.data.map(Resume::Data).or(elapsed);
        Ok(resume.map(|resume| RestoredCheckpoint {
            resume,
            saved_at,
            away,
        }))
    }

    /// When the duration of `spec` had passed, if an earlier process saw that.
    pub fn finished_at(&self, spec: &PipelineSpec) -> Option<Wall> {
        // A file that can't be read is logged when the pipeline starts from zero.
        let file = self.read(&spec.id, &spec.source).ok().flatten()?;
        (file.over? == fingerprint_of(spec)).then_some(file.at.wall)
    }

    fn read(&self, id: &PipelineId, source: &SourceId) -> Result<Option<CheckpointFile>, String> {
        self.wait_for_disk(id)?;
        let path = self.folder.join(file_name(id));
        let size = match fs::metadata(&path) {
            Ok(data) => data.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        if size > MAX_BYTES {
            return Err(format!("{size} bytes, more than the limit of {MAX_BYTES}"));
        }
        let bytes = fs::read(&path).map_err(|error| error.to_string())?;
        let file = decode(&bytes)?;
        if file.source != *source {
            return Err("the file belongs to another source".to_owned());
        }
        Ok(Some(file))
    }

    /// Begins a run of `id` that watches `source`; older runs of `id` can't save any more.
    pub fn checkpointer(&self, id: &PipelineId, source: &SourceId) -> Checkpointer {
        Checkpointer::new(id, source, Arc::clone(&self.shared))
    }

    /// Removes the checkpoint of `id`, and returns when it is off the disk.
    ///
    /// # Errors
    /// A phrase that says why the file is still there; its removal is retried in the background.
    pub fn remove(&self, id: &PipelineId) -> Result<(), String> {
        let mut queue = self.shared.queue.lock();
        let run = queue.begin_run(id);
        queue.push(id, run, WriteOp::Remove, true);
        queue.clear_removal_error(id);
        drop(queue);
        self.shared.changed.notify_all();
        self.wait_for_disk(id)
    }

    /// Waits until no operation on the file of `id` is pending.
    fn wait_for_disk(&self, id: &PipelineId) -> Result<(), String> {
        let until = Instant::now() + self.disk_timeout;
        let mut queue = self.shared.queue.lock();
        while queue.is_pending(id) {
            if let Some(why) = queue.removal_error(id) {
                return Err(format!("the old checkpoint can't be removed: {why}"));
            }
            let waited = self.shared.changed.wait_until(&mut queue, until);
            if waited.timed_out() && queue.is_pending(id) {
                return Err("the disk is slow".to_owned());
            }
        }
        Ok(())
    }

    /// Whether an operation on the file of `id` is waiting or running.
    #[cfg(test)]
    pub(in crate::pipeline) fn is_pending(&self, id: &PipelineId) -> bool {
        self.shared.queue.lock().is_pending(id)
    }

    /// Removes the files of all pipelines except `ids`.
    pub fn retain_only(&self, ids: &BTreeSet<&PipelineId>) {
        let Ok(entries) = fs::read_dir(&self.folder) else {
            return;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let is_wanted = ids.iter().any(|id| *name == *file_name(id));
            if !is_wanted && let Err(error) = remove_file(&entry.path()) {
                tracing::warn!(file = %entry.path().display(), %error, "can't remove an old checkpoint");
            }
        }
    }

    /// Writes what is queued and stops the thread, waiting at most `timeout`.
    pub fn shut_down(&self, timeout: Duration) {
        self.close_queue();
        self.thread.join(timeout);
    }

    fn close_queue(&self) {
        self.shared.queue.lock().is_closing = true;
        self.shared.changed.notify_all();
    }
}

impl Drop for CheckpointStore {
    fn drop(&mut self) {
        self.close_queue();
    }
}

/// Writes and removes files until the queue is closed and empty.
fn run_writer(folder: &Path, shared: &SharedQueue) {
    let (mut unwritten, mut unremoved) = (BTreeSet::new(), BTreeSet::new());
    loop {
        let mut queue = shared.queue.lock();
        let job = loop {
            match queue.next(Instant::now()) {
                Some(job) => break job,
                None if queue.is_closing => return,
                None => match queue.next_retry() {
                    Some(at) => {
                        shared.changed.wait_until(&mut queue, at);
                    }
                    None => shared.changed.wait(&mut queue),
                },
            }
        };
        drop(queue);
        let path = folder.join(file_name(&job.id));
        let written = match &job.op {
            WriteOp::Write(bytes) => make_private(folder).and_then(|()| replace(&path, bytes)),
            WriteOp::Remove => Ok(()),
        };
        let removed = match &job.op {
            WriteOp::Remove => remove_file(&path),
            WriteOp::Write(_) if job.is_stale && written.is_err() => remove_file(&path),
            WriteOp::Write(_) => Ok(()),
        };
        // Logged once per failure: events that can't be stored report a full disk.
        if let Some(error) = first_failure(&mut unwritten, &job.id, written) {
            tracing::warn!(pipeline = %job.id, %error, "{NOT_SAVED}");
        }
        let removal_error = removed.as_ref().err().map(ToString::to_string);
        if let Some(error) = first_failure(&mut unremoved, &job.id, removed) {
            tracing::warn!(
                pipeline = %job.id, %error,
                "can't remove an old checkpoint, which a restart would resume from; retrying"
            );
        }
        let now = Instant::now();
        shared.queue.lock().done(&job, removal_error, now);
        shared.changed.notify_all();
    }
}

/// The error of an outcome, if the one before it was a success.
fn first_failure(
    failing: &mut BTreeSet<PipelineId>,
    id: &PipelineId,
    outcome: io::Result<()>,
) -> Option<io::Error> {
    match outcome {
        Ok(()) => {
            failing.remove(id);
            None
        }
        Err(error) => failing.insert(id.clone()).then_some(error),
    }
}

/// Removes a file durably, if it exists.
fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.and_then(|()| path.parent().map_or(Ok(()), sync_folder)),
    }
}
