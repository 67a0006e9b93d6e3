//! Which pages of events are read, and which pictures are refused.

use super::*;
use crate::example::example_event;

/// A full page of records from number `first` on, all with this time.
fn page(first: u64, unix_ms: i64) -> Vec<JournalRecord> {
    let records = (first..first + u64::from(MAX_PAGE)).map(|seq| {
        let mut event = example_event();
        event.seq = EventSeq(seq);
        event.at.unix_ms = unix_ms;
        event.hash = format!("hash {seq}");
        JournalRecord::Known(Box::new(event))
    });
    records.collect()
}

#[test]
fn only_pages_whose_events_are_all_earlier_are_passed_over() {
    let mut pages = Pages::default();
    // The clock was an hour ahead, then was set back.
    for (after, unix_ms) in [(0, 100), (1000, 5000), (2000, 200), (3000, 6000)] {
        pages.add(EventSeq(after), &page(after + 1, unix_ms));
    }
    let start = |pages: &Pages, ms| pages.before(ms).map_or(0, |end| end.seq.0);
    for (since_ms, expected) in [
        (100, 0),
        (101, 1000),
        (5000, 1000),
        (5001, 3000),
        (9000, 4000),
    ] {
        assert_eq!(start(&pages, since_ms), expected, "{since_ms}");
    }
    // Neither a page after a gap nor the last page, which grows.
    pages.add(EventSeq(5000), &page(5001, 7000));
    pages.add(EventSeq(4000), &page(4001, 7000)[..5]);
    assert_eq!(start(&pages, 9000), 4000);
}

#[test]
fn too_many_pictures_are_refused_before_the_download() {
    assert_eq!(require_few(MAX_PICTURES), Ok(()));
    let refused = require_few(MAX_PICTURES + 1).unwrap_err().to_string();
    assert!(refused.contains("name a shorter time"), "{refused}");
}

#[test]
fn no_event_of_an_hour_that_the_clock_repeats_is_left_out() {
    let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
    let hour = 3_600_000;
    let ms = |name, text| instant(name, text, &zone).unwrap();
    let repeated = "2026-10-25T02:30";
    assert_eq!(ms(UNTIL, repeated) - ms("since", repeated), hour);
    for text in ["2026-10-25T01:30", "2026-03-29T02:30", "2026-06-01"] {
        assert_eq!(ms(UNTIL, text), ms("since", text), "{text}");
    }
}
