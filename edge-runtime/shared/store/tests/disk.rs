//! The store on disk against a model, a killed process, damaged files and a full disk.
#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use proptest::prelude::*;
use redb::{ReadableDatabase, ReadableTable};
use watchkeeper_store::{
    Batch, DiskStore, Keyspace, MAX_VALUE_BYTES, OpenOutcome, OpenReport, Options, Store,
    StoreError, log_key, log_seq,
};

const LOG: Keyspace = Keyspace::new("log");
const MAP: Keyspace = Keyspace::new("map");
// Its name begins like the one of another keyspace.
const MAP_2: Keyspace = Keyspace::new("map2");

fn open(root: &Path) -> (DiskStore, OpenReport) {
    DiskStore::open(root, &Options::default()).unwrap()
}

fn everything(store: &dyn Store, keyspace: Keyspace) -> Vec<(Vec<u8>, Vec<u8>)> {
    let page = store.scan(keyspace, Bound::Unbounded, usize::MAX).unwrap();
    assert_eq!(page.corrupt, []);
    page.entries.into_iter().map(|e| (e.key, e.value)).collect()
}

#[test]
fn mark_of_the_last_batch_survives_a_lost_database() {
    let root = tempfile::tempdir().unwrap();
    let (store, _) = open(root.path());
    assert_eq!(store.mark(), None);
    store
        .commit(Batch::new().put(MAP, b"a", b"1").mark(b"first"))
        .unwrap();
    store.commit(Batch::new().put(MAP, b"b", b"2")).unwrap();
    // Written, but not acknowledged.
    store
        .write(Batch::new().put(MAP, b"c", b"3").mark(b"second"))
        .unwrap();
    assert_eq!(store.mark().as_deref(), Some(&b"first"[..]));
    drop(store);
    fs::write(root.path().join("data/records.redb"), [0xff; 64]).unwrap();
    for _ in 0..2 {
        let (store, _) = open(root.path());
        assert_eq!(store.mark().as_deref(), Some(&b"first"[..]));
    }
}

#[derive(Debug, Clone)]
enum Action {
    Put(Keyspace, u8, Vec<u8>),
    Delete(Keyspace, u8),
    /// A batch over two keyspaces.
    Both(u8, Vec<u8>),
    Reopen,
}

fn action() -> impl Strategy<Value = Action> {
    let keyspace = || prop_oneof![Just(LOG), Just(MAP), Just(MAP_2)];
    let value = || proptest::collection::vec(any::<u8>(), 0..2000);
    prop_oneof![
        6 => (keyspace(), any::<u8>(), value()).prop_map(|(s, k, v)| Action::Put(s, k, v)),
        2 => (keyspace(), any::<u8>()).prop_map(|(s, k)| Action::Delete(s, k)),
        2 => (any::<u8>(), value()).prop_map(|(k, v)| Action::Both(k, v)),
        1 => Just(Action::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn behaves_like_a_sorted_map_over_reopenings(actions in proptest::collection::vec(action(), 1..60)) {
        let root = tempfile::tempdir().unwrap();
        let (mut store, _) = open(root.path());
        let mut model: BTreeMap<(Keyspace, Vec<u8>), Vec<u8>> = BTreeMap::new();
        for action in actions {
            match action {
                Action::Put(s, k, v) => {
                    store.commit(Batch::new().put(s, &[k], &v)).unwrap();
                    model.insert((s, vec![k]), v);
                }
                Action::Delete(s, k) => {
                    store.commit(Batch::new().delete(s, &[k])).unwrap();
                    model.remove(&(s, vec![k]));
                }
                Action::Both(k, v) => {
                    store.commit(Batch::new().put(LOG, &[k], &v).delete(MAP, &[k])).unwrap();
                    model.insert((LOG, vec![k]), v);
                    model.remove(&(MAP, vec![k]));
                }
                Action::Reopen => {
                    drop(store);
                    let (reopened, report) = open(root.path());
                    prop_assert!(report.outcome.is_clean());
                    prop_assert_eq!(report.records, model.len() as u64);
                    store = reopened;
                }
            }
            for keyspace in [LOG, MAP, MAP_2] {
                let expected: Vec<_> = model
                    .iter()
                    .filter(|((s, _), _)| *s == keyspace)
                    .map(|((_, k), v)| (k.clone(), v.clone()))
                    .collect();
                prop_assert_eq!(everything(&store, keyspace), expected);
            }
        }
    }
}

/// The process that [`an_acknowledged_record_survives_a_killed_process`] kills.
#[test]
#[ignore = "the process that another test kills"]
fn child_that_writes_until_it_is_killed() {
    let root = PathBuf::from(std::env::var_os("WATCHKEEPER_STORE_CHILD").unwrap());
    let (store, report) = open(&root);
    assert!(report.outcome.is_clean(), "{report:?}");
    let next = everything(&store, LOG)
        .last()
        .and_then(|(key, _)| log_seq(key))
        .map_or(1, |seq| seq + 1);
    for seq in next.. {
        let mut batch =
            Batch::new()
                .put(LOG, &log_key(seq), &payload(seq))
                .put(MAP, b"head", &log_key(seq));
        if seq > 300 {
            batch = batch.delete(LOG, &log_key(seq - 300));
        }
        store.commit(batch).unwrap();
        acknowledge(seq);
    }
}

#[expect(
    clippy::print_stdout,
    reason = "the pipe to the parent is standard output"
)]
fn acknowledge(seq: u64) {
    println!("acked {seq}");
}

