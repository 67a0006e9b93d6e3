//! Stored sources and pipelines, and the last intents of users about what the configuration file
//! names.
//!
//! - What belongs together is written in one batch.
//! - An unreadable record is listed and stays on disk.
//! - Not decided here: which of them apply.
//! - Format 1 is JSON, as in the HTTP API v1. A new field of it has a default and is not written
//!   while it has that. A record with a field that this version does not know is unreadable.
//! - A source is stored with its credentials; the state folder is private to this user.

use std::fmt;
use std::ops::Bound;
use std::str::FromStr;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use watchkeeper_contract::id::{PipelineId, SourceId};
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::source::SourceSpec;
use watchkeeper_store::{BadRecord, Batch, Keyspace, Store};

use super::error::JournalError;
use super::intent::{IntentV1, LastIntent};
use super::record::{FORMAT, check_json_format};

/// Stored specifications, by name.
#[derive(Debug)]
pub struct Specs {
    store: Arc<dyn Store>,
}

/// All stored entries of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded<T> {
    /// Readable entries, by name.
    pub entries: Vec<T>,
    /// Unreadable entries, which stay on disk.
    pub unreadable: Vec<Unreadable>,
}

/// A specification as it was deployed.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredSpec<S> {
    pub spec: S,
    /// Fingerprint of the section of the configuration file that it overrides. The override holds
    /// until the section is edited.
    pub over: Option<String>,
}

/// A stored entry that this version can't read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    pub name: String,
    /// The reason, as a phrase.
    pub why: String,
}

/// A kind of specification: sources or pipelines.
pub trait Kind: Clone + Serialize + DeserializeOwned {
    /// The type of its name.
    type Id: Clone + Ord + fmt::Display + FromStr<Err: fmt::Display>;

    /// Where specifications of this kind are stored.
    const SPECS: Keyspace;
    /// Where intents about them are stored.
    const INTENTS: Keyspace;

    fn id(&self) -> &Self::Id;
}

impl Kind for SourceSpec {
    type Id = SourceId;
    const SPECS: Keyspace = Keyspace::new("sources");
    const INTENTS: Keyspace = Keyspace::new("source_words");

    fn id(&self) -> &SourceId {
        &self.id
    }
}

impl Kind for PipelineSpec {
    type Id = PipelineId;
    const SPECS: Keyspace = Keyspace::new("pipelines");
    const INTENTS: Keyspace = Keyspace::new("words");

    fn id(&self) -> &PipelineId {
        &self.id
    }
}

