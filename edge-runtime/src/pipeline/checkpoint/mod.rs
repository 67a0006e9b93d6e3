//! What pipelines remember, kept so that a restart of the process goes on where it stood.
//!
//! Owns the folder `states`: one file a pipeline, written anew every [`EVERY`] while it watches. Invariants: a file belongs to the pipeline as it is
//! deployed now: what was replaced, deleted, has ended or has failed leaves none, but that the time of a watch is over is kept, and how much of it had passed when it
//! failed; a run that is over can't
//! write any more; a file that is damaged, of another version or of another source is none, and the pipeline counts from nought; keeping never makes a
//! pipeline wait: one state of each waits, the newest. What is forgotten is off the disk before whoever asked for it goes on, or they are told that it is not; a
//! removal that fails is tried again, and until it is done this process reads nothing there.
//!
//! Files and not the journal's store: what is written anew every few seconds would make the store grow by what was there before, at the
//! expense of events.

pub mod pauses;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use watchkeeper_contract::id::{PipelineId, SourceId};
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::time::{TimeQuality, Wall};
use watchkeeper_store::durable::{replace, sync_folder};

use crate::clock;
use crate::guard::{fingerprint, is_of_another_version, machine_boot};
use crate::pipeline::run::Memory;
use crate::thread::Thread;

/// Name of the folder within the state folder.
const FOLDER: &str = "states";

/// Ending of the files.
const ENDING: &str = ".state";

/// How often a pipeline's state is kept: so much counting is lost at most when the process is killed or the power fails.
pub const EVERY: Duration = Duration::from_secs(10);

/// Bytes a second that one pipeline may write in the long run, so that a large state doesn't wear a memory card out.
const BYTES_PER_S: f64 = 20_000.0;

/// By which a file is known; its last byte is the format.
const MARK: &[u8] = b"watchkeeper pipeline \x01";

/// Longest file that is read; a workflow's part of it is at most half of that.
const MOST_BYTES: u64 = 2 << 20;

/// How long whoever forgets, or reads what is being written, waits for the disk.
const PATIENCE: Duration = Duration::from_secs(2);

/// Pause before a removal that failed is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// What a pipeline counts, and what it must remember to go on counting.
#[derive(Debug, Serialize, Deserialize)]
pub struct PipelineMemory {
    /// When its counts began.
    pub counting_since: Option<Wall>,
    /// Events it made.
    pub events: u64,
    /// Of its run.
    pub run: Memory,
}

/// What a run left to the one that comes after it.
#[derive(Debug)]
pub enum Resume {
    /// All that it remembered.
    Memory(PipelineMemory),
    /// It failed: how much of the time that it was to watch had passed. What led to the failure may be in the rest.
    Elapsed(Duration),
}

/// A state that was taken back.
#[derive(Debug)]
pub struct Checkpoint {
    /// What was left.
    pub left: Resume,
    /// How long it is ago that it was kept; `None` where no clock tells.
    pub away: Option<Duration>,
}

#[derive(Serialize, Deserialize)]
struct Document {
    source: SourceId,
    at: Stamp,
    /// None of one that failed or whose time is over.
    memory: Option<PipelineMemory>,
    /// Of one that failed, as [`Resume::Elapsed`] has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    elapsed: Option<Duration>,
    /// The seconds that it was to watch and has watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    over_after_s: Option<f64>,
    /// Of the specification whose time is over; earlier versions wrote none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    over: Option<String>,
}

/// Fingerprint of what is watched: whether it is paused is no part of that.
fn print(spec: &PipelineSpec) -> String {
    fingerprint(&PipelineSpec {
        paused: false,
        ..spec.clone()
    })
}

/// A moment that another process can compare with its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Stamp {
    /// Identity of the machine's boot; empty where there is none.
    machine_boot: String,
    /// Milliseconds since then, suspended or not.
    boot_ms: u64,
    wall: Wall,
}

impl Stamp {
    fn now() -> Self {
        let boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Self {
            machine_boot: machine_boot(),
            boot_ms: Duration::try_from(boot).map_or(0, clock::millis),
            wall: clock::wall(),
        }
    }