fn payload(seq: u64) -> Vec<u8> {
    let mut bytes = vec![(seq % 251) as u8; 600];
    bytes.extend_from_slice(&seq.to_be_bytes());
    bytes
}

#[test]
fn an_acknowledged_record_survives_a_killed_process() {
    let root = tempfile::tempdir().unwrap();
    let mut acked = 0;
    for round in 0..6_u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--ignored",
                "--exact",
                "child_that_writes_until_it_is_killed",
                "--nocapture",
            ])
            .env("WATCHKEEPER_STORE_CHILD", root.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let wanted = acked + 40 + round * 37;
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            // libtest may print text before the first line.
            if let Some(seq) = line
                .unwrap()
                .rsplit("acked ")
                .next()
                .and_then(|s| s.parse().ok())
            {
                acked = seq;
            }
            if acked >= wanted {
                break;
            }
        }
        assert!(acked >= wanted, "the child ended by itself after {acked}");
        child.kill().unwrap();
        child.wait().unwrap();

        let (store, report) = open(root.path());
        assert!(report.outcome.is_clean(), "{report:?}");
        assert_eq!(report.corrupt, []);
        let found = everything(&store, LOG);
        let last = log_seq(&found.last().unwrap().0).unwrap();
        assert!(last >= acked, "acknowledged {acked}, found {last}");
        let first = last.saturating_sub(299).max(1);
        assert_eq!(
            found.len() as u64,
            last - first + 1,
            "a hole, or a record too many"
        );
        for (seq, (key, value)) in (first..).zip(&found) {
            assert_eq!(log_seq(key), Some(seq));
            assert_eq!(*value, payload(seq));
        }
        // The other half of the same batch.
        assert_eq!(store.get(MAP, b"head").unwrap().unwrap(), log_key(last));
        drop(store);
    }
}

fn filled(root: &Path, records: u64) {
    let (store, _) = open(root);
    for seq in 1..=records {
        store
            .write(Batch::new().put(LOG, &log_key(seq), &payload(seq)))
            .unwrap();
    }
    store.sync().unwrap();
}

fn file(root: &Path) -> PathBuf {
    root.join("data/records.redb")
}

#[test]
fn half_made_database_is_made_again() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("data")).unwrap();
    fs::write(root.path().join("data/unfinished.redb"), [0; 4096]).unwrap();
    let (store, report) = open(root.path());
    assert!(report.outcome.is_clean(), "{report:?}");
    store.commit(Batch::new().put(MAP, b"a", b"1")).unwrap();
    assert_eq!(
        fs::read_dir(root.path().join("data")).unwrap().count(),
        1,
        "half a file stays"
    );
}

