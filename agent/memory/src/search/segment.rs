//! Search index of one page.
//!
//! - A segment depends on the sequence of its notes, not on how many were added at a time.
//! - A note without a vector yet is near nothing, and is found by its words.

use std::collections::BTreeMap;

use super::pending_text::{Key, PendingText};
use super::signature::{Signature, Signatures};
use super::terms::{Term, terms};
use crate::note::{Kind, Note};
use crate::page::Placed;

/// Saturation of a word's frequency, and normalisation by a note's length: the middle of the ranges
/// of Robertson and Zaragoza (2009, section 3.5).
const K1: f32 = 1.2;
const B: f32 = 0.75;

/// Occurrences of a term in a note.
#[derive(Debug)]
struct Posting {
    note: usize,
    count: u32,
}

/// State of a note's vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Known,
    /// The text with this key is to be embedded.
    Pending(Key),
    /// The embedder refused the text.
    Refused,
}

/// Vector of a new note's text.
#[derive(Debug)]
pub(super) enum TextVector {
    Known(Signature),
    /// The text with this key is to be embedded.
    Pending(Key),
    /// The embedder refused the text.
    Refused,
}

#[derive(Debug)]
pub(super) struct Segment {
    kind: Kind,
    notes: Vec<Placed>,
    /// Number of words of each note.
    lengths: Vec<u32>,
    /// Number of words of all notes.
    words: u64,
    postings: BTreeMap<Term, Vec<Posting>>,
    signatures: Signatures,
    /// State of each note's vector.
    states: Vec<State>,
    /// Number of notes whose state is [`State::Pending`].
    pending: usize,
    /// Length of a signature.
    dimension: usize,
}