    /// How long after `self` `later` is. The wall clock is asked only over a boot of the machine, and believed only where both stamps can be.
    fn until(&self, later: &Self) -> Option<Duration> {
        let ms = if self.machine_boot == later.machine_boot && !self.machine_boot.is_empty() {
            later.boot_ms.checked_sub(self.boot_ms)
        } else if [self, later].map(|s| s.wall.quality) == [TimeQuality::Synced; 2] {
            u64::try_from(later.wall.unix_ms.saturating_sub(self.wall.unix_ms)).ok()
        } else {
            None
        };
        ms.map(Duration::from_millis)
    }
}

/// What is to be done to a pipeline's file.
#[derive(Debug)]
enum Work {
    Write(Vec<u8>),
    Remove,
}

#[derive(Debug, Default)]
struct Slot {
    /// The run that may write.
    run: u64,
    work: Option<Work>,
    /// What is on the disk must not be read again: it is replaced, or else removed.
    is_stale: bool,
    /// Before this moment a removal that failed is not tried again.
    not_before: Option<Instant>,
    /// Why what is stale could not be removed.
    why: Option<String>,
}

/// One thing for the thread to do.
#[derive(Debug)]
struct Job {
    id: PipelineId,
    run: u64,
    work: Work,
    is_stale: bool,
}

#[derive(Debug, Default)]
struct Slots {
    runs: u64,
    of: BTreeMap<PipelineId, Slot>,
    /// Whose file is being written or removed now.
    at_work: Option<PipelineId>,
    is_over: bool,
}

impl Slots {
    /// From now on only the run of this number may write.
    fn begin(&mut self, id: &PipelineId) -> u64 {
        self.runs += 1;
        self.of.entry(id.clone()).or_default().run = self.runs;
        self.runs
    }

    /// Has `work` done in the place of what still waits, if that run may. `is_stale`: what is on the disk must not be read again, whatever comes of it.
    fn hand_over(&mut self, id: &PipelineId, run: u64, work: Work, is_stale: bool) {
        if let Some(slot) = self.of.get_mut(id)
            && slot.run == run
        {
            slot.work = Some(work);
            slot.is_stale |= is_stale;
            slot.not_before = None;
        }
    }

    /// The next thing to do at `now`; at the end everything is tried once more.
    fn next(&mut self, now: Instant) -> Option<Job> {
        let is_over = self.is_over;
        let job = self.of.iter_mut().find_map(|(id, slot)| {
            let is_due = is_over || slot.not_before.is_none_or(|at| at <= now);
            let work = is_due.then(|| slot.work.take()).flatten()?;
            Some(Job {
                id: id.clone(),
                run: slot.run,
                work,
                is_stale: std::mem::take(&mut slot.is_stale),
            })
        })?;
        self.at_work = Some(job.id.clone());
        Some(job)
    }

    /// When something that failed is to be tried again.
    fn next_try(&self) -> Option<Instant> {
        self.of.values().filter_map(|slot| slot.not_before).min()
    }

    /// Takes note of what came of a job: `stays` says why what is stale is still there.
    fn done(&mut self, job: &Job, stays: Option<String>, now: Instant) {
        self.at_work = None;
        let is_over = self.is_over;
        let Some(slot) = self.of.get_mut(&job.id) else {
            return;
        };
        slot.not_before = None;
        slot.why = stays;
        if slot.why.is_some() {
            slot.is_stale = true;
            // Newer work is done at once, and replaces it or removes it too.
            if slot.work.is_none() && !is_over {
                slot.work = Some(Work::Remove);
                slot.not_before = Some(now + AGAIN);
            }
        } else if matches!(job.work, Work::Remove) && slot.work.is_none() && slot.run == job.run {
            // No newer run asks for it.
            self.of.remove(&job.id);
        }
    }

    /// Whether something is still to be done to the file of `id`.
    fn is_owed(&self, id: &PipelineId) -> bool {
        let waits = self.of.get(id).is_some_and(|slot| slot.work.is_some());
        waits || self.at_work.as_ref() == Some(id)
    }
}

#[derive(Debug, Default)]
struct Shared {
    slots: Mutex<Slots>,
    changed: Condvar,
}

/// The folder, and the thread that writes there.
#[derive(Debug)]
pub struct CheckpointStore {
    folder: PathBuf,
    shared: Arc<Shared>,
    patience: Duration,
    thread: Thread,
}

/// What one run of a pipeline keeps its state with.
#[derive(Debug)]
pub struct Checkpointer {
    id: PipelineId,
    run: u64,
    source: SourceId,
    shared: Arc<Shared>,
    due: Instant,
}

