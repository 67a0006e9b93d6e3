//! Ingests of folders and of media into an archive in a temporary folder.

use std::fs;

use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::UnixListener;
use watchkeeper_archive::{Limits, Metadata, Retention, Settings};

use super::*;

/// An archive, and a folder that may be ingested.
struct Bench {
    folder: tempfile::TempDir,
    archive: Archive,
}

impl Bench {
    fn new(max_entry_bytes: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings {
            folder: folder.path().join("archive"),
            limits: Limits {
                max_entry_bytes,
                ..Limits::default()
            },
            memory_bytes: 64 << 20,
            shared: None,
            objects: None,
        };
        fs::create_dir(folder.path().join("in")).unwrap();
        Self {
            archive: Archive::open(settings).unwrap().0,
            folder,
        }
    }

    fn write(&self, name: &str, content: &str) {
        fs::write(self.folder.path().join("in").join(name), content).unwrap();
    }

    async fn ingest(&self, ingest: Ingest) -> Result<Ingested, ArchiveError> {
        let config = ArchiveConfig {
            ingest_roots: vec![self.folder.path().to_owned()],
            ..ArchiveConfig::default()
        };
        let runtime = RuntimeClient::new(self.folder.path().join("runtime.sock")).unwrap();
        let sources = Sources::new(&config, None);
        sources.ingest(&self.archive, &runtime, ingest).await
    }

    /// Serves these records as the journal of a runtime.
    fn serve(&self, journal: Value) {
        let socket = UnixListener::bind(self.folder.path().join("runtime.sock")).unwrap();
        let page = get(move || std::future::ready(Json(journal.clone())));
        let app = Router::new().route("/v1/events", page);
        tokio::spawn(async move { axum::serve(socket, app).await });
    }

    fn folder(&self) -> Ingest {
        ingest(&format!("folder::{}/in", self.folder.path().display()))
    }
}

fn ingest(source: &str) -> Ingest {
    Ingest {
        source: source.to_owned(),
        collection: "yard".to_owned(),
        name: None,
        options: IngestOptions::default(),
    }
}

fn names(done: &Ingested) -> Vec<&str> {
    done.entries.iter().map(|entry| entry.name.name()).collect()
}

#[tokio::test]
async fn folder_ingest_that_fails_ends_while_files_wait() {
    let bench = Bench::new(100);
    for name in ["a.txt", "b.txt", "c.txt", "d.txt"] {
        bench.write(name, name);
    }
    let mut wanted = bench.folder();
    wanted.options.content_type = Some("no type".to_owned());
    let failed = bench.ingest(wanted).await.unwrap_err();
    assert!(matches!(failed, ArchiveError::Field { .. }), "{failed}");
}

#[tokio::test]
async fn files_that_are_refused_are_skipped_and_named() {
    let bench = Bench::new(5);
    for (name, content) in [
        ("a.txt", "a"),
        ("b.txt", "too long"),
        ("c.txt", "c"),
        ("d.txt", "d"),
    ] {
        bench.write(name, content);
    }
    let protected = NewEntry {
        retention: Retention::Protected,
        ..NewEntry::named("yard/c.txt".parse().unwrap())
    };
    bench
        .archive
        .ingest_bytes("other".into(), protected)
        .await
        .unwrap();
    let done = bench.ingest(bench.folder()).await.unwrap();
    assert_eq!(names(&done), ["a.txt", "d.txt"]);
    let [long, kept] = done.skipped.as_slice() else {
        panic!("{:?}", done.skipped);
    };
    assert!(
        long.starts_with("b.txt: ") && long.contains("more than 5 bytes"),
        "{long}"
    );
    assert!(
        kept.starts_with("c.txt: ") && kept.contains("is protected"),
        "{kept}"
    );
}

