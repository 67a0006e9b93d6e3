//! Sources and pipelines as deployed, so that they run again after a restart.
//!
//! Format 1 of both is JSON. The records are types of their own: what a person may write can grow without making the
//! disk unreadable. Workflow, rules and detect mode are kept in the words of the HTTP API v1, which keep their meaning
//! within that version. A source's address is stored with its credential; the state folder is for this user only.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use watchkeeper_contract::id::{PipelineId, SourceId};
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::source::SourceSpec;
use watchkeeper_store::{BadRecord, Batch, Keyspace, Store};

use super::JournalError;
use super::record::{FORMAT, check_json_format};

const SOURCES: Keyspace = Keyspace::new("sources");
const PIPELINES: Keyspace = Keyspace::new("pipelines");
const WORDS: Keyspace = Keyspace::new("words");

/// Stored specifications, by name.
#[derive(Debug)]
pub struct Specs {
    store: Arc<dyn Store>,
}

/// Everything of one sort, as read at start.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded<T> {
    /// What can be run, by name.
    pub specs: Vec<T>,
    /// What can't be read. It stays on disk.
    pub unreadable: Vec<Unreadable>,
}

/// What a person last wanted of a pipeline that the configuration file names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// It shall run, although the file creates it paused.
    Run,
    /// It shall pause.
    Pause,
    /// It shall be gone.
    Stop,
}

/// A [`Word`] and what it was said about: it holds for as long as the file says the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastWord {
    /// Which pipeline.
    pub id: PipelineId,
    /// Fingerprint of what the file said.
    pub fingerprint: String,
    /// What is wanted.
    pub word: Word,
    /// When it was said: Unix milliseconds, UTC.
    pub at_ms: i64,
}

/// A stored specification that this version can't read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// Its name.
    pub name: String,
    /// Why, as a phrase.
    pub why: String,
}

impl Specs {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// The first specification that a newer version wrote: what it is, and its format.
    ///
    /// # Errors
    /// When the store can't be read.
    pub(super) fn newer(&self) -> Result<Option<(String, u16)>, JournalError> {
        for keyspace in [SOURCES, PIPELINES, WORDS] {
            let page = self.store.scan(keyspace, Bound::Unbounded, usize::MAX)?;
            for entry in page.entries {
                if let Err(BadRecord::Newer(found)) = check_json_format(&entry.value) {
                    let name = String::from_utf8_lossy(&entry.key);
                    return Ok(Some((format!("{name:?} of {}", keyspace.name()), found)));
                }
            }
        }
        Ok(None)
    }

    /// Stores a source, in place of the one of its name; durable on return.
    ///
    /// # Errors
    /// When the store refuses.
    pub fn put_source(&self, spec: &SourceSpec) -> Result<(), JournalError> {
        self.put(SOURCES, spec.id.as_str(), &SourceV1::from(spec))
    }

    /// Forgets a source; durable on return.
    ///
    /// # Errors
    /// When the store refuses.
    pub fn delete_source(&self, id: &SourceId) -> Result<(), JournalError> {
        self.delete(SOURCES, id.as_str())
    }

    /// Every stored source, by name.
    ///
    /// # Errors
    /// When the store can't be read. A single unreadable source is listed, not an error.
    pub fn sources(&self) -> Result<Loaded<SourceSpec>, JournalError> {
        self.load(SOURCES, SourceV1::into_spec)
    }

    /// Stores a pipeline, in place of the one of its name; durable on return.
    ///
    /// # Errors
    /// When the store refuses.
    pub fn put_pipeline(&self, spec: &PipelineSpec) -> Result<(), JournalError> {
        let record = PipelineV1::from_spec(spec).map_err(|e| JournalError::Unreadable {
            what: format!("pipeline {}", spec.id),
            why: e.to_string(),
        })?;
        self.put(PIPELINES, spec.id.as_str(), &record)
    }

    /// Forgets a pipeline; durable on return.
    ///
    /// # Errors
    /// When the store refuses.
    pub fn delete_pipeline(&self, id: &PipelineId) -> Result<(), JournalError> {
        self.delete(PIPELINES, id.as_str())
    }

    /// Every stored pipeline, by name.
    ///
    /// # Errors
    /// When the store can't be read. A single unreadable pipeline is listed, not an error.
    pub fn pipelines(&self) -> Result<Loaded<PipelineSpec>, JournalError> {
        self.load(PIPELINES, PipelineV1::into_spec)
    }

    /// Stores a person's word about a configured pipeline; durable on return.
    ///
    /// # Errors
    /// When the store refuses.
    pub fn put_word(&self, word: &LastWord) -> Result<(), JournalError> {
        let record = WordV1 {
            format: FORMAT,
            fingerprint: word.fingerprint.clone(),
            word: word.word,
            at_ms: word.at_ms,
        };
        self.put(WORDS, word.id.as_str(), &record)
    }

    /// Forgets a person's word; durable on return.
    ///
    /// # Errors
    /// When the store refuses.
    pub fn delete_word(&self, id: &PipelineId) -> Result<(), JournalError> {
        self.delete(WORDS, id.as_str())
    }

