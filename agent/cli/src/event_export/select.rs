//! Which events are exported, and their records.
//!
//! The journal is read twice: a number may be that of the last record of an event.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use watchkeeper_client::{JournalRecord, RuntimeClient};
use watchkeeper_contract::event::{Event, EventBody, MAX_PAGE, Phase};
use watchkeeper_contract::id::{EventId, EventSeq};

use super::super::args::EventExportArgs;
use super::super::exit::Failure;

/// Most events of one export.
const MAX_EVENTS: usize = 1_000;
/// Most records of them.
const MAX_RECORDS: usize = 20_000;

/// The records of each wanted event, in the order of the journal.
pub(super) async fn records(
    args: &EventExportArgs,
    client: &RuntimeClient,
) -> Result<Vec<Vec<Event>>, Failure> {
    let wanted = wanted(args, client).await?;
    let mut order: Vec<EventId> = Vec::new();
    let mut found: BTreeMap<EventId, Vec<Event>> = BTreeMap::new();
    let mut number = 0;
    each_record(client, &mut |event| {
        if wanted.contains(&event.id) {
            number += 1;
            let records = found.entry(event.id).or_default();
            if records.is_empty() {
                order.push(event.id);
            }
            records.push(event);
        }
        match number > MAX_RECORDS {
            true => Err(too_many(&format!("{MAX_RECORDS} records"))),
            false => Ok(()),
        }
    })
    .await?;
    let events = order.iter().filter_map(|id| found.remove(id));
    Ok(events.collect())
}

async fn wanted(
    args: &EventExportArgs,
    client: &RuntimeClient,
) -> Result<BTreeSet<EventId>, Failure> {
    let mut named: BTreeMap<&str, Option<EventId>> = args
        .events
        .iter()
        .map(|text| (text.as_str(), None))
        .collect();
    let mut wanted = BTreeSet::new();
    each_record(client, &mut |event| {
        for (text, id) in &mut named {
            let is_named = text.parse::<u64>() == Ok(event.seq.0) || *text == event.id.to_string();
            if is_named {
                *id = Some(event.id);
            }
        }
        if args.events.is_empty() && matches(args, &event) {
            wanted.insert(event.id);
        }
        match wanted.len() > MAX_EVENTS {
            true => Err(too_many(&format!("{MAX_EVENTS} events"))),
            false => Ok(()),
        }
    })
    .await?;
    for (text, id) in named {
        let hint = || ["`watchkeeper events` lists what is there".to_owned()];
        let unknown = || Failure::input(format!("there is no event {text}")).with(hint());
        wanted.insert(id.ok_or_else(unknown)?);
    }
    match wanted.is_empty() {
        true => Err(Failure::input("no event matches").with([
            "`watchkeeper events` lists the events with their cameras and rules".to_owned(),
        ])),
        false => Ok(wanted),
    }
}

fn too_many(bound: &str) -> Failure {
    let sentence = format!("more than {bound} match; narrow --from, --to, --camera or --rule");
    Failure::input(sentence)
}

/// Whether the start of an event is within the options.
fn matches(args: &EventExportArgs, event: &Event) -> bool {
    let EventBody::Rule(rule) = &event.body else {
        return false;
    };
    let ms = |time: &Timestamp| time.as_millisecond();
    let at = event.at.unix_ms;
    event.phase == Phase::New
        && args.from.as_ref().is_none_or(|from| at >= ms(from))
        && args.to.as_ref().is_none_or(|to| at < ms(to))
        && args
            .camera
            .as_ref()
            .is_none_or(|camera| event.source.as_ref() == Some(camera))
        && args.rule.as_ref().is_none_or(|name| *name == rule.rule)
}

/// Calls `on_event` for each record of the journal that this version knows.
async fn each_record(
    client: &RuntimeClient,
    on_event: &mut dyn FnMut(Event) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut after = EventSeq(0);
    loop {
        let page = client.events(after, MAX_PAGE).await?;
        let Some(last) = page.last() else {
            return Ok(());
        };
        after = last.seq();
        for record in page {
            if let JournalRecord::Known(event) = record {
                on_event(*event)?;
            }
        }
    }
}
