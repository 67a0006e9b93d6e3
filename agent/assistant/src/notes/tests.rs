//! Notes while their embedding model loads, fails or is replaced.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use watchkeeper_memory::{Entry, Kind, Origin, Query, Words};

use super::*;
use watchkeeper_client::clock::wall_now;

fn tiny() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/models/sentences")
}

fn named(model: PathBuf) -> MemoryConfig {
    MemoryConfig {
        model: Some(model),
        usual: Vec::new(),
    }
}

fn remember(notes: &Notes, words: &str) {
    let entry = Entry::new(Kind::Knowledge, Origin::Person, Words::new(words).unwrap());
    notes.open().unwrap().remember(wall_now(), entry).unwrap();
}

fn found(notes: &Notes, words: &str) -> Vec<String> {
    let found = notes.open().unwrap().search(Query::new(words)).unwrap();
    let words = found.into_iter().map(|f| f.note.words.to_string());
    words.collect()
}

#[test]
fn model_is_taken_from_the_configured_or_usual_folder() {
    let dir = tempfile::tempdir().unwrap();
    let there = dir.path().join("there");
    let usual = MemoryConfig {
        model: None,
        usual: vec![dir.path().join("not-there"), there.clone()],
    };
    assert_eq!(choose_embedder(&usual, None).1, EmbedderChoice::Hashed);
    // An empty folder.
    fs::create_dir(&there).unwrap();
    let (embedder, vectors) = choose_embedder(&usual, None);
    assert_eq!(embedder.name(), "hashed");
    let sentence = vectors.sentence();
    assert!(
        sentence.contains("can't be used") && sentence.contains("it has no model.onnx; put"),
        "{sentence}"
    );
    for name in ["model.onnx", "tokenizer.json"] {
        fs::copy(tiny().join(name), there.join(name)).unwrap();
    }
    let (folder, dimension) = (there, 16);
    assert_eq!(
        choose_embedder(&usual, None).1,
        EmbedderChoice::Model { folder, dimension }
    );
    // A configured folder is not replaced by a usual one.
    let wrong = MemoryConfig {
        model: Some(dir.path().join("not-there")),
        ..usual
    };
    assert!(matches!(
        choose_embedder(&wrong, None).1,
        EmbedderChoice::Refused { .. }
    ));
}

#[test]
fn notes_are_found_by_their_words_while_their_model_is_checked() {
    let dir = tempfile::tempdir().unwrap();
    let [program, go] = ["program", "go"].map(|name| dir.path().join(name));
    let script = format!(
        "#!/bin/sh\nwhile [ ! -e {} ]; do sleep 0.1; done\n",
        go.display()
    );
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let loading = Some(Once::new());
    let notes = Notes::with_program(dir.path(), &named(tiny()), Some(program), loading);
    remember(&notes, "A hound barks.");
    assert_eq!(found(&notes, "hound barks"), ["A hound barks."]);
    assert_eq!((notes.vectors(), notes.waiting()), (None, None));
    fs::write(&go, "").unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while notes.waiting() != Some(0) {
        assert!(Instant::now() < until, "the model is not in use");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(matches!(
        notes.vectors(),
        Some(EmbedderChoice::Model { .. })
    ));
    assert_eq!(found(&notes, "the dog"), ["A hound barks."]);
}

#[test]
fn new_notes_are_embedded_in_the_background() {
    let dir = tempfile::tempdir().unwrap();
    let notes = Notes::new(dir.path(), &named(tiny()));
    assert!(!notes.exist() && notes.waiting().is_none());
    let other = notes.clone();
    for n in 0..3 * BATCH {
        remember(&other, &format!("A hound barks {n} times."));
    }
    let until = Instant::now() + Duration::from_secs(30);
    while notes.waiting() != Some(0) {
        assert!(Instant::now() < until, "they still wait");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(!found(&notes, "the dog").is_empty());
    // The worker ended; the next note starts another.
    remember(&notes, "The lorry waits.");
    while notes.waiting() != Some(0) {
        assert!(Instant::now() < until, "it still waits");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(
        found(&notes, "the truck").first().map(String::as_str),
        Some("The lorry waits.")
    );
}

#[test]
fn panic_with_locked_notes_loses_no_note() {
    let dir = tempfile::tempdir().unwrap();
    let notes = Notes::new(dir.path(), &MemoryConfig::default());
    remember(&notes, "A hound barks.");
    let other = notes.clone();
    let died = std::thread::spawn(move || {
        let _held = other.open().unwrap();
        panic!("a tool broke");
    });
    assert!(died.join().is_err());
    assert_eq!(found(&notes, "hound"), ["A hound barks."]);
}

#[test]
fn notes_that_are_locked_stop_no_other_task() {
    let home = tempfile::tempdir().unwrap();
    let notes = Notes::new(home.path(), &MemoryConfig::default());
    let locked = notes.open().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.build().unwrap();
    let used = runtime.block_on(async {
        // The only thread runs this while the lock lets the first task wait.
        let other = async { drop(locked) };
        tokio::join!(notes.with(|_| Ok(())), other).0
    });
    used.unwrap();
}
