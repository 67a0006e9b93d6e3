//! Finds notes: by their words (BM25), by their vectors, and by both together.
//!
//! Invariants:
//! - an index says the same after any sequence of changes as one that is made anew of the same pages;
//! - the order of what is found is total: the same index and question give the same answer;
//! - what is filtered out never takes the place of what is not;
//! - a note is found by its words from the moment that it is here, whether its vector is made yet or not.

mod fuse;
mod query;
mod segment;
mod signature;
pub(crate) mod terms;
mod wanted;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use query::{Found, Method, Query};
pub(crate) use signature::Signature;
pub(crate) use wanted::Key;
pub use wanted::Wanted;

use crate::embed::Embedder;
use crate::note::Kind;
use crate::page::Placed;
use fuse::{Leg, fuse};
use segment::{Made, Segment};

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

    /// Takes `notes` as what stands on `page` now. Notes that were added at its end cost no more than themselves. `kept` is asked for the vector of a text
    /// where making one is not done in passing.
    pub(crate) fn put(
        &mut self,
        page: &Path,
        kind: Kind,
        notes: Vec<Placed>,
        kept: &mut dyn FnMut(Key) -> Option<Signature>,
    ) {
        let old = self.pages.remove(page);
        let embedder = Arc::clone(&self.embedder);
        let fresh = || Segment::new(kind, embedder.dimension());
        let is_kept = embedder.kept_as().is_some();
        // A page that was edited keeps the vectors of what still stands there.
        let mut had: BTreeMap<Key, Signature> = BTreeMap::new();
        let segment = match old {
            Some(old) if old.begins(kind, &notes) => old,
            Some(old) if is_kept => {
                let vectors = old.vectors();
                had.extend(vectors.filter_map(|(text, vector)| Some((Key::of(&text), vector?))));
                fresh()
            }
            Some(_) | None => fresh(),
        };
        let segment = segment.extend(notes, &mut |text| {
            if !is_kept {
                return made(embedder.as_ref(), text).map_or(Made::None, Made::Vector);
            }
            let key = Key::of(text);
            let vector = had.get(&key).cloned().or_else(|| kept(key));
            vector.map_or(Made::Later(key), Made::Vector)
        });
        self.pages.insert(page.to_path_buf(), segment);
    }

    /// Up to `most` texts that wait for their vectors, of each page the last first, and of the pages those of the last days first.
    pub(crate) fn wanted(&self, most: usize) -> Vec<Wanted> {
        let mut all = Vec::new();
        let mut known = BTreeSet::new();
        let pages = self.pages.values().rev().filter(|page| page.wanted() > 0);
        for wanted in pages.flat_map(Segment::texts) {
            if all.len() >= most {
                break;
            }
            if known.insert(wanted.key()) {
                all.push(wanted);
            }
        }
        all
    }

    /// How many notes wait for their vectors.
    pub(crate) fn waiting(&self) -> usize {
        self.pages.values().map(Segment::wanted).sum()
    }

    /// Gives notes that wait what was made for them; none: there is no vector.
    pub(crate) fn learn(&mut self, made: &BTreeMap<Key, Option<Signature>>) {
        for page in self.pages.values_mut() {
            page.learn(made);
        }
    }

    /// The keys of all texts.
    pub(crate) fn keys(&self) -> BTreeSet<Key> {
        let texts = self.pages.values().flat_map(Segment::vectors);
        texts.map(|(text, _)| Key::of(&text)).collect()
    }

    /// What makes the vectors.
    pub(crate) fn embedder(&self) -> &Arc<dyn Embedder> {
        &self.embedder
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
        if !pages.iter().any(|(_, page)| page.has_vectors()) {
            return Vec::new();
        }
        let vector = match self.embedder.embed_question(&query.text) {
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

/// The vector that `embedder` makes of `text`, if it makes one.
pub(crate) fn made(embedder: &dyn Embedder, text: &str) -> Option<Signature> {
    match embedder.embed(text) {
        Ok(vector) => Some(Signature::of(&vector)),
        Err(error) => {
            tracing::warn!(%error, "a note is found by its words alone");
            None
        }
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