#[test]
fn truncated_or_missing_file_is_reported() {
    type Damage = fn(&Path);
    let cut: Damage = |file| {
        let half = fs::metadata(file).unwrap().len() / 2;
        let file = fs::File::options().write(true).open(file).unwrap();
        file.set_len(half).unwrap();
    };
    let gone: Damage = |file| fs::remove_file(file).unwrap();
    for damage in [cut, gone] {
        let root = tempfile::tempdir().unwrap();
        filled(root.path(), 500);
        damage(&file(root.path()));
        let (store, report) = open(root.path());
        assert!(!report.outcome.is_clean(), "{report:?}");
        store
            .commit(Batch::new().put(MAP, b"after", b"ok"))
            .unwrap();
        drop(store);
        let again = open(root.path()).1;
        assert!(again.outcome.is_clean(), "told twice: {again:?}");
    }
}

/// Flips a bit at every place of the file, and counts the records reported as saved. A wrong
/// record, a panic or an unreported loss fails.
fn saved_over_flipped_bits(pristine: &Path) -> u64 {
    let db = fs::read(file(pristine)).unwrap();
    // Only the used part; the rest of the file is free pages.
    let used = db.iter().rposition(|b| *b != 0).unwrap();
    let (mut noticed, mut saved) = (0, 0);
    for step in 0..24 {
        let root = tempfile::tempdir().unwrap();
        copy_tree(pristine, root.path());
        let mut broken = db.clone();
        broken[used * step / 24] ^= 1 << (step % 8);
        fs::write(file(root.path()), &broken).unwrap();

        let (store, report) = open(root.path());
        let mut right = 0;
        for seq in 1..=200 {
            if let Ok(Some(value)) = store.get(LOG, &log_key(seq)) {
                assert_eq!(value, payload(seq), "a wrong record after a flipped bit");
                right += 1;
            }
        }
        if right < 200 {
            noticed += 1;
            assert!(
                !report.outcome.is_clean(),
                "{right} of 200 records and not a word"
            );
        }
        if let OpenOutcome::Quarantined { saved: said, .. } = report.outcome {
            assert_eq!(said, right);
            saved += right;
        }
        // Whatever was lost, the store accepts writes.
        store
            .commit(Batch::new().put(MAP, b"after", b"ok"))
            .unwrap();
        assert_eq!(store.get(MAP, b"after").unwrap().unwrap(), b"ok");
    }
    assert!(
        noticed > 0,
        "no flipped bit hit a record: the test looks at nothing"
    );
    saved
}

#[test]
fn flipped_bit_is_noticed_without_panic_or_wrong_record() {
    let closed = tempfile::tempdir().unwrap();
    filled(closed.path(), 200);
    let saved = saved_over_flipped_bits(closed.path());
    // A page has up to six of these records, and most places are in one.
    assert!(saved > 5 * 194, "{saved} saved");
}

#[test]
fn flipped_bit_after_unclean_end_costs_no_more() {
    let running = tempfile::tempdir().unwrap();
    let (store, _) = open(running.path());
    for seq in 1..=200 {
        store
            .commit(Batch::new().put(LOG, &log_key(seq), &payload(seq)))
            .unwrap();
    }
    let saved = saved_over_flipped_bits(running.path());
    assert!(saved > 5 * 194, "{saved} saved");
}

/// Flips a bit in the commit slot that the file names as the last one's.
fn damage_the_last_commit(root: &Path) {
    let mut bytes = fs::read(file(root)).unwrap();
    let slot = usize::from(bytes[9] & 1);
    bytes[64 + 128 * slot + 16] ^= 1;
    fs::write(file(root), bytes).unwrap();
}

