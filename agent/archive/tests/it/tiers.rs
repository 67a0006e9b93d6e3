//! memcached and S3: what they hold, how they fail, what is never lost.

use std::sync::Arc;
use std::time::{Duration, Instant};

use watchkeeper_archive::memcached::MemcachedTier;
use watchkeeper_archive::tier::TierError;
use watchkeeper_archive::{ArchiveError, ContentHash, Selection, Tier};

use crate::support::{
    BUCKET, Memcached, S3Server, ingest, name, open, read, settings, wait_for, with_objects,
};

/// An archive whose memory takes nothing, so that reads reach the shared tier.
fn with_memcached(
    folder: &std::path::Path,
    servers: &[&Memcached],
) -> watchkeeper_archive::Archive {
    let mut settings = settings(folder);
    settings.memory_bytes = 0;
    settings.shared = Some(Memcached::tier(servers));
    open(settings)
}

#[tokio::test]
async fn memcached_serves_reads_of_another_archive_object() {
    let (folder, server) = (tempfile::tempdir().unwrap(), Memcached::start());
    let archive = with_memcached(folder.path(), &[&server]);
    ingest(&archive, "yard/a.jpg", b"alpha").await;
    drop(archive);
    let archive = with_memcached(folder.path(), &[&server]);
    assert_eq!(
        read(&archive, "yard/a.jpg").await,
        ("memcached", b"alpha".to_vec())
    );
    let pruned = archive
        .prune(Selection::Entry(name("yard/a.jpg")))
        .await
        .unwrap();
    assert_eq!(pruned.removed["memcached"], 1);
    assert_eq!(read(&archive, "yard/a.jpg").await.0, "durable");
    assert_eq!(read(&archive, "yard/a.jpg").await.0, "memcached");
    archive
        .destroy(Selection::Entry(name("yard/a.jpg")))
        .await
        .unwrap();
    let tier = Memcached::tier(&[&server]);
    assert_eq!(tier.get(&ContentHash::of(b"alpha")).await, Ok(None));
}

#[tokio::test]
async fn foreign_value_in_memcached_is_never_served() {
    let (folder, server) = (tempfile::tempdir().unwrap(), Memcached::start());
    let archive = with_memcached(folder.path(), &[&server]);
    ingest(&archive, "yard/a.jpg", b"alpha").await;
    let (tier, hash) = (Memcached::tier(&[&server]), ContentHash::of(b"alpha"));
    tier.put(&hash, "forged".into()).await.unwrap();
    assert_eq!(
        read(&archive, "yard/a.jpg").await,
        ("durable", b"alpha".to_vec())
    );
    let stats = archive.stats().await.unwrap();
    assert_eq!(stats.tiers[1].invalid, 1);
}

#[tokio::test]
async fn killed_memcached_loses_nothing_and_is_used_again() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (Memcached::start(), Memcached::start());
    let archive = with_memcached(folder.path(), &[&first, &second]);
    for number in 0..20 {
        ingest(
            &archive,
            &format!("yard/{number}.jpg"),
            format!("content {number}").as_bytes(),
        )
        .await;
    }
    let port = first.port();
    drop(first);
    let begun = Instant::now();
    for number in 0..20 {
        let found = read(&archive, &format!("yard/{number}.jpg")).await;
        assert_eq!(found.1, format!("content {number}").as_bytes());
    }
    for number in 20..40 {
        ingest(
            &archive,
            &format!("yard/{number}.jpg"),
            format!("content {number}").as_bytes(),
        )
        .await;
    }
    // A loose bound: a server that blocked every request would take forty timeouts.
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "{:?}",
        begun.elapsed()
    );
    drop(second);
    for number in 0..40 {
        let found = read(&archive, &format!("yard/{number}.jpg")).await;
        assert_eq!(found, ("durable", format!("content {number}").into_bytes()));
    }
    let stats = archive.stats().await.unwrap();
    let memcached = &stats.tiers[1];
    assert!(memcached.errors > 0 && memcached.endpoints.iter().all(|one| !one.is_up));
    let _first = Memcached::start_at(port);
    wait_for("a read from the restarted server", async || {
        read(&archive, "yard/0.jpg").await.0 == "memcached"
    })
    .await;
}

