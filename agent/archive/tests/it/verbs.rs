//! The verbs by the table of prune and destroy, protection, time to live, shared contents.

use jiff::Zoned;
use watchkeeper_archive::query::Order;
use watchkeeper_archive::words::CameraNames;
use watchkeeper_archive::{
    Archive, ArchiveError, EmbeddingOutcome, Metadata, NewEntry, Query, Retention, Selection,
};

use crate::support::{ingest, name, new, open, read, settings};

fn of_collection(text: &str) -> Selection {
    Selection::Collection(text.to_owned())
}

async fn stored(archive: &Archive) -> (u64, u64) {
    let stats = archive.stats().await.unwrap();
    (stats.entries, stats.contents)
}

/// "Evicts from memcached; data remains; next retrieve = cache miss → re-fetch".
#[tokio::test]
async fn prune_leaves_the_durable_tier_and_next_read_misses() {
    let folder = tempfile::tempdir().unwrap();
    let archive = open(settings(folder.path()));
    ingest(&archive, "research/alpha.txt", b"alpha").await;
    ingest(&archive, "research/beta.txt", b"beta").await;
    assert_eq!(
        read(&archive, "research/alpha.txt").await,
        ("memory", b"alpha".to_vec())
    );
    let alpha = Selection::Entry(name("research/alpha.txt"));
    let pruned = archive.prune(alpha).await.unwrap();
    assert_eq!((pruned.entries, pruned.removed["memory"]), (1, 1));
    // The other entry stays in the fast tier.
    assert_eq!(read(&archive, "research/beta.txt").await.0, "memory");
    assert_eq!(
        read(&archive, "research/alpha.txt").await,
        ("durable", b"alpha".to_vec())
    );
    assert_eq!(read(&archive, "research/alpha.txt").await.0, "memory");
    let stats = archive.stats().await.unwrap();
    let memory = &stats.tiers[0];
    assert_eq!((memory.hits, memory.misses, stats.tiers[1].hits), (3, 1, 1));
    let pruned = archive.prune(of_collection("research")).await.unwrap();
    assert_eq!((pruned.entries, stored(&archive).await), (2, (2, 2)));
}

/// "Invalidates from memcached; data deleted permanently; after it data is gone".
#[tokio::test]
async fn destroy_removes_a_collection_from_every_tier_for_good() {
    let folder = tempfile::tempdir().unwrap();
    let archive = open(settings(folder.path()));
    ingest(&archive, "research/alpha.txt", b"alpha").await;
    ingest(&archive, "research/beta.txt", b"beta").await;
    ingest(&archive, "research2/alpha.txt", b"other").await;
    let destroyed = archive.destroy(of_collection("research")).await.unwrap();
    assert_eq!((destroyed.entries, destroyed.contents), (2, 2));
    for skip_cache in [false, true] {
        let found = archive
            .retrieve(&name("research/alpha.txt"), skip_cache)
            .await;
        assert!(matches!(found, Err(ArchiveError::NotFound(_))), "{found:?}");
    }
    drop(archive);
    let archive = open(settings(folder.path()));
    assert_eq!(stored(&archive).await, (1, 1));
    assert_eq!(
        std::fs::read_dir(folder.path().join("blobs"))
            .unwrap()
            .count(),
        1
    );
    let again = archive
        .destroy(of_collection("research"))
        .await
        .unwrap_err();
    assert!(again.to_string().contains("research"), "{again}");
}

#[tokio::test]
async fn protected_entry_is_neither_destroyed_nor_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let archive = open(settings(folder.path()));
    ingest(&archive, "yard/a.jpg", b"one").await;
    ingest(&archive, "yard/b.jpg", b"two").await;
    let a = || Selection::Entry(name("yard/a.jpg"));
    let protected = archive.set_retention(a(), Retention::Protected).await;
    assert_eq!(protected.unwrap(), 1);
    for selection in [a(), of_collection("yard")] {
        let refused = archive.destroy(selection).await.unwrap_err();
        assert!(matches!(refused, ArchiveError::Protected(_)), "{refused}");
        assert!(refused.to_string().contains("unprotect"), "{refused}");
    }
    let replaced = archive
        .ingest_bytes("other".into(), new("yard/a.jpg"))
        .await;
    assert!(matches!(replaced, Err(ArchiveError::Protected(_))));
    assert_eq!(stored(&archive).await, (2, 2));
    let before = archive.stat(&name("yard/a.jpg")).await.unwrap();
    let mut again = new("yard/a.jpg");
    again.metadata.class = Some("car".to_owned());
    let same = archive.ingest_bytes("one".into(), again).await.unwrap();
    assert_eq!(same, before);
    assert_eq!(archive.stat(&name("yard/a.jpg")).await.unwrap(), before);
    archive.set_retention(a(), Retention::Normal).await.unwrap();
    archive.destroy(of_collection("yard")).await.unwrap();
    assert_eq!(stored(&archive).await, (0, 0));
}

