//! What pipelines remember, kept so that a restart of the process goes on where it stood.
//!
//! Owns the folder `states`: one file a pipeline, written anew every [`EVERY`] while it watches. Invariants: a file belongs to the pipeline as it is
//! deployed now: what was replaced, deleted, has ended or has failed leaves none, but that the time of a watch is over is kept, and a run that is over can't
//! write any more; a file that is damaged, of another version or of another source is none, and the pipeline counts from nought; keeping never makes a
//! pipeline wait: one state of each waits, the newest. What is forgotten is off the disk before whoever asked for it goes on.
//!
//! Files and not the journal's store: what is written anew every few seconds would make the store grow by what was there before, at the
//! expense of events.

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
use watchkeeper_contract::time::{TimeQuality, Wall};
use watchkeeper_store::durable::{replace, sync_folder};

use super::run::Memory;
use crate::clock;
use crate::guard::machine_boot;
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

/// How long whoever forgets waits for the disk; what is not off it then is told in the log when it fails.
const FORGETTING: Duration = Duration::from_secs(2);

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

/// A state that was taken back.
#[derive(Debug)]
pub struct Kept {
    /// What was remembered.
    pub memory: PipelineMemory,
    /// How long it is ago that it was kept; `None` where no clock tells.
    pub away: Option<Duration>,
}

#[derive(Serialize, Deserialize)]
struct Document {
    source: SourceId,
    at: Stamp,
    /// None of one whose time is over.
    memory: Option<PipelineMemory>,
    /// The seconds that it was to watch and has watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    over_after_s: Option<f64>,
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
    /// For the run of this number; where there is no newer one, nobody asks for the slot any more.
    Remove(u64),
}

#[derive(Debug, Default)]
struct Slot {
    /// The run that may write.
    run: u64,
    work: Option<Work>,
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

    /// Has `work` done in the place of what still waits, if that run may.
    fn hand_over(&mut self, id: &PipelineId, run: u64, work: Work) {
        if let Some(slot) = self.of.get_mut(id)
            && slot.run == run
        {
            slot.work = Some(work);
        }
    }