#[test]
fn damaged_last_commit_is_reported_as_lost() {
    let running = tempfile::tempdir().unwrap();
    let (store, _) = open(running.path());
    for seq in 1..=3 {
        store
            .commit(Batch::new().put(LOG, &log_key(seq), &payload(seq)))
            .unwrap();
    }
    let cut = tempfile::tempdir().unwrap();
    copy_tree(running.path(), cut.path());
    damage_the_last_commit(cut.path());
    let (found, report) = open(cut.path());
    assert_eq!(
        report.outcome,
        OpenOutcome::Truncated { lost_batches: 1 },
        "{report:?}"
    );
    assert_eq!(everything(&found, LOG).len(), 2);
    drop(found);
    assert!(open(cut.path()).1.outcome.is_clean(), "told twice");

    // redb refuses a closed store with this damage, because no earlier commit is left; we salvage
    // it.
    drop(store);
    damage_the_last_commit(running.path());
    let report = open(running.path()).1;
    assert!(
        matches!(report.outcome, OpenOutcome::Quarantined { saved: 2.., .. }),
        "{report:?}"
    );
}

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// All that is stored, read without the store.
const RAW: redb::TableDefinition<'_, &[u8], &[u8]> = redb::TableDefinition::new("records");

fn full(keyspace: &str, key: &[u8]) -> Vec<u8> {
    [keyspace.as_bytes(), b"\0", key].concat()
}

/// Sets what is stored at a key, without the store.
fn put_raw(root: &Path, full: &[u8], raw: &[u8]) {
    let db = redb::Database::open(file(root)).unwrap();
    let transaction = db.begin_write().unwrap();
    transaction
        .open_table(RAW)
        .unwrap()
        .insert(full, raw)
        .unwrap();
    transaction.commit().unwrap();
}

fn raw(root: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let db = redb::Database::open(file(root)).unwrap();
    let records = db.begin_read().unwrap().open_table(RAW).unwrap();
    let all = records.iter().unwrap().map(Result::unwrap);
    all.map(|(k, v)| (k.value().to_vec(), v.value().to_vec()))
        .collect()
}

/// Flips a bit of record `seq`, as a bug or a bad memory cell would.
fn damage(root: &Path, seq: u64) {
    let key = full("log", &log_key(seq));
    let mut value = raw(root)[&key].clone();
    value[40] ^= 1;
    put_raw(root, &key, &value);
}

#[test]
fn damaged_record_stays_until_its_loss_is_noted() {
    // Every opening would compact.
    let eager = Options {
        compact_floor_bytes: 0,
        compact_ratio: 0.0,
        ..Options::default()
    };
    let root = tempfile::tempdir().unwrap();
    filled(root.path(), 3);
    damage(root.path(), 2);
    let failed = DiskStore::open_noting(root.path(), &eager, |_, report| {
        assert_eq!(report.corrupt.len(), 1);
        // No store takes an empty key.
        Ok(Batch::new().put(MAP, b"", b"lost"))
    });
    assert!(matches!(failed, Err(StoreError::BadKey { .. })));
    drop(failed);
    let noted = DiskStore::open_noting(root.path(), &eager, |_, report| {
        let lost = u8::try_from(report.corrupt.len()).unwrap();
        Ok(Batch::new().put(MAP, b"lost", &[lost]))
    });
    drop(noted.unwrap());
    let (store, report) = DiskStore::open(root.path(), &eager).unwrap();
    assert_eq!(report.corrupt, []);
    assert_eq!(store.get(MAP, b"lost").unwrap(), Some(vec![1]));
    assert_eq!(everything(&store, LOG).len(), 2);
}

#[test]
fn damaged_record_is_reported_once_and_removed() {
    let root = tempfile::tempdir().unwrap();
    filled(root.path(), 3);
    damage(root.path(), 2);
    let (store, report) = open(root.path());
    assert!(report.outcome.is_clean());
    assert_eq!(report.corrupt.len(), 1);
    assert_eq!(report.corrupt[0].keyspace, "log");
    assert_eq!(log_seq(&report.corrupt[0].key), Some(2));
    let left: Vec<_> = everything(&store, LOG)
        .iter()
        .filter_map(|(k, _)| log_seq(k))
        .collect();
    assert_eq!(left, [1, 3]);
    drop(store);
    assert_eq!(open(root.path()).1.corrupt, []);
}