#[tokio::test]
async fn content_of_several_entries_is_stored_once() {
    let folder = tempfile::tempdir().unwrap();
    let archive = open(settings(folder.path()));
    ingest(&archive, "yard/a.jpg", b"same").await;
    ingest(&archive, "dock/b.jpg", b"same").await;
    assert_eq!(stored(&archive).await, (2, 1));
    archive
        .destroy(Selection::Entry(name("yard/a.jpg")))
        .await
        .unwrap();
    assert_eq!(read(&archive, "dock/b.jpg").await.1, b"same");
    archive
        .destroy(Selection::Entry(name("dock/b.jpg")))
        .await
        .unwrap();
    assert_eq!(
        std::fs::read_dir(folder.path().join("blobs"))
            .unwrap()
            .count(),
        0
    );
}

#[tokio::test]
async fn expired_entry_is_gone_at_once_its_content_after_sweep() {
    let folder = tempfile::tempdir().unwrap();
    let archive = open(settings(folder.path()));
    let brief = NewEntry {
        ttl_s: Some(1),
        ..new("yard/a.jpg")
    };
    archive.ingest_bytes("brief".into(), brief).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
    let found = archive.retrieve(&name("yard/a.jpg"), false).await;
    assert!(matches!(found, Err(ArchiveError::NotFound(_))));
    assert_eq!(archive.expire().await.unwrap(), 1);
    assert_eq!(stored(&archive).await, (0, 0));
}

#[tokio::test]
async fn skip_cache_reads_the_disk_and_finds_its_damage() {
    let folder = tempfile::tempdir().unwrap();
    let archive = open(settings(folder.path()));
    ingest(&archive, "yard/a.jpg", b"sound").await;
    let hash = archive.stat(&name("yard/a.jpg")).await.unwrap().sha256;
    let blob = folder.path().join("blobs").join(hash.to_string());
    std::fs::write(&blob, b"wrong").unwrap();
    let (tier, _) = read(&archive, "yard/a.jpg").await;
    assert_eq!(
        (tier, std::fs::read(&blob).unwrap()),
        ("memory", b"wrong".to_vec())
    );
    // The copy in memory restores the content.
    let repaired = archive.retrieve(&name("yard/a.jpg"), true).await.unwrap();
    assert_eq!(
        (repaired.tier, std::fs::read(&blob).unwrap()),
        ("memory", b"sound".to_vec())
    );
    drop(archive);
    std::fs::write(&blob, b"wrong").unwrap();
    let archive = open(settings(folder.path()));
    let damaged = archive.retrieve(&name("yard/a.jpg"), true).await;
    assert!(
        matches!(damaged, Err(ArchiveError::Damaged(_))),
        "{damaged:?}"
    );
}

#[tokio::test]
async fn words_and_likeness_find_entries() {
    let folder = tempfile::tempdir().unwrap();
    let archive = open(settings(folder.path()));
    for (text, class) in [("yard/a.jpg", "car"), ("yard/b.jpg", "truck")] {
        let metadata = Metadata {
            class: Some(class.to_owned()),
            ..Metadata::default()
        };
        let entry = NewEntry {
            metadata,
            ..new(text)
        };
        archive
            .ingest_bytes(text.to_owned().into(), entry)
            .await
            .unwrap();
    }
    archive
        .begin_embedding("digest of one".to_owned())
        .await
        .unwrap();
    let vector = |name: &str| vec![1.0, f32::from(u8::from(name == "b.jpg"))];
    embed(&archive, "one", vector).await;
    ingest(&archive, "yard/c.jpg", b"plain").await;
    let found = archive
        .find("cars today".to_owned(), Zoned::now(), CameraNames::new())
        .await
        .unwrap();
    assert_eq!(found.matches.entries[0].name, name("yard/a.jpg"));
    let like = |text: &str| Query {
        like: Some(name(text)),
        ..Query::default()
    };
    let matches = archive.query(like("yard/b.jpg")).await.unwrap();
    let names: Vec<_> = matches
        .entries
        .iter()
        .map(|entry| entry.name.name())
        .collect();
    assert_eq!(names, ["b.jpg", "a.jpg"]);
    let refused = archive.query(like("yard/c.jpg")).await.unwrap_err();
    assert!(matches!(refused, ArchiveError::NoEmbedding(_)), "{refused}");
    let table = archive.ingest_bytes("a".into(), new("yard/a.csv"));
    table.await.unwrap();
    let refused = archive.query(like("yard/a.csv")).await.unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("is no JPEG, PNG or WebP picture"),
        "{refused}"
    );
    let ordered = Query {
        order: Order::Oldest,
        ..like("yard/b.jpg")
    };
    let refused = archive.query(ordered).await.unwrap_err();
    assert!(
        refused.to_string().contains("order \"oldest\""),
        "{refused}"
    );
}

