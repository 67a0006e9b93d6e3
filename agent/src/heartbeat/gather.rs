//! Reads cameras, pipelines and new journal records from the runtime.
//!
//! Invariant: a check reads at most [`MAX_PAGES`] pages. Older records are skipped, and
//! [`RuntimeReport::is_cut`] is set.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use watchkeeper_contract::event::{Event, EventBody, Phase};
use watchkeeper_contract::id::EventSeq;
use watchkeeper_contract::time::TimeQuality;

use super::input::{Camera, CameraEvent, FailedPipeline, Hour, RuntimeReport};
use watchkeeper_client::{ClientError, JournalRecord, RuntimeClient};

/// Records of one page.
const PAGE: u32 = 500;
/// Limit of pages per check: 10,000 records.
const MAX_PAGES: u64 = 20;

/// Reads the runtime's report with the events after `cursor`; without a cursor, no events.
///
/// # Errors
/// Fails when the runtime does not answer.
pub(crate) async fn read_runtime(
    runtime: &RuntimeClient,
    cursor: Option<EventSeq>,
) -> Result<RuntimeReport, ClientError> {
    let health = runtime.health().await?;
    let last = health.last_seq;
    let cameras = runtime.sources().await?;
    let pipelines = runtime.pipelines().await?;
    let mut report = RuntimeReport {
        cameras: cameras.iter().map(Camera::from_status).collect(),
        failed: pipelines
            .iter()
            .filter_map(FailedPipeline::from_status)
            .collect(),
        review_shares: health.review_shares,
        cursor: last,
        ..RuntimeReport::default()
    };
    // A journal that ends before the cursor was lost and counts from zero.
    let Some(from) = cursor.filter(|from| *from <= last) else {
        report.is_cut = cursor.is_some();
        return Ok(report);
    };
    let max_records = MAX_PAGES * u64::from(PAGE);
    let mut after = EventSeq(from.0.max(last.0.saturating_sub(max_records)));
    report.is_cut = after > from;
    let zone = TimeZone::system();
    while after < last {
        let page = runtime.events(after, PAGE).await?;
        let Some(end) = page.last().map(JournalRecord::seq) else {
            break;
        };
        report.is_cut |= page.first().is_some_and(|r| r.seq().0 > after.0 + 1);
        report
            .events
            .extend(page.iter().filter_map(|record| match record {
                JournalRecord::Known(event) => camera_event(event, &zone),
                _ => None,
            }));
        after = end.max(EventSeq(after.0 + 1));
    }
    report.cursor = after.max(last);
    Ok(report)
}

/// The hour of a rule's new event; `None` for other records and without a set clock.
fn camera_event(event: &Event, zone: &TimeZone) -> Option<CameraEvent> {
    let counts = event.phase == Phase::New
        && matches!(event.body, EventBody::Rule(_))
        && event.at.quality != TimeQuality::Unsynced;
    let at = Timestamp::from_millisecond(event.at.unix_ms).ok()?;
    let camera = event.source.clone()?;
    counts.then(|| CameraEvent {
        camera,
        hour: Hour::from_zoned(&at.to_zoned(zone.clone())),
    })
}