impl Segment {
    pub(super) fn new(kind: Kind, dimension: usize) -> Self {
        Self {
            kind,
            states: Vec::new(),
            pending: 0,
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

    /// Number of words of all notes.
    pub(super) fn words(&self) -> u64 {
        self.words
    }

    /// Number of notes with this term.
    pub(super) fn frequency(&self, term: Term) -> usize {
        self.postings.get(&term).map_or(0, Vec::len)
    }

    /// Returns whether `notes` begin with those of the segment.
    pub(super) fn is_prefix_of(&self, kind: Kind, notes: &[Placed]) -> bool {
        self.kind == kind && notes.starts_with(&self.notes)
    }

    /// Appends the notes after its own; the segment must be a prefix of `notes`.
    ///
    /// `embed` returns the vector of a text.
    pub(super) fn extend(
        mut self,
        notes: Vec<Placed>,
        embed: &mut dyn FnMut(&str) -> TextVector,
    ) -> Self {
        for placed in notes.into_iter().skip(self.notes.len()) {
            self.push(placed, embed);
        }
        self
    }

    fn push(&mut self, placed: Placed, embed: &mut dyn FnMut(&str) -> TextVector) {
        let text = searchable_text(&placed.note);
        let number = self.notes.len();
        let mut counts: BTreeMap<Term, u32> = BTreeMap::new();
        let mut length = 0_u32;
        for term in terms(&text) {
            *counts.entry(term).or_default() += 1;
            length += 1;
        }
        for (term, count) in counts {
            let note = number;
            let list = self.postings.entry(term).or_default();
            list.push(Posting { note, count });
        }
        let zero = || Signature::from_vector(&vec![0.0; self.dimension]);
        let (signature, state) = match embed(&text) {
            TextVector::Known(vector) if vector.dimension() == self.dimension => {
                (vector, State::Known)
            }
            TextVector::Pending(key) => (zero(), State::Pending(key)),
            TextVector::Known(_) | TextVector::Refused => (zero(), State::Refused),
        };
        self.pending += usize::from(matches!(state, State::Pending(_)));
        self.states.push(state);
        self.signatures.push(&signature);
        self.lengths.push(length);
        self.words += u64::from(length);
        self.notes.push(placed);
    }

    /// Number of notes without a vector yet.
    pub(super) fn pending(&self) -> usize {
        self.pending
    }

    /// Returns whether any note has a vector.
    pub(super) fn has_vectors(&self) -> bool {
        self.states.contains(&State::Known)
    }

    /// Returns the pending texts, the last first.
    pub(super) fn texts(&self) -> impl Iterator<Item = PendingText> {
        let notes = self.notes.iter().zip(&self.states).rev();
        notes.filter_map(|(placed, state)| match state {
            State::Pending(key) => Some(PendingText::new(*key, searchable_text(&placed.note))),
            State::Known | State::Refused => None,
        })
    }

    /// Sets the vectors of pending notes; `None` marks a refused text.
    pub(super) fn learn(&mut self, vectors: &BTreeMap<Key, Option<Signature>>) {
        if self.pending == 0 {
            return;
        }
        for (at, state) in self.states.iter_mut().enumerate() {
            let State::Pending(key) = *state else {
                continue;
            };
            let Some(vector) = vectors.get(&key) else {
                continue;
            };
            self.pending = self.pending.saturating_sub(1);
            *state = State::Refused;
            if let Some(vector) = vector
                && vector.dimension() == self.dimension
            {
                self.signatures.set(at, vector);
                *state = State::Known;
            }
        }
    }

    /// Returns the texts of all notes with their vectors.
    pub(super) fn vectors(&self) -> impl Iterator<Item = (String, Option<Signature>)> {
        let notes = self.notes.iter().zip(&self.states).enumerate();
        notes.map(|(at, (placed, state))| {
            let is_known = *state == State::Known;
            let vector = is_known.then(|| self.signatures.get(at, self.dimension));
            (searchable_text(&placed.note), vector.flatten())
        })
    }

    /// Scores notes by BM25 and appends them to `found`.
    ///
    /// - `terms` are those of the query with their idf; `mean` is the mean length of all notes.
    /// - `accepts` filters notes.
    /// - A note with a vector must have terms of at least `min_cover` idf in total.
    pub(super) fn score_words(
        &self,
        terms: &[(Term, f32)],
        mean: f32,
        min_cover: f32,
        accepts: impl Fn(&Note) -> bool,
        found: &mut Vec<(usize, f32)>,
    ) {
        // Score, and idf of the query's terms in the note.
        let mut scores = vec![(0.0_f32, 0.0_f32); self.notes.len()];
        for (term, idf) in terms {
            for Posting { note, count } in self.postings.get(term).into_iter().flatten() {
                let (Some((score, covered)), Some(length)) =
                    (scores.get_mut(*note), self.lengths.get(*note))
                else {
                    continue;
                };
                let count = *count as f32;
                let length = 1.0 - B + B * *length as f32 / mean;
                *covered += idf;
                *score += idf * count * (K1 + 1.0) / (count + K1 * length);
            }
        }
        let scores = scores.into_iter().zip(&self.states);
        let scores = scores.map(|((score, covered), state)| {
            let is_left_to_vectors = covered < min_cover && *state == State::Known;
            if is_left_to_vectors { 0.0 } else { score }
        });
        self.collect(scores, 0.0, accepts, found);
    }

    /// Scores notes by their cosine with `vector`, and appends those above `floor` to `found`.
    pub(super) fn score_vectors(
        &self,
        vector: &Signature,
        floor: f32,
        accepts: impl Fn(&Note) -> bool,
        found: &mut Vec<(usize, f32)>,
    ) {
        self.collect(self.signatures.cosines(vector), floor, accepts, found);
    }

    fn collect(
        &self,
        scores: impl Iterator<Item = f32>,
        floor: f32,
        accepts: impl Fn(&Note) -> bool,
        found: &mut Vec<(usize, f32)>,
    ) {
        let scored = scores.zip(&self.notes).enumerate();
        found.extend(scored.filter_map(|(at, (score, placed))| {
            (score > floor && accepts(&placed.note)).then_some((at, score))
        }));
    }
}

/// Returns the searched text of a note: camera, tags and words.
fn searchable_text(note: &Note) -> String {
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