    /// Every person's word, by name of the pipeline.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn words(&self) -> Result<Loaded<LastWord>, JournalError> {
        self.load(WORDS, |record: WordV1, name| {
            Ok(LastWord {
                id: PipelineId::new(name).map_err(|e| e.to_string())?,
                fingerprint: record.fingerprint,
                word: record.word,
                at_ms: record.at_ms,
            })
        })
    }

    fn put<R: Serialize>(
        &self,
        keyspace: Keyspace,
        name: &str,
        record: &R,
    ) -> Result<(), JournalError> {
        let json = serde_json::to_vec(record).map_err(|e| JournalError::Unreadable {
            what: format!("{} {name}", keyspace.name()),
            why: e.to_string(),
        })?;
        Ok(self
            .store
            .commit(Batch::new().put(keyspace, name.as_bytes(), &json))?)
    }

    fn delete(&self, keyspace: Keyspace, name: &str) -> Result<(), JournalError> {
        Ok(self
            .store
            .commit(Batch::new().delete(keyspace, name.as_bytes()))?)
    }

    fn load<R: DeserializeOwned, T>(
        &self,
        keyspace: Keyspace,
        into: impl Fn(R, &str) -> Result<T, String>,
    ) -> Result<Loaded<T>, JournalError> {
        let page = self.store.scan(keyspace, Bound::Unbounded, usize::MAX)?;
        let mut loaded = Loaded {
            specs: Vec::new(),
            unreadable: Vec::new(),
        };
        for entry in page.entries {
            let name = String::from_utf8_lossy(&entry.key).into_owned();
            let read = check_json_format(&entry.value)
                .map_err(|bad| bad.to_string())
                .and_then(|()| serde_json::from_slice(&entry.value).map_err(|e| e.to_string()))
                .and_then(|record| into(record, &name));
            match read {
                Ok(spec) => loaded.specs.push(spec),
                Err(why) => loaded.unreadable.push(Unreadable { name, why }),
            }
        }
        for bad in page.corrupt {
            loaded.unreadable.push(Unreadable {
                name: String::from_utf8_lossy(&bad.key).into_owned(),
                why: bad.why,
            });
        }
        Ok(loaded)
    }
}

/// A source on disk. The name is the key.
#[derive(Debug, Serialize, Deserialize)]
struct SourceV1 {
    format: u16,
    uri: String,
    pace: Value,
    max_fps: Option<f64>,
    rtsp_transport: Value,
    /// Younger than the format: what was written without it was verified.
    #[serde(default = "verified")]
    tls_verify: bool,
    /// Younger than the format: what was written without it says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stall_s: Option<f64>,
}

fn verified() -> bool {
    true
}

impl From<&SourceSpec> for SourceV1 {
    fn from(spec: &SourceSpec) -> Self {
        // Named one by one, so that a new field of the live type has to be thought of here.
        let SourceSpec {
            id: _,
            uri,
            pace,
            max_fps,
            rtsp_transport,
            tls_verify,
            stall_s,
        } = spec;
        Self {
            format: FORMAT,
            uri: uri.clone(),
            pace: serde_json::json!(pace),
            max_fps: *max_fps,
            rtsp_transport: serde_json::json!(rtsp_transport),
            tls_verify: *tls_verify,
            stall_s: *stall_s,
        }
    }
}

impl SourceV1 {
    fn into_spec(self, name: &str) -> Result<SourceSpec, String> {
        Ok(SourceSpec {
            id: SourceId::new(name).map_err(|e| e.to_string())?,
            uri: self.uri,
            pace: word("pace", self.pace)?,
            max_fps: self.max_fps,
            rtsp_transport: word("rtsp_transport", self.rtsp_transport)?,
            tls_verify: self.tls_verify,
            stall_s: self.stall_s,
        })
    }
}

/// A person's word on disk. The name of the pipeline is the key.
#[derive(Debug, Serialize, Deserialize)]
struct WordV1 {
    format: u16,
    fingerprint: String,
    word: Word,
    at_ms: i64,
}

/// A pipeline on disk. The name is the key.
#[derive(Debug, Serialize, Deserialize)]
struct PipelineV1 {
    format: u16,
    source: String,
    workflow: Value,
    parameters: BTreeMap<String, Value>,
    model: Option<String>,
    rules: Value,
    detect: Value,
    record: bool,
    show: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stop_after_s: Option<f64>,
    paused: bool,
}

impl PipelineV1 {
    fn from_spec(spec: &PipelineSpec) -> serde_json::Result<Self> {
        let PipelineSpec {
            id: _,
            source,
            workflow,
            parameters,
            model,
            rules,
            detect,
            record,
            show,
            stop_after_s,
            paused,
        } = spec;
        Ok(Self {
            format: FORMAT,
            source: source.to_string(),
            workflow: workflow.clone(),
            parameters: parameters.clone(),
            model: model.clone(),
            rules: serde_json::to_value(rules)?,
            detect: serde_json::to_value(detect)?,
            record: *record,
            show: *show,
            stop_after_s: *stop_after_s,
            paused: *paused,
        })
    }

