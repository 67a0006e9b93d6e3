//! Topics of each source that the broker may retain: its state, and an alarm during an outage.
//! Sans-IO.
//!
//! Invariants:
//! - A source whose state or alarm was published stays known, over restarts of both daemons. The
//!   broker must first acknowledge that both are cleared, so no removed camera stays `live`.
//! - An alarm ends with its outage, even where the journal lost the record of the end. A source
//!   that was well or gone for [`WELL_AFTER`] has no alarm.
//!
//! Keyspace `shown_sources`, key: source name. Value: a version byte, an alarm byte (0 none,
//! 1 cleared but not acknowledged, 2 raised) and, with 2, the payload. Keys are names, not topics:
//! a renamed box publishes below its new name, and its operator clears the old one.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::Path;
use std::time::{Duration, Instant};

use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::source::{SourceState, SourceStatus};
use watchkeeper_store::{Keyspace, NewerFormat, Op, Store, StoreError};

const RETAINED: Keyspace = Keyspace::new("shown_sources");
const VERSION: u8 = 1;
const NONE: u8 = 0;
const CLEARED: u8 = 1;
const RAISED: u8 = 2;

/// Limit of restored names, far above what a box can watch.
const MAX_RESTORED: usize = 4096;
/// How long a source must be well before its alarm counts as stale. Longer than the runtime needs
/// to find a returned picture blank (30 s), and than any record is in flight.
const WELL_AFTER: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Alarm {
    None,
    /// Ended; the broker has not acknowledged the clearing.
    Cleared,
    /// Raised, with the payload.
    Raised(Vec<u8>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct SourceEntry {
    alarm: Alarm,
    /// Whether the runtime lists it; assumed after a start, until the runtime answers.
    is_listed: bool,
    /// Since when every update found it well or gone.
    well_since: Option<Instant>,
}

/// Changes by an update of the runtime's sources.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SourceChanges {
    /// Sources that were unknown: to be stored.
    pub(crate) new: Vec<SourceId>,
    /// Sources that the runtime removed: their state is to be cleared.
    pub(crate) gone: Vec<SourceId>,
    /// Sources whose stale alarm was cleared.
    pub(crate) recovered: Vec<SourceId>,
}

/// Sources of which the broker may hold something.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct RetainedSources {
    sources: BTreeMap<SourceId, SourceEntry>,
}

impl RetainedSources {
    /// Reads the sources back from the store in `folder`.
    ///
    /// # Errors
    /// When the store fails, or holds a record of a newer version.
    pub(crate) fn restore(store: &dyn Store, folder: &Path) -> Result<Self, StoreError> {
        let mut retained = Self::default();
        let page = store.scan(RETAINED, Bound::Unbounded, MAX_RESTORED)?;
        let mut damaged = page.corrupt.len();
        for entry in page.entries {
            if let Some(found) = entry.value.first().filter(|found| **found > VERSION) {
                return Err(NewerFormat::new(folder, "a source", found, VERSION).into());
            }
            let name = String::from_utf8(entry.key).ok().map(SourceId::new);
            if let (Some(Ok(source)), Some(alarm)) = (name, decode(&entry.value)) {
                retained
                    .sources
                    .insert(source, SourceEntry::restored(alarm));
            } else {
                damaged += 1;
            }
        }
        if damaged > 0 {
            tracing::warn!(
                damaged,
                "damaged records skipped: cam/<source>/state of a removed camera may stay"
            );
        }
        Ok(retained)
    }

    /// Sources that the runtime lists, as far as is known.
    pub(crate) fn listed(&self) -> impl Iterator<Item = &SourceId> {
        let listed = self.sources.iter().filter(|(_, entry)| entry.is_listed);
        listed.map(|(source, _)| source)
    }

    /// The payload of each alarm topic that was ever set; empty once cleared.
    pub(crate) fn alarms(&self) -> impl Iterator<Item = (&SourceId, Vec<u8>)> {
        self.sources
            .iter()
            .filter_map(|(source, entry)| match &entry.alarm {
                Alarm::None => None,
                Alarm::Cleared => Some((source, Vec::new())),
                Alarm::Raised(payload) => Some((source, payload.clone())),
            })
    }