impl CheckpointStore {
    /// Makes the folder and starts the thread.
    ///
    /// # Errors
    /// When one of the two can't be done.
    pub fn spawn(state_dir: &Path) -> io::Result<Self> {
        Self::spawn_patient(state_dir, PATIENCE)
    }

    /// The same; whoever forgets waits so long for the disk.
    pub(super) fn spawn_patient(state_dir: &Path, patience: Duration) -> io::Result<Self> {
        let folder = state_dir.join(FOLDER);
        fs::create_dir_all(&folder)?;
        let shared = Arc::<Shared>::default();
        let (at, of) = (folder.clone(), Arc::clone(&shared));
        let thread = Thread::spawn("states".to_owned(), move || work(&at, &of))?;
        Ok(Self {
            folder,
            shared,
            patience,
            thread,
        })
    }

    /// What was kept of a pipeline that watches `source`, if it can be gone on with. Why not is for the log.
    ///
    /// # Errors
    /// A phrase that says why the state that is there is none.
    pub fn load(&self, id: &PipelineId, source: &SourceId) -> Result<Option<Checkpoint>, String> {
        let Some(document) = self.read(id, source)? else {
            return Ok(None);
        };
        let away = document.at.until(&Stamp::now());
        let elapsed = document.elapsed.map(Resume::Elapsed);
        let left = document.memory.map(Resume::Memory).or(elapsed);
        Ok(left.map(|left| Checkpoint { left, away }))
    }

    /// When the time of `spec` was over, if an earlier process saw its end. A specification that was edited since is another one; where an earlier version or
    /// another kind of fingerprint can't tell, the source and the seconds do.
    #[must_use]
    pub fn over(&self, spec: &PipelineSpec) -> Option<Wall> {
        // What can't be read is told where the pipeline begins to count from nought.
        let document = self.read(&spec.id, &spec.source).ok().flatten()?;
        let seconds = document.over_after_s;
        let is_as_long = seconds.is_some() && seconds == spec.stop_after_s;
        let is_same = document
            .over
            .is_none_or(|over| is_of_another_version(&over) || over == print(spec));
        (is_as_long && is_same).then_some(document.at.wall)
    }

    fn read(&self, id: &PipelineId, source: &SourceId) -> Result<Option<Document>, String> {
        self.settle(id)?;
        let path = self.folder.join(file_name(id));
        let size = match fs::metadata(&path) {
            Ok(data) => data.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        if size > MOST_BYTES {
            return Err(format!("{size} bytes are more than {MOST_BYTES}"));
        }
        let bytes = fs::read(&path).map_err(|error| error.to_string())?;
        let document = decode(&bytes)?;
        if document.source != *source {
            return Err("it is of another source".to_owned());
        }
        Ok(Some(document))
    }

    /// For a run of `id` that begins now and watches `source`; no other run of `id` writes any more.
    #[must_use]
    pub fn checkpointer(&self, id: &PipelineId, source: &SourceId) -> Checkpointer {
        let run = self.shared.slots.lock().begin(id);
        Checkpointer {
            id: id.clone(),
            run,
            source: source.clone(),
            shared: Arc::clone(&self.shared),
            due: Instant::now() + EVERY,
        }
    }

    /// What `id` remembered is of no use any more; returns when it is off the disk.
    ///
    /// # Errors
    /// A phrase that says why it is not off the disk yet; that is tried on.
    pub fn forget(&self, id: &PipelineId) -> Result<(), String> {
        let mut slots = self.shared.slots.lock();
        let run = slots.begin(id);
        slots.hand_over(id, run, Work::Remove, true);
        if let Some(slot) = slots.of.get_mut(id) {
            // Of an earlier try.
            slot.why = None;
        }
        drop(slots);
        self.shared.changed.notify_all();
        self.settle(id)
    }

    /// Waits until nothing is owed to the file of `id`.
    fn settle(&self, id: &PipelineId) -> Result<(), String> {
        let until = Instant::now() + self.patience;
        let mut slots = self.shared.slots.lock();
        while slots.is_owed(id) {
            if let Some(why) = slots.of.get(id).and_then(|slot| slot.why.clone()) {
                return Err(format!(
                    "what is of no use any more can't be removed: {why}"
                ));
            }
            let waited = self.shared.changed.wait_until(&mut slots, until);
            if waited.timed_out() && slots.is_owed(id) {
                return Err("the disk is slow".to_owned());
            }
        }
        Ok(())
    }

    /// Whether something is still to be done to the file of `id`.
    #[cfg(test)]
    pub(super) fn is_owed(&self, id: &PipelineId) -> bool {
        self.shared.slots.lock().is_owed(id)
    }

    /// Removes what is there of others than `ids`.
    pub fn keep_only(&self, ids: &BTreeSet<&PipelineId>) {
        let Ok(entries) = fs::read_dir(&self.folder) else {
            return;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let is_wanted = ids.iter().any(|id| *name == *file_name(id));
            if !is_wanted && let Err(error) = fs::remove_file(entry.path()) {
                tracing::debug!(file = %entry.path().display(), %error, "an old state stays");
            }
        }
    }

    /// Writes what waits and ends the thread; waits for that at most for `patience`.
    pub fn end(&self, patience: Duration) {
        self.shared.slots.lock().is_over = true;
        self.shared.changed.notify_all();
        self.thread.join(patience);
    }
}

impl Drop for CheckpointStore {
    fn drop(&mut self) {
        self.shared.slots.lock().is_over = true;
        self.shared.changed.notify_all();
    }
}

impl Checkpointer {
    /// Whether the state should be kept again.
    #[must_use]
    pub fn is_due(&self, now: Instant) -> bool {
        now >= self.due
    }

