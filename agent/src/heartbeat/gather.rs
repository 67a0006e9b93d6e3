//! Asks the runtime for its cameras, its pipelines and the new records of its journal.
//!
//! Invariant: a check reads at most [`MAX_PAGES`] pages; older records are skipped, and
//! [`House::is_cut`] says so.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use watchkeeper_contract::event::{Event, EventBody, Phase};
use watchkeeper_contract::id::EventSeq;
use watchkeeper_contract::time::TimeQuality;

use super::look::{Camera, FailedPipeline, Hour, House, Moment};
use watchkeeper_client::{ClientError, JournalRecord, RuntimeClient};

/// Records of one page.
const PAGE: u32 = 500;
/// Limit of pages per check: 10,000 records.
const MAX_PAGES: u64 = 20;

/// What the runtime reports, with the events after `cursor`; without a cursor, no events.
///
/// # Errors
/// When the runtime does not answer.
pub async fn house(
    runtime: &RuntimeClient,
    cursor: Option<EventSeq>,
) -> Result<House, ClientError> {
    let last = runtime.health().await?.last_seq;
    let cameras = runtime.sources().await?;
    let pipelines = runtime.pipelines().await?;
    let mut house = House {
        cameras: cameras.iter().map(Camera::of).collect(),
        failed: pipelines.iter().filter_map(FailedPipeline::of).collect(),
        cursor: last,
        ..House::default()
    };
    // A journal that ends before the cursor was lost and counts from zero.
    let Some(from) = cursor.filter(|from| *from <= last) else {
        house.is_cut = cursor.is_some();
        return Ok(house);
    };
    let max_records = MAX_PAGES * u64::from(PAGE);
    let mut after = EventSeq(from.0.max(last.0.saturating_sub(max_records)));
    house.is_cut = after > from;
    let zone = TimeZone::system();
    while after < last {
        let page = runtime.events(after, PAGE).await?;
        let Some(end) = page.last().map(JournalRecord::seq) else {
            break;
        };
        house.is_cut |= page.first().is_some_and(|r| r.seq().0 > after.0 + 1);
        house
            .events
            .extend(page.iter().filter_map(|record| match record {
                JournalRecord::Known(event) => moment(event, &zone),
                _ => None,
            }));
        after = end.max(EventSeq(after.0 + 1));
    }
    house.cursor = after.max(last);
    Ok(house)
}

/// The hour of a rule's new event; `None` for other records and without a set clock.
fn moment(event: &Event, zone: &TimeZone) -> Option<Moment> {
    let counts = event.phase == Phase::New
        && matches!(event.body, EventBody::Rule(_))
        && event.at.quality != TimeQuality::Unsynced;
    let at = Timestamp::from_millisecond(event.at.unix_ms).ok()?;
    let camera = event.source.clone()?;
    counts.then(|| Moment {
        camera,
        hour: Hour::of(at.to_zoned(zone.clone()).datetime()),
    })
}