#[tokio::test]
async fn object_tier_gets_copies_and_repairs_a_damaged_file() {
    let (folder, objects) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = S3Server::start(objects.path());
    let archive = open(with_objects(folder.path(), &server));
    let serving = tokio::spawn({
        let archive = archive.clone();
        async move { archive.serve_objects().await }
    });
    ingest(&archive, "yard/a.jpg", b"alpha").await;
    let hash = archive
        .stat(&name("yard/a.jpg"))
        .await
        .unwrap()
        .sha256
        .to_string();
    let object = objects.path().join(BUCKET).join("box").join(&hash);
    wait_for("the copy", async || {
        archive.stats().await.unwrap().objects_waiting == 0
    })
    .await;
    assert_eq!(std::fs::read(&object).unwrap(), b"alpha");
    assert_eq!(archive.verify(None).await.unwrap().copied_again, 0);
    std::fs::remove_file(&object).unwrap();
    assert_eq!(archive.verify(None).await.unwrap().copied_again, 1);
    wait_for("the copy that was lost", async || object.exists()).await;
    let file = folder.path().join("blobs").join(&hash);
    for damage in [Some(b"wrong".as_slice()), None] {
        match damage {
            Some(bytes) => std::fs::write(&file, bytes).unwrap(),
            None => std::fs::remove_file(&file).unwrap(),
        }
        assert_eq!(
            read(&archive, "yard/a.jpg").await,
            ("s3", b"alpha".to_vec())
        );
        assert_eq!(
            read(&archive, "yard/a.jpg").await,
            ("durable", b"alpha".to_vec())
        );
    }
    archive
        .destroy(Selection::Collection("yard".to_owned()))
        .await
        .unwrap();
    wait_for("the deletion", async || !object.exists()).await;
    serving.abort();
}

#[tokio::test]
async fn killed_object_tier_delays_copies_and_loses_none() {
    let (folder, objects) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut server = Some(S3Server::start(objects.path()));
    let address = server.as_ref().unwrap().address;
    let with_objects = || {
        let mut settings = settings(folder.path());
        settings.objects = Some(S3Server::tier(&[address]));
        settings
    };
    let archive = open(with_objects());
    let serving = serve(&archive);
    for number in 0..30 {
        ingest(
            &archive,
            &format!("yard/{number}.jpg"),
            format!("content {number}").as_bytes(),
        )
        .await;
        if number == 10 {
            drop(server.take());
        }
    }
    assert_eq!(archive.stats().await.unwrap().entries, 30);
    // The agent restarts while the store is away: the tasks are records.
    serving.abort();
    wait_for("the end of the task", async || serving.is_finished()).await;
    drop(archive);
    let _server = S3Server::start_at(objects.path(), address.port());
    let archive = open(with_objects());
    assert!(archive.stats().await.unwrap().objects_waiting > 0);
    let serving = serve(&archive);
    wait_for("all copies", async || {
        archive.stats().await.unwrap().objects_waiting == 0
    })
    .await;
    let copies = std::fs::read_dir(objects.path().join(BUCKET).join("box")).unwrap();
    assert_eq!(copies.count(), 30);
    serving.abort();
}

#[tokio::test]
async fn second_endpoint_of_a_bucket_copies_nothing_again() {
    let (folder, objects) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = S3Server::start(objects.path());
    let archive = open(with_objects(folder.path(), &server));
    let serving = serve(&archive);
    ingest(&archive, "yard/a.jpg", b"alpha").await;
    wait_for("the copy", async || {
        archive.stats().await.unwrap().objects_waiting == 0
    })
    .await;
    serving.abort();
    wait_for("the end of the task", async || serving.is_finished()).await;
    drop(archive);
    let other = std::net::SocketAddr::from(([127, 0, 0, 1], 9));
    for (servers, waiting) in [(vec![server.address, other], 0), (vec![other], 0)] {
        let mut settings = settings(folder.path());
        settings.objects = Some(S3Server::tier(&servers));
        let stats = open(settings).stats().await.unwrap();
        assert_eq!(stats.objects_waiting, waiting, "{servers:?}");
    }
    let mut settings = settings(folder.path());
    settings.objects = Some(S3Server::tier(&[server.address]));
    // None of its endpoints is that of the last place.
    assert_eq!(open(settings).stats().await.unwrap().objects_waiting, 1);
}

