//! Which copies repair a damaged content, and when it counts as lost.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use watchkeeper_archive::memcached::MemcachedTier;
use watchkeeper_archive::{Archive, ArchiveError, ContentHash, Selection, Tier};

use crate::support::{
    BUCKET, Memcached, S3Server, ingest, name, open, read, settings, wait_for, with_objects,
};

fn file_of(folder: &Path, content: &[u8]) -> PathBuf {
    folder
        .join("blobs")
        .join(ContentHash::of(content).to_string())
}

#[tokio::test]
async fn damaged_file_is_replaced_by_its_copy_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let archive = open(settings(folder.path()));
    let file = file_of(folder.path(), b"alpha");
    ingest(&archive, "yard/a.jpg", b"alpha").await;
    std::fs::write(&file, "wrong").unwrap();
    let found = archive.verify(None).await.unwrap();
    assert_eq!(found.repaired, [name("yard/a.jpg")]);
    assert_eq!(std::fs::read(&file).unwrap(), b"alpha");
    // A read past the fast tiers finds the damage by itself.
    std::fs::remove_file(&file).unwrap();
    let found = archive.retrieve(&name("yard/a.jpg"), true).await.unwrap();
    assert_eq!(found.tier, "memory");
    assert_eq!(std::fs::read(&file).unwrap(), b"alpha");
}

#[tokio::test]
async fn damaged_file_is_replaced_by_its_copy_in_memcached() {
    let (folder, server) = (tempfile::tempdir().unwrap(), Memcached::start());
    let mut settings = settings(folder.path());
    settings.memory_bytes = 0;
    settings.shared = Some(Memcached::tier(&[&server]));
    let archive = open(settings);
    ingest(&archive, "yard/a.jpg", b"alpha").await;
    std::fs::write(file_of(folder.path(), b"alpha"), "wrong").unwrap();
    let found = archive.verify(None).await.unwrap();
    assert_eq!(found.repaired, [name("yard/a.jpg")]);
    // Without a copy an entry counts as lost.
    ingest(&archive, "yard/b.jpg", b"beta").await;
    let both = Selection::Collection("yard".to_owned());
    archive.prune(both).await.unwrap();
    std::fs::write(file_of(folder.path(), b"beta"), "wrong").unwrap();
    let found = archive.verify(None).await.unwrap();
    assert_eq!(found.damaged, [name("yard/b.jpg")]);
}

#[tokio::test]
async fn damaged_content_counts_one_miss_of_each_fast_tier() {
    let (folder, server) = (tempfile::tempdir().unwrap(), Memcached::start());
    let mut settings = settings(folder.path());
    settings.shared = Some(Memcached::tier(&[&server]));
    let archive = open(settings);
    let entry = name("yard/a.jpg");
    ingest(&archive, "yard/a.jpg", b"alpha").await;
    let selected = Selection::Entry(entry.clone());
    archive.prune(selected).await.unwrap();
    std::fs::remove_file(file_of(folder.path(), b"alpha")).unwrap();
    let lost = archive.retrieve(&entry, false).await;
    assert!(matches!(lost, Err(ArchiveError::Damaged(_))), "{lost:?}");
    archive.verify(None).await.unwrap();
    let tiers = archive.stats().await.unwrap().tiers;
    let counts = |tier: &str| {
        let mut tiers = tiers.iter();
        let stats = tiers.find(|stats| stats.tier == tier).unwrap();
        (stats.hits, stats.misses, stats.errors)
    };
    assert_eq!(counts("memory"), (0, 1, 0));
    assert_eq!(counts("memcached"), (0, 1, 0));
}

/// An archive without a tier in memory, whose memcached does not answer.
fn beside_a_memcached_that_is_down(folder: &Path) -> Archive {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let mut settings = settings(folder);
    settings.memory_bytes = 0;
    settings.shared = Some(Arc::new(MemcachedTier::new(vec![address])));
    open(settings)
}

#[tokio::test]
async fn entry_is_kept_while_a_memcached_that_may_have_it_is_down() {
    let folder = tempfile::tempdir().unwrap();
    let archive = beside_a_memcached_that_is_down(folder.path());
    ingest(&archive, "yard/a.jpg", b"alpha").await;
    std::fs::write(file_of(folder.path(), b"alpha"), "wrong").unwrap();
    let found = archive.verify(None).await.unwrap();
    assert_eq!(found.unknown, [name("yard/a.jpg")]);
    assert!(found.why.is_some_and(|why| why.contains("memcached")));
}

#[tokio::test]
async fn too_large_content_is_lost_while_memcached_is_down() {
    let folder = tempfile::tempdir().unwrap();
    let archive = beside_a_memcached_that_is_down(folder.path());
    // The write of a small one marks the server down.
    ingest(&archive, "yard/a.jpg", b"alpha").await;
    let large = vec![7; 2 << 20];
    ingest(&archive, "yard/b.mp4", &large).await;
    std::fs::write(file_of(folder.path(), &large), "wrong").unwrap();
    let found = archive.verify(None).await.unwrap();
    assert_eq!(found.damaged, [name("yard/b.mp4")]);
}

