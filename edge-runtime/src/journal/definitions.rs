//! What pipelines were when they started, so that an older event can be shown with its own.
//!
//! - A start is (run of the runtime, monotonic time, pipeline) with its wall time and the SHA-256
//!   of a text. Equal texts are stored once. It is durable before the pipeline takes a frame.
//! - The event of a pipeline was made by its last start of the same run before the event began. The
//!   wall clock, which may be set back, decides nothing.
//! - At most [`MAX_STARTS`] starts and [`MAX_BYTES`] of texts; the oldest starts are deleted first,
//!   and a text with its last start.
//! - A definition may be missing, and is never another one. A start that can't be read, or that the
//!   store refused, may be of any pipeline: what began before it has no definition.
//! - A refused start is kept in memory. The next events are stored with its number, so that it is
//!   known to be missing after a restart too.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use watchkeeper_contract::event::Event;
use watchkeeper_contract::id::PipelineId;
use watchkeeper_contract::time::Wall;
use watchkeeper_store::{BadRecord, Batch, Keyspace, Store, log_key, log_seq, pages};

use super::chain::Hash;
use super::error::JournalError;
use super::record::{FORMAT, check_json_format};

const STARTS: Keyspace = Keyspace::new("pipeline_starts");
const TEXTS: Keyspace = Keyspace::new("pipeline_texts");
const PAGE: usize = 256;
/// Most starts: ten pipelines and a restart each day for more than half a year.
const MAX_STARTS: usize = 2_000;
/// Most bytes of texts, those of several starts counted once.
const MAX_BYTES: u64 = 32 << 20;

/// A start of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PipelineStart {
    pub pipeline: PipelineId,
    /// Run of the runtime.
    pub boot_id: String,
    /// Milliseconds since the runtime started.
    pub mono_ms: u64,
    pub at: Wall,
}

/// What a pipeline was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    pub text: String,
    /// Wall time of its start.
    pub since: Wall,
}

/// A start on disk.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct StartV1 {
    format: u16,
    #[serde(flatten)]
    start: PipelineStart,
    /// SHA-256 of the text, hex.
    text: String,
    bytes: u64,
}

/// The definitions of this box.
#[derive(Debug)]
pub struct Definitions {
    store: Arc<dyn Store>,
    starts: Mutex<Starts>,
}

#[derive(Debug, Default)]
struct Starts {
    /// In the order of their numbers; `None` for one that can't be read. A number that is left out
    /// is a start that is missing too.
    kept: VecDeque<(u64, Option<StartV1>)>,
    /// The last number whose start the disk does not have and no record on disk names.
    missing: Option<u64>,
}

impl Definitions {
    /// Reads the starts. With `is_damaged` starts may be gone, so that those which are left define
    /// no event. `newer` makes the error about the format of a newer version.
    pub(super) fn open(
        store: Arc<dyn Store>,
        mut is_damaged: bool,
        newer: &dyn Fn(&str, u16) -> JournalError,
    ) -> Result<Self, JournalError> {
        let mut starts = Starts::default();
        for page in pages(&*store, STARTS, PAGE) {
            let page = page?;
            is_damaged |= !page.corrupt.is_empty();
            for entry in page.entries {
                let start = match decode(&entry.value) {
                    Err(BadRecord::Newer(found)) => {
                        return Err(newer("the start of a pipeline", found));
                    }
                    Err(BadRecord::Damaged(why)) => {
                        tracing::warn!(why, "the start of a pipeline is unreadable");
                        None
                    }
                    Ok(start) => Some(start),
                };
                if let Some(number) = log_seq(&entry.key) {
                    starts.kept.push_back((number, start));
                }
            }
        }
        if is_damaged {
            let number = starts.next_number();
            starts.kept.push_back((number, None));
            starts.missing = Some(number);
        }
        let starts = Mutex::new(starts);
        Ok(Self { store, starts })
    }

