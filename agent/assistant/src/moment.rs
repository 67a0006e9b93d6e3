//! Moments as people and models write them.
//!
//! Invariant: none is taken for another one. A time zone in brackets is read or refused, never read over.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// How to write one, for whoever did not.
pub const FORMS: &str = "2026-03-29T08:00 (local time of the box) or 2026-03-29T08:00:00+02:00; a time zone is written as its offset, not by its name";

/// The moment that stands there: with an offset, or as the clocks in the zone `here` show it.
#[must_use]
pub fn moment(written: &str, here: &TimeZone) -> Option<Timestamp> {
    if let Ok(with_offset) = written.parse() {
        return Some(with_offset);
    }
    // As a time of day alone it would be read over what stands in the brackets. Names of zones need tables that no box has to have.
    if written.contains('[') {
        let zoned: Zoned = written.parse().ok()?;
        return Some(zoned.timestamp());
    }
    let local: DateTime = written.parse().ok()?;
    Some(local.to_zoned(here.clone()).ok()?.timestamp())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_local_unless_it_says_where() {
        let here = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let read = |written: &str| moment(written, &here).map(|at| at.to_string());
        let at = |utc: &str| Some(utc.to_owned());
        assert_eq!(read("2027-03-29T08:00"), at("2027-03-29T06:00:00Z"));
        assert_eq!(read("2027-01-29 08:00:00"), at("2027-01-29T07:00:00Z"));
        assert_eq!(read("2027-03-29T08:00Z"), at("2027-03-29T08:00:00Z"));
        let tokyo = at("2027-03-28T23:00:00Z");
        for written in [
            "2027-03-29T08:00+09:00",
            "2027-03-29T08:00+09:00[Asia/Tokyo]",
            "2027-03-29T08:00[+09:00]",
        ] {
            assert_eq!(read(written), tokyo, "{written}");
        }
    }

    #[test]
    fn a_zone_by_its_name_is_never_read_over() {
        let here = TimeZone::UTC;
        // Where the tables of the zones are built in it may be read, and then for what it is.
        let tokyo = moment("2027-03-29T08:00[Asia/Tokyo]", &here);
        assert!(tokyo.is_none_or(|at| at.to_string() == "2027-03-28T23:00:00Z"));
        for written in [
            "2027-03-29T08:00[Nowhere/Else]",
            "2027-03-29T08:00[",
            "tomorrow",
            "08:00",
            "",
        ] {
            assert_eq!(moment(written, &here), None, "{written}");
        }
    }
}
