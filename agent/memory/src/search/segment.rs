//! The notes of one page, ready to be searched.
//!
//! Invariant: a segment is what [`Segment::extend`] makes of the notes in their order, however many at a time.

use std::collections::BTreeMap;

use super::signature::{Signature, Signatures};
use super::terms::{Term, terms};
use crate::embed::Embedder;
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
}

impl Segment {
    pub(super) fn new(kind: Kind) -> Self {
        Self {
            kind,
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

    /// Takes what `notes` have beyond those that are here; they must [begin](Self::begins) with them.
    pub(super) fn extend(mut self, notes: Vec<Placed>, embedder: &dyn Embedder) -> Self {
        for placed in notes.into_iter().skip(self.notes.len()) {
            self.push(placed, embedder);
        }
        self
    }

    fn push(&mut self, placed: Placed, embedder: &dyn Embedder) {
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
        let vector = embedder.embed(&text).unwrap_or_else(|error| {
            let line = placed.line;
            tracing::warn!(%error, line, "a note is found by its words alone");
            vec![0.0; embedder.dimension()]
        });
        self.signatures.push(&Signature::of(&vector));
        self.lengths.push(length);
        self.words += u64::from(length);
        self.notes.push(placed);
    }

    /// BM25 of the notes that `takes` lets through and that have one of `terms`, given with their idf, and terms of at least `cover` of idf in all;
    /// `mean` is the mean length of all notes.
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
        let scores = scores.into_iter();
        let scores = scores.map(|(score, covered)| if covered < cover { 0.0 } else { score });
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