/// Gives the pictures in the queue the embedding of `model` that `vector` makes of their names.
async fn embed(archive: &Archive, model: &str, vector: impl Fn(&str) -> Vec<f32>) -> Vec<String> {
    let mut asked = Vec::new();
    for (number, name) in archive.unembedded(100).await.unwrap() {
        let entry = archive.stat(&name).await.unwrap();
        let made = EmbeddingOutcome::Vector(vector(name.name()));
        let digest = format!("digest of {model}");
        let made = (entry.sha256, digest, made);
        archive.settle_embedding(number, Some(made)).await.unwrap();
        asked.push(name.to_string());
    }
    asked
}

#[tokio::test]
async fn pictures_without_embedding_are_found_per_model() {
    let folder = tempfile::tempdir().unwrap();
    let archive = open(settings(folder.path()));
    for text in ["yard/a.jpg", "yard/b.png", "yard/c.txt"] {
        ingest(&archive, text, text.as_bytes()).await;
    }
    // Nothing waits until a model is there.
    assert_eq!(archive.waiting_embeddings(), 0);
    let begin = |archive: &Archive, model: &str| {
        let (archive, digest) = (archive.clone(), format!("digest of {model}"));
        async move { archive.begin_embedding(digest).await.unwrap() }
    };
    begin(&archive, "one").await;
    assert_eq!(archive.waiting_embeddings(), 2);
    ingest(&archive, "yard/d.jpg", b"later").await;
    // The newest first; one is left when the agent ends.
    let newest = archive.unembedded(1).await.unwrap();
    assert_eq!(newest[0].1, name("yard/d.jpg"));
    let entry = archive.stat(&newest[0].1).await.unwrap();
    let made = EmbeddingOutcome::Vector(vec![1.0, 0.0]);
    let made = (entry.sha256, "digest of one".to_owned(), made);
    archive
        .settle_embedding(newest[0].0, Some(made))
        .await
        .unwrap();
    drop(archive);
    let archive = open(settings(folder.path()));
    begin(&archive, "one").await;
    let asked = embed(&archive, "one", |name| match name {
        "a.jpg" => vec![0.9, 0.1],
        _ => vec![0.0, 1.0],
    });
    assert_eq!(asked.await, ["yard/b.png", "yard/a.jpg"]);
    let names = |found: &watchkeeper_archive::query::Matches| -> Vec<String> {
        let names = found.entries.iter().map(|entry| entry.name.to_string());
        names.collect()
    };
    let like = |text: &str| Query {
        like: Some(name(text)),
        ..Query::default()
    };
    let found = archive.query(like("yard/d.jpg")).await.unwrap();
    assert_eq!(names(&found), ["yard/d.jpg", "yard/a.jpg", "yard/b.png"]);
    assert!(found.likeness.is_sorted_by(|a, b| a >= b) && found.likeness[0] > 0.999);
    // A new model has seen one of them; that one is compared with no vector of the old model.
    begin(&archive, "two").await;
    assert_eq!(archive.waiting_embeddings(), 3);
    let (number, first) = archive.unembedded(1).await.unwrap().remove(0);
    let entry = archive.stat(&first).await.unwrap();
    let made = EmbeddingOutcome::Vector(vec![1.0, 0.0]);
    let made = (entry.sha256, "digest of two".to_owned(), made);
    archive.settle_embedding(number, Some(made)).await.unwrap();
    let found = archive.query(like("yard/d.jpg")).await.unwrap();
    assert_eq!(names(&found), ["yard/d.jpg"]);
    let found = archive.query(like("yard/a.jpg")).await.unwrap();
    assert_eq!(names(&found), ["yard/a.jpg", "yard/b.png"]);
    // A destroyed picture waits no more.
    let gone = Selection::Entry(name("yard/a.jpg"));
    archive.destroy(gone).await.unwrap();
    assert_eq!(archive.waiting_embeddings(), 1);
    let text = Query {
        like_text: Some("a red truck".to_owned()),
        ..Query::default()
    };
    let refused = archive.query(text).await.unwrap_err().to_string();
    assert!(refused.contains("only the agent"), "{refused}");
}

