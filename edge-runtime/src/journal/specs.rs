//! Stored sources and pipelines, and the last intents of users about what the configuration file
//! names.
//!
//! - What belongs together is written in one batch.
//! - An unreadable record is listed and stays on disk.
//! - Not decided here: which of them apply.
//! - A specification is JSON of format 2, as in the HTTP API v1; no release wrote format 1.
//! - A new member has a default and is not written while it has that. No format loses a member, so
//!   one that this version does not know shows a newer version, as a newer format does.
//! - A source is stored with its credentials; the state folder is private to this user.

use std::fmt;
use std::ops::Bound;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use watchkeeper_contract::id::{PipelineId, SourceId};
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::source::SourceSpec;
use watchkeeper_store::{BadRecord, Batch, Keyspace, NewerFormat, Store};

use super::error::JournalError;
use super::intent::{IntentV1, LastIntent};
use super::record::{FORMAT, check_json_format};

/// Format of specifications that this build writes; it reads all up to this one.
const SPEC_FORMAT: u16 = 2;

/// Error of parsing a record, with the path of the member.
type ParseError = serde_path_to_error::Error<serde_json::Error>;

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
    /// Format of the newer version that wrote it; `None` for a damaged entry.
    newer: Option<String>,
}

/// A kind of specification: sources or pipelines.
pub trait Kind: Clone + Serialize + DeserializeOwned {
    /// The type of its name.
    type Id: Clone + Ord + fmt::Display + FromStr<Err: fmt::Display>;

    /// Keyspace of specifications of this kind.
    const SPECS: Keyspace;
    /// Keyspace of intents about them.
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

    /// The first entry of a newer version, in the journal's `folder`.
    ///
    /// # Errors
    /// When the store can't be read.
    pub(super) fn newer(&self, folder: &Path) -> Result<Option<NewerFormat>, JournalError> {
        let unreadable = [
            (
                SourceSpec::SPECS,
                SPEC_FORMAT,
                self.all::<SourceSpec>()?.unreadable,
            ),
            (
                SourceSpec::INTENTS,
                FORMAT,
                self.intents::<SourceSpec>()?.unreadable,
            ),
            (
                PipelineSpec::SPECS,
                SPEC_FORMAT,
                self.all::<PipelineSpec>()?.unreadable,
            ),
            (
                PipelineSpec::INTENTS,
                FORMAT,
                self.intents::<PipelineSpec>()?.unreadable,
            ),
        ];
        let mut newer = unreadable
            .into_iter()
            .flat_map(|(keyspace, known, entries)| {
                entries.into_iter().filter_map(move |entry| {
                    let what = format!("{:?} of {}", entry.name, keyspace.name());
                    Some(NewerFormat::new(folder, what, entry.newer?, known))
                })
            });
        Ok(newer.next())
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
        self.load(S::SPECS, SPEC_FORMAT, |bytes, _| decode(bytes))
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
        self.load(S::INTENTS, FORMAT, |bytes, name| {
            let record: IntentV1 = parse(bytes)?;
            Ok(LastIntent {
                id: name.parse::<S::Id>().map_err(damaged)?,
                fingerprint: record.fingerprint,
                intent: record.intent,
                at_ms: record.at_ms,
            })
        })
    }