    /// The payload of a raised alarm.
    pub(crate) fn alarm(&self, source: &SourceId) -> Option<&[u8]> {
        match &self.sources.get(source)?.alarm {
            Alarm::Raised(payload) => Some(payload),
            _ => None,
        }
    }

    /// Raises or updates an alarm; an empty `payload` clears it. The caller stores it.
    pub(crate) fn set_alarm(&mut self, source: &SourceId, payload: Vec<u8>) {
        let entry = self.entry(source);
        entry.well_since = None;
        entry.alarm = match payload.is_empty() {
            true => Alarm::Cleared,
            false => Alarm::Raised(payload),
        };
    }

    /// Takes over the runtime's list of sources.
    pub(crate) fn update(&mut self, now: Instant, statuses: &[SourceStatus]) -> SourceChanges {
        let mut changes = SourceChanges::default();
        for status in statuses {
            let source = &status.spec.id;
            if !self.sources.contains_key(source) {
                changes.new.push(source.clone());
            }
            self.entry(source).is_listed = true;
        }
        let by_id: BTreeMap<&SourceId, &SourceStatus> =
            statuses.iter().map(|s| (&s.spec.id, s)).collect();
        for (source, entry) in &mut self.sources {
            let status = by_id.get(source);
            if status.is_none() && std::mem::take(&mut entry.is_listed) {
                changes.gone.push(source.clone());
            }
            if !status.is_none_or(|status| is_well(&status.state)) {
                entry.well_since = None;
                continue;
            }
            let since = *entry.well_since.get_or_insert(now);
            let is_raised = matches!(entry.alarm, Alarm::Raised(_));
            if is_raised && now.saturating_duration_since(since) >= WELL_AFTER {
                entry.alarm = Alarm::Cleared;
                changes.recovered.push(source.clone());
            }
        }
        changes
    }

    /// The runtime does not answer: no source counts as well.
    pub(crate) fn set_unknown(&mut self) {
        for entry in self.sources.values_mut() {
            entry.well_since = None;
        }
    }

    /// Forgets what the broker has cleared; returns the sources whose record must be stored.
    ///
    /// `is_cleared` returns whether the topics of a source's state and alarm are cleared.
    pub(crate) fn forget_cleared(
        &mut self,
        is_cleared: impl Fn(&SourceId) -> (bool, bool),
    ) -> Vec<SourceId> {
        let mut changed = Vec::new();
        let mut forgotten = BTreeSet::new();
        for (source, entry) in &mut self.sources {
            let (state, alarm) = is_cleared(source);
            if entry.alarm == Alarm::Cleared && alarm {
                entry.alarm = Alarm::None;
                changed.push(source.clone());
            }
            if !entry.is_listed && state && entry.alarm == Alarm::None {
                forgotten.insert(source.clone());
            }
        }
        self.sources.retain(|source, _| !forgotten.contains(source));
        forgotten.extend(changed);
        forgotten.into_iter().collect()
    }

    /// The operation that stores what is known of `source`.
    pub(crate) fn save_op(&self, source: &SourceId) -> Op {
        match self.sources.get(source) {
            Some(entry) => Op::put(RETAINED, source.as_str(), encode(&entry.alarm)),
            None => Op::delete(RETAINED, source.as_str()),
        }
    }

    fn entry(&mut self, source: &SourceId) -> &mut SourceEntry {
        let new = || SourceEntry::restored(Alarm::None);
        self.sources.entry(source.clone()).or_insert_with(new)
    }
}

impl SourceEntry {
    fn restored(alarm: Alarm) -> Self {
        Self {
            alarm,
            is_listed: true,
            well_since: None,
        }
    }
}

