//! When notes are embedded, and which vectors are kept.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::embed::EmbedError;

/// Embedder with stored vectors, one dimension per word group, that counts its calls.
#[derive(Debug, Default)]
struct Slow {
    name: String,
    asked: AtomicUsize,
    /// Texts with this word are refused.
    refuses: Option<&'static str>,
}

const PLACES: [&[&str]; 3] = [&["dog", "hound"], &["van", "lorry"], &["gate"]];

impl Embedder for Slow {
    fn name(&self) -> &'static str {
        "slow"
    }
    fn dimension(&self) -> usize {
        PLACES.len()
    }
    fn floor(&self) -> f32 {
        0.3
    }
    fn kept_as(&self) -> Option<&str> {
        Some(&self.name)
    }
    fn embed(&self, text: &str) -> Result<Vec<f32>, EmbedError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if self.refuses.is_some_and(|word| text.contains(word)) {
            let (embedder, why) = (self.name(), "it is refused".to_owned());
            return Err(EmbedError { embedder, why });
        }
        let has = |words: &&[&str]| f32::from(words.iter().any(|word| text.contains(word)));
        let raw: Vec<f32> = PLACES.iter().map(has).collect();
        let length = raw.iter().sum::<f32>().sqrt().max(1.0);
        Ok(raw.into_iter().map(|x| x / length).collect())
    }
}

fn slow(name: &str) -> Arc<Slow> {
    let name = name.to_owned();
    Arc::new(Slow {
        name,
        ..Slow::default()
    })
}

impl Slow {
    /// Number of calls since the last query of this number.
    fn asked(&self) -> usize {
        self.asked.swap(0, Ordering::Relaxed)
    }
}

/// Opens a memory with three notes without vectors.
fn with_slow(dir: &Path, slow: &Arc<Slow>) -> Memory {
    let mut memory = Memory::open(dir, Arc::clone(slow) as Arc<dyn Embedder>).expect("open");
    for words in ["The hound barks.", "A lorry waits.", "Nobody is there."] {
        let said = entry(Kind::Knowledge, Origin::Person, words);
        memory.remember(wall(NOON), said).expect("remember");
    }
    memory
}

fn words_of(memory: &mut Memory, question: &str) -> Vec<String> {
    let found = memory.search(Query::new(question)).expect("search");
    let words = found.into_iter().map(|f| f.note.words.to_string());
    words.collect()
}

fn vector_file(dir: &Path, name: &str) -> PathBuf {
    dir.join(".vectors").join(format!("{name}.vec"))
}

#[test]
fn notes_are_found_by_words_before_their_vectors() {
    let dir = tempfile::tempdir().expect("a folder");
    let slow = slow("a");
    let mut memory = with_slow(dir.path(), &slow);
    assert_eq!((memory.waiting(), slow.asked()), (3, 0));
    // Without a vector, a note below the minimum cover is found by its words too.
    assert_eq!(
        words_of(&mut memory, "hound kept behind some fence"),
        ["The hound barks."]
    );
    assert_eq!(
        slow.asked(),
        0,
        "there is nothing to compare a question with"
    );
    assert!(words_of(&mut memory, "dog").is_empty());
    assert_eq!(memory.embed_some(2), 2);
    assert_eq!((memory.waiting(), slow.asked()), (1, 2));
    assert_eq!(memory.embed_some(2), 1);
    assert_eq!(words_of(&mut memory, "dog"), ["The hound barks."]);
    assert_eq!(slow.asked(), 2, "one note, one question");
}

#[test]
fn vectors_survive_restart_edit_and_move() {
    let dir = tempfile::tempdir().expect("a folder");
    let slow = slow("a");
    with_slow(dir.path(), &slow).embed_some(9);
    slow.asked();
    let again = || Memory::open(dir.path(), Arc::clone(&slow) as Arc<dyn Embedder>).expect("open");
    let mut memory = again();
    assert_eq!((memory.waiting(), slow.asked()), (0, 0));
    assert_eq!(words_of(&mut memory, "dog"), ["The hound barks."]);
    slow.asked();
    // A user inserts a note at the front and changes the last one.
    let file = dir.path().join("knowledge.md");
    let text = fs::read_to_string(&file).expect("read");
    let text = text.replace("Nobody is there.", "A van is there.");
    let text = text.replacen("\n## ", "\n## (person)\n\nThe gate is open.\n\n## ", 1);
    fs::write(&file, text).expect("write");
    memory.refresh().expect("refresh");
    assert_eq!((memory.waiting(), slow.asked()), (2, 0));
    assert!(words_of(&mut memory, "dog").contains(&"The hound barks.".to_owned()));
    memory.embed_some(9);
    let found = words_of(&mut memory, "lorry");
    assert!(found.contains(&"A van is there.".to_owned()), "{found:?}");
    slow.asked();
    // The same words in another file keep their vector.
    fs::rename(&file, dir.path().join("preferences.md")).expect("rename");
    let mut moved = again();
    assert_eq!((moved.waiting(), slow.asked()), (0, 0));
    assert!(words_of(&mut moved, "dog").contains(&"The hound barks.".to_owned()));
}