    /// All entries of formats up to `newest`.
    fn load<T>(
        &self,
        keyspace: Keyspace,
        newest: u16,
        decode: impl Fn(&[u8], &str) -> Result<T, Bad>,
    ) -> Result<Loaded<T>, JournalError> {
        let page = self.store.scan(keyspace, Bound::Unbounded, usize::MAX)?;
        let mut loaded = Loaded {
            entries: Vec::new(),
            unreadable: Vec::new(),
        };
        for entry in page.entries {
            let name = String::from_utf8_lossy(&entry.key).into_owned();
            let read = check_json_format(&entry.value, newest)
                .map_err(Bad::from)
                .and_then(|()| decode(&entry.value, &name));
            match read {
                Ok(spec) => loaded.entries.push(spec),
                Err(Bad { why, newer }) => {
                    loaded.unreadable.push(Unreadable { name, why, newer });
                }
            }
        }
        for bad in page.corrupt {
            loaded.unreadable.push(Unreadable {
                name: String::from_utf8_lossy(&bad.key).into_owned(),
                why: bad.why,
                newer: None,
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
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SpecV2<S> {
    format: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    over: Option<String>,
    spec: S,
}

fn encode<S: Kind>(spec: &S, over: Option<&str>) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(&SpecV2 {
        format: SPEC_FORMAT,
        over: over.map(str::to_owned),
        spec,
    })
}

fn decode<S: Kind>(bytes: &[u8]) -> Result<StoredSpec<S>, Bad> {
    if check_json_format(bytes, FORMAT).is_ok() {
        return Err(damaged("an earlier build wrote it"));
    }
    let SpecV2 { spec, over, .. } = parse(bytes)?;
    Ok(StoredSpec { spec, over })
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ParseError> {
    serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_slice(bytes))
}

/// Why an entry can't be read: what [`Unreadable`] says of it.
struct Bad {
    why: String,
    newer: Option<String>,
}

fn damaged(why: impl fmt::Display) -> Bad {
    let why = why.to_string();
    Bad { why, newer: None }
}

impl From<BadRecord> for Bad {
    fn from(bad: BadRecord) -> Self {
        let why = bad.to_string();
        let newer = match bad {
            BadRecord::Newer(found) => Some(found.to_string()),
            BadRecord::Damaged(_) => None,
        };
        Self { why, newer }
    }
}

impl From<ParseError> for Bad {
    fn from(error: ParseError) -> Self {
        // Serde's errors have no kind: these are the texts of `unknown_field` and
        // `unknown_variant` of `serde::de::Error`.
        let cause = error.inner().to_string();
        let is_unknown = ["unknown field", "unknown variant"]
            .iter()
            .any(|start| cause.starts_with(start));
        let why = error.to_string();
        let newer = is_unknown.then(|| format!("unknown to this version ({why})"));
        Self { why, newer }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
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
    fn record_has_format_origin_and_specification() {
        let store = Arc::new(MemoryStore::new());
        let specs = Specs::new(Arc::clone(&store) as Arc<dyn Store>);
        specs.put(&source(), Some("ab")).unwrap();
        let record = store.get(SourceSpec::SPECS, b"gate").unwrap().unwrap();
        let record: serde_json::Value = serde_json::from_slice(&record).unwrap();
        let spec = serde_json::to_value(source()).unwrap();
        assert_eq!(
            record,
            serde_json::json!({"format": 2, "over": "ab", "spec": spec})
        );
    }

    #[test]
    fn unreadable_entry_is_named_and_others_load() {
        let store = Arc::new(MemoryStore::new());
        let specs = Specs::new(Arc::clone(&store) as Arc<dyn Store>);
        specs.put(&source(), None).unwrap();
        store
            .commit(Batch::new().put(
                SourceSpec::SPECS,
                b"odd",
                br#"{"format":2,"spec":{"id":"odd","uri":7}}"#,
            ))
            .unwrap();
        let loaded = specs.all::<SourceSpec>().unwrap();
        assert_eq!(loaded.unreadable.len(), 1);
        assert_eq!(loaded.unreadable[0].name, "odd");
        let why = &loaded.unreadable[0].why;
        assert!(
            why.contains("spec.uri") && why.contains("expected a string"),
            "{why}"
        );
        assert_eq!(bare(loaded), [source()]);
        assert_eq!(specs.newer(Path::new("journal")).unwrap(), None);
    }

    #[test]
    fn record_of_an_earlier_build_is_unreadable_but_not_newer() {
        let store = MemoryStore::new();
        let earlier = br#"{"format":1,"uri":"demo:"}"#;
        let batch = Batch::new().put(SourceSpec::SPECS, b"gate", earlier);
        store.commit(batch).unwrap();
        let specs = Specs::new(Arc::new(store));
        let loaded = specs.all::<SourceSpec>().unwrap();
        assert_eq!(loaded.unreadable[0].why, "an earlier build wrote it");
        assert_eq!(specs.newer(Path::new("journal")).unwrap(), None);
    }

    #[test]
    fn member_of_a_newer_version_is_named_as_a_newer_format() {
        let newer = |keyspace: Keyspace, record: &[u8]| {
            let store = MemoryStore::new();
            store
                .commit(Batch::new().put(keyspace, b"gate", record))
                .unwrap();
            let newer = Specs::new(Arc::new(store)).newer(Path::new("journal"));
            newer.unwrap().unwrap().to_string()
        };
        let records: [(Keyspace, &[u8], [&str; 2]); 4] = [
            (
                SourceSpec::SPECS,
                br#"{"format":2,"spec":{"id":"gate","uri":"demo:","night_only":true}}"#,
                ["\"gate\" of sources", "night_only"],
            ),
            (
                SourceSpec::SPECS,
                br#"{"format":3,"anything":true}"#,
                ["\"gate\" of sources", "format 3 "],
            ),
            (
                PipelineSpec::SPECS,
                br#"{"format":2,"spec":{"id":"gate","source":"gate","workflow":{},"detect":{"mode":"asleep"}}}"#,
                ["\"gate\" of pipelines", "asleep"],
            ),
            (
                PipelineSpec::INTENTS,
                br#"{"format":1,"fingerprint":"ab","word":"postpone","at_ms":7}"#,
                ["\"gate\" of words", "postpone"],
            ),
        ];
        for (keyspace, record, parts) in records {
            let refusal = newer(keyspace, record);
            for part in parts {
                assert!(refusal.contains(part), "{part}: {refusal}");
            }
        }
    }
}