/// Whether no outage is open: the source is live, idle or ended.
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
    use watchkeeper_store::{Batch, MemoryStore};

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

    fn names(retained: &RetainedSources) -> Vec<&str> {
        retained.listed().map(SourceId::as_str).collect()
    }

    /// Stores `retained` and reads it back.
    fn store_and_restore(retained: &RetainedSources, sources: &[&str]) -> RetainedSources {
        let store = MemoryStore::new();
        for source in sources {
            let batch = Batch::from_iter([retained.save_op(&name(source))]);
            store.commit(batch).expect("commit");
        }
        RetainedSources::restore(&store, Path::new("/state/agent")).expect("restore")
    }

    #[test]
    fn source_removed_while_agent_was_down_is_gone_at_first_update() {
        let now = Instant::now();
        let mut retained = RetainedSources::default();
        let changes = retained.update(now, &[live("gate"), live("yard")]);
        assert_eq!(changes.new, [name("gate"), name("yard")]);
        let mut retained = store_and_restore(&retained, &["gate", "yard"]);
        assert_eq!(
            names(&retained),
            ["gate", "yard"],
            "before the runtime answers"
        );
        let changes = retained.update(now, &[live("gate")]);
        assert_eq!(changes.gone, [name("yard")]);
        assert_eq!(names(&retained), ["gate"]);
    }

    #[test]
    fn source_is_known_until_broker_acked_both_clearings() {
        let now = Instant::now();
        let mut retained = RetainedSources::default();
        retained.update(now, &[live("yard")]);
        retained.set_alarm(&name("yard"), b"{}".to_vec());
        retained.update(now, &[]);
        retained.set_alarm(&name("yard"), Vec::new());
        assert_eq!(retained.forget_cleared(|_| (true, false)), []);
        assert_eq!(retained.forget_cleared(|_| (false, true)), [name("yard")]);
        assert_eq!(
            retained.update(now, &[]),
            SourceChanges::default(),
            "removal is reported once"
        );
        assert_eq!(retained.forget_cleared(|_| (true, true)), [name("yard")]);
        assert_eq!(retained, RetainedSources::default());
        assert_eq!(
            store_and_restore(&retained, &["yard"]),
            RetainedSources::default()
        );
    }

    #[test]
    fn alarm_without_end_record_clears_after_source_is_well() {
        let start = Instant::now();
        let seconds = |n| start + Duration::from_secs(n);
        let mut retained = RetainedSources::default();
        retained.update(start, &[live("gate")]);
        retained.set_alarm(&name("gate"), b"{}".to_vec());
        let mut recovers = |second, state: serde_json::Value| {
            !retained
                .update(seconds(second), &[status("gate", state)])
                .recovered
                .is_empty()
        };
        let blind = || json!({"state": "live", "blind": "black"});
        assert!(!recovers(10, json!({"state": "live"})));
        assert!(!recovers(60, json!({"state": "live"})));
        assert!(!recovers(65, blind()), "blank again");
        assert!(!recovers(200, json!({"state": "live"})));
        assert!(recovers(260, json!({"state": "live"})));
        assert!(!recovers(400, json!({"state": "live"})), "once");
        assert_eq!(retained.alarms().next(), Some((&name("gate"), Vec::new())));
    }

    #[test]
    fn alarm_of_removed_source_clears_but_not_during_silence() {
        let start = Instant::now();
        let mut retained = RetainedSources::default();
        retained.set_alarm(&name("gate"), b"{}".to_vec());
        retained.update(start, &[]);
        retained.set_unknown();
        let later = start + WELL_AFTER;
        assert_eq!(retained.update(later, &[]).recovered, []);
        assert_eq!(
            retained.update(later + WELL_AFTER, &[]).recovered,
            [name("gate")]
        );
    }

    #[test]
    fn restore_fails_on_record_of_newer_build() {
        let store = MemoryStore::new();
        let newer = Batch::new().put(RETAINED, b"gate", &[VERSION + 1, NONE]);
        store.commit(newer).expect("commit");
        let refused = RetainedSources::restore(&store, Path::new("/state/agent"));
        let said = refused.err().map(|e| e.to_string()).unwrap_or_default();
        assert!(said.contains("a source has format 2"), "{said}");
    }
}
