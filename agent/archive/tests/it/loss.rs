//! Lost records, and entries that change while they are read.

use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use watchkeeper_archive::durable::Durable;
use watchkeeper_archive::{ContentHash, Entry, Limits, NewEntry, Selection};
use watchkeeper_store::{FaultyStore, MemoryStore};

use crate::support::{ingest, name, open, read, settings};

fn contents(folder: &Path) -> usize {
    std::fs::read_dir(folder.join("blobs")).unwrap().count()
}

#[tokio::test]
async fn lost_records_delete_no_content_at_this_or_a_later_start() {
    let folder = tempfile::tempdir().unwrap();
    let archive = open(settings(folder.path()));
    ingest(&archive, "yard/a.jpg", b"alpha").await;
    ingest(&archive, "yard/b.jpg", b"beta").await;
    drop(archive);
    std::fs::remove_dir_all(folder.path().join("records")).unwrap();
    let archive = open(settings(folder.path()));
    assert_eq!(archive.stats().await.unwrap().orphans_kept, 2);
    // New entries do not make the lost ones deletable.
    ingest(&archive, "yard/c.jpg", b"gamma").await;
    drop(archive);
    let archive = open(settings(folder.path()));
    assert_eq!(archive.stats().await.unwrap().orphans_kept, 2);
    assert_eq!(contents(folder.path()), 3);
    // Ingested again, they have their entries, and the next file without one is deleted.
    ingest(&archive, "yard/a.jpg", b"alpha").await;
    ingest(&archive, "yard/b.jpg", b"beta").await;
    drop(archive);
    drop(open(settings(folder.path())));
    let left = ContentHash::of(b"left by a crash").to_string();
    std::fs::write(folder.path().join("blobs").join(left), b"left by a crash").unwrap();
    let archive = open(settings(folder.path()));
    assert_eq!(archive.stats().await.unwrap().orphans_kept, 0);
    assert_eq!(contents(folder.path()), 3);
    assert_eq!(read(&archive, "yard/a.jpg").await.1, b"alpha");
}

#[test]
fn entry_whose_destruction_was_not_synced_keeps_its_content() {
    let folder = tempfile::tempdir().unwrap();
    let open = |store: &Arc<FaultyStore<MemoryStore>>| {
        let store = Arc::clone(store) as _;
        let opened = Durable::over(folder.path(), store, true, Limits::default(), false);
        opened.unwrap().0
    };
    let now = Timestamp::now();
    let ingest = |durable: &Durable, text: &str| -> Option<Entry> {
        let mut staged = durable.stage().unwrap();
        staged.append(b"alpha").unwrap();
        let new = NewEntry::named(name(text));
        let done = durable.commit(&staged.seal().unwrap(), new, now);
        done.ok().map(|(entry, _)| entry)
    };
    let store = Arc::default();
    let durable = open(&store);
    let entry = ingest(&durable, "yard/a.jpg").unwrap();
    store.syncs.blow_at(1);
    assert!(durable.destroy(&[name("yard/a.jpg")]).is_err());
    store.writes.blow_at(1);
    assert_eq!(ingest(&durable, "yard/b.jpg"), None);
    drop(durable);
    let durable = open(&Arc::new(FaultyStore::new(store.inner().power_cut())));
    assert_eq!(
        durable.entry(&entry.name, now).unwrap().as_ref(),
        Some(&entry)
    );
    assert_eq!(
        durable.read(&entry).unwrap().as_deref(),
        Some(&b"alpha"[..])
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entry_that_is_replaced_while_it_is_read_is_not_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let archive = open(settings(folder.path()));
    ingest(&archive, "yard/a.jpg", b"0").await;
    let writer = tokio::spawn({
        let archive = archive.clone();
        async move {
            for number in 1..300 {
                ingest(&archive, "yard/a.jpg", format!("{number}").as_bytes()).await;
            }
        }
    });
    while !writer.is_finished() {
        archive.retrieve(&name("yard/a.jpg"), true).await.unwrap();
    }
    writer.await.unwrap();
    let all = Selection::Collection("yard".to_owned());
    assert_eq!(archive.destroy(all).await.unwrap().contents, 1);
}
