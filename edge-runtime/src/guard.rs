//! The crash-loop guard: one deployed pipeline must never brick a box.
//!
//! A process that can be killed by what it runs (a model that eats the memory, a stream that breaks a decoder) is started again by the
//! service manager, runs the same, and dies again. Owned here: how often that happened, and which pipelines are held back so that the next start lives.
//!
//! ```text
//!  Starting ──(a minute passes)──► Healthy          died while Starting, same boot of the machine: one early death
//!     │                              │              died while Healthy, or the machine restarted:  none
//!     └───────(told to stop)─────────┴──► Stopped   three early deaths: hold what is new since Healthy, else everything
//! ```
//!
//! Sans-IO: [`Guard`] takes what was read and the time, and says what to hold; [`GuardFile`] keeps its [`Record`] in the state folder, outside
//! the store, whose opening may be what fails. Invariants: a pipeline that ran for a minute unchanged is not held for the deaths of another;
//! what is held stays held over restarts until a person resumes, replaces or deletes it, or edits it; a power cut never holds anything; a
//! record that a newer version wrote is refused, not counted anew, or a rollback would run what was held.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use watchkeeper_contract::id::{EventId, PipelineId};
use watchkeeper_store::NewerFormat;
use watchkeeper_store::durable::replace;

use crate::journal::chain::canonical;

/// A death sooner than this after the start is early; a pipeline that ran for as long is trusted.
pub const EARLY: Duration = Duration::from_secs(60);

/// Name of the file in the state folder.
const NAME: &str = "starts.json";

/// Version of [`Record`].
const FORMAT: u16 = 1;

/// How fingerprints are made; to be raised when that changes, so that an update is not taken for an edit of everything.
const FINGERPRINT: &str = "2:";

/// Fingerprint of what was written: equal ones run the same. The order of keys says nothing.
#[must_use]
pub fn fingerprint(of: &impl Serialize) -> String {
    let json = serde_json::to_value(of).unwrap_or_default();
    let hash = Sha256::digest(canonical(&json));
    let hex = hash.iter().take(16).map(|b| format!("{b:02x}"));
    std::iter::once(FINGERPRINT.to_owned()).chain(hex).collect()
}

/// Whether a fingerprint was made in another way than today's, so that it can't be compared.
#[must_use]
pub fn is_of_another_version(fingerprint: &str) -> bool {
    !fingerprint.starts_with(FINGERPRINT)
}

/// How far a run of the runtime came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// It began less than [`EARLY`] ago.
    Starting,
    /// It lived for [`EARLY`].
    Healthy,
    /// It was told to stop, or refused to start with a reason.
    Stopped,
}

/// A pipeline that is held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Fingerprint of what is held.
    pub fingerprint: String,
    /// Why, one sentence.
    pub why: String,
    /// The event that told of it, still open.
    pub event: EventId,
}

/// What is kept from run to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    format: u16,
    /// Identity of the machine's boot in which this run began.
    machine: String,
    stage: Stage,
    early_deaths: u32,
    /// Fingerprints that ran for [`EARLY`].
    trusted: BTreeMap<PipelineId, String>,
    held: BTreeMap<PipelineId, Held>,
}

impl Default for Record {
    fn default() -> Self {
        Self {
            format: FORMAT,
            machine: String::new(),
            stage: Stage::Stopped,
            early_deaths: 0,
            trusted: BTreeMap::new(),
            held: BTreeMap::new(),
        }
    }
}

/// The state machine of one run.
#[derive(Debug)]
pub struct Guard {
    record: Record,
    began: Instant,
    /// When each fingerprint of this run was first seen running.
    seen: BTreeMap<PipelineId, (String, Instant)>,
}

impl Guard {
    /// A run that begins `now`, after the one that left `previous`, in the boot `machine` of the machine.
    #[must_use]
    pub fn new(previous: Record, machine: &str, now: Instant) -> Self {
        let died_early = previous.stage == Stage::Starting && previous.machine == machine;
        let early_deaths = if died_early {
            previous.early_deaths.saturating_add(1)
        } else {
            0
        };
        Self {
            record: Record {
                machine: machine.to_owned(),
                stage: Stage::Starting,
                early_deaths,
                ..previous
            },
            began: now,
            seen: BTreeMap::new(),
        }
    }

