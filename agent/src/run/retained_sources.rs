//! What the broker may hold of each source: its state, and an alarm while it is out. Sans-IO; the shell stores and publishes.
//!
//! Invariants:
//! - a source whose state or alarm was written to the broker is remembered, over restarts of both daemons too, until the
//!   broker has acknowledged that both are cleared: no camera stays `live` that is gone;
//! - an alarm ends with the outage, also where the journal lost the record that says so: a source that has been well, or gone,
//!   for [`WELL_AFTER`] has no alarm.
//!
//! Keyspace `shown_sources`, key: the source's name. A value is one version byte, one byte for the alarm (0: none, 1: cleared,
//! and the broker may not know, 2: raised) and, with 2, the payload. Names, not topics: a box that is renamed writes below its
//! new name. What it left below the old one is for whoever renamed it to clear; its login may not reach there any more.
//! The keyspace `alarms` of older builds, whose keys were topics, is taken over once.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::Path;
use std::time::{Duration, Instant};

use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::source::{SourceState, SourceStatus};
use watchkeeper_store::{Batch, Keyspace, NewerFormat, Op, Store, StoreError};

const SHOWN: Keyspace = Keyspace::new("shown_sources");
const VERSION: u8 = 1;
const NONE: u8 = 0;
const CLEARED: u8 = 1;
const RAISED: u8 = 2;

/// Older builds: key topic, value one version byte and the payload, which is empty once cleared.
const ALARMS_BY_TOPIC: Keyspace = Keyspace::new("alarms");
const ALARM_VERSION: u8 = 1;

/// Most names that are restored; far more than a box can watch.
const MAX_RESTORED: usize = 4096;
/// How long a source must be seen well before its alarm is taken for a left-over: longer than the runtime takes to find out
/// that a picture which came back shows nothing (30 s), and than any record is under way.
const WELL_AFTER: Duration = Duration::from_secs(60);

/// The alarm of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Alarm {
    None,
    /// It ended, and the broker may not know.
    Cleared,
    /// Its payload.
    Raised(Vec<u8>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Shown {
    alarm: Alarm,
    /// Whether the runtime has it. Taken for granted after a start, until the runtime answers.
    is_listed: bool,
    /// Since when every look found it well, or gone.
    well_since: Option<Instant>,
}

/// What a look at the runtime's sources changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Look {
    /// Sources that were not known: to be stored.
    pub(super) new: Vec<SourceId>,
    /// Sources that are not there any more: their state is to be cleared.
    pub(super) gone: Vec<SourceId>,
    /// Sources whose alarm outlived the outage; it counts as cleared now.
    pub(super) healed: Vec<SourceId>,
}

/// The sources of which the broker may hold something.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ShownSources {
    sources: BTreeMap<SourceId, Shown>,
}

impl ShownSources {
    /// Reads back what the store in `folder` remembers; writes nothing. The changes take over an older build's alarms.
    ///
    /// # Errors
    /// When the store can't be read, or holds a record of a newer version.
    pub(super) fn restore(
        store: &dyn Store,
        folder: &Path,
    ) -> Result<(Self, Vec<Batch>), StoreError> {
        let mut shown = Self::default();
        for entry in store.scan(SHOWN, Bound::Unbounded, MAX_RESTORED)?.entries {
            refuse_newer(folder, "a source", &entry.value, VERSION)?;
            let name = String::from_utf8(entry.key).ok().map(SourceId::new);
            if let (Some(Ok(source)), Some(alarm)) = (name, decode(&entry.value)) {
                shown.sources.insert(source, Shown::restored(alarm));
            }
        }
        let mut rewrites = Vec::new();
        let by_topic = store.scan(ALARMS_BY_TOPIC, Bound::Unbounded, MAX_RESTORED)?;
        for entry in by_topic.entries {
            refuse_newer(folder, "an alarm", &entry.value, ALARM_VERSION)?;
            let mut batch = Batch::new().delete(ALARMS_BY_TOPIC, &entry.key);
            let topic = String::from_utf8_lossy(&entry.key);
            let source = topic.rsplit('/').next().map(SourceId::new);
            if let (Some(Ok(source)), Some(payload)) =
                (source, entry.value.strip_prefix(&[ALARM_VERSION]))
            {
                let alarm = match payload {
                    [] => Alarm::Cleared,
                    raised => Alarm::Raised(raised.to_vec()),
                };
                shown.sources.insert(source.clone(), Shown::restored(alarm));
                batch.push(shown.rider(&source));
            }
            rewrites.push(batch);
        }
        Ok((shown, rewrites))
    }

