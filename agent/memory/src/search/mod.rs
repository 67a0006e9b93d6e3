//! Finds notes: by their words (BM25), by their vectors, and by both together.
//!
//! Invariants:
//! - an index says the same after any sequence of changes as one that is made anew of the same pages;
//! - the order of what is found is total: the same index and question give the same answer;
//! - what is filtered out never takes the place of what is not.

mod fuse;
mod query;
mod segment;
mod signature;
pub(crate) mod terms;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use query::{Found, Method, Query};

use crate::embed::Embedder;
use crate::note::Kind;
use crate::page::Placed;
use fuse::{Leg, fuse};
use segment::Segment;
use signature::Signature;

/// Notes that each way of searching contributes before the two are put together.
const DEPTH: usize = 100;

/// Part of what a question says, weighed by idf, that a note must say in the same words to be put before others for them where both ways are
/// used. A note that shares one common word with a question would come first by words when no note shares more.
const COVER: f32 = 0.5;

/// The pages that can be searched.
#[derive(Debug)]
pub(crate) struct Index {
    embedder: Arc<dyn Embedder>,
    pages: BTreeMap<PathBuf, Segment>,
}

/// A note of the index: its page, by position, and its position on it.
type At = (usize, usize);

impl Index {
    pub(crate) fn new(embedder: Arc<dyn Embedder>) -> Self {
        let pages = BTreeMap::new();
        Self { embedder, pages }
    }

    /// Takes `notes` as what stands on `page` now. Notes that were added at its end cost no more than themselves.
    pub(crate) fn put(&mut self, page: &Path, kind: Kind, notes: Vec<Placed>) {
        let old = self.pages.remove(page);
        let segment = match old {
            Some(old) if old.begins(kind, &notes) => old,
            Some(_) | None => Segment::new(kind),
        };
        let segment = segment.extend(notes, self.embedder.as_ref());
        self.pages.insert(page.to_path_buf(), segment);
    }

    /// Forgets what stood on `page`.
    pub(crate) fn remove(&mut self, page: &Path) {
        self.pages.remove(page);
    }

    /// How many notes there are.
    pub(crate) fn len(&self) -> usize {
        self.pages.values().map(Segment::len).sum()
    }

    /// The notes of `page`, in its order.
    pub(crate) fn notes(&self, page: &Path) -> impl DoubleEndedIterator<Item = &Placed> {
        self.pages
            .get(page)
            .into_iter()
            .flat_map(|page| page.notes())
    }

    /// All pages of a kind with their notes, by name.
    pub(crate) fn pages(&self, kind: Kind) -> impl DoubleEndedIterator<Item = (&Path, &[Placed])> {
        self.pages
            .iter()
            .filter(move |(_, page)| page.kind() == kind)
            .map(|(path, page)| (path.as_path(), page.notes()))
    }

    /// The notes that answer `query` best, the best first.
    pub(crate) fn search(&self, query: &Query) -> Vec<Found> {
        let pages: Vec<(&PathBuf, &Segment)> = self.pages.iter().collect();
        let mut legs = Vec::new();
        if query.method != Method::Vectors {
            let order = self.by_words(query, &pages);
            legs.push(Leg { order, weight: 1.0 });
        }
        if query.method != Method::Words {
            let order = self.by_vectors(query, &pages);
            let weight = self.embedder.weight();
            legs.push(Leg { order, weight });
        }
        let placed = |(page, note): At| {
            let (path, segment) = pages.get(page)?;
            Some((path, segment.kind(), segment.notes().get(note)?))
        };
        let recency = |at: At| placed(at).map_or(0.0, |(_, kind, p)| query.recency(kind, &p.note));
        fuse(&legs, recency, query.limit)
            .into_iter()
            .filter_map(|(at, score)| {
                let (path, kind, placed) = placed(at)?;
                Some(Found {
                    file: path.to_path_buf(),
                    line: placed.line,
                    kind,
                    score,
                    trusted: placed.note.origin.trusted(),
                    note: placed.note.clone(),
                })
            })
            .collect()
    }

    /// Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009, equation 3.15, with the never negative idf of Lucene.
    fn by_words(&self, query: &Query, pages: &[(&PathBuf, &Segment)]) -> Vec<At> {
        let terms: BTreeSet<_> = terms::terms(&query.text).collect();
        let notes = self.len() as f32;
        let words: u64 = self.pages.values().map(Segment::words).sum();
        let mean = (words as f32 / notes.max(1.0)).max(1.0);
        let weighted: Vec<(terms::Term, f32)> = terms
            .into_iter()
            .map(|term| {
                let with: usize = self.pages.values().map(|page| page.with(term)).sum();
                let with = with as f32;
                (term, (1.0 + (notes - with + 0.5) / (with + 0.5)).ln())
            })
            .collect();
        let cover = match query.method {
            Method::Hybrid => COVER * weighted.iter().map(|(_, idf)| idf).sum::<f32>(),
            Method::Words | Method::Vectors => 0.0,
        };
        best(pages, |page, found| {
            page.score_words(
                &weighted,
                mean,
                cover,
                |note| query.takes(page.kind(), note),
                found,
            );
        })
    }

    fn by_vectors(&self, query: &Query, pages: &[(&PathBuf, &Segment)]) -> Vec<At> {
        let vector = match self.embedder.embed(&query.text) {
            Ok(vector) => Signature::of(&vector),
            Err(error) => {
                tracing::warn!(%error, "notes are searched by their words alone");
                return Vec::new();
            }
        };
        let floor = self.embedder.floor();
        best(pages, |page, found| {
            page.score_vectors(&vector, floor, |note| query.takes(page.kind(), note), found);
        })
    }
}

/// The [`DEPTH`] best of what `score` finds on each page, the best first; of equals the first.
fn best(
    pages: &[(&PathBuf, &Segment)],
    score: impl Fn(&Segment, &mut Vec<(usize, f32)>),
) -> Vec<At> {
    let mut all: Vec<(f32, At)> = Vec::new();
    let mut found = Vec::new();
    let order = |a: &(f32, At), b: &(f32, At)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
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