/// Makes a record of `format` as a build that knows it would: its checksum holds.
fn record_of(format: u16, key: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut head = format.to_be_bytes().to_vec();
    head.extend_from_slice(&u32::try_from(payload.len()).unwrap().to_be_bytes());
    let crc = crc32fast::hash(&[&head, key, payload].concat());
    [b"WK", &head[..], &crc.to_be_bytes(), payload].concat()
}

/// Returns every file of a folder with its content, except the lock.
fn content(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(content(&path));
        } else if !path.ends_with("lock") {
            all.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    all
}

#[test]
fn newer_files_are_refused_and_left_as_they_are() {
    let newer_redb: fn(&Path) = |root| {
        let mut bytes = fs::read(file(root)).unwrap();
        // Offset of the version in the commit slots.
        bytes[64] = 4;
        bytes[192] = 4;
        fs::write(file(root), bytes).unwrap();
    };
    let newer_layout: fn(&Path) = |root| fs::write(root.join("format"), "3 other\n").unwrap();
    for (make, says) in [
        (newer_layout, ["its layout", "format 3", "up to 2"]),
        (newer_redb, ["the database", "format 4", "up to 3"]),
    ] {
        let root = tempfile::tempdir().unwrap();
        filled(root.path(), 50);
        make(root.path());
        let before = content(root.path());
        let refused = DiskStore::open(root.path(), &Options::default()).unwrap_err();
        assert!(matches!(refused, StoreError::Newer(_)), "{refused:?}");
        let said = refused.to_string();
        for part in says {
            assert!(said.contains(part), "no {part:?} in {said}");
        }
        assert!(
            said.starts_with(&root.path().display().to_string()),
            "{said}"
        );
        assert!(said.contains("start the newer version again"), "{said}");
        assert!(
            content(root.path()) == before,
            "{said}: something was touched"
        );
    }
}

#[test]
fn newer_record_is_refused_without_loss() {
    let root = tempfile::tempdir().unwrap();
    filled(root.path(), 3);
    let newer = full("log", &log_key(4));
    put_raw(
        root.path(),
        &newer,
        &record_of(2, &newer, b"written differently"),
    );
    // A damaged one beside it, which this build would remove from its own store.
    put_raw(root.path(), &full("map", b"a"), b"nonsense");
    let before = raw(root.path());
    let refused = DiskStore::open(root.path(), &Options::default()).unwrap_err();
    let said = refused.to_string();
    assert!(
        said.contains("of \"log\" has format 2 and this version reads up to 1"),
        "{said}"
    );
    assert!(raw(root.path()) == before, "a record was touched");
    assert!(!root.path().join("data.quarantine-1").exists());
}

#[test]
fn files_beyond_repair_are_set_aside() {
    let root = tempfile::tempdir().unwrap();
    for round in 1..=5 {
        filled(root.path(), 50);
        fs::write(file(root.path()), [0xff; 64]).unwrap();
        let (store, report) = open(root.path());
        let OpenOutcome::Quarantined { to, .. } = &report.outcome else {
            panic!("{report:?}");
        };
        assert_eq!(*to, root.path().join(format!("data.quarantine-{round}")));
        assert!(to.join("records.redb").is_file(), "the evidence is kept");
        assert_eq!(everything(&store, LOG), []);
    }
    let kept = fs::read_dir(root.path())
        .unwrap()
        .filter(|e| {
            e.as_ref()
                .unwrap()
                .file_name()
                .to_string_lossy()
                .starts_with("data.quarantine")
        })
        .count();
    assert_eq!(kept, 3, "the disk does not fill with old damage");
}