    /// Has the state written, in the place of one that still waits.
    pub fn keep(&mut self, memory: PipelineMemory) {
        self.due = Instant::now() + EVERY;
        let document = Document {
            memory: Some(memory),
            ..self.document()
        };
        if let Some(bytes) = self.write(&document, false) {
            let pause = Duration::from_secs_f64(bytes as f64 / BYTES_PER_S);
            self.due = Instant::now() + pause.max(EVERY);
        }
    }

    /// The run has watched the seconds that it was to watch: the next process does not begin `spec` anew.
    pub fn over(&self, spec: &PipelineSpec) {
        let document = Document {
            over_after_s: spec.stop_after_s,
            over: Some(print(spec)),
            ..self.document()
        };
        self.write(&document, false);
    }

    /// The run has failed: of what it remembered nothing is left but, where there is something to it, how much of its time had passed.
    pub fn failed(&self, elapsed: Option<Duration>) {
        if elapsed.is_none() {
            self.forget();
            return;
        }
        let document = Document {
            elapsed,
            ..self.document()
        };
        self.write(&document, true);
    }

    fn document(&self) -> Document {
        Document {
            source: self.source.clone(),
            at: Stamp::now(),
            memory: None,
            elapsed: None,
            over_after_s: None,
            over: None,
        }
    }

    /// How many bytes will be written.
    fn write(&self, document: &Document, is_stale: bool) -> Option<usize> {
        match encode(document) {
            Ok(bytes) => {
                let size = bytes.len();
                self.hand_over(Work::Write(bytes), is_stale);
                Some(size)
            }
            Err(error) => {
                tracing::warn!(pipeline = %self.id, %error, "its counts would not outlast a restart");
                None
            }
        }
    }

    /// The run has ended or failed: the next one begins anew.
    pub fn forget(&self) {
        self.hand_over(Work::Remove, true);
    }

