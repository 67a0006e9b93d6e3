//! Words of queries with one meaning each: kinds, orders, plurals, and those that refuse a request.

use jiff::fmt::strtime;

use crate::query::Order;

/// Whether a word is a year, a month, a date that begins with a year, or a "not" or the like.
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
    is_other || (is_year && ends) || is_month("%B") || is_month("%b")
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

/// The word itself, and the singulars that it may be the plural of.
pub(crate) fn singulars(word: &str) -> Vec<String> {
    let mut forms = vec![word.to_owned()];
    match word {
        "people" | "persons" => forms.push("person".to_owned()),
        "buses" => forms.push("bus".to_owned()),
        _ => {}
    }
    forms.extend(word.strip_suffix('s').map(str::to_owned));
    forms
}
