//! Words of queries with one meaning each: kinds, orders, dates.

use crate::query::Order;

/// Whether a word begins with a year of this or the last century, such as `2023/05`.
pub(crate) fn is_date(word: &str) -> bool {
    let year = word
        .get(..4)
        .filter(|year| year.bytes().all(|b| b.is_ascii_digit()));
    let is_year = year.is_some_and(|year| year.starts_with("19") || year.starts_with("20"));
    let ends = word
        .get(4..)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '/', '.']));
    is_year && ends
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
