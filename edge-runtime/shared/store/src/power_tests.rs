//! Power cuts: a disk in memory that keeps written data apart from durable data.
//!
//! Tests the store's promises against the states that a cut may leave, in every wait for the device
//! and after the last one. Of what is pending these are all, nothing, all but little, and halves of
//! it, by sectors and in any order. The rig that kills a machine (`tests/tools/vm`) shows it with a
//! kernel in between, and can't choose the moment.
//!
//! Not here: a cut while the store is opened or closed.

#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use redb::{Builder, StorageBackend};

use crate::batch::{Batch, Keyspace, Op};
use crate::options::Options;
use crate::table::{FILE, RECORDS};
use crate::{DiskStore, Store};

const K: Keyspace = Keyspace::new("k");

/// Unit that a drive writes as a whole, in bytes.
const SECTOR: usize = 512;

#[derive(Debug, Clone)]
enum Change {
    Write(usize, Vec<u8>),
    Length(usize),
}

impl Change {
    fn on(&self, image: &mut Vec<u8>) {
        match self {
            Self::Length(length) => image.resize(*length, 0),
            Self::Write(at, bytes) => {
                let end = at + bytes.len();
                image.resize(image.len().max(end), 0);
                image[*at..end].copy_from_slice(bytes);
            }
        }
    }
}

/// Contents of a drive, and writes that it may do in any order or not at all.
#[derive(Debug, Default, Clone)]
struct Moment {
    durable: Vec<u8>,
    pending: Vec<Change>,
    /// Batches that have been acknowledged.
    acknowledged: usize,
    /// The witness, a file of its own that is written through.
    witness: Vec<u8>,
}

#[derive(Debug, Default)]
struct Disk {
    witness: PathBuf,
    live: Vec<u8>,
    now: Moment,
    /// Every moment in which something waited: all is written then, and nothing of it is sure.
    waits: Vec<Moment>,
}

impl Disk {
    /// Records this moment.
    fn mark(&mut self) {
        let mut moment = self.now.clone();
        moment.witness = std::fs::read(&self.witness).unwrap_or_default();
        self.waits.push(moment);
    }

    fn change(&mut self, change: Change) {
        change.on(&mut self.live);
        self.now.pending.push(change);
    }
}

impl Moment {
    /// Returns what a cut leaves: of each pending change the sectors that `kept` chooses.
    fn cut(&self, mut kept: impl FnMut() -> bool) -> Vec<u8> {
        let mut image = self.durable.clone();
        for change in &self.pending {
            match change {
                Change::Length(_) => {
                    if kept() {
                        change.on(&mut image);
                    }
                }
                Change::Write(at, bytes) => {
                    for (n, sector) in bytes.chunks(SECTOR).enumerate() {
                        if kept() {
                            Change::Write(at + n * SECTOR, sector.to_vec()).on(&mut image);
                        }
                    }
                }
            }
        }
        image
    }
}

#[derive(Debug, Clone, Default)]
struct Drive(Arc<Mutex<Disk>>);

impl Drive {
    fn disk(&self) -> std::sync::MutexGuard<'_, Disk> {
        self.0.lock().unwrap()
    }
}

fn place(at: u64) -> io::Result<usize> {
    usize::try_from(at).map_err(io::Error::other)
}

impl StorageBackend for Drive {
    fn len(&self) -> io::Result<u64> {
        Ok(self.disk().live.len() as u64)
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let at = place(offset)?;
        let disk = self.disk();
        let found = disk.live.get(at..at + out.len());
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk().change(Change::Length(place(len)?));
        Ok(())
    }
    fn sync_data(&self) -> io::Result<()> {
        let mut disk = self.disk();
        disk.mark();
        disk.now.durable = disk.live.clone();
        disk.now.pending.clear();
        Ok(())
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.disk()
            .change(Change::Write(place(offset)?, data.to_vec()));
        Ok(())
    }
}

#[derive(Debug, Clone)]
enum Step {
    Batch(Vec<(u8, Option<u16>)>),
    Sync,
}

fn step() -> impl Strategy<Value = Step> {
    let op = (any::<u8>(), proptest::option::weighted(0.7, 1..6000_u16));
    prop_oneof![
        3 => proptest::collection::vec(op, 1..8).prop_map(Step::Batch),
        1 => Just(Step::Sync),
    ]
}

fn batch(number: usize, ops: &[(u8, Option<u16>)]) -> Batch {
    let mut batch = Batch::new();
    for (key, length) in ops {
        let (keyspace, key) = (K, vec![*key]);
        batch.push(match length {
            Some(length) => Op::Put {
                keyspace,
                key,
                value: vec![number as u8; usize::from(*length)],
            },
            None => Op::Delete { keyspace, key },
        });
    }
    batch
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn apply(model: &mut Model, batch: &Batch) {
    for op in batch.ops() {
        match op {
            Op::Put { key, value, .. } => model.insert(key.clone(), value.clone()),
            Op::Delete { key, .. } => model.remove(key),
        };
    }
}

/// Of four changes, how many reach the device.
const KEPT_OF_FOUR: [u64; 4] = [0, 2, 3, 4];

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn power_cut_keeps_acknowledged_batches_whole(
        steps in proptest::collection::vec(step(), 1..24),
        seed in any::<u64>(),
    ) {
        let running = tempfile::tempdir().unwrap();
        let drive = Drive::default();
        drive.disk().witness = running.path().join("witness");
        // So small that pages are written before anything waits for them.
        let db = Builder::new()
            .set_cache_size(16 << 10)
            .create_with_backend(drive.clone())
            .unwrap();
        let table = db.begin_write().unwrap();
        table.open_table(RECORDS).unwrap();
        table.commit().unwrap();
        let store = DiskStore::over(db, running.path()).unwrap();
        drive.disk().waits.clear();

        // Contents after each number of batches.
        let mut states = vec![Model::new()];
        for step in &steps {
            match step {
                Step::Batch(ops) => {
                    let batch = batch(states.len(), ops);
                    let mut state = states[states.len() - 1].clone();
                    apply(&mut state, &batch);
                    states.push(state);
                    store.write(batch).unwrap();
                }
                Step::Sync => {
                    store.sync().unwrap();
                    drive.disk().now.acknowledged = states.len() - 1;
                }
            }
        }
        drive.disk().mark();
        let waits = std::mem::take(&mut drive.disk().waits);

        let mut random = seed | 1;
        for moment in waits {
            for of_four in KEPT_OF_FOUR {
                let kept = || {
                    // xorshift64, Marsaglia, "Xorshift RNGs", 2003.
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    random % 4 < of_four
                };
                let root = tempfile::tempdir().unwrap();
                std::fs::create_dir(root.path().join("data")).unwrap();
                std::fs::write(root.path().join("data").join(FILE), moment.cut(kept)).unwrap();
                std::fs::write(root.path().join("witness"), &moment.witness).unwrap();
                let (store, report) = DiskStore::open(root.path(), &Options::default()).unwrap();
                prop_assert!(report.outcome.is_clean(), "{:?}", report);
                let page = store.scan(K, Bound::Unbounded, usize::MAX).unwrap();
                prop_assert_eq!(&page.corrupt, &[]);
                let found: Model = page.entries.into_iter().map(|e| (e.key, e.value)).collect();
                prop_assert!(
                    states[moment.acknowledged..].contains(&found),
                    "not what any batch from {} on left",
                    moment.acknowledged
                );
            }
        }
    }
}