#[tokio::test]
async fn refused_picture_waits_no_more_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let archive = open(settings(folder.path()));
    ingest(&archive, "yard/a.jpg", b"no picture").await;
    archive.begin_embedding("one".to_owned()).await.unwrap();
    let (number, wanted) = archive.unembedded(1).await.unwrap().remove(0);
    let entry = archive.stat(&wanted).await.unwrap();
    let made = EmbeddingOutcome::Refused("it is no picture".to_owned());
    let made = (entry.sha256, "one".to_owned(), made);
    archive.settle_embedding(number, Some(made)).await.unwrap();
    archive.begin_embedding("one".to_owned()).await.unwrap();
    assert_eq!(archive.waiting_embeddings(), 0);
    let like = Query {
        like: Some(wanted),
        ..Query::default()
    };
    let refused = archive.query(like).await.unwrap_err().to_string();
    assert!(refused.contains("it is no picture"), "{refused}");
}

#[tokio::test]
async fn page_behind_an_entry_that_is_gone_is_refused_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let archive = open(settings(folder.path()));
    for text in ["yard/a", "yard/b"] {
        ingest(&archive, text, text.as_bytes()).await;
    }
    let behind = |order, after: &str| Query {
        order,
        after: Some(name(after)),
        ..Query::default()
    };
    archive
        .destroy(Selection::Entry(name("yard/a")))
        .await
        .unwrap();
    let refused = archive.query(behind(Order::Oldest, "yard/a")).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("begin without after"), "{refused}");
    // The order of names needs no entry.
    let found = archive.query(behind(Order::Name, "yard/a")).await.unwrap();
    assert_eq!(found.entries[0].name, name("yard/b"));
}

#[tokio::test]
async fn verify_reads_every_content_and_names_the_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let archive = open(settings(folder.path()));
    let large = vec![7; 5 << 20];
    ingest(&archive, "yard/a.mp4", &large).await;
    ingest(&archive, "yard/b.jpg", b"small").await;
    ingest(&archive, "yard/c.jpg", b"small").await;
    let found = archive.verify(None).await.unwrap();
    assert_eq!((found.contents, found.bytes), (2, (5 << 20) + 5));
    assert_eq!((found.damaged, found.next), (Vec::new(), None));
    let hash = watchkeeper_archive::ContentHash::of(&large);
    let file = folder.path().join("blobs").join(hash.to_string());
    let mut other = large;
    other[4 << 20] ^= 1;
    std::fs::write(file, other).unwrap();
    let found = archive.verify(None).await.unwrap();
    assert_eq!(found.damaged, [name("yard/a.mp4")]);
    let rest = archive.verify(Some(name("yard/a.mp4"))).await.unwrap();
    assert_eq!((rest.contents, rest.damaged), (1, Vec::new()));
}

#[tokio::test]
async fn content_that_cannot_be_read_ends_no_verification() {
    let folder = tempfile::tempdir().unwrap();
    let archive = open(settings(folder.path()));
    for text in ["yard/a.jpg", "yard/b.jpg", "yard/c.jpg"] {
        ingest(&archive, text, text.as_bytes()).await;
    }
    // A folder in its place: reading it is an error of the disk, not another content.
    let blob = |text: &str| {
        let hash = watchkeeper_archive::ContentHash::of(text.as_bytes());
        folder.path().join("blobs").join(hash.to_string())
    };
    std::fs::remove_file(blob("yard/a.jpg")).unwrap();
    std::fs::create_dir(blob("yard/a.jpg")).unwrap();
    std::fs::write(blob("yard/c.jpg"), "other").unwrap();
    // Without the copies in memory, from which a verification repairs.
    drop(archive);
    let archive = open(settings(folder.path()));
    let found = archive.verify(None).await.unwrap();
    assert_eq!(found.contents, 3);
    assert_eq!(found.damaged, [name("yard/a.jpg"), name("yard/c.jpg")]);
    assert_eq!(found.unknown, []);
}

