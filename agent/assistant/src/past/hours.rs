//! Numbers of events by the hour or day.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use jiff::{RoundMode, Timestamp, Unit, ZonedRound};
use serde_json::{Value, json};

use super::describe::{MAX_WEEK_MS, hour, zone_name};
use super::event_search::EventSearchResult;
use super::knowledge::Knowledge;
use crate::wording::counted;

/// Hours that an answer names.
const MAX_HOURS: usize = 24;
/// Hours that are named as those with most events.
const MAX_BUSIEST: usize = 3;

/// The number of events that began in an hour of local time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HourCount {
    /// Start of the hour, milliseconds since 1970.
    pub from_ms: i64,
    pub number: u64,
}

impl HourCount {
    /// Start, end and number, for programs.
    pub fn to_json(&self, zone: &TimeZone) -> Value {
        json!({"hour": hour(self.from_ms, true, zone), "from_ms": self.from_ms, "number": self.number})
    }
}

/// Counts moments by the hour or day of `zone`, by its start; those without any are left out.
pub fn count_by(unit: Unit, moments: &[Timestamp], zone: &TimeZone) -> BTreeMap<Timestamp, u64> {
    let floor = ZonedRound::new().smallest(unit).mode(RoundMode::Trunc);
    let mut counts = BTreeMap::new();
    for moment in moments {
        let start = moment.to_zoned(zone.clone()).round(floor);
        // Only at the ends of the calendar there is no start.
        let start = start.map_or(*moment, |start| start.timestamp());
        *counts.entry(start).or_default() += 1;
    }
    counts
}

pub(super) fn count_by_hour(moments: &[Timestamp], zone: &TimeZone) -> Vec<HourCount> {
    let counts = count_by(Unit::Hour, moments, zone).into_iter();
    let one = |(start, number): (Timestamp, u64)| HourCount {
        from_ms: start.as_millisecond(),
        number,
    };
    counts.map(one).collect()
}

/// The hours with events, and the one with most of them.
pub(super) fn sentence(
    hours: &[HourCount],
    found: &EventSearchResult,
    knowledge: &Knowledge,
    zone: &TimeZone,
) -> Option<String> {
    let most = hours.iter().map(|hour| hour.number).max()?;
    let busiest: Vec<&HourCount> = hours.iter().filter(|hour| hour.number == most).collect();
    let (from, to) = knowledge.question.range;
    let is_long = to - from > MAX_WEEK_MS;
    let shown = |count: &HourCount| hour(count.from_ms, is_long, zone);
    let named: Vec<String> = busiest.iter().take(MAX_BUSIEST).map(|h| shown(h)).collect();
    let each = if busiest.len() == 1 { "" } else { " each" };
    let among = if knowledge.is_whole() {
        "Busiest"
    } else {
        "Busiest of the watched time"
    };
    let latest = hours.get(hours.len().saturating_sub(MAX_HOURS)..)?;
    let list: Vec<String> = latest
        .iter()
        .map(|count| format!("{} {}", shown(count), count.number))
        .collect();
    let before = if latest.len() < hours.len() {
        format!(
            "; {} before",
            counted((hours.len() - latest.len()) as u64, "hour")
        )
    } else {
        String::new()
    };
    let undated = found.number.saturating_sub(found.moments.len() as u64);
    let undated = match undated {
        0 => String::new(),
        number => format!(
            " Not among them: {} that began earlier or has no certain time.",
            counted(number, "event")
        ),
    };
    Some(format!(
        "By the hour ({}): {}{before}. {among}: {} ({}{each}).{undated}",
        zone_name(to, zone),
        list.join(", "),
        named.join(" and "),
        counted(most, "event"),
    ))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn hours_are_those_of_the_local_clock() {
        // Half an hour from those of UTC.
        let zone = TimeZone::posix("IST-5:30").unwrap();
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let moments = [
            "2026-11-26T06:29:59Z",
            "2026-11-26T06:30:00Z",
            "2026-11-26T07:29:59.5Z",
        ];
        let moments: Vec<Timestamp> = moments.into_iter().map(at).collect();
        let counts = count_by_hour(&moments, &zone);
        let hours: Vec<(i64, u64)> = counts.iter().map(|h| (h.from_ms, h.number)).collect();
        let start = |text: &str| at(text).as_millisecond();
        assert_eq!(
            hours,
            [
                (start("2026-11-26T05:30:00Z"), 1),
                (start("2026-11-26T06:30:00Z"), 2)
            ]
        );
    }
}