    /// Decides, before anything runs, what to hold of what `wanted` names with its fingerprint; `limit` early deaths are too many, 0 is never.
    /// Returns what is newly held, and what was held and is not any more because it was edited or is gone.
    pub fn judge(
        &mut self,
        wanted: &BTreeMap<PipelineId, String>,
        limit: u32,
        new_id: &mut dyn FnMut() -> EventId,
    ) -> (Vec<PipelineId>, Vec<(PipelineId, Held)>) {
        let gone = |id: &PipelineId, held: &Held| wanted.get(id) != Some(&held.fingerprint);
        let released: Vec<_> = self
            .record
            .held
            .extract_if(.., |id, held| gone(id, held))
            .collect();
        let deaths = self.record.early_deaths;
        if limit == 0 || deaths < limit {
            return (Vec::new(), released);
        }
        let free: Vec<_> = wanted
            .iter()
            .filter(|(id, _)| !self.record.held.contains_key(*id))
            .collect();
        let (trusted, fresh): (Vec<_>, Vec<_>) = free
            .into_iter()
            .partition(|(id, print)| self.record.trusted.get(*id) == Some(*print));
        let (suspects, because) = if fresh.is_empty() {
            (
                trusted,
                "nothing was deployed or changed since it last ran well, so every pipeline is held",
            )
        } else {
            (
                fresh,
                "this pipeline was deployed or changed since it last ran well",
            )
        };
        let mut newly = Vec::new();
        for (id, print) in suspects {
            let held = Held {
                fingerprint: print.clone(),
                why: format!(
                    "held, because the runtime died {deaths} times within {} s of its start; {because}; \
                     `watchkeeper pipelines resume {id}` lifts it",
                    EARLY.as_secs()
                ),
                event: new_id(),
            };
            self.record.held.insert(id.clone(), held);
            newly.push(id.clone());
        }
        // What is left gets its own three chances.
        self.record.early_deaths = 0;
        (newly, released)
    }

    /// Why a pipeline is held, if it is.
    #[must_use]
    pub fn held(&self, id: &PipelineId) -> Option<&Held> {
        self.record.held.get(id)
    }

    /// Whether `event` tells of a hold that still holds, so that it is ended with it and not before.
    #[must_use]
    pub fn is_open(&self, event: EventId) -> bool {
        self.record.held.values().any(|held| held.event == event)
    }

    /// A person wants it to run, or to be gone.
    pub fn release(&mut self, id: &PipelineId) -> Option<Held> {
        self.seen.remove(id);
        self.record.held.remove(id)
    }

    /// Time passed while `running` ran. True when there is something new to keep.
    pub fn beat(&mut self, now: Instant, running: &BTreeMap<PipelineId, String>) -> bool {
        let before = self.record.clone();
        self.seen
            .retain(|id, (print, _)| running.get(id) == Some(print));
        for (id, print) in running {
            let (_, since) = self
                .seen
                .entry(id.clone())
                .or_insert_with(|| (print.clone(), now));
            if now.saturating_duration_since(*since) >= EARLY {
                self.record.trusted.insert(id.clone(), print.clone());
            }
        }
        if now.saturating_duration_since(self.began) >= EARLY {
            self.record.stage = Stage::Healthy;
            self.record.early_deaths = 0;
            // What is not there any more needs no trust; bounds the record.
            let held = &self.record.held;
            self.record
                .trusted
                .retain(|id, _| running.contains_key(id) || held.contains_key(id));
        }
        self.record != before
    }

    /// The run ends in good order.
    pub fn stopped(&mut self) {
        self.record.stage = Stage::Stopped;
    }

    /// What to keep.
    #[must_use]
    pub fn record(&self) -> &Record {
        &self.record
    }
}

/// The guard with its file. A file that can't be written is told and costs only the protection.
#[derive(Debug)]
pub struct GuardFile {
    folder: PathBuf,
    limit: u32,
    guard: Mutex<Guard>,
}

impl GuardFile {
    /// Reads what the last run left in `folder` and keeps that this one begins.
    ///
    /// # Errors
    /// When a newer version wrote it. What makes no sense is counted anew.
    pub fn open(folder: &Path, limit: u32) -> Result<Self, NewerFormat> {
        let previous = match read(&folder.join(NAME)) {
            Ok(Read::Record(record)) => record,
            Ok(Read::Newer(found)) => {
                let what = format!("the file {NAME}");
                return Err(NewerFormat::new(folder, what, found, FORMAT));
            }
            Err(error) => {
                tracing::warn!(%error, "{NAME} can't be read; early deaths are counted anew");
                Record::default()
            }
        };
        let machine = machine_boot();
        let guard = Guard::new(previous, &machine, Instant::now());
        if guard.record.early_deaths > 0 {
            tracing::warn!(
                deaths = guard.record.early_deaths,
                "the last run ended without being told to, within a minute of its start"
            );
        }
        let this = Self {
            folder: folder.to_owned(),
            limit,
            guard: Mutex::new(guard),
        };
        this.change(|_| ());
        Ok(this)
    }

