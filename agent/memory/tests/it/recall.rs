//! Recall of the first five results on the notes and questions in `tests/data`, over a real folder.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::time::{TimeQuality, Wall};
use watchkeeper_memory::{Entry, HashedEmbedder, Kind, Memory, Method, Origin, Query, Words};

const NOTES: &str = include_str!("../data/notes.txt");
const QUESTIONS: &str = include_str!("../data/queries.txt");

struct Question {
    /// Not used while weights were chosen.
    held_out: bool,
    /// Worded differently than the note.
    other_words: bool,
    answers: BTreeSet<&'static str>,
    text: &'static str,
}

fn rows<const N: usize>(file: &'static str) -> impl Iterator<Item = [&'static str; N]> {
    let rows = file
        .lines()
        .filter(|l| !l.is_empty() && !l.starts_with('#'));
    rows.map(|row| {
        let columns: Vec<&str> = row.splitn(N, '|').collect();
        columns.try_into().expect("all columns")
    })
}

fn questions() -> Vec<Question> {
    let rows = rows::<4>(QUESTIONS);
    rows.map(|[set, class, answers, text]| Question {
        held_out: set == "h",
        other_words: class == "other",
        answers: answers.split(',').collect(),
        text,
    })
    .collect()
}

/// Opens a memory with all notes, and returns their words by id.
fn site(folder: &Path) -> (Memory, BTreeMap<&'static str, &'static str>) {
    let mut memory = Memory::open(folder, Arc::new(HashedEmbedder::default())).expect("open");
    let mut ids = BTreeMap::new();
    for [id, kind, date, camera, text] in rows::<5>(NOTES) {
        let kind = match kind {
            "observation" => Kind::Observation,
            "knowledge" => Kind::Knowledge,
            "preference" => Kind::Preference,
            "lesson" => Kind::Lesson,
            other => panic!("{id}: {other:?} is no kind"),
        };
        let mut entry = Entry::new(kind, Origin::Person, Words::new(text).expect("words"));
        entry.camera = (!camera.is_empty()).then(|| SourceId::new(camera).expect("a camera"));
        let date = if date.is_empty() { "2026-07-01" } else { date };
        let at: jiff::Timestamp = format!("{date}T12:00:00Z").parse().expect("a date");
        let now = Wall {
            unix_ms: at.as_millisecond(),
            quality: TimeQuality::Synced,
        };
        memory.remember(now, entry).expect("remember");
        ids.insert(id, text);
    }
    (memory, ids)
}

/// Returns the mean recall of the first five results, and the questions with a missing answer.
fn recall(
    memory: &mut Memory,
    ids: &BTreeMap<&str, &str>,
    questions: &[&Question],
    method: Method,
) -> (f64, Vec<&'static str>) {
    let mut sum = 0.0;
    let mut missed = Vec::new();
    for question in questions {
        let mut query = Query::new(question.text);
        query.limit = 5;
        query.method = method;
        query.now = "2026-11-22T12:00:00Z".parse().ok();
        let found = memory.search(query).expect("search");
        let found: BTreeSet<&str> = found.iter().map(|f| f.note.words.as_str()).collect();
        let hits = question
            .answers
            .iter()
            .filter(|id| found.contains(ids[**id]))
            .count();
        sum += hits as f64 / question.answers.len() as f64;
        if hits < question.answers.len() {
            missed.push(question.text);
        }
    }
    (sum / questions.len() as f64, missed)
}

#[test]
fn data_set_is_large_enough() {
    let ids: BTreeSet<&str> = rows::<5>(NOTES).map(|[id, ..]| id).collect();
    let questions = questions();
    assert_eq!(
        ids.len(),
        rows::<5>(NOTES).count(),
        "an id stands there twice"
    );
    assert!(ids.len() >= 150 && questions.len() >= 60);
    assert!(questions.iter().filter(|q| q.held_out).count() >= 40);
    for question in &questions {
        assert!(
            question.answers.iter().all(|id| ids.contains(id)),
            "{}",
            question.text
        );
    }
}

#[expect(
    clippy::print_stdout,
    reason = "the figures are what this test is about"
)]
#[test]
fn recall_is_at_least_nine_of_ten_with_vectors() {
    let dir = tempfile::tempdir().expect("a folder");
    let (mut memory, ids) = site(dir.path());
    let questions = questions();
    let of = |takes: fn(&&Question) -> bool| questions.iter().filter(takes).collect::<Vec<_>>();
    let sets: [(&str, Vec<&Question>, f64); 4] = [
        ("all", of(|_| true), 0.9),
        ("held out", of(|q| q.held_out), 0.88),
        ("in the note's words", of(|q| !q.other_words), 0.98),
        ("in other words", of(|q| q.other_words), 0.8),
    ];
    for (name, set, least) in sets {
        let (words, _) = recall(&mut memory, &ids, &set, Method::Words);
        let (vectors, _) = recall(&mut memory, &ids, &set, Method::Vectors);
        let (hybrid, missed) = recall(&mut memory, &ids, &set, Method::Hybrid);
        let asked = set.len();
        println!(
            "recall@5, {name} ({asked}): words {words:.3}, vectors {vectors:.3}, hybrid {hybrid:.3}"
        );
        assert!(hybrid >= least, "{name}: {hybrid}; missed {missed:#?}");
        let nothing_to_gain = words >= 1.0 && hybrid >= words;
        assert!(
            hybrid > words || nothing_to_gain,
            "{name}: {hybrid} with vectors, {words} without"
        );
    }
    // Words alone miss a third of the answers, or the set would not measure vectors.
    let (words, _) = recall(&mut memory, &ids, &of(|_| true), Method::Words);
    assert!(words < 0.75, "{words}");
}