#[tokio::test]
async fn wrong_answer_of_the_object_tier_deletes_nothing_there() {
    let (folder, objects) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = S3Server::start(objects.path());
    let archive = open(with_objects(folder.path(), &server));
    ingest(&archive, "yard/a.jpg", b"alpha").await;
    let hash = ContentHash::of(b"alpha").to_string();
    let object = objects.path().join(BUCKET).join("box").join(&hash);
    std::fs::create_dir_all(object.parent().unwrap()).unwrap();
    // What a proxy answers with status 200.
    std::fs::write(&object, b"please log in").unwrap();
    std::fs::remove_file(folder.path().join("blobs").join(&hash)).unwrap();
    let damaged = archive.retrieve(&name("yard/a.jpg"), false).await;
    assert!(
        matches!(&damaged, Err(ArchiveError::Source(why)) if why.contains("another SHA-256")),
        "{damaged:?}"
    );
    assert!(object.exists());
    std::fs::write(&object, b"alpha").unwrap();
    assert_eq!(
        read(&archive, "yard/a.jpg").await,
        ("s3", b"alpha".to_vec())
    );
}

#[tokio::test]
async fn task_that_fails_delays_no_other_one() {
    let (folder, objects) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = S3Server::start(objects.path());
    let mut settings = settings(folder.path());
    settings.objects = Some(S3Server::tier(&[server.address]));
    let archive = open(settings);
    let mut hashes = Vec::new();
    for number in 0..10 {
        let content = format!("content {number}").into_bytes();
        ingest(&archive, &format!("yard/{number}.jpg"), &content).await;
        hashes.push(ContentHash::of(&content).to_string());
    }
    hashes.sort();
    // The first task in the order of the queue: its file can't be read.
    let file = folder.path().join("blobs").join(&hashes[0]);
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    let serving = serve(&archive);
    wait_for("the other copies", async || {
        archive.stats().await.unwrap().objects_waiting == 1
    })
    .await;
    assert!(
        !objects
            .path()
            .join(BUCKET)
            .join("box")
            .join(&hashes[0])
            .exists()
    );
    serving.abort();
}

#[tokio::test]
async fn missing_access_stops_the_object_tier_only() {
    let (folder, bucket) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = S3Server::start(bucket.path());
    let file = folder.path().join("ca.pem");
    let wanted = file.clone();
    let access = move || {
        let read = std::fs::read_to_string(&wanted).map(drop);
        read.map_err(|error| format!("sinks.ca_file: {error}"))
    };
    let mut settings = settings(&folder.path().join("archive"));
    settings.objects = Some(S3Server::tier_with(&[server.address], BUCKET, access));
    let archive = open(settings);
    let serving = serve(&archive);
    ingest(&archive, "yard/a.jpg", b"alpha").await;
    assert_eq!(read(&archive, "yard/a.jpg").await.1, b"alpha");
    let status = async || {
        let stats = archive.stats().await.unwrap();
        let objects = stats.tiers.into_iter().find(|tier| tier.tier == "s3");
        (stats.objects_waiting, objects.unwrap().endpoints.remove(0))
    };
    wait_for("the status", async || status().await.1.error.is_some()).await;
    let (waiting, endpoint) = status().await;
    assert_eq!((waiting, endpoint.is_up), (1, false));
    assert!(endpoint.error.unwrap().contains("sinks.ca_file"));
    std::fs::write(&file, "authorities").unwrap();
    wait_for("the copy", async || status().await.0 == 0).await;
    assert_eq!(status().await.1.error, None);
    serving.abort();
}

#[tokio::test]
async fn invalid_bucket_stops_the_object_tier_only() {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings(folder.path());
    let address = "127.0.0.1:9".parse().unwrap();
    settings.objects = Some(S3Server::tier_with(&[address], "//[bad", || Ok(())));
    let archive = open(settings);
    let serving = serve(&archive);
    ingest(&archive, "yard/a.jpg", b"alpha").await;
    assert_eq!(read(&archive, "yard/a.jpg").await.1, b"alpha");
    let why = async || {
        let stats = archive.stats().await.unwrap();
        let objects = stats.tiers.into_iter().find(|tier| tier.tier == "s3");
        objects.unwrap().endpoints.remove(0).error
    };
    wait_for("the status", async || why().await.is_some()).await;
    assert!(why().await.unwrap().contains("s3_bucket //[bad"));
    serving.abort();
}