#[test]
fn store_in_use_is_refused_with_holder_pid() {
    let root = tempfile::tempdir().unwrap();
    let (_held, _) = open(root.path());
    let refused = DiskStore::open(root.path(), &Options::default()).unwrap_err();
    let said = refused.to_string();
    assert!(
        said.contains("is in use by another process")
            && said.contains(&std::process::id().to_string()),
        "{said}"
    );
}

#[test]
fn salvage_may_be_cut_at_any_point() {
    let damaged = tempfile::tempdir().unwrap();
    filled(damaged.path(), 200);
    let mut bytes = fs::read(file(damaged.path())).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(file(damaged.path()), bytes).unwrap();

    let whole = tempfile::tempdir().unwrap();
    copy_tree(damaged.path(), whole.path());
    let (store, report) = open(whole.path());
    let OpenOutcome::Quarantined { saved, .. } = report.outcome else {
        panic!("{report:?}");
    };
    assert!((1..200).contains(&saved), "{saved} saved");
    drop(store);

    // While it is copied: the copy is made again.
    let copying = tempfile::tempdir().unwrap();
    copy_tree(damaged.path(), copying.path());
    fs::create_dir(copying.path().join("data.new")).unwrap();
    fs::write(copying.path().join("data.new/unfinished.redb"), "x").unwrap();
    let again = open(copying.path()).1;
    assert!(
        matches!(again.outcome, OpenOutcome::Quarantined { saved: n, .. } if n == saved),
        "{again:?}"
    );
    assert!(!copying.path().join("data.new").exists());

    // Between the old folder's move and the new one's.
    let moving = tempfile::tempdir().unwrap();
    copy_tree(whole.path(), moving.path());
    fs::rename(moving.path().join("data"), moving.path().join("data.new")).unwrap();
    // No batch was applied to it before the cut.
    {
        let db = redb::Database::open(moving.path().join("data.new/records.redb")).unwrap();
        let transaction = db.begin_write().unwrap();
        let removed = transaction
            .open_table(RAW)
            .unwrap()
            .remove(&b"\0batches"[..])
            .unwrap()
            .is_some();
        transaction.commit().unwrap();
        assert!(removed);
    }
    let (store, report) = open(moving.path());
    assert_eq!(everything(&store, LOG).len() as u64, saved);
    assert!(!report.outcome.is_clean(), "a loss without a word");
}

#[test]
fn nearly_full_disk_refuses_puts_and_allows_deletes() {
    let root = tempfile::tempdir().unwrap();
    let refused = DiskStore::open(
        root.path(),
        &Options {
            min_free_bytes: u64::MAX / 2,
            ..Options::default()
        },
    );
    assert!(matches!(refused.unwrap_err(), StoreError::Full { .. }));

    // Enough for opening, too little for this record, even if others free bytes meanwhile.
    let free = rustix::fs::statvfs(root.path()).unwrap();
    let free = free.f_bavail * free.f_frsize;
    let (store, _) = DiskStore::open(
        root.path(),
        &Options {
            min_free_bytes: free.saturating_sub(1 << 20),
            ..Options::default()
        },
    )
    .unwrap();
    let refused = store
        .commit(Batch::new().put(LOG, b"a", &vec![0; MAX_VALUE_BYTES]))
        .unwrap_err();
    assert!(
        matches!(refused, StoreError::Full { .. }) && refused.is_transient(),
        "{refused}"
    );
    assert!(store.commit(Batch::new().delete(LOG, b"a")).is_ok());
}

#[test]
fn largest_record_comes_back_whole() {
    let root = tempfile::tempdir().unwrap();
    let value: Vec<u8> = (0..=u8::MAX).cycle().take(MAX_VALUE_BYTES).collect();
    let (store, _) = open(root.path());
    store.commit(Batch::new().put(MAP, b"a", &value)).unwrap();
    drop(store);
    let (store, report) = open(root.path());
    assert!(report.outcome.is_clean());
    assert!(everything(&store, MAP) == [(b"a".to_vec(), value)]);
}

