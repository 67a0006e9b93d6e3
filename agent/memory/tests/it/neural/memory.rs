//! Memory with a sentence model.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use watchkeeper_contract::time::{TimeQuality, Wall};
use watchkeeper_memory::neural::SentenceModel;
use watchkeeper_memory::{Entry, Kind, Memory, Origin, Query, Words};

use super::files::{copy, models};

const NOON: i64 = 1_795_348_800_000;

fn open(folder: &Path, model: &Path) -> Memory {
    let model = SentenceModel::load(model).expect("a model");
    Memory::open(folder, Arc::new(model)).expect("a memory")
}

fn remember(memory: &mut Memory, words: &str) {
    let now = Wall {
        unix_ms: NOON,
        quality: TimeQuality::Synced,
    };
    let entry = Entry::new(
        Kind::Knowledge,
        Origin::Person,
        Words::new(words).expect("words"),
    );
    memory.remember(now, entry).expect("kept");
}

fn found(memory: &mut Memory, question: &str) -> Vec<String> {
    let found = memory.search(Query::new(question)).expect("a search");
    found
        .into_iter()
        .map(|f| f.note.words.to_string())
        .collect()
}

#[test]
fn question_without_common_words_finds_an_embedded_note() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut memory = open(folder.path(), &models().join("sentences"));
    for note in [
        "A dog barks at the gate.",
        "The lorry stands at the dock.",
        "The choir sings.",
    ] {
        remember(&mut memory, note);
    }
    assert_eq!(memory.waiting(), 3);
    // By words at once, also by one that covers only half of the question.
    assert_eq!(
        found(&mut memory, "the big lorry of yesterday"),
        ["The lorry stands at the dock."]
    );
    assert!(found(&mut memory, "some canine growls").is_empty());
    assert_eq!(memory.embed_some(2), 2);
    assert_eq!(memory.embed_some(9), 1);
    assert_eq!((memory.waiting(), memory.embed_some(9)), (0, 0));
    assert_eq!(
        found(&mut memory, "some canine growls")[0],
        "A dog barks at the gate."
    );
    assert_eq!(
        found(&mut memory, "truck")[0],
        "The lorry stands at the dock."
    );
}

#[test]
fn another_model_embeds_again_and_removes_old_vectors() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = copy();
    let vectors = || {
        let entries = fs::read_dir(folder.path().join(".vectors")).expect("a folder");
        let names = entries.map(|e| {
            e.expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        });
        let mut names: Vec<String> = names.filter(|name| name.ends_with(".vec")).collect();
        names.sort();
        names
    };
    let mut memory = open(folder.path(), model.path());
    remember(&mut memory, "A dog barks at the gate.");
    memory.embed_some(9);
    let first = vectors();
    assert_eq!(first.len(), 1);
    fs::write(
        model.path().join("sentence_bert_config.json"),
        r#"{"max_seq_length": 16}"#,
    )
    .expect("write");
    let mut memory = open(folder.path(), model.path());
    assert_eq!(memory.waiting(), 1);
    memory.embed_some(9);
    let second = vectors();
    assert!(second.len() == 1 && second != first, "{first:?} {second:?}");
    assert_eq!(
        found(&mut memory, "some canine growls"),
        ["A dog barks at the gate."]
    );
}
