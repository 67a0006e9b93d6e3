//! Queries on the durable tier. Everything here blocks.

use jiff::{Timestamp, Zoned};

use crate::durable::Durable;
use crate::embeddings::Near;
use crate::entry::Entry;
use crate::error::ArchiveError;
use crate::query::{Matches, Query, Rank, Search};
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
    near: Option<Near>,
    now: Timestamp,
) -> Result<Matches, ArchiveError> {
    let near = match (near, &query.like) {
        (Some(near), _) => Some(near),
        (None, Some(name)) => {
            let found = durable.entry(name, now)?;
            let found = found.ok_or_else(|| ArchiveError::NotFound(name.to_string()))?;
            Some(Near::to(&found, durable)?)
        }
        (None, None) => None,
    };
    if near.is_none() && query.needs_model() {
        let sentence = "only the agent can compare with a text or a picture; ask it";
        return Err(ArchiveError::Refused(sentence.to_owned()));
    }
    let mut search = Search::new(query)?;
    let collection = search.collection().map(str::to_owned);
    let mut failed = None;
    durable.scan(collection.as_deref(), query.after.as_ref(), now, |entry| {
        let rank = |entry: &Entry| match &near {
            None => Ok(Some(Rank::Order)),
            Some(near) => Ok(near.of(entry, durable)?.map(Rank::Likeness)),
        };
        failed = search.visit(entry, rank).err();
        failed.is_none()
    })?;
    match failed {
        Some(error) => Err(error),
        None => Ok(search.finish()),
    }
}