/// The process in which [`check_finds_a_failed_disk_without_writes`] makes every write fail, with
/// the signal that comes with it ignored.
#[test]
#[ignore = "a process of another test"]
fn child_whose_disk_fails() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let root = PathBuf::from(std::env::var_os("WATCHKEEPER_STORE_FAILS").unwrap());
    let (store, _) = open(&root);
    store.commit(Batch::new().put(MAP, b"a", b"1")).unwrap();
    store.check().unwrap();
    assert_eq!(store.poison(), None);
    let limit = getrlimit(Resource::Fsize);
    let mut none = limit;
    none.current = Some(0);
    setrlimit(Resource::Fsize, none).unwrap();
    let failed = store.check().unwrap_err();
    assert!(!failed.is_transient(), "{failed}");
    setrlimit(Resource::Fsize, limit).unwrap();
    // Writes would succeed again, but the loss in between is unknown.
    assert!(store.poison().is_some());
    let refused = store.commit(Batch::new().put(MAP, b"a", b"2"));
    assert!(
        matches!(refused, Err(StoreError::Poisoned { .. })),
        "{refused:?}"
    );
    drop(store);
    let (store, report) = open(&root);
    assert!(report.outcome.is_clean(), "{report:?}");
    assert_eq!(store.get(MAP, b"a").unwrap().as_deref(), Some(&b"1"[..]));
    store.check().unwrap();
}

#[test]
fn check_finds_a_failed_disk_without_writes() {
    let root = tempfile::tempdir().unwrap();
    let child = Command::new("sh")
        .args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"])
        .arg(std::env::current_exe().unwrap())
        .args([
            "--ignored",
            "--exact",
            "child_whose_disk_fails",
            "--nocapture",
        ])
        .env("WATCHKEEPER_STORE_FAILS", root.path())
        .output()
        .unwrap();
    assert!(child.status.success(), "{child:?}");
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(said.contains("1 passed"), "{said}");
}

#[test]
fn folder_that_can_not_be_made_is_one_sentence() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("file");
    fs::write(&file, "").unwrap();
    let said = DiskStore::open(&file.join("state"), &Options::default())
        .unwrap_err()
        .to_string();
    assert!(said.contains("can't be written"), "{said}");
}

#[test]
fn bloated_store_is_compacted_without_loss() {
    let root = tempfile::tempdir().unwrap();
    {
        let (store, _) = open(root.path());
        for key in 0..1000_u64 {
            store
                .write(Batch::new().put(MAP, &log_key(key), &[7; 4000]))
                .unwrap();
        }
        store.sync().unwrap();
        for key in 10..1000 {
            store
                .write(Batch::new().delete(MAP, &log_key(key)))
                .unwrap();
        }
        store.sync().unwrap();
    }
    let eager = Options {
        compact_floor_bytes: 0,
        compact_ratio: 1.5,
        ..Options::default()
    };
    let before = fs::metadata(file(root.path())).unwrap().len();
    let (store, _) = DiskStore::open(root.path(), &eager).unwrap();
    let after = store.size_on_disk().unwrap();
    assert!(after < before / 4, "{after} of {before} bytes");
    assert_eq!(everything(&store, MAP).len(), 10);
    store
        .commit(Batch::new().put(MAP, b"after", b"ok"))
        .unwrap();
    drop(store);
    assert_eq!(everything(&open(root.path()).0, MAP).len(), 11);
}

#[test]
fn concurrent_commits_are_all_durable() {
    let root = tempfile::tempdir().unwrap();
    {
        let store = Arc::new(open(root.path()).0);
        std::thread::scope(|scope| {
            for writer in 0..4_u64 {
                let store = Arc::clone(&store);
                scope.spawn(move || {
                    for n in 0..25 {
                        store
                            .commit(Batch::new().put(LOG, &log_key(writer * 100 + n), b"x"))
                            .unwrap();
                    }
                });
            }
        });
    }
    assert_eq!(everything(&open(root.path()).0, LOG).len(), 100);
}