#[test]
fn refused_text_is_embedded_once_per_start() {
    let dir = tempfile::tempdir().expect("a folder");
    let slow = Arc::new(Slow {
        name: "a".to_owned(),
        refuses: Some("lorry"),
        ..Slow::default()
    });
    let mut memory = with_slow(dir.path(), &slow);
    assert_eq!(memory.embed_some(9), 3);
    assert_eq!((memory.waiting(), memory.embed_some(9)), (0, 0));
    assert_eq!(words_of(&mut memory, "waits"), ["A lorry waits."]);
    let memory = Memory::open(dir.path(), slow).expect("open");
    assert_eq!(memory.waiting(), 1);
}

#[test]
fn damaged_vector_file_only_costs_time() {
    let dir = tempfile::tempdir().expect("a folder");
    let first = slow("a");
    with_slow(dir.path(), &first).embed_some(9);
    let file = vector_file(dir.path(), "a");
    let whole = fs::read(&file).expect("read");
    let record = (whole.len() - 20) / 3;
    let flipped = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        bytes
    };
    let mut cases: Vec<(Vec<u8>, usize)> = vec![
        (Vec::new(), 3),
        (b"no vectors at all".to_vec(), 3),
        // Cut in the middle of a record, the head of another version, and flipped bits.
        (whole[..whole.len() - 5].to_vec(), 1),
        (whole[..25].to_vec(), 3),
        (flipped(7), 3),
        (flipped(9), 3),
        (flipped(20 + record + 3), 1),
        (flipped(whole.len() - 1), 1),
        ([whole.as_slice(), &[7; 11]].concat(), 0),
    ];
    cases.extend((20..whole.len()).step_by(3).map(|at| (flipped(at), 1)));
    for (bytes, lost) in cases {
        fs::write(&file, &bytes).expect("write");
        let slow = slow("a");
        let mut memory =
            Memory::open(dir.path(), Arc::clone(&slow) as Arc<dyn Embedder>).expect("open");
        assert_eq!(memory.waiting(), lost, "{} bytes", bytes.len());
        assert_eq!(memory.embed_some(9), lost);
        assert_eq!(slow.asked(), lost);
        assert_eq!(words_of(&mut memory, "dog"), ["The hound barks."]);
        // The recomputed vectors are stored again.
        let memory = Memory::open(dir.path(), slow).expect("open");
        assert_eq!(memory.waiting(), 0, "{} bytes", bytes.len());
    }
    // Missing or unwritable.
    fs::remove_dir_all(dir.path().join(".vectors")).expect("remove");
    fs::write(dir.path().join(".vectors"), b"a file").expect("write");
    let mut memory = Memory::open(dir.path(), first).expect("open");
    assert_eq!(memory.embed_some(9), 3);
    assert_eq!(words_of(&mut memory, "dog"), ["The hound barks."]);
}

#[test]
fn vectors_of_another_embedder_are_removed() {
    let dir = tempfile::tempdir().expect("a folder");
    with_slow(dir.path(), &slow("a")).embed_some(9);
    let mut memory = Memory::open(dir.path(), slow("b")).expect("open");
    assert_eq!(memory.waiting(), 3);
    assert!(
        vector_file(dir.path(), "a").exists(),
        "until there are others"
    );
    memory.embed_some(9);
    assert!(vector_file(dir.path(), "b").exists() && !vector_file(dir.path(), "a").exists());
    // An invalid name can't lead out of the folder.
    let mut memory = Memory::open(dir.path(), slow("../b")).expect("open");
    assert_eq!(memory.embed_some(9), 3);
    assert_eq!(words_of(&mut memory, "dog"), ["The hound barks."]);
}

#[test]
fn concurrent_embedders_share_their_vectors() {
    let dir = tempfile::tempdir().expect("a folder");
    let (one, other) = (slow("a"), slow("a"));
    let mut first = with_slow(dir.path(), &one);
    let mut second =
        Memory::open(dir.path(), Arc::clone(&other) as Arc<dyn Embedder>).expect("open");
    assert_eq!(second.waiting(), 3);
    first.embed_some(2);
    // The second one reads the vectors of the first.
    assert_eq!(second.embed_some(9), 1);
    assert_eq!((second.waiting(), other.asked()), (0, 1));
    first.embed_some(9);
    assert_eq!(one.asked(), 2);
    assert_eq!(words_of(&mut second, "dog"), ["The hound barks."]);
}

#[test]
fn unused_vectors_are_dropped_once_they_are_many() {
    let dir = tempfile::tempdir().expect("a folder");
    let slow = slow("a");
    let mut memory =
        Memory::open(dir.path(), Arc::clone(&slow) as Arc<dyn Embedder>).expect("open");
    let page = |from: usize| {
        let notes = (from..from + 400).map(|n| format!("## (person)\n\nvan {n}\n\n"));
        fs::write(dir.path().join("knowledge.md"), notes.collect::<String>()).expect("write");
    };
    let length = || {
        fs::metadata(vector_file(dir.path(), "a"))
            .expect("a file")
            .len()
    };
    let mut most = 0;
    for round in 0..8 {
        page(round * 400);
        memory.refresh().expect("refresh");
        assert_eq!(memory.embed_some(usize::MAX), 400);
        most = most.max(length());
    }
    let record = 16 + 4 + 3 + 8;
    assert!(most <= 20 + record * (2 * 400 + 1_000 + 400), "{most}");
    let again = Memory::open(dir.path(), slow).expect("open");
    assert_eq!((again.len(), again.waiting()), (400, 0));
}