#[tokio::test]
async fn answer_is_bounded_by_bytes_and_next_page_follows() {
    let folder = tempfile::tempdir().unwrap();
    let archive = open(settings(folder.path()));
    // Large records and small ones: 4 MiB hold about 260 of the former.
    for number in 0..350 {
        let mut entry = new(&format!("yard/{number:03}"));
        if number % 7 != 3 {
            entry.metadata.codes = vec!["c".repeat(3_900); 4];
        }
        archive.ingest_bytes("x".into(), entry).await.unwrap();
    }
    for order in [Order::Newest, Order::Oldest, Order::Name] {
        let (mut pages, mut after) = (Vec::new(), None);
        loop {
            let query = Query {
                order,
                after,
                limit: Some(1_000),
                ..Query::default()
            };
            let found = archive.query(query).await.unwrap();
            assert!(serde_json::to_vec(&found).unwrap().len() < 5 << 20);
            let names = found.entries.iter().map(|entry| entry.name.to_string());
            pages.push(names.collect::<Vec<_>>());
            after = found.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(pages.len(), 2, "{order:?}");
        let mut expected: Vec<_> = (0..350).map(|number| format!("yard/{number:03}")).collect();
        if order == Order::Newest {
            expected.reverse();
        }
        assert_eq!(pages.concat(), expected, "{order:?}");
    }
}

#[tokio::test]
async fn refusal_of_a_content_names_the_bound_that_it_exceeds() {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings(folder.path());
    (settings.limits.max_bytes, settings.limits.max_entries) = (10, 1);
    let archive = open(settings);
    let large = archive
        .ingest_bytes("12345678901".into(), new("yard/a"))
        .await;
    let large = large.unwrap_err().to_string();
    assert!(large.contains("more than 10 bytes"), "{large}");
    assert!(large.contains("agent.archive.max_bytes"), "{large}");
    let kept = NewEntry {
        retention: Retention::Protected,
        ..new("yard/a")
    };
    archive.ingest_bytes("1".into(), kept).await.unwrap();
    let full = archive.ingest_bytes("2".into(), new("yard/b")).await;
    let full = full.unwrap_err().to_string();
    assert!(full.contains("one more entry beside 1"), "{full}");
}

#[tokio::test]
async fn records_of_entries_and_of_references_have_a_bound() {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings(folder.path());
    settings.limits.max_record_bytes = 20_000;
    let archive = open(settings);
    let long = |text: &str| {
        let mut entry = new(text);
        entry.metadata.text = Some("t".repeat(4_000));
        entry
    };
    for number in 0..9 {
        let entry = long(&format!("yard/{number}"));
        archive.ingest_bytes("x".into(), entry).await.unwrap();
        let reference = long(&format!("events/{number}"));
        let hash = watchkeeper_archive::ContentHash::of(b"y");
        let new = vec![(reference, hash, 1, "m".to_owned())];
        archive.add_references(new, number).await.unwrap();
    }
    let stats = archive.stats().await.unwrap();
    assert_eq!((stats.entries, stats.references), (4, 4));
    assert!(stats.evictions > 0, "what made room is counted");
    assert!(stats.record_bytes <= 20_000 && stats.reference_bytes <= 20_000);
}

#[tokio::test]
async fn full_archive_refuses_when_only_protected_entries_are_left() {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings(folder.path());
    settings.limits.max_bytes = 10;
    let archive = open(settings);
    let kept = NewEntry {
        retention: Retention::Protected,
        ..new("yard/a")
    };
    archive.ingest_bytes("12345678".into(), kept).await.unwrap();
    let refused = archive
        .ingest_bytes("123".into(), new("yard/b"))
        .await
        .unwrap_err();
    assert!(
        matches!(refused, ArchiveError::Full { .. }) && refused.to_string().contains("3 bytes"),
        "{refused}"
    );
    assert!(refused.to_string().contains("agent.archive.max_bytes"));
    assert_eq!(stored(&archive).await, (1, 1));
    assert_eq!(
        std::fs::read_dir(folder.path().join("blobs"))
            .unwrap()
            .count(),
        1
    );
}