    fn into_spec(self, name: &str) -> Result<PipelineSpec, String> {
        Ok(PipelineSpec {
            id: PipelineId::new(name).map_err(|e| e.to_string())?,
            source: SourceId::new(self.source).map_err(|e| e.to_string())?,
            workflow: self.workflow,
            parameters: self.parameters,
            model: self.model,
            rules: word("rules", self.rules)?,
            detect: word("detect", self.detect)?,
            record: self.record,
            show: self.show,
            stop_after_s: self.stop_after_s,
            paused: self.paused,
        })
    }
}

fn word<T: DeserializeOwned>(field: &str, value: Value) -> Result<T, String> {
    serde_json::from_value(value).map_err(|e| format!("{field}: {e}"))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use watchkeeper_store::MemoryStore;

    use super::*;

    fn source() -> SourceSpec {
        serde_json::from_str(
            r#"{"id": "gate", "uri": "rtsp://u:p@cam/1", "pace": "native", "max_fps": 7.5, "rtsp_transport": "udp"}"#,
        )
        .unwrap()
    }

    fn pipeline() -> PipelineSpec {
        serde_json::from_str(
            r#"{"id": "people", "source": "gate", "workflow": {"version": "1.0", "steps": []},
                "parameters": {"limit": 3}, "model": "motion", "record": true, "paused": true,
                "rules": [{"name": "in", "when": {"kind": "stays", "zone": "yard", "for_s": 2.5}, "severity": "critical"}],
                "detect": {"mode": "periodic", "every_s": 0.5}}"#,
        )
        .unwrap()
    }

    #[test]
    fn what_was_deployed_is_there_after_a_power_cut_and_what_was_deleted_is_not() {
        let store = Arc::new(MemoryStore::new());
        let specs = Specs::new(Arc::clone(&store) as Arc<dyn Store>);
        let mut other = source();
        other.id = SourceId::new("yard").unwrap();
        let mut slow = source();
        slow.stall_s = Some(90.0);
        specs.put_source(&slow).unwrap();
        specs.put_source(&other).unwrap();
        specs.put_pipeline(&pipeline()).unwrap();
        specs.delete_source(&other.id).unwrap();

        let after = Specs::new(Arc::new(store.power_cut()));
        assert_eq!(after.sources().unwrap().specs, [slow]);
        assert_eq!(after.pipelines().unwrap().specs, [pipeline()]);
    }

    #[test]
    fn a_persons_word_is_there_after_a_power_cut_until_it_is_taken_back() {
        let store = Arc::new(MemoryStore::new());
        let specs = Specs::new(Arc::clone(&store) as Arc<dyn Store>);
        let word = LastWord {
            id: PipelineId::new("people").unwrap(),
            fingerprint: "ab".to_owned(),
            word: Word::Stop,
            at_ms: 7,
        };
        specs.put_word(&word).unwrap();
        let after = Specs::new(Arc::new(store.power_cut()) as Arc<dyn Store>);
        assert_eq!(
            after.words().unwrap().specs.as_slice(),
            std::slice::from_ref(&word)
        );
        after.delete_word(&word.id).unwrap();
        assert_eq!(after.words().unwrap().specs, []);
    }

    #[test]
    fn what_format_1_wrote_is_read_for_ever() {
        let store = MemoryStore::new();
        let batch = Batch::new()
            .put(
                SOURCES,
                b"gate",
                br#"{"format":1,"uri":"rtsp://u:p@cam/1","pace":"native","max_fps":7.5,"rtsp_transport":"udp"}"#,
            )
            .put(
                PIPELINES,
                b"people",
                br#"{"format":1,"source":"gate","workflow":{"version":"1.0","steps":[]},"parameters":{"limit":3},
                     "model":"motion","rules":[{"name":"in","when":{"kind":"stays","zone":"yard","for_s":2.5},
                     "severity":"critical"}],"detect":{"mode":"periodic","every_s":0.5},"record":true,"show":false,
                     "paused":true}"#,
            );
        store.commit(batch).unwrap();
        let specs = Specs::new(Arc::new(store));
        assert_eq!(specs.sources().unwrap().specs, [source()]);
        assert_eq!(specs.pipelines().unwrap().specs, [pipeline()]);
    }

    #[test]
    fn one_unreadable_specification_is_named_and_the_rest_is_loaded() {
        let store = Arc::new(MemoryStore::new());
        let specs = Specs::new(Arc::clone(&store) as Arc<dyn Store>);
        specs.put_source(&source()).unwrap();
        store
            .commit(Batch::new().put(SOURCES, b"odd", br#"{"format":1,"uri":7}"#))
            .unwrap();
        let loaded = specs.sources().unwrap();
        assert_eq!(loaded.specs, [source()]);
        assert_eq!(loaded.unreadable.len(), 1);
        assert_eq!(loaded.unreadable[0].name, "odd");
        assert!(loaded.unreadable[0].why.contains("expected a string"));
    }
}
