//! The durable tier against a model: every operation, in every order, over restarts.

use std::path::Path;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use watchkeeper_archive::durable::Durable;
use watchkeeper_archive::{ArchiveError, ContentHash, EntryName, Limits, Metadata, Retention};
use watchkeeper_archive::{Content, NewEntry};
use watchkeeper_store::MemoryStore;

/// Bounds that a few entries reach.
const LIMITS: Limits = Limits {
    max_bytes: 3_000,
    max_entry_bytes: 1_400,
    max_entries: 5,
    max_references: 3,
    max_record_bytes: 1 << 20,
};

#[derive(Debug, Clone)]
enum Step {
    Ingest {
        name: usize,
        content: usize,
        ttl: Option<u64>,
    },
    Reference {
        name: usize,
    },
    Destroy {
        name: usize,
    },
    DestroyAll {
        collection: usize,
    },
    Protect {
        name: usize,
        is_on: bool,
    },
    Wait {
        seconds: i64,
    },
    Expire,
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..6_usize, 0..6_usize, prop::option::of(1..50_u64))
            .prop_map(|(name, content, ttl)| Step::Ingest { name, content, ttl }),
        2 => (0..6_usize).prop_map(|name| Step::Reference { name }),
        2 => (0..6_usize).prop_map(|name| Step::Destroy { name }),
        1 => (0..2_usize).prop_map(|collection| Step::DestroyAll { collection }),
        2 => (0..6_usize, any::<bool>()).prop_map(|(name, is_on)| Step::Protect { name, is_on }),
        1 => (1..40_i64).prop_map(|seconds| Step::Wait { seconds }),
        1 => Just(Step::Expire),
        1 => Just(Step::Restart),
    ]
}

/// Six names in two collections.
fn name(number: usize) -> EntryName {
    EntryName::new(["yard", "dock"][number % 2], &format!("n{}", number / 2)).unwrap()
}

/// Contents of different sizes; the last is too large.
fn content(number: usize) -> Vec<u8> {
    let bytes = [0, 100, 700, 1_000, 1_400, 1_401][number];
    vec![u8::try_from(number).unwrap(); bytes]
}

/// One entry of the model; `None` as content is a reference.
#[derive(Debug, Clone, PartialEq)]
struct Item {
    name: EntryName,
    content: Option<usize>,
    is_protected: bool,
    expires: Option<Timestamp>,
}

/// The entries in the order of ingests, by the stated policy.
#[derive(Debug, Default, Clone)]
struct Model(Vec<Item>);

impl Model {
    fn find(&self, name: &EntryName) -> Option<&Item> {
        self.0.iter().find(|item| item.name == *name)
    }

    fn remove(&mut self, name: &EntryName) {
        self.0.retain(|item| item.name != *name);
    }

    fn bytes(&self) -> usize {
        let mut contents: Vec<usize> = self.0.iter().filter_map(|item| item.content).collect();
        contents.sort_unstable();
        contents.dedup();
        contents
            .into_iter()
            .map(|number| content(number).len())
            .sum()
    }

    fn expire(&mut self, now: Timestamp) {
        let is_due = |item: &Item| !item.is_protected && item.expires.is_some_and(|at| at <= now);
        self.0.retain(|item| !is_due(item));
    }

    /// Adds an item. Returns whether there was room, and changes nothing without it.
    fn ingest(&mut self, item: Item, now: Timestamp) -> bool {
        if self
            .find(&item.name)
            .is_some_and(|known| known.is_protected)
        {
            return true;
        }
        let before = self.clone();
        self.remove(&item.name);
        self.0.push(item.clone());
        let is_new = |other: &Item| other.name == item.name;
        // A new entry does not expire by its own ingest.
        let new = self.0.pop().unwrap();
        self.expire(now);
        self.0.push(new);
        let stored = |model: &Self| model.0.iter().filter(|item| item.content.is_some()).count();
        while self.bytes() as u64 > LIMITS.max_bytes || stored(self) > LIMITS.max_entries {
            let victim = self
                .0
                .iter()
                .position(|other| other.content.is_some() && !other.is_protected && !is_new(other));
            match victim {
                Some(at) => drop(self.0.remove(at)),
                None => {
                    *self = before;
                    return false;
                }
            }
        }
        true
    }

    fn refer(&mut self, item: Item) {
        if self
            .find(&item.name)
            .is_some_and(|known| known.content.is_some())
        {
            return;
        }
        self.remove(&item.name);
        self.0.push(item);
        while self.0.iter().filter(|item| item.content.is_none()).count() > LIMITS.max_references {
            let oldest = self.0.iter().position(|item| item.content.is_none());
            self.0.remove(oldest.unwrap());
        }
    }
}

struct World {
    folder: tempfile::TempDir,
    store: Arc<MemoryStore>,
    durable: Durable,
    model: Model,
    now: Timestamp,
}

