//! Search for notes by words (BM25), by vectors, or by both.
//!
//! - An index depends on its pages alone, not on the sequence of changes.
//! - The order of results is total: the same index and query give the same answer.
//! - Filters apply before the limit.
//! - A note is found by its words even before its vector exists.

mod fuse;
mod pending_text;
mod query;
mod segment;
mod signature;
pub(crate) mod terms;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) use pending_text::Key;
pub use pending_text::PendingText;
pub use query::{Found, Method, Query};
pub(crate) use signature::Signature;

use crate::embed::Embedder;
use crate::note::Kind;
use crate::page::Placed;
use fuse::{NotePosition, fuse};
use segment::{Segment, TextVector};

/// Notes of each ranking that take part in the fusion.
const DEPTH: usize = 100;

/// Part of a query's idf that the words of a note must cover to be ranked by words in a hybrid
/// search.
///
/// Without it, a note that shares one common word would be first if no note shares more.
const MIN_COVER: f32 = 0.5;

/// Search index over pages.
#[derive(Debug)]
pub(crate) struct Index {
    embedder: Arc<dyn Embedder>,
    pages: BTreeMap<PathBuf, Segment>,
}

impl Index {
    pub(crate) fn new(embedder: Arc<dyn Embedder>) -> Self {
        let pages = BTreeMap::new();
        Self { embedder, pages }
    }

    /// Replaces the notes of a page; appended notes are indexed alone.
    ///
    /// `stored` returns the stored vector of a text, for a slow embedder.
    pub(crate) fn put(
        &mut self,
        page: &Path,
        kind: Kind,
        notes: Vec<Placed>,
        stored: &mut dyn FnMut(Key) -> Option<Signature>,
    ) {
        let old = self.pages.remove(page);
        let embedder = Arc::clone(&self.embedder);
        let fresh = || Segment::new(kind, embedder.dimension());
        let is_stored = embedder.kept_as().is_some();
        // An edited page keeps the vectors of its unchanged texts.
        let mut old_vectors: BTreeMap<Key, Signature> = BTreeMap::new();
        let segment = match old {
            Some(old) if old.is_prefix_of(kind, &notes) => old,
            Some(old) if is_stored => {
                let vectors = old.vectors();
                old_vectors.extend(
                    vectors.filter_map(|(text, vector)| Some((Key::from_text(&text), vector?))),
                );
                fresh()
            }
            Some(_) | None => fresh(),
        };
        let segment = segment.extend(notes, &mut |text| {
            if !is_stored {
                let vector = embed(embedder.as_ref(), text);
                return vector.map_or(TextVector::Refused, TextVector::Known);
            }
            let key = Key::from_text(text);
            let vector = old_vectors.get(&key).cloned().or_else(|| stored(key));
            vector.map_or(TextVector::Pending(key), TextVector::Known)
        });
        self.pages.insert(page.to_path_buf(), segment);
    }

    /// Returns up to `max` pending texts: the last pages first, and of each page the last notes.
    pub(crate) fn wanted(&self, max: usize) -> Vec<PendingText> {
        let mut all = Vec::new();
        let mut known = BTreeSet::new();
        let pages = self.pages.values().rev().filter(|page| page.pending() > 0);
        for text in pages.flat_map(Segment::texts) {
            if all.len() >= max {
                break;
            }
            if known.insert(text.key()) {
                all.push(text);
            }
        }
        all
    }

    /// Number of notes without a vector yet.
    pub(crate) fn waiting(&self) -> usize {
        self.pages.values().map(Segment::pending).sum()
    }

    /// Sets the vectors of pending notes; `None` marks a refused text.
    pub(crate) fn learn(&mut self, vectors: &BTreeMap<Key, Option<Signature>>) {
        for page in self.pages.values_mut() {
            page.learn(vectors);
        }
    }

    pub(crate) fn keys(&self) -> BTreeSet<Key> {
        let texts = self.pages.values().flat_map(Segment::vectors);
        texts.map(|(text, _)| Key::from_text(&text)).collect()
    }

    pub(crate) fn embedder(&self) -> &Arc<dyn Embedder> {
        &self.embedder
    }

    pub(crate) fn remove(&mut self, page: &Path) {
        self.pages.remove(page);
    }

    /// Number of notes.
    pub(crate) fn len(&self) -> usize {
        self.pages.values().map(Segment::len).sum()
    }

    /// Returns the notes of `page`, in its order.
    pub(crate) fn notes(&self, page: &Path) -> impl DoubleEndedIterator<Item = &Placed> {
        self.pages
            .get(page)
            .into_iter()
            .flat_map(|page| page.notes())
    }

    /// Returns the pages of a kind with their notes, by path.
    pub(crate) fn pages(&self, kind: Kind) -> impl DoubleEndedIterator<Item = (&Path, &[Placed])> {
        self.pages
            .iter()
            .filter(move |(_, page)| page.kind() == kind)
            .map(|(path, page)| (path.as_path(), page.notes()))
    }