    /// Stores a start with what the pipeline is; durable on return.
    ///
    /// # Errors
    /// When the store refuses. The start is kept in memory then, with its text only if an earlier
    /// start has the same.
    pub fn add(&self, start: PipelineStart, text: &str) -> Result<(), JournalError> {
        let sum = hash_of(text);
        let record = StartV1 {
            format: FORMAT,
            start,
            text: sum.clone(),
            bytes: text.len() as u64,
        };
        // Names and numbers always have a JSON form.
        let value = serde_json::to_vec(&record).unwrap_or_default();
        let mut starts = self.starts.lock();
        let number = starts.next_number();
        starts.kept.push_back((number, Some(record)));
        let mut batch = Batch::new().put(STARTS, &log_key(number), &value).put(
            TEXTS,
            sum.as_bytes(),
            text.as_bytes(),
        );
        // What is left on a disk that refuses is deleted after the next opening.
        for (old, gone) in starts.remove_surplus() {
            batch = batch.delete(STARTS, &log_key(old));
            if let Some(gone) = gone.filter(|gone| !starts.has_text(&gone.text)) {
                batch = batch.delete(TEXTS, gone.text.as_bytes());
            }
        }
        let stored = self.store.commit(batch);
        if stored.is_err() {
            starts.missing = Some(number);
        }
        Ok(stored?)
    }

    /// Adds to `batch`, which stores events, that a start is missing, and returns its number for
    /// [`Self::set_noted`]. So no event outlives the knowledge that its start is missing.
    pub(super) fn note_missing(&self, batch: Batch) -> (Batch, Option<u64>) {
        let missing = self.starts.lock().missing;
        let batch = match missing {
            Some(number) => batch.put(STARTS, &log_key(number), &[]),
            None => batch,
        };
        (batch, missing)
    }

    /// Sets that the missing start of this number is on disk as such.
    pub(super) fn set_noted(&self, number: Option<u64>) {
        let mut starts = self.starts.lock();
        if starts.missing == number {
            starts.missing = None;
        }
    }

    /// What the pipeline of an event was when it made it; `None` where that is not known, or no
    /// longer. `event` is the first record of the event.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn of_event(&self, event: &Event) -> Result<Option<Definition>, JournalError> {
        let Some(record) = self.starts.lock().of_event(event).cloned() else {
            return Ok(None);
        };
        let text = self.store.get(TEXTS, record.text.as_bytes())?;
        let text = text.and_then(|text| String::from_utf8(text).ok());
        let text = text.filter(|text| hash_of(text) == record.text);
        let since = record.start.at;
        Ok(text.map(|text| Definition { text, since }))
    }
}

impl Starts {
    fn next_number(&self) -> u64 {
        self.kept.back().map_or(1, |(last, _)| last + 1)
    }

    /// The start that made an event; `None` where it may be one that is missing.
    fn of_event(&self, event: &Event) -> Option<&StartV1> {
        let mut expected = None;
        for (number, record) in self.kept.iter().rev() {
            if expected.is_some_and(|expected| expected != *number) {
                return None;
            }
            let record = record.as_ref()?;
            let start = &record.start;
            if Some(&start.pipeline) == event.pipeline.as_ref()
                && start.boot_id == event.boot_id
                && start.mono_ms <= event.mono_ms
            {
                return Some(record);
            }
            expected = number.checked_sub(1);
        }
        None
    }

    /// Removes the oldest starts above the limits and returns them.
    fn remove_surplus(&mut self) -> Vec<(u64, Option<StartV1>)> {
        let mut removed = Vec::new();
        while self.kept.len() > MAX_STARTS || (self.kept.len() > 1 && self.bytes() > MAX_BYTES) {
            removed.extend(self.kept.pop_front());
        }
        removed
    }

    /// Bytes of all texts, each once.
    fn bytes(&self) -> u64 {
        let starts = self.kept.iter().filter_map(|(_, start)| start.as_ref());
        let texts: std::collections::BTreeMap<&str, u64> = starts
            .map(|start| (start.text.as_str(), start.bytes))
            .collect();
        texts.values().sum()
    }

    fn has_text(&self, sum: &str) -> bool {
        let mut starts = self.kept.iter().filter_map(|(_, start)| start.as_ref());
        starts.any(|start| start.text == sum)
    }
}

