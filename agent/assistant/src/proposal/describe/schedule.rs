//! Describes the hours of a rule.

use watchkeeper_contract::rule::{Schedule, Weekday};

pub(super) fn describe_schedule(hours: &Schedule) -> String {
    let days = describe_days(&hours.days);
    // `HH:MM` sorts as text as it does as time.
    if hours.from == hours.to {
        return match hours.from.as_str() {
            "00:00" => format!("{days} all day"),
            from => format!("{days} from {from} for 24 hours"),
        };
    }
    let next_day = if hours.to < hours.from && hours.to != "00:00" {
        " of the next day"
    } else {
        ""
    };
    format!("{days} {} to {}{next_day}", hours.from, hours.to)
}

/// Describes the days of a schedule; three or more consecutive days as a range.
fn describe_days(days: &[Weekday]) -> String {
    const WEEK: [(Weekday, &str); 7] = [
        (Weekday::Mon, "Mon"),
        (Weekday::Tue, "Tue"),
        (Weekday::Wed, "Wed"),
        (Weekday::Thu, "Thu"),
        (Weekday::Fri, "Fri"),
        (Weekday::Sat, "Sat"),
        (Weekday::Sun, "Sun"),
    ];
    let is_named = |day: &Weekday| days.is_empty() || days.contains(day);
    if WEEK.iter().all(|(day, _)| is_named(day)) {
        return "every day".to_owned();
    }
    let mut names: Vec<String> = Vec::new();
    for run in WEEK.split(|(day, _)| !is_named(day)) {
        match run {
            [(_, first), _, .., (_, last)] => names.push(format!("{first}–{last}")),
            few => names.extend(few.iter().map(|(_, name)| (*name).to_owned())),
        }
    }
    names.join(", ")
}
