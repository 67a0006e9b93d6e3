//! Words of queries with one meaning each: kinds, orders, plurals, and those that refuse a request.

use jiff::fmt::strtime;
use watchkeeper_english::singulars;

use crate::query::Order;

/// Words that mean a time, alone or beside others.
const TIMES: [&str; 23] = [
    "afternoon",
    "ago",
    "am",
    "day",
    "earlier",
    "evening",
    "hour",
    "last",
    "midnight",
    "minute",
    "month",
    "morning",
    "night",
    "noon",
    "past",
    "pm",
    "this",
    "tomorrow",
    "tonight",
    "week",
    "weekday",
    "weekend",
    "year",
];

/// Whether a word is about time or a "not" or the like: left out, it would list other entries.
pub(crate) fn changes_answer(word: &str) -> bool {
    let year = word
        .get(..4)
        .filter(|year| year.bytes().all(|b| b.is_ascii_digit()));
    let is_year = year.is_some_and(|year| year.starts_with("19") || year.starts_with("20"));
    let ends = word
        .get(4..)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '/', '.']));
    let is_month = |format| strtime::parse(format, word).is_ok();
    let is_other = match word {
        "after" | "before" | "but" | "except" | "excluding" | "neither" | "never" | "no"
        | "nor" | "not" | "or" | "until" | "without" => true,
        _ => word.ends_with("n't") || word.ends_with("n’t"),
    };
    let is_day = |word: &str| strtime::parse("%A", word).is_ok();
    let is_time = singulars(word).any(|word| TIMES.contains(&word.as_str()) || is_day(&word));
    is_other || is_time || (is_year && ends) || is_month("%B") || is_month("%b")
}

pub(crate) fn order(word: &str) -> Option<Order> {
    match word {
        "newest" | "latest" | "recent" => Some(Order::Newest),
        "oldest" | "first" | "earliest" => Some(Order::Oldest),
        _ => None,
    }
}

/// Begin of the MIME types that a word names.
pub(crate) fn kind(word: &str) -> Option<&'static str> {
    match word {
        "picture" | "pictures" | "photo" | "photos" | "image" | "images" => Some("image/"),
        "clip" | "clips" | "video" | "videos" => Some("video/"),
        _ => None,
    }
}