#[tokio::test]
async fn damaged_large_clip_is_not_copied_as_a_sound_one() {
    let bench = Bench::new(100 << 20);
    let event = "01JQ0000000000000000000000";
    let content = vec![7_u8; 5 << 20];
    let hash = ContentHash::of(&content);
    let clip = NewEntry {
        content_type: Some("video/mp4".to_owned()),
        metadata: Metadata {
            event: Some(event.to_owned()),
            ..Metadata::default()
        },
        ..NewEntry::named(format!("{COLLECTION}/{event}-clip.mp4").parse().unwrap())
    };
    bench
        .archive
        .ingest_bytes(content.into(), clip)
        .await
        .unwrap();
    let blob = bench.folder.path().join(format!("archive/blobs/{hash}"));
    let mut damaged = fs::read(&blob).unwrap();
    damaged[3] ^= 1;
    fs::write(&blob, damaged).unwrap();
    let refused = bench.ingest(ingest(&format!("clip::{event}"))).await;
    assert!(
        matches!(refused, Err(ArchiveError::Damaged(_))),
        "{refused:?}"
    );
}

#[tokio::test]
async fn entry_is_copied_with_its_metadata_and_its_name_is_no_text() {
    let bench = Bench::new(100);
    let known = NewEntry {
        metadata: Metadata {
            class: Some("car".to_owned()),
            ..Metadata::default()
        },
        ..NewEntry::named("dock/a.jpg".parse().unwrap())
    };
    bench
        .archive
        .ingest_bytes("alpha".into(), known)
        .await
        .unwrap();
    let refused = bench.ingest(ingest("mem::dock/a.jpg")).await.unwrap_err();
    assert!(
        refused.to_string().contains("archive::dock/a.jpg"),
        "{refused}"
    );
    let done = bench.ingest(ingest("archive::dock/a.jpg")).await.unwrap();
    let [copy] = done.entries.as_slice() else {
        panic!("{:?}", done.entries);
    };
    assert_eq!(copy.name.as_str(), "yard/a.jpg");
    assert_eq!(
        (copy.bytes, copy.metadata.class.as_deref()),
        (5, Some("car"))
    );
    // A text that names no entry stays a text.
    let text = bench.ingest(ingest("mem::dock/b.jpg")).await.unwrap();
    assert_eq!(text.entries[0].bytes, "dock/b.jpg".len() as u64);
}

#[tokio::test]
async fn clip_in_recording_is_told_from_a_lost_one_and_from_none() {
    let record = |seq: u64, phase: &str, clip: Option<Value>| {
        let clip = clip.map(|state| {
            json!({"id": "c1", "start": {"unix_ms": 0, "quality": "synced"}, "before_s": 2.0,
                "after_s": 15.0, "state": state})
        });
        json!({"schema": 1, "id": "01JABCDEFGHJKMNPQRSTVWXYZ0", "seq": seq, "boot_id": "b",
            "mono_ms": 0, "at": {"unix_ms": 0, "quality": "synced"}, "phase": phase,
            "source": "gate", "pipeline": "cars", "severity": "info",
            "body": {"kind": "rule", "rule": "door", "condition": "crosses", "reason": "r",
                "tracks": [], "frame": 1, "pts_s": 0.0},
            "decision": {"verdict": "record", "confidence": 0.8, "reason": "r"},
            "evidence": [], "hash": "", "media": [], "clip": clip})
    };
    let filming = record(7, "new", Some(json!("filming")));
    let lost = json!({"lost": {"message": "the source went away"}});
    let lost = record(8, "clip", Some(lost));
    for (journal, expected) in [
        (json!([filming]), "its clip is still being recorded"),
        (json!([filming, lost]), "has no clip: the source went away"),
        (json!([record(7, "new", None)]), "has no such media"),
    ] {
        let bench = Bench::new(100);
        bench.serve(journal);
        let refused = bench.ingest(ingest("clip::7")).await.unwrap_err();
        assert!(refused.to_string().contains(expected), "{refused}");
    }
}
