//! The crash-loop guard: one deployed pipeline must not take a box out of service.
//!
//! A pipeline may kill the process (a model that uses up the memory, a stream that crashes a
//! decoder), which the service manager restarts to die again. The guard counts such deaths and
//! holds pipelines back.
//!
//! ```text
//!  Starting ──(a minute passes)──► Healthy          died while Starting, same boot of the machine: one early death
//!    │                              │              died while Healthy, or the machine restarted:  none
//!    └───────(asked to stop)────────┴──► Stopped   three early deaths: hold what is new since Healthy, else everything
//! ```
//!
//! - Sans-IO: [`CrashLoopGuard`] takes the last [`Record`] and the time, and says what to hold.
//!   [`GuardFile`] keeps the record outside the store, whose opening may be what fails.
//! - A pipeline that ran unchanged for a minute is not held for the deaths of another.
//! - A hold lasts over restarts until a user resumes, replaces, deletes or edits the pipeline.
//! - A power cut never holds anything.
//! - A record of a newer version is refused: ignoring it would run what was held.

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

/// A death sooner after the start is early; a pipeline that ran this long is trusted.
pub const EARLY: Duration = Duration::from_secs(60);

/// Name of the file in the state folder.
const NAME: &str = "starts.json";

/// Version of [`Record`].
const FORMAT: u16 = 1;

/// Version of fingerprints; raised with their computation, so that an update edits nothing.
const FINGERPRINT: &str = "2:";

/// Fingerprint of a specification: equal ones run alike. The order of keys does not matter.
#[must_use]
pub fn fingerprint(of: &impl Serialize) -> String {
    let json = serde_json::to_value(of).unwrap_or_default();
    let hash = Sha256::digest(canonical(&json));
    let hex = hash.iter().take(16).map(|b| format!("{b:02x}"));
    std::iter::once(FINGERPRINT.to_owned()).chain(hex).collect()
}

/// Whether a fingerprint was computed by another version and can't be compared.
#[must_use]
pub fn is_of_another_version(fingerprint: &str) -> bool {
    !fingerprint.starts_with(FINGERPRINT)
}

/// How far a run of the runtime got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// It started less than [`EARLY`] ago.
    Starting,
    /// It ran for at least [`EARLY`].
    Healthy,
    /// It was asked to stop, or refused to start with a reason.
    Stopped,
}

/// A pipeline that is held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Fingerprint of the held specification.
    pub fingerprint: String,
    /// The reason in one sentence.
    pub why: String,
    /// The open event about the hold.
    pub event: EventId,
}

/// The state kept from run to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    format: u16,
    /// Identity of the machine's boot in which this run started.
    machine: String,
    stage: Stage,
    early_deaths: u32,
    /// Fingerprints of pipelines that ran for [`EARLY`].
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
pub struct CrashLoopGuard {
    record: Record,
    began: Instant,
    /// When each fingerprint was first seen running in this run.
    seen: BTreeMap<PipelineId, (String, Instant)>,
}

impl CrashLoopGuard {
    /// A run that starts `now` in boot `machine`, after the one that left `previous`.
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

    /// Decides before the start which pipelines of `wanted`, with their fingerprints, to hold.
    /// `limit` is the number of early deaths that holds; 0 never holds. Returns new holds, and
    /// holds released because their pipeline was edited or is gone.
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
                "nothing was deployed or changed since the last good run, so every pipeline is held",
            )
        } else {
            (
                fresh,
                "this pipeline was deployed or changed since the last good run",
            )
        };
        let mut newly = Vec::new();
        for (id, print) in suspects {
            let held = Held {
                fingerprint: print.clone(),
                why: format!(
                    "held: the runtime died {deaths} times within {} s of its start; {because}; \
                     run `watchkeeper pipelines resume {id}` to release it",
                    EARLY.as_secs()
                ),
                event: new_id(),
            };
            self.record.held.insert(id.clone(), held);
            newly.push(id.clone());
        }
        // The remaining pipelines get their own chances.
        self.record.early_deaths = 0;
        (newly, released)
    }

    /// The hold of a pipeline, if there is one.
    #[must_use]
    pub fn held(&self, id: &PipelineId) -> Option<&Held> {
        self.record.held.get(id)
    }

    /// Whether `event` is about a hold that still applies; it ends with the hold.
    #[must_use]
    pub fn is_open(&self, event: EventId) -> bool {
        self.record.held.values().any(|held| held.event == event)
    }

    /// Releases a hold, because a user resumes or removes the pipeline.
    pub fn release(&mut self, id: &PipelineId) -> Option<Held> {
        self.seen.remove(id);
        self.record.held.remove(id)
    }

    /// Updates trust and stage at `now`. Returns true when the record has changed.
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
            // Drops trust in pipelines that are gone; bounds the record.
            let held = &self.record.held;
            self.record
                .trusted
                .retain(|id, _| running.contains_key(id) || held.contains_key(id));
        }
        self.record != before
    }

    /// Marks the regular end of the run.
    pub fn stopped(&mut self) {
        self.record.stage = Stage::Stopped;
    }

    /// The record to keep.
    #[must_use]
    pub fn record(&self) -> &Record {
        &self.record
    }
}

