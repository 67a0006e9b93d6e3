//! Lost records, and entries that change while they are read.

use std::path::Path;

use watchkeeper_archive::{ContentHash, Selection};

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