fn decode(value: &[u8]) -> Result<StartV1, BadRecord> {
    check_json_format(value, FORMAT)?;
    serde_json::from_slice(value).map_err(|error| BadRecord::Damaged(error.to_string()))
}

fn hash_of(text: &str) -> String {
    Hash::of(text.as_bytes()).to_string()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use watchkeeper_contract::time::TimeQuality;
    use watchkeeper_store::{FaultyStore, MAX_VALUE_BYTES, MemoryStore};

    use super::*;

    type Disk = Arc<FaultyStore<MemoryStore>>;

    fn disk() -> Disk {
        Arc::new(FaultyStore::new(MemoryStore::new()))
    }

    fn open(store: &Disk) -> Definitions {
        open_after(store, false)
    }

    fn open_after(store: &Disk, is_damaged: bool) -> Definitions {
        let store: Arc<dyn Store> = Arc::clone(store) as Arc<dyn Store>;
        Definitions::open(store, is_damaged, &|_, _| unreachable!()).unwrap()
    }

    fn start(pipeline: &str, boot_id: &str, mono_ms: u64) -> PipelineStart {
        PipelineStart {
            pipeline: PipelineId::new(pipeline).unwrap(),
            boot_id: boot_id.to_owned(),
            mono_ms,
            at: Wall {
                unix_ms: i64::try_from(mono_ms).unwrap(),
                quality: TimeQuality::Synced,
            },
        }
    }

    fn event(pipeline: &str, boot_id: &str, mono_ms: u64) -> Event {
        let event = serde_json::json!({
            "schema": 1, "id": "01MB78QN00000000000000001A", "seq": 1, "boot_id": boot_id,
            "mono_ms": mono_ms, "at": {"unix_ms": 0, "quality": "synced"}, "phase": "new",
            "pipeline": pipeline, "severity": "info", "evidence": [], "hash": "",
            "body": {"kind": "loss", "from": "t", "count": 1, "message": "m"},
            "decision": {"verdict": "record", "confidence": 1.0, "reason": "r"},
        });
        serde_json::from_value(event).unwrap()
    }

    /// Text and start of the definition of an event of the pipeline `gate`.
    fn found(definitions: &Definitions, boot: &str, mono_ms: u64) -> Option<(String, i64)> {
        let found = definitions.of_event(&event("gate", boot, mono_ms));
        found
            .unwrap()
            .map(|found| (found.text, found.since.unix_ms))
    }

    fn some(text: &str, since_ms: i64) -> Option<(String, i64)> {
        Some((text.to_owned(), since_ms))
    }

    /// Commits what an append of events writes for the definitions.
    fn append_events(definitions: &Definitions) {
        let (batch, noted) = definitions.note_missing(Batch::new());
        definitions.store.commit(batch).unwrap();
        definitions.set_noted(noted);
    }

    #[test]
    fn event_has_the_definition_of_the_last_start_before_it() {
        let store = disk();
        let definitions = open(&store);
        definitions.add(start("gate", "one", 100), "a").unwrap();
        definitions.add(start("door", "one", 150), "other").unwrap();
        definitions.add(start("gate", "one", 500), "b").unwrap();
        definitions.add(start("gate", "two", 50), "a").unwrap();
        for definitions in [definitions, open(&store)] {
            let found = |boot: &str, mono_ms| found(&definitions, boot, mono_ms);
            assert_eq!(found("one", 99), None, "before its first start");
            assert_eq!(found("one", 100), some("a", 100));
            assert_eq!(found("one", 499), some("a", 100));
            assert_eq!(found("one", 500), some("b", 500));
            assert_eq!(found("two", 9_999), some("a", 50), "text of another start");
            assert_eq!(found("three", 9_999), None, "of an unknown run");
        }
        assert_eq!(
            store
                .scan(TEXTS, std::ops::Bound::Unbounded, 9)
                .unwrap()
                .entries
                .len(),
            3
        );
    }

    #[test]
    fn refused_start_gives_no_event_the_definition_before_it() {
        let store = disk();
        let definitions = open(&store);
        definitions.add(start("gate", "one", 100), "a").unwrap();
        for part in [&store.writes, &store.syncs] {
            part.blow_at(1);
            assert!(definitions.add(start("gate", "one", 500), "b").is_err());
            part.repair();
        }
        let expect = |definitions: &Definitions| {
            assert_ne!(found(definitions, "one", 600), some("a", 100));
            assert_eq!(found(definitions, "two", 600), some("c", 50));
        };
        assert_eq!(
            found(&definitions, "one", 400),
            some("a", 100),
            "in the same run"
        );
        append_events(&definitions);
        assert_eq!(definitions.note_missing(Batch::new()).1, None, "noted once");
        // The next run starts something, and another one nothing.
        let next = open(&store);
        assert_eq!(found(&next, "one", 600), None);
        next.add(start("gate", "two", 50), "c").unwrap();
        expect(&next);
        append_events(&next);
        expect(&open(&store));
    }

    #[test]
    fn start_after_a_refused_one_shows_that_it_is_missing() {
        let store = disk();
        let definitions = open(&store);
        definitions.add(start("gate", "one", 100), "a").unwrap();
        store.writes.blow_at(1);
        assert!(definitions.add(start("gate", "one", 500), "b").is_err());
        store.writes.repair();
        definitions.add(start("door", "one", 700), "door").unwrap();
        assert_eq!(found(&open(&store), "one", 600), None);
    }

    #[test]
    fn unreadable_start_gives_no_event_the_definition_before_it() {
        for is_gone in [false, true] {
            let store = disk();
            let definitions = open(&store);
            definitions.add(start("gate", "one", 100), "a").unwrap();
            definitions.add(start("gate", "one", 500), "b").unwrap();
            definitions.add(start("gate", "one", 900), "c").unwrap();
            let batch = match is_gone {
                true => Batch::new().delete(STARTS, &log_key(2)),
                false => Batch::new().put(STARTS, &log_key(2), b"{\"format\":1}"),
            };
            store.commit(batch).unwrap();
            let definitions = open(&store);
            assert_eq!(found(&definitions, "one", 600), None);
            assert_eq!(
                found(&definitions, "one", 400),
                None,
                "the rest is unknown too"
            );
            assert_eq!(found(&definitions, "one", 900), some("c", 900));
        }
    }

    #[test]
    fn after_damage_to_the_store_only_later_starts_count() {
        let store = disk();
        open(&store).add(start("gate", "one", 100), "a").unwrap();
        // The newest start, at 500 ms, is among what is lost.
        let definitions = open_after(&store, true);
        assert_eq!(found(&definitions, "one", 600), None);
        append_events(&definitions);
        let definitions = open(&store);
        assert_eq!(found(&definitions, "one", 600), None);
        definitions.add(start("gate", "two", 10), "b").unwrap();
        assert_eq!(found(&open(&store), "two", 10), some("b", 10));
    }

    #[test]
    fn damaged_text_is_missing() {
        let store = disk();
        let definitions = open(&store);
        definitions.add(start("gate", "one", 100), "a").unwrap();
        let damage = Batch::new().put(TEXTS, hash_of("a").as_bytes(), b"b");
        store.commit(damage).unwrap();
        assert_eq!(found(&definitions, "one", 100), None);
    }

    #[test]
    fn oldest_start_makes_room_and_a_shared_text_stays() {
        let store = disk();
        let definitions = open(&store);
        definitions.add(start("gate", "b", 0), "first").unwrap();
        for n in 1..=MAX_STARTS as u64 {
            definitions.add(start("gate", "b", n), "same").unwrap();
        }
        let of = |mono_ms| found(&definitions, "b", mono_ms);
        assert_eq!(of(0), None, "the oldest is gone, with its text");
        assert_eq!(of(1), some("same", 1));
        assert_eq!(open(&store).starts.lock().kept.len(), MAX_STARTS);
        // Six of the largest texts are over the limit of bytes, five are not.
        let large = "x".repeat(MAX_VALUE_BYTES - 1);
        for n in 1..=6 {
            let text = format!("{n}{large}");
            definitions.add(start("gate", "c", n), &text).unwrap();
        }
        assert_eq!(definitions.starts.lock().kept.len(), 5);
        assert_eq!(of(1), None);
    }
}