/// The guard with its file. A file that can't be written is logged and costs only the protection.
#[derive(Debug)]
pub struct GuardFile {
    folder: PathBuf,
    limit: u32,
    guard: Mutex<CrashLoopGuard>,
}

impl GuardFile {
    /// Reads the record of the last run in `folder`, and records the start of this one.
    ///
    /// # Errors
    /// When the record is of a newer version. An unreadable one is ignored.
    pub fn open(folder: &Path, limit: u32) -> Result<Self, NewerFormat> {
        let previous = match read(&folder.join(NAME)) {
            Ok(GuardContent::Record(record)) => record,
            Ok(GuardContent::Newer(found)) => {
                let what = format!("the file {NAME}");
                return Err(NewerFormat::new(folder, what, found, FORMAT));
            }
            Err(error) => {
                tracing::warn!(%error, "can't read {NAME}; early deaths are counted from zero");
                Record::default()
            }
        };
        let machine = machine_boot();
        let guard = CrashLoopGuard::new(previous, &machine, Instant::now());
        if guard.record.early_deaths > 0 {
            tracing::warn!(
                deaths = guard.record.early_deaths,
                "the last run died within a minute of its start"
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

    /// Like [`CrashLoopGuard::judge`], and writes the record.
    pub fn judge(
        &self,
        wanted: &BTreeMap<PipelineId, String>,
        new_id: &mut dyn FnMut() -> EventId,
    ) -> (Vec<PipelineId>, Vec<(PipelineId, Held)>) {
        self.change(|guard| guard.judge(wanted, self.limit, new_id))
    }

    /// The hold of a pipeline, if there is one.
    #[must_use]
    pub fn held(&self, id: &PipelineId) -> Option<Held> {
        self.guard.lock().held(id).cloned()
    }

    #[must_use]
    pub fn is_open(&self, event: EventId) -> bool {
        self.guard.lock().is_open(event)
    }

    /// Like [`CrashLoopGuard::release`], and writes the record.
    pub fn release(&self, id: &PipelineId) -> Option<Held> {
        self.held(id)?;
        self.change(|guard| guard.release(id))
    }

    /// Like [`CrashLoopGuard::beat`], and writes a changed record.
    pub fn beat(&self, running: &BTreeMap<PipelineId, String>) {
        let mut guard = self.guard.lock();
        if guard.beat(Instant::now(), running) {
            self.write(&guard);
        }
    }

    /// Marks the regular end of the run.
    pub fn stopped(&self) {
        self.change(CrashLoopGuard::stopped);
    }

    fn change<T>(&self, change: impl FnOnce(&mut CrashLoopGuard) -> T) -> T {
        let mut guard = self.guard.lock();
        let answer = change(&mut guard);
        self.write(&guard);
        answer
    }

    fn write(&self, guard: &CrashLoopGuard) {
        let json = serde_json::to_vec_pretty(guard.record()).unwrap_or_default();
        if let Err(error) = replace(&self.folder.join(NAME), &json) {
            tracing::warn!(%error, "can't write {NAME}; a crash loop would not be detected");
        }
    }
}

/// The content of the file.
#[derive(Debug)]
enum GuardContent {
    Record(Record),
    /// Written in the format of a newer version.
    Newer(u16),
}

fn read(path: &Path) -> io::Result<GuardContent> {
    /// Read first: a record of another format may have any other field.
    #[derive(Deserialize)]
    struct Format {
        format: u16,
    }
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(GuardContent::Record(Record::default()));
        }
        Err(error) => return Err(error),
    };
    let Format { format } = serde_json::from_slice(&bytes)?;
    if format > FORMAT {
        return Ok(GuardContent::Newer(format));
    }
    Ok(GuardContent::Record(serde_json::from_slice(&bytes)?))
}

/// Identity of this boot of the machine (`random(4)`, `/proc/sys/kernel/random/boot_id`); empty
/// where there is none.
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

