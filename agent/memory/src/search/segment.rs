//! The notes of one page, ready to be searched.
//!
//! Invariants: a segment is what [`Segment::extend`] makes of the notes in their order, however many at a time; a note that waits for its vector is near
//! nothing, and found by its words as if there were no vectors.

use std::collections::BTreeMap;

use super::signature::{Signature, Signatures};
use super::terms::{Term, terms};
use super::wanted::{Key, Wanted};
use crate::note::{Kind, Note};
use crate::page::Placed;

/// How soon more of the same word says nothing more, and how much a long note is held against it: the middle of what Robertson and
/// Zaragoza found good (2009, section 3.5).
const K1: f32 = 1.2;
const B: f32 = 0.75;

/// A word in a note.
#[derive(Debug)]
struct Posting {
    note: usize,
    times: u32,
}

/// How it stands with a note's vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It is there.
    There,
    /// It is still to be made of the text with this key.
    Wanted(Key),
    /// There is none: the embedder has refused the text.
    Refused,
}

/// What is known of a text's vector when its note comes.
#[derive(Debug)]
pub(super) enum Made {
    /// The vector.
    Vector(Signature),
    /// Nothing yet.
    Later(Key),
    /// That there is none.
    None,
}

/// A page.
#[derive(Debug)]
pub(super) struct Segment {
    kind: Kind,
    notes: Vec<Placed>,
    /// Words of each note.
    lengths: Vec<u32>,
    words: u64,
    postings: BTreeMap<Term, Vec<Posting>>,
    signatures: Signatures,
    /// How it stands with the vector of each note.
    states: Vec<State>,
    /// How many of them are wanted.
    wanted: usize,
    /// Places of a signature.
    dimension: usize,
}