    /// As [`Guard::judge`], kept.
    pub fn judge(
        &self,
        wanted: &BTreeMap<PipelineId, String>,
        new_id: &mut dyn FnMut() -> EventId,
    ) -> (Vec<PipelineId>, Vec<(PipelineId, Held)>) {
        self.change(|guard| guard.judge(wanted, self.limit, new_id))
    }

    /// Why a pipeline is held, if it is.
    #[must_use]
    pub fn held(&self, id: &PipelineId) -> Option<Held> {
        self.guard.lock().held(id).cloned()
    }

    #[must_use]
    pub fn is_open(&self, event: EventId) -> bool {
        self.guard.lock().is_open(event)
    }

    /// As [`Guard::release`], kept.
    pub fn release(&self, id: &PipelineId) -> Option<Held> {
        self.held(id)?;
        self.change(|guard| guard.release(id))
    }

    /// As [`Guard::beat`], kept when something changed.
    pub fn beat(&self, running: &BTreeMap<PipelineId, String>) {
        let mut guard = self.guard.lock();
        if guard.beat(Instant::now(), running) {
            self.keep(&guard);
        }
    }

    /// The run ends in good order.
    pub fn stopped(&self) {
        self.change(Guard::stopped);
    }

    fn change<T>(&self, change: impl FnOnce(&mut Guard) -> T) -> T {
        let mut guard = self.guard.lock();
        let answer = change(&mut guard);
        self.keep(&guard);
        answer
    }

    fn keep(&self, guard: &Guard) {
        let json = serde_json::to_vec_pretty(guard.record()).unwrap_or_default();
        if let Err(error) = replace(&self.folder.join(NAME), &json) {
            tracing::warn!(%error, "{NAME} can't be written; a crash loop would not be noticed");
        }
    }
}

/// What the file holds.
#[derive(Debug)]
enum Read {
    Record(Record),
    /// The format of a newer version.
    Newer(u16),
}

fn read(path: &Path) -> io::Result<Read> {
    /// Looked at first: a record of another format may have any other field.
    #[derive(Deserialize)]
    struct Format {
        format: u16,
    }
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Read::Record(Record::default()));
        }
        Err(error) => return Err(error),
    };
    let Format { format } = serde_json::from_slice(&bytes)?;
    if format > FORMAT {
        return Ok(Read::Newer(format));
    }
    Ok(Read::Record(serde_json::from_slice(&bytes)?))
}