fn open(folder: &Path, store: &Arc<MemoryStore>) -> Durable {
    let (durable, found) =
        Durable::over(folder, Arc::clone(store) as _, true, LIMITS, false).unwrap();
    assert_eq!((found.missing, found.unreadable), (0, 0));
    durable
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(MemoryStore::new());
        Self {
            durable: open(folder.path(), &store),
            folder,
            store,
            model: Model::default(),
            now: "2026-11-25T00:00:00Z".parse().unwrap(),
        }
    }

    fn apply(&mut self, step: &Step) {
        match step {
            Step::Ingest {
                name: number,
                content,
                ttl,
            } => self.ingest(*number, *content, *ttl),
            Step::Reference { name: number } => self.refer(*number),
            Step::Destroy { name: number } => {
                let name = name(*number);
                let is_protected = self.model.find(&name).is_some_and(|item| item.is_protected);
                let done = self.durable.destroy(std::slice::from_ref(&name));
                assert_eq!(
                    matches!(done, Err(ArchiveError::Protected(_))),
                    is_protected
                );
                if !is_protected {
                    self.model.remove(&name);
                }
            }
            Step::DestroyAll { collection } => self.destroy_all(["yard", "dock"][*collection]),
            Step::Protect {
                name: number,
                is_on,
            } => self.protect(*number, *is_on),
            Step::Wait { seconds } => {
                self.now = self
                    .now
                    .checked_add(SignedDuration::from_secs(*seconds))
                    .unwrap();
            }
            Step::Expire => {
                self.durable.expire(self.now).unwrap();
                self.model.expire(self.now);
            }
            Step::Restart => {
                // What was not synced is lost, as after a power cut.
                self.store = Arc::new(self.store.power_cut());
                self.durable = open(self.folder.path(), &self.store);
            }
        }
    }

    fn ingest(&mut self, number: usize, of: usize, ttl: Option<u64>) {
        let mut staged = self.durable.stage().unwrap();
        let appended = staged.append(&content(of));
        assert_eq!(appended.is_err(), of == 5);
        if appended.is_err() {
            return;
        }
        let name = name(number);
        let known = self.model.find(&name);
        let is_blocked = known.is_some_and(|item| item.is_protected && item.content != Some(of));
        let new = NewEntry {
            ttl_s: ttl,
            ..NewEntry::named(name.clone())
        };
        let done = self.durable.commit(&staged.seal().unwrap(), new, self.now);
        if is_blocked {
            assert!(matches!(done, Err(ArchiveError::Protected(_))), "{done:?}");
            return;
        }
        let ttl = ttl.map(|ttl| SignedDuration::from_secs(i64::try_from(ttl).unwrap()));
        let item = Item {
            name,
            content: Some(of),
            is_protected: false,
            expires: ttl.map(|ttl| self.now.checked_add(ttl).unwrap()),
        };
        let has_room = self.model.ingest(item, self.now);
        assert_eq!(done.is_ok(), has_room, "{done:?}");
    }

    fn refer(&mut self, number: usize) {
        let name = name(number);
        let new = NewEntry::named(name.clone());
        let reference = (new, ContentHash::of(b"media"), 5, format!("media-{number}"));
        self.durable
            .add_references(vec![reference], number as u64, self.now)
            .unwrap();
        assert_eq!(self.durable.cursor().unwrap(), number as u64);
        self.model.refer(Item {
            name,
            content: None,
            is_protected: false,
            expires: None,
        });
    }

    fn destroy_all(&mut self, collection: &str) {
        let own = self
            .model
            .0
            .iter()
            .filter(|item| item.name.collection() == collection);
        let own: Vec<Item> = own.cloned().collect();
        let names: Vec<EntryName> = own.iter().map(|item| item.name.clone()).collect();
        let done = self.durable.destroy(&names);
        let is_blocked = own.iter().any(|item| item.is_protected);
        assert_eq!(done.is_err(), is_blocked);
        if !is_blocked {
            names.iter().for_each(|name| self.model.remove(name));
        }
    }

    fn protect(&mut self, number: usize, is_on: bool) {
        let name = name(number);
        let class = match is_on {
            true => Retention::Protected,
            false => Retention::Normal,
        };
        let now = self.now;
        let found = self.durable.entry(&name, now).unwrap();
        let is_reference = found.as_ref().is_some_and(|e| e.content != Content::Stored);
        let done = self
            .durable
            .set_retention(std::slice::from_ref(&name), class, now);
        assert_eq!(done.is_err(), is_reference && is_on);
        if found.is_some() && done.is_ok() {
            let known = self.model.0.iter_mut().find(|item| item.name == name);
            known.unwrap().is_protected = is_on;
        }
    }

    /// Compares everything that can be read with the model, and the files with the entries.
    fn check(&self) {
        let mut expected = self.model.clone();
        expected.expire(self.now);
        expected.0.sort_by(|a, b| a.name.cmp(&b.name));
        let mut found = Vec::new();
        let visit = |entry| found.push(entry);
        self.durable.scan(self.now, visit).unwrap();
        let names: Vec<_> = found.iter().map(|entry| &entry.name).collect();
        let expected_names: Vec<_> = expected.0.iter().map(|item| &item.name).collect();
        assert_eq!(names, expected_names);
        for (entry, item) in found.iter().zip(&expected.0) {
            assert_eq!(entry.metadata, Metadata::default());
            assert_eq!(entry.retention == Retention::Protected, item.is_protected);
            if let Some(of) = item.content {
                let read = self.durable.read(entry).unwrap();
                assert_eq!(read.as_deref(), Some(content(of).as_slice()));
            }
        }
        let files = |folder: &str| {
            let files = std::fs::read_dir(self.folder.path().join(folder)).unwrap();
            files
                .map(|file| file.unwrap().file_name())
                .collect::<Vec<_>>()
        };
        let mut contents: Vec<_> = self
            .model
            .0
            .iter()
            .filter_map(|item| item.content)
            .collect();
        contents.sort_unstable();
        contents.dedup();
        assert_eq!(
            files("blobs").len(),
            contents.len(),
            "a content without entry stays"
        );
        assert_eq!(files("staging").len(), 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn durable_tier_behaves_like_a_map(steps in prop::collection::vec(step(), 1..40)) {
        let mut world = World::new();
        for step in &steps {
            world.apply(step);
            world.check();
        }
    }
}
