//! Moments as users and language models write them.
//!
//! Invariant: no moment is read as another one. A time zone in brackets is read or rejected, never
//! ignored.

use jiff::civil::{DateTime, Weekday as Day};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use watchkeeper_contract::rule::Weekday;
use watchkeeper_engine::rules::LocalTime;

/// The accepted forms, for an error message.
pub const FORMS: &str = "2026-03-29T08:00 (local time of the box), 2026-03-29T08:00:00+02:00, or \
    the begin of a day, month or year: 2026-03-29, 2026-03, 2026; write a time zone as its offset, not by its name";

/// Parses a moment with an offset, or a local time in the zone `here`. A day, month or year is its
/// begin.
pub fn parse_moment(written: &str, here: &TimeZone) -> Option<Timestamp> {
    if let Ok(with_offset) = written.parse() {
        return Some(with_offset);
    }
    // The parser of `DateTime` ignores brackets. Zone names need tables that a box may lack.
    if written.contains('[') {
        let zoned: Zoned = written.parse().ok()?;
        return Some(zoned.timestamp());
    }
    let first_day = match written.len() {
        4 => format!("{written}-01-01"),
        7 => format!("{written}-01"),
        _ => written.to_owned(),
    };
    let local: DateTime = first_day.parse().ok()?;
    Some(local.to_zoned(here.clone()).ok()?.timestamp())
}

/// Parses the argument `name` of a tool; `None` if it is empty.
///
/// # Errors
/// A sentence for the language model, with the accepted forms.
pub(crate) fn parse_argument(
    name: &str,
    written: &str,
    here: &TimeZone,
) -> Result<Option<Timestamp>, String> {
    match written.trim() {
        "" => Ok(None),
        text => parse_moment(text, here)
            .map(Some)
            .ok_or_else(|| format!("{name} must be a time: {FORMS}")),
    }
}

/// The weekday and minute of a local time, by which schedules are evaluated.
pub fn schedule_time(at: DateTime) -> LocalTime {
    let minute = i32::from(at.hour()) * 60 + i32::from(at.minute());
    LocalTime {
        weekday: weekday(at.date().weekday()),
        minute_of_day: u16::try_from(minute).unwrap_or_default(),
    }
}

/// The day of the week, as schedules name it.
pub fn weekday(day: Day) -> Weekday {
    match day {
        Day::Monday => Weekday::Mon,
        Day::Tuesday => Weekday::Tue,
        Day::Wednesday => Weekday::Wed,
        Day::Thursday => Weekday::Thu,
        Day::Friday => Weekday::Fri,
        Day::Saturday => Weekday::Sat,
        Day::Sunday => Weekday::Sun,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::*;

    #[test]
    fn moment_is_local_without_an_offset() {
        let here = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let read = |written: &str| parse_moment(written, &here).map(|at| at.to_string());
        let at = |utc: &str| Some(utc.to_owned());
        assert_eq!(read("2027-03-29T08:00"), at("2027-03-29T06:00:00Z"));
        assert_eq!(read("2027-01-29 08:00:00"), at("2027-01-29T07:00:00Z"));
        for (written, utc) in [
            ("2027-02-28", "2027-02-27T23:00:00Z"),
            ("2027-02", "2027-01-31T23:00:00Z"),
            ("2027", "2026-12-31T23:00:00Z"),
        ] {
            assert_eq!(read(written), at(utc));
        }
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
    fn zone_name_is_never_ignored() {
        let here = TimeZone::UTC;
        // A build with zone tables may read the name, and then must read it right.
        let tokyo = parse_moment("2027-03-29T08:00[Asia/Tokyo]", &here);
        assert!(tokyo.is_none_or(|at| at.to_string() == "2027-03-28T23:00:00Z"));
        for written in [
            "2027-03-29T08:00[Nowhere/Else]",
            "2027-03-29T08:00[",
            "tomorrow",
            "08:00",
            "",
        ] {
            assert_eq!(parse_moment(written, &here), None, "{written}");
        }
    }
}