    fn hand_over(&self, work: Work, is_stale: bool) {
        let mut slots = self.shared.slots.lock();
        slots.hand_over(&self.id, self.run, work, is_stale);
        drop(slots);
        self.shared.changed.notify_all();
    }
}

/// Does what is handed over, until it is over and nothing waits.
fn work(folder: &Path, shared: &Shared) {
    let (mut unwritten, mut unremoved) = (BTreeSet::new(), BTreeSet::new());
    loop {
        let mut slots = shared.slots.lock();
        let job = loop {
            match slots.next(Instant::now()) {
                Some(job) => break job,
                None if slots.is_over => return,
                None => match slots.next_try() {
                    Some(at) => {
                        shared.changed.wait_until(&mut slots, at);
                    }
                    None => shared.changed.wait(&mut slots),
                },
            }
        };
        drop(slots);
        let path = folder.join(file_name(&job.id));
        let written = match &job.work {
            Work::Write(bytes) => replace(&path, bytes),
            Work::Remove => Ok(()),
        };
        let removed = match &job.work {
            Work::Remove => remove(&path),
            Work::Write(_) if job.is_stale && written.is_err() => remove(&path),
            Work::Write(_) => Ok(()),
        };
        // Once, until it goes well again: a full disk is told by the events that can't be stored.
        if let Some(error) = newly(&mut unwritten, &job.id, written) {
            tracing::warn!(pipeline = %job.id, %error, "its counts would not outlast a restart");
        }
        let stays = removed.as_ref().err().map(ToString::to_string);
        if let Some(error) = newly(&mut unremoved, &job.id, removed) {
            tracing::warn!(
                pipeline = %job.id, %error,
                "what it remembered before can't be removed, and would be taken for its own after a restart; tried again"
            );
        }
        shared.slots.lock().done(&job, stays, Instant::now());
        shared.changed.notify_all();
    }
}

/// What went wrong with `id`, where the last time it went well.
fn newly(
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

/// Takes a file off the disk, if it is there.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.and_then(|()| path.parent().map_or(Ok(()), sync_folder)),
    }
}

fn file_name(id: &PipelineId) -> String {
    format!("{id}{ENDING}")
}

/// Mark, checksum, MessagePack.
fn encode(document: &Document) -> Result<Vec<u8>, String> {
    let body = rmp_serde::to_vec_named(document).map_err(|error| error.to_string())?;
    let bytes = [MARK, Sha256::digest(&body).as_slice(), &body].concat();
    if bytes.len() as u64 > MOST_BYTES {
        return Err(format!("it takes {} bytes", bytes.len()));
    }
    Ok(bytes)
}