impl Specs {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// The first entry of a newer version: its name and format.
    ///
    /// # Errors
    /// When the store can't be read.
    pub(super) fn newer(&self) -> Result<Option<(String, u16)>, JournalError> {
        let keyspaces = [
            SourceSpec::SPECS,
            SourceSpec::INTENTS,
            PipelineSpec::SPECS,
            PipelineSpec::INTENTS,
        ];
        for keyspace in keyspaces {
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

    /// Stores a specification and removes the intent about its name, in one durable write. `over`
    /// is the fingerprint of the section that it overrides.
    ///
    /// # Errors
    /// When the store refuses; nothing has changed then.
    pub fn put<S: Kind>(&self, spec: &S, over: Option<&str>) -> Result<(), JournalError> {
        let name = spec.id().to_string();
        let record = encode(spec, over).map_err(|e| unwritable::<S>(&name, &e))?;
        let batch = Batch::new()
            .put(S::SPECS, name.as_bytes(), &record)
            .delete(S::INTENTS, name.as_bytes());
        Ok(self.store.commit(batch)?)
    }

    /// Removes a specification and stores an intent about the section of its name, in one durable
    /// write.
    ///
    /// # Errors
    /// When the store refuses; nothing has changed then.
    pub fn delete<S: Kind>(
        &self,
        id: &S::Id,
        intent: Option<&LastIntent<S::Id>>,
    ) -> Result<(), JournalError> {
        let name = id.to_string();
        let batch = Batch::new().delete(S::SPECS, name.as_bytes());
        let batch = match intent {
            Some(intent) => batch.put(S::INTENTS, name.as_bytes(), &encode_intent::<S>(intent)?),
            None => batch,
        };
        Ok(self.store.commit(batch)?)
    }

    /// All stored specifications of a kind, by name.
    ///
    /// # Errors
    /// When the store can't be read. An unreadable entry is listed.
    pub fn all<S: Kind>(&self) -> Result<Loaded<StoredSpec<S>>, JournalError> {
        self.load(S::SPECS, |bytes, name| {
            decode(bytes, name).map_err(|e| e.to_string())
        })
    }

    /// Stores a user's intent; durable on return.
    ///
    /// # Errors
    /// When the store refuses.
    pub fn put_intent<S: Kind>(&self, intent: &LastIntent<S::Id>) -> Result<(), JournalError> {
        let record = encode_intent::<S>(intent)?;
        let name = intent.id.to_string();
        Ok(self
            .store
            .commit(Batch::new().put(S::INTENTS, name.as_bytes(), &record))?)
    }

    /// Replaces specifications and intents in one durable write.
    ///
    /// # Errors
    /// When the store refuses; nothing has changed then.
    pub fn renew<S: Kind>(
        &self,
        specs: &[StoredSpec<S>],
        intents: &[LastIntent<S::Id>],
    ) -> Result<(), JournalError> {
        let mut batch = Batch::new();
        for StoredSpec { spec, over } in specs {
            let name = spec.id().to_string();
            let record = encode(spec, over.as_deref());
            let record = record.map_err(|e| unwritable::<S>(&name, &e))?;
            batch = batch.put(S::SPECS, name.as_bytes(), &record);
        }
        for intent in intents {
            let record = encode_intent::<S>(intent)?;
            batch = batch.put(S::INTENTS, intent.id.to_string().as_bytes(), &record);
        }
        Ok(self.store.commit(batch)?)
    }

    /// Removes outdated specifications and intents; durable on return.
    ///
    /// # Errors
    /// When the store refuses.
    pub fn forget<S: Kind>(&self, specs: &[S::Id], intents: &[S::Id]) -> Result<(), JournalError> {
        let mut batch = Batch::new();
        for id in specs {
            batch = batch.delete(S::SPECS, id.to_string().as_bytes());
        }
        for id in intents {
            batch = batch.delete(S::INTENTS, id.to_string().as_bytes());
        }
        Ok(self.store.commit(batch)?)
    }

    /// All intents about a kind, by name.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn intents<S: Kind>(&self) -> Result<Loaded<LastIntent<S::Id>>, JournalError> {
        self.load(S::INTENTS, |bytes, name| {
            let record: IntentV1 = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
            Ok(LastIntent {
                id: name.parse::<S::Id>().map_err(|e| e.to_string())?,
                fingerprint: record.fingerprint,
                intent: record.intent,
                at_ms: record.at_ms,
            })
        })
    }

    fn load<T>(
        &self,
        keyspace: Keyspace,
        decode: impl Fn(&[u8], &str) -> Result<T, String>,
    ) -> Result<Loaded<T>, JournalError> {
        let page = self.store.scan(keyspace, Bound::Unbounded, usize::MAX)?;
        let mut loaded = Loaded {
            entries: Vec::new(),
            unreadable: Vec::new(),
        };
        for entry in page.entries {
            let name = String::from_utf8_lossy(&entry.key).into_owned();
            let read = check_json_format(&entry.value)
                .map_err(|bad| bad.to_string())
                .and_then(|()| decode(&entry.value, &name));
            match read {
                Ok(spec) => loaded.entries.push(spec),
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

fn encode_intent<S: Kind>(intent: &LastIntent<S::Id>) -> Result<Vec<u8>, JournalError> {
    let record = IntentV1::of(intent);
    serde_json::to_vec(&record).map_err(|e| unwritable::<S>(&intent.id.to_string(), &e))
}

fn unwritable<S: Kind>(name: &str, error: &serde_json::Error) -> JournalError {
    JournalError::Unreadable {
        what: format!("{} {name}", S::SPECS.name()),
        why: error.to_string(),
    }
}

/// A specification on disk.
#[derive(Serialize)]
struct SpecV1<'a, S> {
    format: u16,
    #[serde(flatten)]
    spec: &'a S,
    #[serde(skip_serializing_if = "Option::is_none")]
    over: Option<&'a str>,
}

fn encode<S: Kind>(spec: &S, over: Option<&str>) -> serde_json::Result<Vec<u8>> {
    let format = FORMAT;
    serde_json::to_vec(&SpecV1 { format, spec, over })
}

/// Reads the record of this name, which has no id where an earlier version wrote it.
fn decode<S: Kind>(bytes: &[u8], name: &str) -> serde_json::Result<StoredSpec<S>> {
    let mut record: Map<String, Value> = serde_json::from_slice(bytes)?;
    record.remove("format");
    let over = record.remove("over");
    record.insert("id".to_owned(), name.into());
    Ok(StoredSpec {
        spec: serde_json::from_value(record.into())?,
        over: over.map(serde_json::from_value).transpose()?,
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use watchkeeper_contract::pipeline::Priority;
    use watchkeeper_store::{FaultyStore, MemoryStore};

    use super::super::intent::UserIntent;
    use super::*;

    fn source() -> SourceSpec {
        serde_json::from_str(
            r#"{"id": "gate", "name": "North gate", "uri": "rtsp://u:p@cam/1", "pace": "native", "max_fps": 7.5, "rtsp_transport": "udp"}"#,
        )
        .unwrap()
    }

    fn pipeline() -> PipelineSpec {
        serde_json::from_str(
            r#"{"id": "people", "name": "Night patrol", "source": "gate", "workflow": {"version": "1.0", "steps": []},
                "parameters": {"limit": 3}, "model": "motion", "record": true, "paused": true,
                "rules": [{"name": "in", "when": {"kind": "stays", "zone": "yard", "for_s": 2.5}, "severity": "critical"}],
                "detect": {"mode": "periodic", "every_s": 0.5}, "target_fps": 2.5, "priority": "low"}"#,
        )
        .unwrap()
    }

    fn bare<S>(loaded: Loaded<StoredSpec<S>>) -> Vec<S> {
        loaded
            .entries
            .into_iter()
            .map(|stored| stored.spec)
            .collect()
    }

    #[test]
    fn deployments_and_deletions_survive_a_power_cut() {
        let store = Arc::new(MemoryStore::new());
        let specs = Specs::new(Arc::clone(&store) as Arc<dyn Store>);
        let mut other = source();
        other.id = SourceId::new("yard").unwrap();
        let mut slow = source();
        slow.stall_s = Some(90.0);
        slow.controls.insert("gain".to_owned(), 5);
        specs.put(&slow, None).unwrap();
        specs.put(&other, None).unwrap();
        specs.put(&pipeline(), Some("ab")).unwrap();
        specs.delete::<SourceSpec>(&other.id, None).unwrap();

        let after = Specs::new(Arc::new(store.power_cut()));
        assert_eq!(bare::<SourceSpec>(after.all().unwrap()), [slow]);
        let (spec, over) = (pipeline(), Some("ab".to_owned()));
        assert_eq!(after.all().unwrap().entries, [StoredSpec { spec, over }]);
    }

    #[test]
    fn intent_survives_a_power_cut_until_a_deployment() {
        let store = Arc::new(MemoryStore::new());
        let specs = Specs::new(Arc::clone(&store) as Arc<dyn Store>);
        let intent = LastIntent {
            id: PipelineId::new("people").unwrap(),
            fingerprint: "ab".to_owned(),
            intent: UserIntent::Stop,
            at_ms: 7,
        };
        specs
            .delete::<PipelineSpec>(&intent.id, Some(&intent))
            .unwrap();
        let after = Specs::new(Arc::new(store.power_cut()) as Arc<dyn Store>);
        assert_eq!(
            after.intents::<PipelineSpec>().unwrap().entries.as_slice(),
            std::slice::from_ref(&intent)
        );
        assert_eq!(after.intents::<SourceSpec>().unwrap().entries, []);
        after.put(&pipeline(), Some("ab")).unwrap();
        assert_eq!(after.intents::<PipelineSpec>().unwrap().entries, []);
    }

    #[test]
    fn change_that_can_not_be_stored_changes_nothing() {
        let store = Arc::new(FaultyStore::new(MemoryStore::new()));
        let specs = Specs::new(Arc::clone(&store) as Arc<dyn Store>);
        specs.put(&pipeline(), Some("ab")).unwrap();
        let intent = LastIntent {
            id: pipeline().id,
            fingerprint: "ab".to_owned(),
            intent: UserIntent::Stop,
            at_ms: 7,
        };
        // The first write passes and the next fails: two writes would be half done.
        for writes in 1..3 {
            store.writes.blow_at(writes);
            let refused = specs.delete::<PipelineSpec>(&intent.id, Some(&intent));
            let specs_left = bare::<PipelineSpec>(specs.all().unwrap());
            let intents = specs.intents::<PipelineSpec>().unwrap().entries;
            if refused.is_err() {
                assert_eq!((specs_left, intents), (vec![pipeline()], Vec::new()));
            } else {
                assert_eq!((specs_left, intents), (Vec::new(), vec![intent.clone()]));
            }
        }
    }

    #[test]
    fn format_1_is_readable() {
        let store = MemoryStore::new();
        let batch = Batch::new()
            .put(
                SourceSpec::SPECS,
                b"gate",
                br#"{"format":1,"uri":"rtsp://u:p@cam/1","pace":"native","max_fps":7.5,"rtsp_transport":"udp"}"#,
            )
            .put(
                PipelineSpec::SPECS,
                b"people",
                br#"{"format":1,"source":"gate","workflow":{"version":"1.0","steps":[]},"parameters":{"limit":3},
                     "model":"motion","rules":[{"name":"in","when":{"kind":"stays","zone":"yard","for_s":2.5},
                     "severity":"critical"}],"detect":{"mode":"periodic","every_s":0.5},"record":true,"show":false,
                     "paused":true}"#,
            );
        store.commit(batch).unwrap();
        let specs = Specs::new(Arc::new(store));
        // Newer than the format.
        let (mut source, mut pipeline) = (source(), pipeline());
        (source.name, pipeline.name) = (None, None);
        (pipeline.target_fps, pipeline.priority) = (None, Priority::Normal);
        assert_eq!(bare::<SourceSpec>(specs.all().unwrap()), [source]);
        assert_eq!(bare::<PipelineSpec>(specs.all().unwrap()), [pipeline]);
    }

    #[test]
    fn unreadable_entry_is_named_and_others_load() {
        let store = Arc::new(MemoryStore::new());
        let specs = Specs::new(Arc::clone(&store) as Arc<dyn Store>);
        specs.put(&source(), None).unwrap();
        store
            .commit(Batch::new().put(SourceSpec::SPECS, b"odd", br#"{"format":1,"uri":7}"#))
            .unwrap();
        let loaded = specs.all::<SourceSpec>().unwrap();
        assert_eq!(loaded.unreadable.len(), 1);
        assert_eq!(loaded.unreadable[0].name, "odd");
        assert!(loaded.unreadable[0].why.contains("expected a string"));
        assert_eq!(bare(loaded), [source()]);
    }

    #[test]
    fn setting_of_a_newer_version_is_not_ignored() {
        let store = MemoryStore::new();
        let record = br#"{"format":1,"uri":"demo:","night_only":true}"#;
        store
            .commit(Batch::new().put(SourceSpec::SPECS, b"gate", record))
            .unwrap();
        let loaded = Specs::new(Arc::new(store)).all::<SourceSpec>().unwrap();
        assert_eq!(loaded.entries, []);
        assert!(loaded.unreadable[0].why.contains("night_only"));
    }
}