    /// The next thing to do.
    fn next(&mut self) -> Option<(PipelineId, Work)> {
        let mut slots = self.of.iter_mut();
        let (id, run, work) =
            slots.find_map(|(id, slot)| Some((id.clone(), slot.run, slot.work.take()?)))?;
        if matches!(work, Work::Remove(of) if of == run) {
            self.of.remove(&id);
        }
        self.at_work = Some(id.clone());
        Some((id, work))
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
pub struct States {
    folder: PathBuf,
    shared: Arc<Shared>,
    thread: Thread,
}

/// What one run of a pipeline keeps its state with.
#[derive(Debug)]
pub struct Keeper {
    id: PipelineId,
    run: u64,
    source: SourceId,
    shared: Arc<Shared>,
    due: Instant,
}

impl States {
    /// Makes the folder and starts the thread.
    ///
    /// # Errors
    /// When one of the two can't be done.
    pub fn spawn(state_dir: &Path) -> io::Result<Self> {
        let folder = state_dir.join(FOLDER);
        fs::create_dir_all(&folder)?;
        let shared = Arc::<Shared>::default();
        let (at, of) = (folder.clone(), Arc::clone(&shared));
        let thread = Thread::spawn("states".to_owned(), move || work(&at, &of))?;
        Ok(Self {
            folder,
            shared,
            thread,
        })
    }

    /// What was kept of a pipeline that watches `source`, if it can be gone on with. Why not is for the log.
    ///
    /// # Errors
    /// A phrase that says why the state that is there is none.
    pub fn load(&self, id: &PipelineId, source: &SourceId) -> Result<Option<Kept>, String> {
        let Some(document) = self.read(id, source)? else {
            return Ok(None);
        };
        let away = document.at.until(&Stamp::now());
        let memory = document.memory;
        Ok(memory.map(|memory| Kept { memory, away }))
    }

    /// When the time of `id` was over, if an earlier process saw the end of these `seconds` of `source`.
    #[must_use]
    pub fn over(&self, id: &PipelineId, source: &SourceId, seconds: f64) -> Option<Wall> {
        // What can't be read is told where the pipeline begins to count from nought.
        let document = self.read(id, source).ok().flatten()?;
        let is_it = document.over_after_s == Some(seconds);
        is_it.then_some(document.at.wall)
    }

    fn read(&self, id: &PipelineId, source: &SourceId) -> Result<Option<Document>, String> {
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
    pub fn keeper(&self, id: &PipelineId, source: &SourceId) -> Keeper {
        let run = self.shared.slots.lock().begin(id);
        Keeper {
            id: id.clone(),
            run,
            source: source.clone(),
            shared: Arc::clone(&self.shared),
            due: Instant::now() + EVERY,
        }
    }

    /// What `id` remembered is of no use any more; returns when it is off the disk.
    pub fn forget(&self, id: &PipelineId) {
        let until = Instant::now() + FORGETTING;
        let mut slots = self.shared.slots.lock();
        let run = slots.begin(id);
        slots.hand_over(id, run, Work::Remove(run));
        self.shared.changed.notify_all();
        while slots.is_owed(id) {
            if self
                .shared
                .changed
                .wait_until(&mut slots, until)
                .timed_out()
            {
                tracing::warn!(pipeline = %id, "what it remembered is not off the disk yet");
                return;
            }
        }
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

impl Drop for States {
    fn drop(&mut self) {
        self.shared.slots.lock().is_over = true;
        self.shared.changed.notify_all();
    }
}

impl Keeper {
    /// Whether the state should be kept again.
    #[must_use]
    pub fn is_due(&self, now: Instant) -> bool {
        now >= self.due
    }

    /// Has the state written, in the place of one that still waits.
    pub fn keep(&mut self, memory: PipelineMemory) {
        self.due = Instant::now() + EVERY;
        if let Some(bytes) = self.write(Some(memory), None) {
            let pause = Duration::from_secs_f64(bytes as f64 / BYTES_PER_S);
            self.due = Instant::now() + pause.max(EVERY);
        }
    }

    /// The run has watched the `seconds` that it was to watch: the next process does not begin it anew.
    pub fn over(&self, seconds: f64) {
        self.write(None, Some(seconds));
    }

    /// How many bytes will be written.
    fn write(&self, memory: Option<PipelineMemory>, over_after_s: Option<f64>) -> Option<usize> {
        let document = Document {
            source: self.source.clone(),
            at: Stamp::now(),
            memory,
            over_after_s,
        };
        match encode(&document) {
            Ok(bytes) => {
                let size = bytes.len();
                self.hand_over(Work::Write(bytes));
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
        self.hand_over(Work::Remove(self.run));
    }

    fn hand_over(&self, work: Work) {
        self.shared.slots.lock().hand_over(&self.id, self.run, work);
        self.shared.changed.notify_all();
    }
}

/// Does what is handed over, until it is over and nothing waits.
fn work(folder: &Path, shared: &Shared) {
    let mut failing = BTreeSet::new();
    loop {
        let mut slots = shared.slots.lock();
        let (id, work) = loop {
            match slots.next() {
                Some(found) => break found,
                None if slots.is_over => return,
                None => shared.changed.wait(&mut slots),
            }
        };
        drop(slots);
        let path = folder.join(file_name(&id));
        let done = match work {
            Work::Write(bytes) => replace(&path, &bytes),
            Work::Remove(_) => match fs::remove_file(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                removed => removed.and_then(|()| sync_folder(folder)),
            },
        };
        shared.slots.lock().at_work = None;
        shared.changed.notify_all();
        match done {
            Ok(()) => drop(failing.remove(&id)),
            // Once, until it goes well again: a full disk is told by the events that can't be stored.
            Err(error) => {
                if failing.insert(id.clone()) {
                    tracing::warn!(pipeline = %id, %error, "its counts would not outlast a restart");
                }
            }
        }
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
        let states = States::spawn(dir).unwrap();
        let kept = states.load(&id(name), &camera())?;
        Ok(kept.map(|kept| kept.memory.events))
    }

    fn keep(dir: &Path, all: &[(&str, u64)]) {
        let states = States::spawn(dir).unwrap();
        for (name, events) in all {
            states.keeper(&id(name), &camera()).keep(memory(*events));
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
        let states = States::spawn(dir.path()).unwrap();
        let mut old = states.keeper(&id("gate"), &camera());
        let mut new = states.keeper(&id("gate"), &camera());
        let mut gone = states.keeper(&id("yard"), &camera());
        new.keep(memory(2));
        old.keep(memory(1));
        old.forget();
        gone.keep(memory(1));
        states.forget(&id("yard"));
        gone.keep(memory(1));
        states.end(Duration::from_secs(60));
        assert_eq!(found(dir.path(), "gate"), Ok(Some(2)));
        assert_eq!(found(dir.path(), "yard"), Ok(None));
    }

    #[test]
    fn that_a_time_is_over_outlasts_the_process_until_it_is_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        keep(dir.path(), &[("gate", 1)]);
        let states = States::spawn(dir.path()).unwrap();
        states.keeper(&id("gate"), &camera()).over(60.0);
        states.end(Duration::from_secs(60));
        assert_eq!(found(dir.path(), "gate"), Ok(None));
        let states = States::spawn(dir.path()).unwrap();
        let over = |source: &str, seconds| {
            let source = SourceId::new(source).unwrap();
            states.over(&id("gate"), &source, seconds).is_some()
        };
        assert!(over("camera", 60.0));
        assert!(!over("camera", 61.0) && !over("other", 60.0));
        states.forget(&id("gate"));
        assert!(!over("camera", 60.0));
        assert!(!dir.path().join(FOLDER).join("gate.state").exists());
    }

    #[test]
    fn what_ended_by_itself_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        keep(dir.path(), &[("gate", 1)]);
        let states = States::spawn(dir.path()).unwrap();
        states.keeper(&id("gate"), &camera()).forget();
        states.end(Duration::from_secs(60));
        assert_eq!(found(dir.path(), "gate"), Ok(None));
    }

    #[test]
    fn nothing_is_left_of_pipelines_that_are_there_no_more() {
        let dir = tempfile::tempdir().unwrap();
        keep(dir.path(), &[("gate", 1), ("yard", 2)]);
        let states = States::spawn(dir.path()).unwrap();
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
        let states = States::spawn(dir.path()).unwrap();
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
