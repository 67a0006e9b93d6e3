//! Answers about the past: which events there were, and what could have been known.
//!
//! - "No" is said only for times at which the event would have been recorded.
//! - Anything else is unknown. Reasons: nothing watched, a class that the detector lacks, an
//!   inactive rule, a cool-down, a lost or blind camera, deleted records.
//! - Known times are computed from the journal and the runtime's coverage, not from what is
//!   deployed now. What cool-downs left out is counted by a backtest.
//!
//! Not here: understanding a question (`plain`), the spans of coverage (the runtime).

mod answer;
mod compare;
mod describe;
pub mod event_search;
mod hours;
mod intervals;
mod knowledge;
mod question;
mod replay;
mod schedule;
#[cfg(test)]
mod tests;
mod why;

pub use self::answer::PastAnswer;
pub use self::hours::{HourCount, count_by};
pub use self::intervals::Intervals;
pub use self::knowledge::{CameraKnowledge, Knowledge, Unknown};
pub use self::question::PastQuestion;
pub use self::replay::ReplayedEvents;
pub use self::why::Why;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use watchkeeper_client::{ClientError, CoverageRange, RuntimeClient};
use watchkeeper_contract::id::EventSeq;
use watchkeeper_plain::answer::EventsWanted;

use self::event_search::{EventSearch, EventSearchResult};
use crate::proposal::snapshot::display_name;

/// Answers a question about the past, and computes what it is compared with. `may_replay`: what
/// cool-downs left out may be counted by a backtest.
///
/// # Errors
/// [`ClientError`], as for every request.
pub async fn answer(
    client: &RuntimeClient,
    wanted: &EventsWanted,
    may_replay: bool,
) -> Result<PastAnswer, ClientError> {
    let Some((wanted, other)) = compare::spans(wanted, Timestamp::now()) else {
        let answer = answer_span(client, wanted).await?;
        // That there was one, and when, needs no replay.
        let is_settled = answer.found.number > 0;
        let is_asked = wanted.is_yes_or_no || wanted.most == Some(1);
        let is_asked = wanted.only_number || is_asked && !is_settled;
        let replayed = match may_replay && is_asked && answer.is_limited() {
            true => replay::replay(client, &answer.knowledge.question, &answer.report).await,
            false => Vec::new(),
        };
        return Ok(PastAnswer { replayed, ..answer });
    };
    let other = answer_span(client, &other).await?;
    Ok(PastAnswer {
        compared_with: Some(Box::new(other)),
        ..answer_span(client, &wanted).await?
    })
}

/// Answers a question about one span from the journal and the coverage.
///
/// # Errors
/// [`ClientError`], as for every request.
pub async fn answer_span(
    client: &RuntimeClient,
    wanted: &EventsWanted,
) -> Result<PastAnswer, ClientError> {
    let range = CoverageRange {
        from_ms: wanted.from.map(|at| at.as_millisecond()),
        to_ms: wanted.to.map(|at| at.as_millisecond()),
        source: wanted.camera.clone(),
    };
    // Before the search: each event of its spans is in the journal when it is answered.
    let report = client.coverage(&range).await?;
    let search = search(client, wanted).await?;
    let found = read_pages(client, search.with_watched(knowledge::watched(&report))).await?;
    let sources = client
        .sources()
        .await?
        .into_iter()
        .map(|source| source.spec);
    let cameras = sources.map(|spec| {
        let name = display_name(spec.name.as_ref(), spec.id.as_str());
        (spec.id, name)
    });
    Ok(PastAnswer::new(
        wanted,
        found,
        report,
        &cameras.collect(),
        &TimeZone::system(),
    ))
}

/// Searches the journal.
///
/// # Errors
/// [`ClientError`], as for every request.
pub async fn search_events(
    client: &RuntimeClient,
    wanted: &EventsWanted,
) -> Result<EventSearchResult, ClientError> {
    read_pages(client, search(client, wanted).await?).await
}

async fn search(client: &RuntimeClient, wanted: &EventsWanted) -> Result<EventSearch, ClientError> {
    let last = client.health().await?.last_seq;
    let first = first_record(client).await?;
    Ok(EventSearch::new(wanted.clone(), first, last))
}

/// Searches the last records of a journal, which ends with `last`, for the newest `most` events.
///
/// # Errors
/// [`ClientError`], as for every request.
pub async fn latest_events(
    client: &RuntimeClient,
    most: usize,
    last: EventSeq,
) -> Result<EventSearchResult, ClientError> {
    let first = first_record(client).await?;
    read_pages(client, EventSearch::of_latest(most, first, last)).await
}

/// Returns the number of the oldest record.
async fn first_record(client: &RuntimeClient) -> Result<EventSeq, ClientError> {
    Ok(client.verify_events(EventSeq(0), 1).await?.first)
}

async fn read_pages(
    client: &RuntimeClient,
    mut search: EventSearch,
) -> Result<EventSearchResult, ClientError> {
    while let Some((after, limit)) = search.next() {
        let page = client.events(after, limit).await?;
        if page.len() < limit as usize {
            search.raise_floor(first_record(client).await?);
        }
        search.take(page);
    }
    Ok(search.done())
}
