use jiff::Timestamp;
use proptest::prelude::*;
use watchkeeper_contract::id::SourceId;

use super::*;
use crate::embed::{EmbedError, HashedEmbedder};
use crate::note::{Note, Origin, Tag, Words};

fn index() -> Index {
    Index::new(Arc::new(HashedEmbedder::default()))
}

fn note(words: &str) -> Note {
    Note {
        at: None,
        camera: None,
        tags: Vec::new(),
        origin: Origin::Person,
        words: Words::new(words).expect("words"),
    }
}

fn placed(notes: Vec<Note>) -> Vec<Placed> {
    let lines = (1..).step_by(4);
    lines
        .zip(notes)
        .map(|(line, note)| Placed { line, note })
        .collect()
}

fn put_at(index: &mut Index, page: &Path, kind: Kind, notes: Vec<Placed>) {
    index.put(page, kind, notes, &mut |_| None);
}

fn found(index: &Index, query: &Query) -> Vec<String> {
    let found = index.search(query).into_iter();
    found.map(|f| f.note.words.to_string()).collect()
}

fn at(day: i64) -> Option<Timestamp> {
    Timestamp::from_second(1_795_305_600 + day * 86_400).ok()
}

#[test]
fn words_synonyms_and_typing_errors_find_their_note() {
    let mut index = index();
    let notes = vec![
        note("The lorry of the bakery comes at six."),
        note("The floodlight over the yard is broken."),
        note("Cleaning is on Thursday."),
    ];
    put_at(
        &mut index,
        Path::new("knowledge.md"),
        Kind::Knowledge,
        placed(notes),
    );
    for question in ["bakery lorry", "which truck is early?", "bakerys lory"] {
        let first = found(&index, &Query::new(question)).into_iter().next();
        assert_eq!(
            first.as_deref(),
            Some("The lorry of the bakery comes at six."),
            "{question}"
        );
    }
    assert!(found(&index, &Query::new("zebra xylophone")).is_empty());
    assert!(found(&index, &Query::new("the of")).is_empty());
}

#[test]
fn filters_apply_before_the_limit() {
    let mut index = index();
    let dock = SourceId::new("dock").ok();
    // More at the gate than the depth of a ranking.
    let mut notes: Vec<Note> = (0..3 * DEPTH).map(|_| note("A van waits.")).collect();
    let mut wanted = note("A van waits here for quite a long time, and its driver with it.");
    wanted.camera = dock.clone();
    wanted.tags = vec![Tag::new("delivery").expect("tag")];
    wanted.at = at(0);
    notes.push(wanted.clone());
    put_at(
        &mut index,
        Path::new("observations/x.md"),
        Kind::Observation,
        placed(notes),
    );
    let all = Query::new("van waits");
    let filters: [Query; 4] = [
        Query {
            camera: dock,
            ..all.clone()
        },
        Query {
            tags: wanted.tags.clone(),
            ..all.clone()
        },
        Query {
            since: at(0),
            ..all.clone()
        },
        Query {
            kinds: vec![Kind::Lesson],
            ..all.clone()
        },
    ];
    let answers = filters.map(|query| found(&index, &query));
    let wanted = vec![wanted.words.to_string()];
    assert_eq!(answers, [wanted.clone(), wanted.clone(), wanted, vec![]]);
    assert!(
        found(
            &index,
            &Query {
                since: at(1),
                ..all
            }
        )
        .is_empty()
    );
}

#[test]
fn newer_of_equal_observations_is_first() {
    let mut index = index();
    let dated = |words: &str, day| Note {
        at: at(day),
        ..note(words)
    };
    let notes = vec![
        dated("A dog at the gate.", -300),
        dated("A dog at the gate!", 0),
    ];
    put_at(
        &mut index,
        Path::new("a.md"),
        Kind::Observation,
        placed(notes),
    );
    let mut query = Query::new("dog gate");
    assert_eq!(found(&index, &query)[0], "A dog at the gate.");
    query.now = at(1);
    assert_eq!(found(&index, &query)[0], "A dog at the gate!");
    let old = dated("A dog at the gate", -900);
    assert!(query.recency(Kind::Knowledge, &old) == 1.0);
    // Age orders near ties; a better match stays first.
    assert!(query.recency(Kind::Observation, &old) >= 0.9);
}

#[derive(Debug)]
struct Broken;

impl Embedder for Broken {
    fn name(&self) -> &'static str {
        "broken"
    }
    fn dimension(&self) -> usize {
        4
    }
    fn floor(&self) -> f32 {
        0.1
    }
    fn embed(&self, _: &str) -> Result<Vec<f32>, EmbedError> {
        let why = "no model".to_owned();
        Err(EmbedError {
            embedder: self.name(),
            why,
        })
    }
}

#[test]
fn notes_are_found_by_their_words_when_the_embedder_fails() {
    let mut index = Index::new(Arc::new(Broken));
    let notes = placed(vec![note("The gate is open.")]);
    put_at(&mut index, Path::new("a.md"), Kind::Knowledge, notes);
    assert_eq!(found(&index, &Query::new("gate")), ["The gate is open."]);
}

/// A change of one of three pages.
#[derive(Debug, Clone)]
enum Change {
    Put(usize, Vec<String>),
    Append(usize, String),
    Remove(usize),
}

fn any_text() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "van", "lorry", "gate", "dog", "open", "night", "driver", "waits", "red", "dock",
    ]);
    prop::collection::vec(word, 1..6).prop_map(|words| words.join(" "))
}

fn any_change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (0..3_usize, prop::collection::vec(any_text(), 0..4)).prop_map(|(p, t)| Change::Put(p, t)),
        (0..3_usize, any_text()).prop_map(|(p, t)| Change::Append(p, t)),
        (0..3_usize).prop_map(Change::Remove),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn changed_index_equals_a_fresh_one(
        changes in prop::collection::vec(any_change(), 1..10),
        questions in prop::collection::vec(any_text(), 1..4),
    ) {
        const PAGES: [&str; 3] = ["a.md", "b.md", "c.md"];
        let mut changed = index();
        let mut pages: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        let put = |index: &mut Index, page: usize, texts: &[String]| {
            let notes = texts.iter().map(|t| note(t)).collect();
            put_at(index, Path::new(PAGES[page]), Kind::Knowledge, placed(notes));
        };
        for change in changes {
            match change {
                Change::Put(page, texts) => { pages.insert(page, texts); put(&mut changed, page, &pages[&page]); }
                Change::Append(page, text) => {
                    pages.entry(page).or_default().push(text);
                    put(&mut changed, page, &pages[&page]);
                }
                Change::Remove(page) => { pages.remove(&page); changed.remove(Path::new(PAGES[page])); }
            }
        }
        let mut fresh = index();
        for (page, texts) in &pages {
            put(&mut fresh, *page, texts);
        }
        prop_assert_eq!(changed.len(), fresh.len());
        for question in questions {
            let query = Query::new(question);
            prop_assert_eq!(changed.search(&query), fresh.search(&query));
        }
    }
}