/// Identity of this boot of the machine (`random(4)`, `/proc/sys/kernel/random/boot_id`); empty where there is none.
pub(crate) fn machine_boot() -> String {
    static READ: LazyLock<String> = LazyLock::new(|| {
        std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .map(|id| id.trim().to_owned())
            .unwrap_or_default()
    });
    READ.clone()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id(name: &str) -> PipelineId {
        PipelineId::new(name).unwrap()
    }

    fn wanted(pipelines: &[(&str, &str)]) -> BTreeMap<PipelineId, String> {
        pipelines
            .iter()
            .map(|(name, print)| (id(name), (*print).to_owned()))
            .collect()
    }

    fn new_id() -> EventId {
        EventId(ulid::Ulid(1))
    }

    /// One run: what it holds at its start, and what it leaves after `seconds` without being told to stop.
    fn run(previous: Record, pipelines: &[(&str, &str)], seconds: u64) -> (Vec<String>, Record) {
        let start = Instant::now();
        let mut guard = Guard::new(previous, "boot-1", start);
        let all = wanted(pipelines);
        guard.judge(&all, 3, &mut new_id);
        let held = all.keys().filter(|id| guard.held(id).is_some());
        let held: Vec<String> = held.map(ToString::to_string).collect();
        let running: BTreeMap<_, _> = all
            .into_iter()
            .filter(|(id, _)| guard.held(id).is_none())
            .collect();
        for second in 0..=seconds {
            guard.beat(start + Duration::from_secs(second), &running);
        }
        (held, guard.record().clone())
    }

    fn runs(previous: Record, pipelines: &[(&str, &str)], times: u32) -> Record {
        (0..times).fold(previous, |record, _| run(record, pipelines, 5).1)
    }

    #[test]
    fn three_early_deaths_hold_what_was_deployed_since_the_last_healthy_run() {
        let (_, record) = run(Record::default(), &[("old", "a")], 61);
        let both = [("new", "b"), ("old", "a")];
        let record = runs(record, &both, 3);
        let (held, _) = run(record, &both, 0);
        assert_eq!(held, ["new"]);
    }

    #[test]
    fn two_early_deaths_hold_nothing() {
        let record = runs(Record::default(), &[("p", "a")], 2);
        let (held, _) = run(record, &[("p", "a")], 0);
        assert_eq!(held, [""; 0]);
    }

    #[test]
    fn a_changed_pipeline_is_a_suspect_although_its_name_is_old() {
        let (_, record) = run(Record::default(), &[("p", "a"), ("q", "a")], 61);
        let changed = [("p", "b"), ("q", "a")];
        let record = runs(record, &changed, 3);
        assert_eq!(run(record, &changed, 0).0, ["p"]);
    }

    #[test]
    fn when_nothing_changed_everything_is_held() {
        let pipelines = [("p", "a"), ("q", "a")];
        let (_, record) = run(Record::default(), &pipelines, 61);
        let record = runs(record, &pipelines, 3);
        assert_eq!(run(record, &pipelines, 0).0, ["p", "q"]);
    }

    #[test]
    fn what_goes_on_dying_without_the_suspect_is_held_in_the_end() {
        let (_, record) = run(Record::default(), &[("old", "a")], 61);
        let both = [("new", "b"), ("old", "a")];
        let record = runs(record, &both, 6);
        assert_eq!(run(record, &both, 0).0, ["new", "old"]);
    }

    #[test]
    fn a_hold_stays_over_healthy_runs_until_it_is_lifted_or_edited() {
        let record = runs(Record::default(), &[("p", "a")], 3);
        let (held, record) = run(record, &[("p", "a")], 61);
        assert_eq!(held, ["p"]);
        assert_eq!(run(record.clone(), &[("p", "a")], 0).0, ["p"]);
        assert_eq!(run(record.clone(), &[("p", "b")], 0).0, [""; 0]);
        let mut guard = Guard::new(record, "boot-1", Instant::now());
        assert!(guard.is_open(new_id()), "its event is ended with it");
        assert!(guard.release(&id("p")).is_some());
        assert_eq!(guard.held(&id("p")), None);
        assert!(!guard.is_open(new_id()));
    }

    #[test]
    fn a_power_cut_and_an_orderly_stop_are_no_early_deaths() {
        let record = runs(Record::default(), &[("p", "a")], 3);
        let mut after_cut = Guard::new(record.clone(), "boot-2", Instant::now());
        let all = wanted(&[("p", "a")]);
        assert_eq!(after_cut.judge(&all, 3, &mut new_id).0, []);
        let mut stopped = Guard::new(record, "boot-1", Instant::now());
        stopped.stopped();
        let mut next = Guard::new(stopped.record().clone(), "boot-1", Instant::now());
        assert_eq!(next.judge(&all, 3, &mut new_id).0, []);
    }

    #[test]
    fn a_limit_of_zero_never_holds() {
        let record = runs(Record::default(), &[("p", "a")], 2);
        let mut guard = Guard::new(record, "boot-1", Instant::now());
        let all = wanted(&[("p", "a")]);
        assert_eq!(guard.judge(&all, 0, &mut new_id).0, []);
    }

    #[test]
    fn a_record_that_makes_no_sense_counts_anew_and_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(NAME), "{").unwrap();
        let file = GuardFile::open(folder.path(), 3).unwrap();
        file.stopped();
        let kept = read(&folder.path().join(NAME)).unwrap();
        assert!(matches!(kept, Read::Record(record) if record.stage == Stage::Stopped));
    }

    #[test]
    fn a_record_of_a_newer_version_is_refused_with_the_remedy_and_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let newer = r#"{"format": 2, "holds": {"gate": "crashes"}}"#;
        std::fs::write(folder.path().join(NAME), newer).unwrap();
        let refused = GuardFile::open(folder.path(), 3).unwrap_err().to_string();
        assert!(
            refused.contains("starts.json has format 2 and this version reads up to 1"),
            "{refused}"
        );
        let left = std::fs::read_to_string(folder.path().join(NAME)).unwrap();
        assert_eq!(left, newer);
    }

    proptest! {
        #[test]
        fn a_box_that_lives_for_a_minute_each_time_holds_nothing(times in 1..8_u32, extra in 0..100_u64) {
            let mut record = Record::default();
            for _ in 0..times {
                let (held, left) = run(record, &[("p", "a")], 60 + extra);
                prop_assert_eq!(held, [""; 0]);
                record = left;
            }
        }
    }
}
