//! Queries on the durable tier. Everything here blocks.

use std::collections::HashMap;

use jiff::{Timestamp, Zoned};

use crate::durable::Durable;
use crate::embeddings::{Likeness, QueryVector};
use crate::entry::Entry;
use crate::error::ArchiveError;
use crate::hash::ContentHash;
use crate::query::{Matches, Query, Search};
use crate::verb::Found;
use crate::words::{self, Vocabulary};

/// Answers a query in plain words.
pub(crate) fn find(durable: &Durable, text: &str, now: &Zoned) -> Result<Found, ArchiveError> {
    let mut known = Vocabulary::default();
    durable.scan(None, None, now.timestamp(), |entry| known.add(&entry))?;
    let read = words::read(text, &known, now)?;
    let matches = query(durable, &read.query, None, now.timestamp())?;
    Ok(Found {
        query: read.query,
        not_understood: read.not_understood,
        matches,
    })
}

/// Answers a query; `near` takes the place of [`Query::like`].
pub(crate) fn query(
    durable: &Durable,
    query: &Query,
    near: Option<QueryVector>,
    now: Timestamp,
) -> Result<Matches, ArchiveError> {
    let near = match (near, &query.like) {
        (Some(near), _) => Some(near),
        (None, Some(name)) => {
            let found = durable.entry(name, now)?;
            let found = found.ok_or_else(|| ArchiveError::NotFound(name.to_string()))?;
            Some(QueryVector::of_entry(&found, durable)?)
        }
        (None, None) => None,
    };
    if near.is_none() && query.needs_model() {
        let sentence = "only the agent can compare with a text or a picture; ask it";
        return Err(ArchiveError::Refused(sentence.to_owned()));
    }
    let mut search = Search::new(query, near.is_some())?;
    let likeness = near.map(|near| near.compare(durable)).transpose()?;
    let rank = |entry: &Entry| match &likeness {
        None => Some(query.order.rank(entry)),
        Some(likeness) => likeness.of(entry),
    };
    let from = search.first_name().cloned();
    if let Some(after) = query.after.as_ref().filter(|_| from.is_none()) {
        let entry = durable.entry(after, now)?;
        let entry = entry.ok_or_else(|| {
            let remedy = "that entry has expired or was destroyed meanwhile; begin without after";
            ArchiveError::field("after", after.as_str(), remedy.to_owned())
        })?;
        let rank = rank(&entry).ok_or_else(|| {
            let remedy = "use the name that an answer gives as next".to_owned();
            ArchiveError::field("after", after.as_str(), remedy)
        })?;
        search.begin_behind(entry, rank);
    }
    if let Some(Likeness::OfContents(likeness)) = &likeness
        && query.is_of_names()
    {
        visit_alike(durable, likeness, &mut search, now)?;
        return Ok(search.finish());
    }
    let collection = search.collection().map(str::to_owned);
    durable.scan(collection.as_deref(), from.as_ref(), now, |entry| {
        search.visit(entry, rank);
        true
    })?;
    Ok(search.finish())
}

/// Visits entries in the order of their likeness. Only records of the answer are read.
fn visit_alike(
    durable: &Durable,
    likeness: &HashMap<ContentHash, f64>,
    search: &mut Search<'_>,
    now: Timestamp,
) -> Result<(), ArchiveError> {
    let mut ranked = Vec::new();
    for (name, slot) in durable.index().slots() {
        if let Some(rank) = likeness.get(&slot.hash)
            && slot.is_there(now.as_microsecond())
            && search.admits_name(name)
            && search.is_behind_begin(*rank, name)
        {
            ranked.push((*rank, name.clone()));
        }
    }
    // Stable: of equals the smallest name stays first.
    ranked.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    for (rank, name) in ranked {
        if search.is_full() {
            search.count();
        } else if let Some(entry) = durable.entry(&name, now)? {
            search.visit(entry, |_| Some(rank));
        }
    }
    Ok(())
}
