//! Queries on the durable tier. Everything here blocks.

use jiff::{Timestamp, Zoned};

use crate::durable::Durable;
use crate::error::ArchiveError;
use crate::name::EntryName;
use crate::query::{Matches, Query, Search};
use crate::verb::Found;
use crate::words::{self, Vocabulary};

/// Answers a query in plain words.
pub(crate) fn find(durable: &Durable, text: &str, now: &Zoned) -> Result<Found, ArchiveError> {
    let mut known = Vocabulary::default();
    durable.scan(None, None, now.timestamp(), |entry| known.add(&entry))?;
    let read = words::read(text, &known, now)?;
    let matches = query(durable, &read.query, now.timestamp())?;
    Ok(Found {
        query: read.query,
        not_understood: read.not_understood,
        matches,
    })
}

/// Answers a query.
pub(crate) fn query(
    durable: &Durable,
    query: &Query,
    now: Timestamp,
) -> Result<Matches, ArchiveError> {
    let like = match &query.like {
        Some(name) => Some(embedding(durable, name, now)?),
        None => None,
    };
    let mut search = Search::new(query, like.as_deref())?;
    let from = search.first_name().cloned();
    if let Some(after) = query.after.as_ref().filter(|_| from.is_none()) {
        let entry = durable.entry(after, now)?;
        search.begin_behind(entry.ok_or_else(|| ArchiveError::NotFound(after.to_string()))?)?;
    }
    let collection = search.collection().map(str::to_owned);
    durable.scan(collection.as_deref(), from.as_ref(), now, |entry| {
        search.visit(entry);
        true
    })?;
    Ok(search.finish())
}

fn embedding(
    durable: &Durable,
    name: &EntryName,
    now: Timestamp,
) -> Result<Vec<f32>, ArchiveError> {
    let found = durable.entry(name, now)?;
    let found = found.ok_or_else(|| ArchiveError::NotFound(name.to_string()))?;
    match found.metadata.embedding.is_empty() {
        false => Ok(found.metadata.embedding),
        true => Err(ArchiveError::Refused(format!(
            "{name} has no embedding, so likeness is unknown; ingest it with metadata.embedding of \
             a CLIP model"
        ))),
    }
}