    /// Sources that the runtime has, as far as is known.
    pub(super) fn listed(&self) -> impl Iterator<Item = &SourceId> {
        let listed = self.sources.iter().filter(|(_, shown)| shown.is_listed);
        listed.map(|(source, _)| source)
    }

    /// What each alarm's topic shall hold, where it ever held something.
    pub(super) fn alarms(&self) -> impl Iterator<Item = (&SourceId, Vec<u8>)> {
        self.sources
            .iter()
            .filter_map(|(source, shown)| match &shown.alarm {
                Alarm::None => None,
                Alarm::Cleared => Some((source, Vec::new())),
                Alarm::Raised(payload) => Some((source, payload.clone())),
            })
    }

    /// An outage begins, goes on or, with an empty payload, ends. To be stored.
    pub(super) fn set_alarm(&mut self, source: &SourceId, payload: Vec<u8>) {
        let shown = self.entry(source);
        shown.well_since = None;
        shown.alarm = match payload.is_empty() {
            true => Alarm::Cleared,
            false => Alarm::Raised(payload),
        };
    }

    /// The runtime told its sources.
    pub(super) fn look(&mut self, now: Instant, statuses: &[SourceStatus]) -> Look {
        let mut look = Look::default();
        for status in statuses {
            let source = &status.spec.id;
            if !self.sources.contains_key(source) {
                look.new.push(source.clone());
            }
            self.entry(source).is_listed = true;
        }
        let there: BTreeMap<&SourceId, &SourceStatus> =
            statuses.iter().map(|s| (&s.spec.id, s)).collect();
        for (source, shown) in &mut self.sources {
            let status = there.get(source);
            if status.is_none() && std::mem::take(&mut shown.is_listed) {
                look.gone.push(source.clone());
            }
            if !status.is_none_or(|status| is_well(&status.state)) {
                shown.well_since = None;
                continue;
            }
            let since = *shown.well_since.get_or_insert(now);
            let is_raised = matches!(shown.alarm, Alarm::Raised(_));
            if is_raised && now.saturating_duration_since(since) >= WELL_AFTER {
                shown.alarm = Alarm::Cleared;
                look.healed.push(source.clone());
            }
        }
        look
    }

    /// The runtime does not answer: nobody knows how the sources are.
    pub(super) fn lose_sight(&mut self) {
        for shown in self.sources.values_mut() {
            shown.well_since = None;
        }
    }

    /// The broker has a clearing; `is_cleared` says of a source whether its state's topic and its alarm's are cleared. What
    /// need not be remembered any more is not: the sources whose record changes, to be stored.
    pub(super) fn settle(
        &mut self,
        is_cleared: impl Fn(&SourceId) -> (bool, bool),
    ) -> Vec<SourceId> {
        let mut changed = Vec::new();
        let mut forgotten = BTreeSet::new();
        for (source, shown) in &mut self.sources {
            let (state, alarm) = is_cleared(source);
            if shown.alarm == Alarm::Cleared && alarm {
                shown.alarm = Alarm::None;
                changed.push(source.clone());
            }
            if !shown.is_listed && state && shown.alarm == Alarm::None {
                forgotten.insert(source.clone());
            }
        }
        self.sources.retain(|source, _| !forgotten.contains(source));
        forgotten.extend(changed);
        forgotten.into_iter().collect()
    }

