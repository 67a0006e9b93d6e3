//! What pipelines were when they started, so that an older event can be shown with its own.
//!
//! - A start is (run of the runtime, monotonic time, pipeline) with the SHA-256 of a text; equal
//!   texts are stored once. It is durable before the pipeline takes a frame.
//! - The event of a pipeline was made by its last start of the same run before the event began. The
//!   wall clock, which may be set back, decides nothing.
//! - At most [`MAX_STARTS`] starts and [`MAX_BYTES`] of texts; the oldest starts are deleted first,
//!   and a text with its last start.
//! - A damaged record is left out: its definition is missing, never another one.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use watchkeeper_contract::event::Event;
use watchkeeper_contract::id::PipelineId;
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
    /// In the order of their numbers.
    starts: Mutex<VecDeque<(u64, StartV1)>>,
}

impl Definitions {
    /// Reads the starts. Returns the format of a record of a newer version as an error.
    pub(super) fn open(store: Arc<dyn Store>) -> Result<Result<Self, u16>, JournalError> {
        let mut starts = VecDeque::new();
        for page in pages(&*store, STARTS, PAGE) {
            for entry in page?.entries {
                match check_json_format(&entry.value) {
                    Err(BadRecord::Newer(found)) => return Ok(Err(found)),
                    Err(BadRecord::Damaged(why)) => {
                        tracing::warn!(why, "the start of a pipeline is unreadable");
                        continue;
                    }
                    Ok(()) => {}
                }
                let start = serde_json::from_slice(&entry.value);
                if let (Some(number), Ok(start)) = (log_seq(&entry.key), start) {
                    starts.push_back((number, start));
                }
            }
        }
        let starts = Mutex::new(starts);
        Ok(Ok(Self { store, starts }))
    }

    /// Stores a start with what the pipeline is; durable on return.
    ///
    /// # Errors
    /// When the store refuses; nothing has changed then.
    pub fn add(&self, start: PipelineStart, text: &str) -> Result<(), JournalError> {
        let sum = hash_of(text);
        let record = StartV1 {
            format: FORMAT,
            start,
            text: sum.clone(),
            bytes: text.len() as u64,
        };
        let mut starts = self.starts.lock();
        let number = starts.back().map_or(1, |(last, _)| last + 1);
        let mut kept = starts.clone();
        kept.push_back((number, record.clone()));
        // Names and numbers always have a JSON form.
        let value = serde_json::to_vec(&record).unwrap_or_default();
        let mut batch = Batch::new().put(STARTS, &log_key(number), &value).put(
            TEXTS,
            sum.as_bytes(),
            text.as_bytes(),
        );
        while kept.len() > MAX_STARTS || (kept.len() > 1 && bytes(&kept) > MAX_BYTES) {
            let Some((old, gone)) = kept.pop_front() else {
                break;
            };
            batch = batch.delete(STARTS, &log_key(old));
            if kept.iter().all(|(_, start)| start.text != gone.text) {
                batch = batch.delete(TEXTS, gone.text.as_bytes());
            }
        }
        self.store.commit(batch)?;
        *starts = kept;
        Ok(())
    }

    /// What the pipeline of an event was when it made it; `None` where that is not stored, or no
    /// longer. `event` is the first record of the event.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn of_event(&self, event: &Event) -> Result<Option<String>, JournalError> {
        let made = |start: &PipelineStart| {
            Some(&start.pipeline) == event.pipeline.as_ref()
                && start.boot_id == event.boot_id
                && start.mono_ms <= event.mono_ms
        };
        let sum = {
            let starts = self.starts.lock();
            let mut latest = starts
                .iter()
                .rev()
                .filter(|(_, record)| made(&record.start));
            latest.next().map(|(_, record)| record.text.clone())
        };
        let Some(sum) = sum else {
            return Ok(None);
        };
        let text = self.store.get(TEXTS, sum.as_bytes())?;
        let text = text.and_then(|text| String::from_utf8(text).ok());
        Ok(text.filter(|text| hash_of(text) == sum))
    }
}

/// Bytes of all texts, each once.
fn bytes(starts: &VecDeque<(u64, StartV1)>) -> u64 {
    let texts: std::collections::BTreeMap<&str, u64> = starts
        .iter()
        .map(|(_, start)| (start.text.as_str(), start.bytes))
        .collect();
    texts.values().sum()
}

fn hash_of(text: &str) -> String {
    Hash::of(text.as_bytes()).to_string()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use watchkeeper_store::MemoryStore;

    use super::*;

    fn open(store: &Arc<MemoryStore>) -> Definitions {
        let store: Arc<dyn Store> = Arc::clone(store) as Arc<dyn Store>;
        Definitions::open(store).unwrap().unwrap()
    }

    fn start(pipeline: &str, boot_id: &str, mono_ms: u64) -> PipelineStart {
        PipelineStart {
            pipeline: PipelineId::new(pipeline).unwrap(),
            boot_id: boot_id.to_owned(),
            mono_ms,
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

    #[test]
    fn event_has_the_definition_of_the_last_start_before_it() {
        let store = Arc::new(MemoryStore::new());
        let definitions = open(&store);
        definitions.add(start("gate", "one", 100), "a").unwrap();
        definitions.add(start("door", "one", 150), "other").unwrap();
        definitions.add(start("gate", "one", 500), "b").unwrap();
        definitions.add(start("gate", "two", 50), "a").unwrap();
        for definitions in [definitions, open(&store)] {
            let found = |boot: &str, mono_ms| {
                let event = event("gate", boot, mono_ms);
                definitions.of_event(&event).unwrap()
            };
            assert_eq!(found("one", 99), None, "before its first start");
            assert_eq!(found("one", 100).as_deref(), Some("a"));
            assert_eq!(found("one", 499).as_deref(), Some("a"));
            assert_eq!(found("one", 500).as_deref(), Some("b"));
            assert_eq!(found("two", 9_999).as_deref(), Some("a"));
            assert_eq!(found("three", 9_999), None, "of an unknown run");
        }
    }

    #[test]
    fn oldest_start_makes_room_and_a_shared_text_stays() {
        let store = Arc::new(MemoryStore::new());
        let definitions = open(&store);
        definitions.add(start("gate", "b", 0), "first").unwrap();
        for n in 1..=MAX_STARTS as u64 {
            definitions.add(start("gate", "b", n), "same").unwrap();
        }
        let of = |mono_ms| definitions.of_event(&event("gate", "b", mono_ms)).unwrap();
        assert_eq!(of(0), None, "the oldest is gone, with its text");
        assert_eq!(of(1).as_deref(), Some("same"));
        assert_eq!(open(&store).starts.lock().len(), MAX_STARTS);
        let large = "x".repeat(usize::try_from(MAX_BYTES).unwrap());
        definitions.add(start("gate", "c", 1), &large).unwrap();
        assert_eq!(definitions.starts.lock().len(), 1);
        assert_eq!(of(1), None);
    }
}