#[tokio::test]
async fn large_content_with_one_wrong_bit_is_replaced_when_it_is_read() {
    let (folder, objects) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = S3Server::start(objects.path());
    let archive = open(with_objects(folder.path(), &server));
    let content = vec![7; 5 << 20];
    ingest(&archive, "yard/a.mp4", &content).await;
    let hash = ContentHash::of(&content);
    let tier = S3Server::tier(&[server.address]);
    tier.put(&hash, content.clone().into()).await.unwrap();
    let file = file_of(folder.path(), &content);
    let mut damaged = content.clone();
    damaged[3] ^= 1;
    std::fs::write(&file, damaged).unwrap();
    assert_eq!(read(&archive, "yard/a.mp4").await, ("s3", content.clone()));
    assert_eq!(read(&archive, "yard/a.mp4").await, ("durable", content));
}

#[tokio::test]
async fn entry_is_kept_while_the_connection_to_memcached_is_busy() {
    let folder = tempfile::tempdir().unwrap();
    // It takes connections and never answers, so each request holds its connection.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let tier: Arc<dyn Tier> = Arc::new(MemcachedTier::new(vec![address]));
    let archive = open(settings(folder.path()));
    ingest(&archive, "yard/a.jpg", b"alpha").await;
    drop(archive);
    let mut settings = settings(folder.path());
    settings.shared = Some(Arc::clone(&tier));
    let archive = open(settings);
    std::fs::write(file_of(folder.path(), b"alpha"), "wrong").unwrap();
    let hash = ContentHash::of(b"other");
    let (_, found) = tokio::join!(tier.get(&hash), archive.verify(None));
    let found = found.unwrap();
    assert_eq!(found.unknown, [name("yard/a.jpg")]);
    assert!(found.why.is_some_and(|why| why.contains("memcached")));
}

/// A server that answers every request with this response.
fn server_of(response: String) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            // One read has the head of a request without a body.
            let read = socket.read(&mut [0; 4096]);
            read.and_then(|_| socket.write_all(response.as_bytes()))
                .ok();
        }
    });
    address
}

#[tokio::test]
async fn object_is_absent_only_if_the_store_names_its_key() {
    let not_found = |body: &str| {
        let length = body.len();
        let head = "HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length:";
        server_of(format!("{head} {length}\r\n\r\n{body}"))
    };
    let xml = |code: &str| format!("<Error><Code>{code}</Code></Error>");
    let hash = ContentHash::of(b"alpha");
    let tier = S3Server::tier(&[not_found(&xml("NoSuchKey"))]);
    assert_eq!(tier.get(&hash).await, Ok(None));
    let long = format!("<html>{}</html>", " ".repeat(5_000));
    for (body, why) in [
        (xml("NoSuchBucket"), "s3_bucket"),
        ("<html>NoSuchKey</html>".to_owned(), "proxies"),
        (String::new(), "proxies"),
        (long, "proxies"),
    ] {
        let tier = S3Server::tier(&[not_found(&body)]);
        let error = tier.get(&hash).await.unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
        // A deletion is not done either.
        let tier = S3Server::tier(&[not_found(&body)]);
        assert!(tier.remove(&hash).await.is_err(), "{body}");
    }
}

#[tokio::test]
async fn verification_separates_absent_from_unreachable_copies() {
    let (folder, objects) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = S3Server::start(objects.path());
    let address = server.address;
    let archive = open(with_objects(folder.path(), &server));
    for text in ["yard/a.jpg", "yard/b.jpg", "yard/c.jpg"] {
        ingest(&archive, text, text.as_bytes()).await;
    }
    let file =
        |folder: &Path, text: &str| folder.join(ContentHash::of(text.as_bytes()).to_string());
    let bucket = objects.path().join(BUCKET).join("box");
    std::fs::create_dir_all(&bucket).unwrap();
    std::fs::write(file(&bucket, "yard/a.jpg"), "yard/a.jpg").unwrap();
    for text in ["yard/a.jpg", "yard/b.jpg"] {
        std::fs::write(file(&folder.path().join("blobs"), text), "damaged").unwrap();
    }
    drop(server);
    let both = [name("yard/a.jpg"), name("yard/b.jpg")];
    let found = archive.verify(None).await.unwrap();
    assert_eq!((found.contents, found.unknown), (3, both.to_vec()));
    assert_eq!((found.damaged, found.repaired), (Vec::new(), Vec::new()));
    assert!(found.why.is_some_and(|why| why.contains("keep the entry")));
    let refused = archive.retrieve(&both[0], false).await;
    assert!(
        matches!(refused, Err(ArchiveError::Source(_))),
        "{refused:?}"
    );
    // Pictures that were left out of the queue wait again once they are repaired.
    archive.begin_embedding("digest".to_owned()).await.unwrap();
    for (number, _) in archive.unembedded(3).await.unwrap() {
        archive.settle_embedding(number, None).await.unwrap();
    }
    let _server = S3Server::start_at(objects.path(), address.port());
    wait_for("the end of the back-off", async || {
        let found = archive.verify(None).await.unwrap();
        if !found.unknown.is_empty() {
            return false;
        }
        assert_eq!(found.repaired, [name("yard/a.jpg")]);
        assert_eq!(found.damaged, [name("yard/b.jpg")]);
        true
    })
    .await;
    let waiting = archive.unembedded(3).await.unwrap();
    assert_eq!(waiting.len(), 1);
    assert_eq!(waiting[0].1, name("yard/a.jpg"));
}