    /// The change that makes the store say what is known about `source`.
    pub(super) fn rider(&self, source: &SourceId) -> Op {
        let key = source.as_str().as_bytes().to_vec();
        match self.sources.get(source) {
            Some(shown) => Op::Put {
                keyspace: SHOWN,
                key,
                value: encode(&shown.alarm),
            },
            None => Op::Delete {
                keyspace: SHOWN,
                key,
            },
        }
    }

    fn entry(&mut self, source: &SourceId) -> &mut Shown {
        let new = || Shown::restored(Alarm::None);
        self.sources.entry(source.clone()).or_insert_with(new)
    }
}

impl Shown {
    fn restored(alarm: Alarm) -> Self {
        Self {
            alarm,
            is_listed: true,
            well_since: None,
        }
    }
}

/// Refuses a record whose first byte says that a newer build wrote it.
fn refuse_newer(folder: &Path, what: &str, value: &[u8], known: u8) -> Result<(), StoreError> {
    match value.first() {
        Some(found) if *found > known => Err(NewerFormat::new(folder, what, found, known).into()),
        _ => Ok(()),
    }
}

/// Whether no outage can be open: it sees, or nobody watches it, or it came to its regular end.
fn is_well(state: &SourceState) -> bool {
    match state {
        SourceState::Live { blind } => blind.is_none(),
        SourceState::Idle | SourceState::Ended => true,
        SourceState::Connecting { .. } | SourceState::Lost { .. } | SourceState::Failed { .. } => {
            false
        }
    }
}

fn encode(alarm: &Alarm) -> Vec<u8> {
    match alarm {
        Alarm::None => vec![VERSION, NONE],
        Alarm::Cleared => vec![VERSION, CLEARED],
        Alarm::Raised(payload) => [&[VERSION, RAISED], payload.as_slice()].concat(),
    }
}