    /// One run: the pipelines held at its start, and the record after `seconds` without a stop.
    fn run(previous: Record, pipelines: &[(&str, &str)], seconds: u64) -> (Vec<String>, Record) {
        let start = Instant::now();
        let mut guard = CrashLoopGuard::new(previous, "boot-1", start);
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
    fn three_early_deaths_hold_new_pipelines() {
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
    fn changed_pipeline_is_suspected() {
        let (_, record) = run(Record::default(), &[("p", "a"), ("q", "a")], 61);
        let changed = [("p", "b"), ("q", "a")];
        let record = runs(record, &changed, 3);
        assert_eq!(run(record, &changed, 0).0, ["p"]);
    }

    #[test]
    fn everything_is_held_when_nothing_changed() {
        let pipelines = [("p", "a"), ("q", "a")];
        let (_, record) = run(Record::default(), &pipelines, 61);
        let record = runs(record, &pipelines, 3);
        assert_eq!(run(record, &pipelines, 0).0, ["p", "q"]);
    }

    #[test]
    fn continued_deaths_hold_the_remaining_pipelines() {
        let (_, record) = run(Record::default(), &[("old", "a")], 61);
        let both = [("new", "b"), ("old", "a")];
        let record = runs(record, &both, 6);
        assert_eq!(run(record, &both, 0).0, ["new", "old"]);
    }

    #[test]
    fn hold_lasts_until_released_or_edited() {
        let record = runs(Record::default(), &[("p", "a")], 3);
        let (held, record) = run(record, &[("p", "a")], 61);
        assert_eq!(held, ["p"]);
        assert_eq!(run(record.clone(), &[("p", "a")], 0).0, ["p"]);
        assert_eq!(run(record.clone(), &[("p", "b")], 0).0, [""; 0]);
        let mut guard = CrashLoopGuard::new(record, "boot-1", Instant::now());
        assert!(guard.is_open(new_id()), "its event is ended with it");
        assert!(guard.release(&id("p")).is_some());
        assert_eq!(guard.held(&id("p")), None);
        assert!(!guard.is_open(new_id()));
    }

    #[test]
    fn power_cut_and_regular_stop_are_no_early_deaths() {
        let record = runs(Record::default(), &[("p", "a")], 3);
        let mut after_cut = CrashLoopGuard::new(record.clone(), "boot-2", Instant::now());
        let all = wanted(&[("p", "a")]);
        assert_eq!(after_cut.judge(&all, 3, &mut new_id).0, []);
        let mut stopped = CrashLoopGuard::new(record, "boot-1", Instant::now());
        stopped.stopped();
        let mut next = CrashLoopGuard::new(stopped.record().clone(), "boot-1", Instant::now());
        assert_eq!(next.judge(&all, 3, &mut new_id).0, []);
    }

    #[test]
    fn limit_of_zero_never_holds() {
        let record = runs(Record::default(), &[("p", "a")], 2);
        let mut guard = CrashLoopGuard::new(record, "boot-1", Instant::now());
        let all = wanted(&[("p", "a")]);
        assert_eq!(guard.judge(&all, 0, &mut new_id).0, []);
    }

    #[test]
    fn unreadable_record_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(NAME), "{").unwrap();
        let file = GuardFile::open(folder.path(), 3).unwrap();
        file.stopped();
        let content = read(&folder.path().join(NAME)).unwrap();
        assert!(matches!(content, GuardContent::Record(record) if record.stage == Stage::Stopped));
    }

    #[test]
    fn record_of_a_newer_version_is_refused_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let newer = r#"{"format": 2, "holds": {"gate": "crashes"}}"#;
        std::fs::write(folder.path().join(NAME), newer).unwrap();
        let refused = GuardFile::open(folder.path(), 3).unwrap_err().to_string();
        assert!(
            refused.contains("starts.json has format 2 and this version reads up to 1"),
            "{refused}"
        );
        let rest = std::fs::read_to_string(folder.path().join(NAME)).unwrap();
        assert_eq!(rest, newer);
    }

    proptest! {
        #[test]
        fn runs_of_a_minute_hold_nothing(times in 1..8_u32, extra in 0..100_u64) {
            let mut record = Record::default();
            for _ in 0..times {
                let (held, rest) = run(record, &[("p", "a")], 60 + extra);
                prop_assert_eq!(held, [""; 0]);
                record = rest;
            }
        }
    }
}