impl Segment {
    pub(super) fn new(kind: Kind, dimension: usize) -> Self {
        Self {
            kind,
            states: Vec::new(),
            wanted: 0,
            dimension,
            notes: Vec::new(),
            lengths: Vec::new(),
            words: 0,
            postings: BTreeMap::new(),
            signatures: Signatures::default(),
        }
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    pub(super) fn notes(&self) -> &[Placed] {
        &self.notes
    }

    pub(super) fn len(&self) -> usize {
        self.notes.len()
    }

    /// Words of all notes.
    pub(super) fn words(&self) -> u64 {
        self.words
    }

    /// How many notes have this word.
    pub(super) fn with(&self, term: Term) -> usize {
        self.postings.get(&term).map_or(0, Vec::len)
    }

    /// Whether `notes` begin with what is here.
    pub(super) fn begins(&self, kind: Kind, notes: &[Placed]) -> bool {
        self.kind == kind && notes.starts_with(&self.notes)
    }

    /// Takes what `notes` have beyond those that are here; they must [begin](Self::begins) with them. `make` is asked for the vector of each text.
    pub(super) fn extend(mut self, notes: Vec<Placed>, make: &mut dyn FnMut(&str) -> Made) -> Self {
        for placed in notes.into_iter().skip(self.notes.len()) {
            self.push(placed, make);
        }
        self
    }

    fn push(&mut self, placed: Placed, make: &mut dyn FnMut(&str) -> Made) {
        let text = searchable(&placed.note);
        let number = self.notes.len();
        let mut counts: BTreeMap<Term, u32> = BTreeMap::new();
        let mut length = 0_u32;
        for term in terms(&text) {
            *counts.entry(term).or_default() += 1;
            length += 1;
        }
        for (term, times) in counts {
            let note = number;
            let list = self.postings.entry(term).or_default();
            list.push(Posting { note, times });
        }
        let nothing = || Signature::of(&vec![0.0; self.dimension]);
        let (signature, state) = match make(&text) {
            Made::Vector(vector) if vector.dimension() == self.dimension => (vector, State::There),
            Made::Later(key) => (nothing(), State::Wanted(key)),
            Made::Vector(_) | Made::None => (nothing(), State::Refused),
        };
        self.wanted += usize::from(matches!(state, State::Wanted(_)));
        self.states.push(state);
        self.signatures.push(&signature);
        self.lengths.push(length);
        self.words += u64::from(length);
        self.notes.push(placed);
    }

    /// Notes that wait for their vector.
    pub(super) fn wanted(&self) -> usize {
        self.wanted
    }

    /// Whether any note has its vector.
    pub(super) fn has_vectors(&self) -> bool {
        self.states.contains(&State::There)
    }

    /// The texts of those that wait, the last first.
    pub(super) fn texts(&self) -> impl Iterator<Item = Wanted> {
        let notes = self.notes.iter().zip(&self.states).rev();
        notes.filter_map(|(placed, state)| match state {
            State::Wanted(key) => Some(Wanted::new(*key, searchable(&placed.note))),
            State::There | State::Refused => None,
        })
    }

    /// Gives those that wait what was made for them; none: there is no vector.
    pub(super) fn learn(&mut self, made: &BTreeMap<Key, Option<Signature>>) {
        if self.wanted == 0 {
            return;
        }
        for (at, state) in self.states.iter_mut().enumerate() {
            let State::Wanted(key) = *state else {
                continue;
            };
            let Some(vector) = made.get(&key) else {
                continue;
            };
            self.wanted = self.wanted.saturating_sub(1);
            *state = State::Refused;
            if let Some(vector) = vector
                && vector.dimension() == self.dimension
            {
                self.signatures.set(at, vector);
                *state = State::There;
            }
        }
    }

    /// The texts of all notes, each with its vector where that is there.
    pub(super) fn vectors(&self) -> impl Iterator<Item = (String, Option<Signature>)> {
        let notes = self.notes.iter().zip(&self.states).enumerate();
        notes.map(|(at, (placed, state))| {
            let there = *state == State::There;
            let vector = there.then(|| self.signatures.get(at, self.dimension));
            (searchable(&placed.note), vector.flatten())
        })
    }

    /// BM25 of the notes that `takes` lets through and that have one of `terms`, given with their idf, and, where they have a vector to be found by too, terms of
    /// at least `cover` of idf in all; `mean` is the mean length of all notes.
    pub(super) fn score_words(
        &self,
        terms: &[(Term, f32)],
        mean: f32,
        cover: f32,
        takes: impl Fn(&Note) -> bool,
        found: &mut Vec<(usize, f32)>,
    ) {
        // Score, and idf of the terms that a note has.
        let mut scores = vec![(0.0_f32, 0.0_f32); self.notes.len()];
        for (term, idf) in terms {
            for Posting { note, times } in self.postings.get(term).into_iter().flatten() {
                let (Some((score, covered)), Some(length)) =
                    (scores.get_mut(*note), self.lengths.get(*note))
                else {
                    continue;
                };
                let times = *times as f32;
                let length = 1.0 - B + B * *length as f32 / mean;
                *covered += idf;
                *score += idf * times * (K1 + 1.0) / (times + K1 * length);
            }
        }
        let scores = scores.into_iter().zip(&self.states);
        let scores = scores.map(|((score, covered), state)| {
            let left_to_vectors = covered < cover && *state == State::There;
            if left_to_vectors { 0.0 } else { score }
        });
        self.keep(scores, 0.0, takes, found);
    }

    /// Cosines of the notes that `takes` lets through and that are nearer to `vector` than `floor`.
    pub(super) fn score_vectors(
        &self,
        vector: &Signature,
        floor: f32,
        takes: impl Fn(&Note) -> bool,
        found: &mut Vec<(usize, f32)>,
    ) {
        self.keep(self.signatures.cosines(vector), floor, takes, found);
    }

    fn keep(
        &self,
        scores: impl Iterator<Item = f32>,
        above: f32,
        takes: impl Fn(&Note) -> bool,
        found: &mut Vec<(usize, f32)>,
    ) {
        let scored = scores.zip(&self.notes).enumerate();
        found.extend(scored.filter_map(|(at, (score, placed))| {
            (score > above && takes(&placed.note)).then_some((at, score))
        }));
    }
}

/// What of a note is searched: its camera, tags and words.
fn searchable(note: &Note) -> String {
    let mut text = String::new();
    let camera = note.camera.as_ref().map(|camera| camera.as_str());
    for word in camera
        .into_iter()
        .chain(note.tags.iter().map(|tag| tag.as_str()))
    {
        text.push_str(word);
        text.push(' ');
    }
    text.push_str(note.words.as_str());
    text
}