fn serve(archive: &watchkeeper_archive::Archive) -> tokio::task::JoinHandle<()> {
    let archive = archive.clone();
    tokio::spawn(async move { archive.serve_objects().await })
}

#[tokio::test]
async fn object_tier_at_a_new_place_gets_old_contents_once() {
    let (folder, first, second) = (
        tempfile::tempdir().unwrap(),
        tempfile::tempdir().unwrap(),
        tempfile::tempdir().unwrap(),
    );
    let servers = [
        S3Server::start(first.path()),
        S3Server::start(second.path()),
    ];
    let waiting = async |server: Option<&S3Server>| {
        let mut settings = settings(folder.path());
        settings.objects = server.map(|server| S3Server::tier(&[server.address]));
        let archive = open(settings);
        let waiting = archive.stats().await.unwrap().objects_waiting;
        let serving = serve(&archive);
        if server.is_some() {
            wait_for("all copies", async || {
                archive.stats().await.unwrap().objects_waiting == 0
            })
            .await;
        }
        serving.abort();
        wait_for("the end of the task", async || serving.is_finished()).await;
        waiting
    };
    let archive = open(settings(folder.path()));
    for number in 0..3 {
        ingest(&archive, &format!("yard/{number}.jpg"), &[number]).await;
    }
    drop(archive);
    assert_eq!(waiting(Some(&servers[0])).await, 3);
    assert_eq!(waiting(Some(&servers[0])).await, 0);
    assert_eq!(waiting(Some(&servers[1])).await, 3);
    // Without an object tier for a while: what came meanwhile has no copy.
    assert_eq!(waiting(None).await, 0);
    assert_eq!(waiting(Some(&servers[1])).await, 3);
    let copies = std::fs::read_dir(second.path().join(BUCKET).join("box")).unwrap();
    assert_eq!(copies.count(), 3);
}

#[tokio::test]
async fn removal_reaches_every_memcached_and_names_absent_ones() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (Memcached::start(), Memcached::start());
    let archive = with_memcached(folder.path(), &[&first, &second]);
    ingest(&archive, "yard/a.jpg", b"alpha").await;
    ingest(&archive, "yard/b.jpg", b"beta").await;
    let hash = ContentHash::of(b"alpha");
    let alone = [Memcached::tier(&[&first]), Memcached::tier(&[&second])];
    for tier in &alone {
        tier.put(&hash, "alpha".into()).await.unwrap();
    }
    let of = |text: &str| Selection::Entry(name(text));
    let destroyed = archive.destroy(of("yard/a.jpg")).await.unwrap();
    assert_eq!(destroyed.unreachable, [""; 0]);
    for tier in &alone {
        assert_eq!(tier.get(&hash).await, Ok(None));
    }
    let away = format!("memcached {}", first.address);
    drop(first);
    let pruned = archive.prune(of("yard/b.jpg")).await.unwrap();
    assert_eq!(pruned.unreachable, [away]);
    let tier = Memcached::tier(&[&second]);
    assert_eq!(tier.get(&ContentHash::of(b"beta")).await, Ok(None));
}

/// A server that takes 150 ms for each request: less than the limit of one, more than that of two.
fn slow_server() -> String {
    use std::io::{BufRead as _, BufReader, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            let lines = BufReader::new(socket.try_clone().unwrap()).lines();
            for _ in lines.map_while(Result::ok) {
                std::thread::sleep(Duration::from_millis(150));
                if socket.write_all(b"END\r\n").is_err() {
                    break;
                }
            }
        }
    });
    address
}

#[tokio::test]
async fn busy_connection_is_no_answer_and_no_failure_of_the_server() {
    let tier: Arc<dyn Tier> = Arc::new(MemcachedTier::new(vec![slow_server()]));
    let reads = (0..10_u8).map(|number| {
        let tier = Arc::clone(&tier);
        tokio::spawn(async move { tier.get(&ContentHash::of(&[number])).await })
    });
    let mut busy = 0;
    for read in reads.collect::<Vec<_>>() {
        match read.await.unwrap() {
            Err(TierError::Busy) => busy += 1,
            answer => assert_eq!(answer, Ok(None)),
        }
    }
    assert!(busy > 0);
    assert!(tier.endpoints().iter().all(|server| server.is_up));
}