fn decode(bytes: &[u8]) -> Option<Alarm> {
    match bytes {
        [VERSION, NONE] => Some(Alarm::None),
        [VERSION, CLEARED] => Some(Alarm::Cleared),
        [VERSION, RAISED, payload @ ..] => Some(Alarm::Raised(payload.to_vec())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use watchkeeper_store::MemoryStore;

    use super::*;

    fn name(text: &str) -> SourceId {
        SourceId::new(text).expect("a name")
    }

    fn status(source: &str, state: serde_json::Value) -> SourceStatus {
        serde_json::from_value(json!({
            "spec": {"id": source, "uri": "rtsp://camera/1"},
            "state": state,
            "since": {"unix_ms": 0, "quality": "synced"},
            "counters": {"frames": 0, "dropped": 0, "connects": 1, "losses": 0, "fps": 0.0},
        }))
        .expect("a status")
    }

    fn live(source: &str) -> SourceStatus {
        status(source, json!({"state": "live"}))
    }

    fn names(shown: &ShownSources) -> Vec<&str> {
        shown.listed().map(SourceId::as_str).collect()
    }

    /// What the store holds after `shown` was stored, read back.
    fn stored(shown: &ShownSources, sources: &[&str]) -> ShownSources {
        let store = MemoryStore::new();
        for source in sources {
            let mut batch = Batch::new();
            batch.push(shown.rider(&name(source)));
            store.commit(batch).expect("commit");
        }
        restored(&store)
    }

    /// What the store holds, after what an older build left there was taken over.
    fn restored(store: &MemoryStore) -> ShownSources {
        let folder = Path::new("/state/agent");
        let (shown, rewrites) = ShownSources::restore(store, folder).expect("restore");
        for batch in rewrites {
            store.commit(batch).expect("commit");
        }
        shown
    }

    #[test]
    fn a_source_that_went_away_while_the_agent_was_down_is_gone_at_the_first_look() {
        let now = Instant::now();
        let mut shown = ShownSources::default();
        let look = shown.look(now, &[live("gate"), live("yard")]);
        assert_eq!(look.new, [name("gate"), name("yard")]);
        let mut shown = stored(&shown, &["gate", "yard"]);
        assert_eq!(names(&shown), ["gate", "yard"], "until the runtime answers");
        let look = shown.look(now, &[live("gate")]);
        assert_eq!(look.gone, [name("yard")]);
        assert_eq!(names(&shown), ["gate"]);
    }

    #[test]
    fn a_source_is_remembered_until_the_broker_has_both_clearings() {
        let now = Instant::now();
        let mut shown = ShownSources::default();
        shown.look(now, &[live("yard")]);
        shown.set_alarm(&name("yard"), b"{}".to_vec());
        shown.look(now, &[]);
        shown.set_alarm(&name("yard"), Vec::new());
        assert_eq!(shown.settle(|_| (true, false)), []);
        assert_eq!(shown.settle(|_| (false, true)), [name("yard")]);
        assert_eq!(shown.look(now, &[]), Look::default(), "gone is told once");
        assert_eq!(shown.settle(|_| (true, true)), [name("yard")]);
        assert_eq!(shown, ShownSources::default());
        assert_eq!(stored(&shown, &["yard"]), ShownSources::default());
    }

    #[test]
    fn an_alarm_whose_end_never_comes_ends_when_the_source_has_been_well_for_long() {
        let start = Instant::now();
        let seconds = |n| start + Duration::from_secs(n);
        let mut shown = ShownSources::default();
        shown.look(start, &[live("gate")]);
        shown.set_alarm(&name("gate"), b"{}".to_vec());
        let mut healed = |second, state: serde_json::Value| {
            !shown
                .look(seconds(second), &[status("gate", state)])
                .healed
                .is_empty()
        };
        let blind = || json!({"state": "live", "blind": "black"});
        assert!(!healed(10, json!({"state": "live"})));
        assert!(!healed(60, json!({"state": "live"})));
        assert!(!healed(65, blind()), "it shows nothing again");
        assert!(!healed(200, json!({"state": "live"})));
        assert!(healed(260, json!({"state": "live"})));
        assert!(!healed(400, json!({"state": "live"})), "once");
        assert_eq!(shown.alarms().next(), Some((&name("gate"), Vec::new())));
    }

    #[test]
    fn the_alarm_of_a_source_that_is_gone_ends_too_and_silence_proves_nothing() {
        let start = Instant::now();
        let mut shown = ShownSources::default();
        shown.set_alarm(&name("gate"), b"{}".to_vec());
        shown.look(start, &[]);
        shown.lose_sight();
        let later = start + WELL_AFTER;
        assert_eq!(shown.look(later, &[]).healed, []);
        assert_eq!(shown.look(later + WELL_AFTER, &[]).healed, [name("gate")]);
    }

    #[test]
    fn what_a_newer_build_wrote_is_refused() {
        let store = MemoryStore::new();
        let newer = Batch::new().put(SHOWN, b"gate", &[VERSION + 1, NONE]);
        store.commit(newer).expect("commit");
        let refused = ShownSources::restore(&store, Path::new("/state/agent"));
        let said = refused.err().map(|e| e.to_string()).unwrap_or_default();
        assert!(said.contains("a source has format 2"), "{said}");
    }

    #[test]
    fn alarms_of_older_builds_are_taken_over_under_whatever_name_the_box_had() {
        let store = MemoryStore::new();
        let topic = |source| format!("watchkeeper/v1/old/name/alarm/source_outage/{source}");
        let raised = [&[ALARM_VERSION][..], b"{\"a\":1}"].concat();
        let batch = Batch::new()
            .put(ALARMS_BY_TOPIC, topic("gate").as_bytes(), &raised)
            .put(ALARMS_BY_TOPIC, topic("yard").as_bytes(), &[ALARM_VERSION]);
        store.commit(batch).expect("commit");
        let shown = restored(&store);
        let alarms: Vec<_> = shown.alarms().collect();
        let (gate, yard) = (name("gate"), name("yard"));
        assert_eq!(alarms, [(&gate, b"{\"a\":1}".to_vec()), (&yard, vec![])]);
        let old = store
            .scan(ALARMS_BY_TOPIC, Bound::Unbounded, 9)
            .expect("scan");
        assert_eq!(old.entries, []);
        assert_eq!(restored(&store), shown);
    }
}
