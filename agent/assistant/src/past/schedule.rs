//! The times at which a rule with a schedule is active.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};
use watchkeeper_contract::rule::{Schedule, end_minute, minute_of_day};

use super::intervals::Intervals;
use crate::moment::weekday;

/// The part of `range` (milliseconds since 1970) in which `schedule` is active, in local time.
/// Empty if one of its times is invalid: such a rule makes no event.
pub(super) fn active(schedule: &Schedule, range: (i64, i64), zone: &TimeZone) -> Intervals {
    let whole = Intervals::one(range.0, range.1);
    let (Some(from), Some(to)) = (minute_of_day(&schedule.from), end_minute(&schedule.to)) else {
        return Intervals::default();
    };
    let day_of = |ms: i64| {
        let at = Timestamp::from_millisecond(ms).ok()?;
        Some(at.to_zoned(zone.clone()).date())
    };
    // A span that passes midnight belongs to the day before.
    let first = day_of(range.0).and_then(|day| day.yesterday().ok());
    let (Some(first), Some(last)) = (first, day_of(range.1)) else {
        return Intervals::default();
    };
    let days = first.series(1.day()).take_while(|day| *day <= last);
    let spans = days
        .filter(|day| schedule.days.is_empty() || schedule.days.contains(&weekday(day.weekday())));
    let spans = spans.filter_map(|day| {
        let end_day = if from < to { day } else { day.tomorrow().ok()? };
        Some((millis(day, from, zone)?, millis(end_day, to, zone)?))
    });
    spans.collect::<Intervals>().intersection(&whole)
}

/// The time at `minute` of a day; 1440 is the start of the next day.
fn millis(day: Date, minute: u16, zone: &TimeZone) -> Option<i64> {
    let (hour, minute) = (
        i8::try_from(minute / 60).ok()?,
        i8::try_from(minute % 60).ok()?,
    );
    let at = match hour {
        24 => day.tomorrow().ok()?.at(0, 0, 0, 0),
        _ => day.at(hour, minute, 0, 0),
    };
    let at = at.to_zoned(zone.clone()).ok()?;
    Some(at.timestamp().as_millisecond())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use watchkeeper_contract::rule::Weekday;
    use watchkeeper_engine::rules::{LocalTime, is_awake};

    use super::*;

    fn schedule(days: &[Weekday], from: &str, to: &str) -> Schedule {
        Schedule {
            days: days.to_vec(),
            from: from.to_owned(),
            to: to.to_owned(),
        }
    }

    /// Minute by minute over two weeks, the change of the clocks included, as the rules do.
    #[test]
    fn active_times_are_those_of_the_rules() {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let start = jiff::civil::date(2026, 10, 19)
            .to_zoned(zone.clone())
            .unwrap();
        let from = start.timestamp().as_millisecond();
        let to = from + 14 * 86_400_000;
        for schedule in [
            schedule(&[], "08:00", "17:30"),
            schedule(&[Weekday::Fri], "22:00", "06:00"),
            schedule(&[Weekday::Sun], "09:00", "09:00"),
            schedule(&[Weekday::Mon, Weekday::Tue], "00:00", "00:00"),
            schedule(&[Weekday::Sat, Weekday::Sun], "00:00", "24:00"),
            schedule(&[Weekday::Mon], "22:00", "24:00"),
        ] {
            let found = active(&schedule, (from, to), &zone);
            for ms in (from..to).step_by(60_000) {
                let at = Timestamp::from_millisecond(ms)
                    .unwrap()
                    .to_zoned(zone.clone());
                let local = LocalTime {
                    weekday: weekday(at.weekday()),
                    minute_of_day: at.hour() as u16 * 60 + at.minute() as u16,
                };
                let inside = found.as_slice().iter().any(|(a, b)| (*a..*b).contains(&ms));
                assert_eq!(
                    Some(inside),
                    is_awake(&schedule, local),
                    "{schedule:?} {at}"
                );
            }
        }
        for (start, end) in [
            ("25:00", "08:00"),
            ("24:00", "08:00"),
            ("08:00", "24:01"),
            ("8:00", "9:00"),
        ] {
            let invalid = schedule(&[], start, end);
            assert!(active(&invalid, (from, to), &zone).is_empty());
            let monday = LocalTime {
                weekday: Weekday::Mon,
                minute_of_day: 500,
            };
            assert_eq!(is_awake(&invalid, monday), None);
        }
    }
}