    /// Returns the notes that the filters of `query` accept, by page and line.
    pub(crate) fn matching(&self, query: &Query) -> impl Iterator<Item = Found> {
        let pages = self.pages.iter();
        let notes = pages.flat_map(|(path, page)| {
            let notes = page.notes().iter();
            notes.map(move |placed| (path, page.kind(), placed))
        });
        notes
            .filter(|(_, kind, placed)| query.matches(*kind, &placed.note))
            .map(|(path, kind, placed)| Found::new(path, kind, placed, 1.0))
    }

    /// Finds the notes that match `query`, the best first.
    pub(crate) fn search(&self, query: &Query) -> Vec<Found> {
        let pages: Vec<(&PathBuf, &Segment)> = self.pages.iter().collect();
        let mut rankings = Vec::new();
        if query.method != Method::Vectors {
            rankings.push(self.rank_by_words(query, &pages));
        }
        if query.method != Method::Words {
            rankings.push(self.rank_by_vectors(query, &pages));
        }
        let placed = |(page, note): NotePosition| {
            let (path, segment) = pages.get(page)?;
            Some((path, segment.kind(), segment.notes().get(note)?))
        };
        let recency =
            |at: NotePosition| placed(at).map_or(0.0, |(_, kind, p)| query.recency(kind, &p.note));
        fuse(&rankings, recency, query.limit)
            .into_iter()
            .filter_map(|(at, score)| {
                let (path, kind, placed) = placed(at)?;
                Some(Found::new(path, kind, placed, score))
            })
            .collect()
    }

    /// Ranks notes by BM25, with the non-negative idf of Lucene.
    ///
    /// Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009,
    /// equation 3.15.
    fn rank_by_words(&self, query: &Query, pages: &[(&PathBuf, &Segment)]) -> Vec<NotePosition> {
        let terms: BTreeSet<_> = terms::terms(&query.text).collect();
        let notes = self.len() as f32;
        let words: u64 = self.pages.values().map(Segment::words).sum();
        let mean = (words as f32 / notes.max(1.0)).max(1.0);
        let weighted: Vec<(terms::Term, f32)> = terms
            .into_iter()
            .map(|term| {
                let frequency: usize = self.pages.values().map(|page| page.frequency(term)).sum();
                let frequency = frequency as f32;
                let idf = (1.0 + (notes - frequency + 0.5) / (frequency + 0.5)).ln();
                (term, idf)
            })
            .collect();
        let min_cover = match query.method {
            Method::Hybrid => MIN_COVER * weighted.iter().map(|(_, idf)| idf).sum::<f32>(),
            Method::Words | Method::Vectors => 0.0,
        };
        best(pages, |page, found| {
            page.score_words(
                &weighted,
                mean,
                min_cover,
                |note| query.matches(page.kind(), note),
                found,
            );
        })
    }

    fn rank_by_vectors(&self, query: &Query, pages: &[(&PathBuf, &Segment)]) -> Vec<NotePosition> {
        if !pages.iter().any(|(_, page)| page.has_vectors()) {
            return Vec::new();
        }
        let vector = match self.embedder.embed_question(&query.text) {
            Ok(vector) => Signature::from_vector(&vector),
            Err(error) => {
                tracing::warn!(%error, "memory: searching notes by words only");
                return Vec::new();
            }
        };
        let floor = self.embedder.floor();
        best(pages, |page, found| {
            page.score_vectors(
                &vector,
                floor,
                |note| query.matches(page.kind(), note),
                found,
            );
        })
    }
}

/// Embeds a text; a failure is logged.
pub(crate) fn embed(embedder: &dyn Embedder, text: &str) -> Option<Signature> {
    match embedder.embed(text) {
        Ok(vector) => Some(Signature::from_vector(&vector)),
        Err(error) => {
            tracing::warn!(%error, "memory: a note is found by its words only");
            None
        }
    }
}

/// Returns the [`DEPTH`] best notes by `score`, the best first, ties by position.
fn best(
    pages: &[(&PathBuf, &Segment)],
    score: impl Fn(&Segment, &mut Vec<(usize, f32)>),
) -> Vec<NotePosition> {
    type Scored = (f32, NotePosition);
    let mut all: Vec<Scored> = Vec::new();
    let mut found = Vec::new();
    let order = |a: &Scored, b: &Scored| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
    for (number, (_, page)) in pages.iter().enumerate() {
        found.clear();
        score(page, &mut found);
        all.extend(found.iter().map(|(note, score)| (*score, (number, *note))));
        if all.len() > 16 * DEPTH {
            all.select_nth_unstable_by(DEPTH, order);
            all.truncate(DEPTH);
        }
    }
    all.sort_unstable_by(order);
    all.truncate(DEPTH);
    all.into_iter().map(|(_, at)| at).collect()
}

#[cfg(test)]
mod tests;