fn decode(bytes: &[u8]) -> Result<Document, String> {
    let rest = bytes.strip_prefix(MARK).ok_or("another version wrote it")?;
    let (sum, body) = rest.split_at_checked(32).ok_or("it is cut off")?;
    if Sha256::digest(body).as_slice() != sum {
        return Err("it is damaged".to_owned());
    }
    rmp_serde::from_slice(body).map_err(|error| error.to_string())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::*;

    fn id(name: &str) -> PipelineId {
        PipelineId::new(name).unwrap()
    }

    fn camera() -> SourceId {
        SourceId::new("camera").unwrap()
    }

    fn memory(events: u64) -> PipelineMemory {
        PipelineMemory {
            counting_since: None,
            events,
            run: Memory::default(),
        }
    }

    /// What a process that starts now would find.
    fn found(dir: &Path, name: &str) -> Result<Option<u64>, String> {
        let states = CheckpointStore::spawn(dir).unwrap();
        let kept = states.load(&id(name), &camera())?;
        Ok(kept.and_then(|kept| match kept.left {
            Resume::Memory(memory) => Some(memory.events),
            Resume::Elapsed(_) => None,
        }))
    }

    fn keep(dir: &Path, all: &[(&str, u64)]) {
        let states = CheckpointStore::spawn(dir).unwrap();
        for (name, events) in all {
            states
                .checkpointer(&id(name), &camera())
                .keep(memory(*events));
        }
        states.end(Duration::from_secs(60));
    }

    #[test]
    fn what_was_kept_last_is_found_by_the_next_process() {
        let dir = tempfile::tempdir().unwrap();
        keep(dir.path(), &[("gate", 1), ("yard", 2), ("gate", 3)]);
        assert_eq!(found(dir.path(), "gate"), Ok(Some(3)));
        assert_eq!(found(dir.path(), "yard"), Ok(Some(2)));
        assert_eq!(found(dir.path(), "dock"), Ok(None));
    }

    #[test]
    fn a_run_that_was_replaced_or_forgotten_writes_nothing_any_more() {
        let dir = tempfile::tempdir().unwrap();
        let states = CheckpointStore::spawn(dir.path()).unwrap();
        let mut old = states.checkpointer(&id("gate"), &camera());
        let mut new = states.checkpointer(&id("gate"), &camera());
        let mut gone = states.checkpointer(&id("yard"), &camera());
        new.keep(memory(2));
        old.keep(memory(1));
        old.forget();
        gone.keep(memory(1));
        states.forget(&id("yard")).unwrap();
        gone.keep(memory(1));
        states.end(Duration::from_secs(60));
        assert_eq!(found(dir.path(), "gate"), Ok(Some(2)));
        assert_eq!(found(dir.path(), "yard"), Ok(None));
    }

    /// A watch of `gate` for so many seconds.
    fn watch(source: &str, seconds: f64) -> PipelineSpec {
        serde_json::from_value(serde_json::json!({
            "id": "gate", "source": source, "workflow": {"version": "1.0"}, "stop_after_s": seconds,
        }))
        .unwrap()
    }

    #[test]
    fn that_a_time_is_over_outlasts_the_process_until_it_is_forgotten_or_another_watch() {
        let dir = tempfile::tempdir().unwrap();
        keep(dir.path(), &[("gate", 1)]);
        let states = CheckpointStore::spawn(dir.path()).unwrap();
        let watched = watch("camera", 60.0);
        states.checkpointer(&id("gate"), &camera()).over(&watched);
        states.end(Duration::from_secs(60));
        assert_eq!(found(dir.path(), "gate"), Ok(None));
        let states = CheckpointStore::spawn(dir.path()).unwrap();
        let over = |spec: &PipelineSpec| states.over(spec).is_some();
        assert!(over(&watched));
        let paused = PipelineSpec {
            paused: true,
            ..watched.clone()
        };
        assert!(over(&paused), "a pause is no edit");
        let edited = PipelineSpec {
            workflow: serde_json::json!({"version": "1.0", "steps": []}),
            ..watched.clone()
        };
        for other in [watch("camera", 61.0), watch("other", 60.0), edited] {
            assert!(!over(&other), "{other:?}");
        }
        states.forget(&id("gate")).unwrap();
        assert!(!over(&watched));
        assert!(!dir.path().join(FOLDER).join("gate.state").exists());
    }

    #[test]
    fn what_an_earlier_version_or_another_fingerprint_says_is_over_is_known_by_source_and_seconds()
    {
        for over in [None, Some("1:of another version".to_owned())] {
            let dir = tempfile::tempdir().unwrap();
            let states = CheckpointStore::spawn(dir.path()).unwrap();
            let checkpointer = states.checkpointer(&id("gate"), &camera());
            let document = Document {
                over_after_s: Some(60.0),
                over,
                ..checkpointer.document()
            };
            let path = dir.path().join(FOLDER).join("gate.state");
            fs::write(path, encode(&document).unwrap()).unwrap();
            assert!(states.over(&watch("camera", 60.0)).is_some());
            assert!(states.over(&watch("camera", 61.0)).is_none());
            assert!(states.over(&watch("other", 60.0)).is_none());
        }
    }

    #[test]
    fn of_what_failed_only_the_time_that_had_passed_is_left() {
        let dir = tempfile::tempdir().unwrap();
        keep(dir.path(), &[("gate", 1), ("yard", 2)]);
        let states = CheckpointStore::spawn(dir.path()).unwrap();
        let minute = Duration::from_secs(60);
        states
            .checkpointer(&id("gate"), &camera())
            .failed(Some(minute));
        states.checkpointer(&id("yard"), &camera()).failed(None);
        // Whoever reads waits for what is being written.
        let kept = states.load(&id("gate"), &camera()).unwrap().unwrap();
        assert!(matches!(kept.left, Resume::Elapsed(elapsed) if elapsed == minute));
        assert!(states.load(&id("yard"), &camera()).unwrap().is_none());
    }

    #[test]
    fn a_removal_that_failed_is_told_tried_again_and_nothing_is_read_until_it_is_done() {
        let dir = tempfile::tempdir().unwrap();
        keep(dir.path(), &[("gate", 1)]);
        let states = CheckpointStore::spawn(dir.path()).unwrap();
        let path = dir.path().join(FOLDER).join("gate.state");
        let whole = fs::read(&path).unwrap();
        // A folder in its place is not removed as a file.
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        let why = states.forget(&id("gate")).unwrap_err();
        assert!(why.contains("can't be removed"), "{why}");
        // The disk works again, and what was to be forgotten is still there, for a moment at most.
        let beside = dir.path().join("beside");
        fs::write(&beside, &whole).unwrap();
        let (here, exchange) = (rustix::fs::CWD, rustix::fs::RenameFlags::EXCHANGE);
        rustix::fs::renameat_with(here, &beside, here, &path, exchange).unwrap();
        let read = states.load(&id("gate"), &camera());
        assert!(!matches!(read, Ok(Some(_))), "{read:?}");
        let end = Instant::now() + Duration::from_secs(60);
        while path.exists() {
            assert!(Instant::now() < end, "it is still there");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(states.forget(&id("gate")), Ok(()));
    }

    #[test]
    fn a_new_state_takes_the_place_of_one_that_could_not_be_removed() {
        let (mut slots, gate, now) = (Slots::default(), id("gate"), Instant::now());
        let forgetting = slots.begin(&gate);
        slots.hand_over(&gate, forgetting, Work::Remove, true);
        let job = slots.next(now).unwrap();
        slots.done(&job, Some("no".to_owned()), now);
        assert!(slots.is_owed(&gate) && slots.next(now).is_none());
        let run = slots.begin(&gate);
        slots.hand_over(&gate, run, Work::Write(vec![1]), false);
        let job = slots.next(now).unwrap();
        assert!(
            job.is_stale,
            "where it can't be written, what is there goes"
        );
        slots.done(&job, Some("no".to_owned()), now);
        let again = slots.next(now + AGAIN).unwrap();
        assert!(matches!(again.work, Work::Remove) && again.is_stale);
        // What was handed over meanwhile is done, and is what counts.
        slots.hand_over(&gate, run, Work::Write(vec![2]), false);
        slots.done(&again, None, now);
        let job = slots.next(now).unwrap();
        assert!(matches!(job.work, Work::Write(_)) && !job.is_stale);
        slots.done(&job, None, now);
        assert!(!slots.is_owed(&gate) && slots.next_try().is_none());
    }

    #[test]
    fn what_ended_by_itself_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        keep(dir.path(), &[("gate", 1)]);
        let states = CheckpointStore::spawn(dir.path()).unwrap();
        states.checkpointer(&id("gate"), &camera()).forget();
        states.end(Duration::from_secs(60));
        assert_eq!(found(dir.path(), "gate"), Ok(None));
    }

    #[test]
    fn nothing_is_left_of_pipelines_that_are_there_no_more() {
        let dir = tempfile::tempdir().unwrap();
        keep(dir.path(), &[("gate", 1), ("yard", 2)]);
        let states = CheckpointStore::spawn(dir.path()).unwrap();
        states.keep_only(&BTreeSet::from([&id("yard")]));
        drop(states);
        assert_eq!(found(dir.path(), "gate"), Ok(None));
        assert_eq!(found(dir.path(), "yard"), Ok(Some(2)));
    }

    #[test]
    fn a_file_that_is_damaged_cut_off_or_of_another_source_is_none() {
        let dir = tempfile::tempdir().unwrap();
        keep(dir.path(), &[("gate", 1)]);
        let path = dir.path().join(FOLDER).join("gate.state");
        let whole = fs::read(&path).unwrap();
        for n in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[n] ^= 1;
            fs::write(&path, &damaged).unwrap();
            found(dir.path(), "gate").unwrap_err();
            fs::write(&path, &whole[..n]).unwrap();
            found(dir.path(), "gate").unwrap_err();
        }
        fs::write(&path, &whole).unwrap();
        let states = CheckpointStore::spawn(dir.path()).unwrap();
        let why = states
            .load(&id("gate"), &SourceId::new("other").unwrap())
            .unwrap_err();
        assert!(why.contains("another source"), "{why}");
        assert_eq!(found(dir.path(), "gate"), Ok(Some(1)));
    }

    #[test]
    fn how_long_it_was_dark_is_told_by_a_clock_that_can_be_believed() {
        let stamp = |boot: &str, boot_ms, unix_ms, quality| Stamp {
            machine_boot: boot.to_owned(),
            boot_ms,
            wall: Wall { unix_ms, quality },
        };
        let (good, bad) = (TimeQuality::Synced, TimeQuality::Unsynced);
        let kept = stamp("a", 1000, 5_000_000, good);
        for (later, away_ms) in [
            // In one boot the wall clock has nothing to say.
            (stamp("a", 4000, 9_000_000, bad), Some(3000)),
            (stamp("a", 4000, 1, good), Some(3000)),
            (stamp("b", 10, 5_060_000, good), Some(60_000)),
            (stamp("b", 10, 5_060_000, bad), None),
            (stamp("b", 10, 4_000_000, good), None),
        ] {
            let away = away_ms.map(Duration::from_millis);
            assert_eq!(kept.until(&later), away, "{later:?}");
        }
    }
}
