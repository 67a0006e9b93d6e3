//! Queries: which entries are wanted, and in which order. Sans-IO.
//!
//! - Conditions are joined by "and"; an absent one admits every entry.
//! - Words are compared without regard to case.
//! - The index decides all conditions. Those on event, track, text and labels need the record of an
//!   entry whose details found no room there.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use glob::{MatchOptions, Pattern};
use jiff::Timestamp;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use crate::entry::{Entry, Retention};
use crate::error::ArchiveError;
use crate::name::EntryName;
use crate::slot::{Details, EVENT, LABEL, Place, Slot, TEXT, TRACK, label_text};

/// Most entries of one answer.
pub const MAX_LIMIT: usize = 1_000;
/// Entries of an answer when the query has no limit.
const DEFAULT_LIMIT: usize = 100;
/// Most bytes of the records of one answer; its first entry comes in any case.
pub const MAX_ANSWER_BYTES: u64 = 4 << 20;
/// Longest pattern, in characters.
const MAX_PATTERN: usize = 200;

/// Order of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// By the time of what is seen, the newest first.
    #[default]
    Newest,
    /// By that time, the oldest first.
    Oldest,
    Name,
}

impl Order {
    /// Compares two entries; the lesser comes first, of equal times the one with the smaller name.
    pub(crate) fn compare(self, a: &Place, b: &Place) -> Ordering {
        match self {
            Self::Newest => a.cmp(b),
            Self::Oldest => b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)),
            Self::Name => a.1.cmp(&b.1),
        }
    }
}

/// Conditions of a query.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Query {
    /// `collection/name` with `*`, `?` and `[…]`; without a slash, the collection.
    #[serde(alias = "collection", skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub camera: Option<String>,
    /// Zone or line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Id of the event; the agent takes the number of its record too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub track: Option<i64>,
    /// Part of the text, a code or a label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Seen at this time or later.
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_time"
    )]
    #[schema(value_type = Option<String>)]
    pub since: Option<Timestamp>,
    /// Seen before this time.
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_time"
    )]
    #[schema(value_type = Option<String>)]
    pub until: Option<Timestamp>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Begin of the MIME type, such as `image/`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention: Option<Retention>,
    /// Name of an entry: the most alike first, by the embeddings of both.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub like: Option<EntryName>,
    /// The most alike to this text first; needs a model that reads texts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub like_text: Option<String>,
    /// A JPEG, PNG or WebP file in base64, at most 12 MB of it: the most alike to it first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub like_picture: Option<String>,
    pub order: Order,
    /// Continue after the entry of this name, in the order of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub after: Option<EntryName>,
    /// Most entries of the answer, 1 to 1000; 100 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

/// Reads a time, or says how it is written.
fn read_time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    let read = |text: String| {
        text.parse().map_err(|_| {
            let example = "use one such as 2026-03-01T08:00:00Z or 2026-03-01T09:00:00+01:00";
            D::Error::custom(format!("{text:?} is not a time; {example}"))
        })
    };
    Option::<String>::deserialize(from)?.map(read).transpose()
}

impl Query {
    /// Returns whether it compares with what only a model can embed.
    pub fn needs_model(&self) -> bool {
        self.like_text.is_some() || self.like_picture.is_some()
    }
}

/// The conditions of a query that was checked.
#[derive(Debug)]
pub(crate) struct Conditions<'a> {
    query: &'a Query,
    pattern: Option<Pattern>,
    /// Camera, class and zone, in lower case.
    names: [Option<String>; 3],
    /// Part of a text, in lower case.
    text: Option<String>,
    /// Labels as details have them.
    labels: Vec<String>,
    /// Most entries of the answer.
    pub(crate) limit: usize,
}

/// The answer of a query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Matches {
    pub entries: Vec<Entry>,
    /// All that match; with `after`, those behind it.
    pub matched: u64,
    /// The value of `after` for the rest, where the limit or the bytes of an answer end it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub next: Option<EntryName>,
    /// Likeness of each entry, -1 to 1, where it was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub likeness: Vec<f64>,
    /// Where nothing matches: the class, camera or zone that no entry has, and those that are
    /// there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// Accepts only characters of names and of patterns.
pub(crate) fn read_pattern(text: &str) -> Result<Pattern, ArchiveError> {
    let accepted = |c: char| c.is_ascii_alphanumeric() || "._-/*?[]!".contains(c);
    let full = match text.contains('/') {
        true => text.to_owned(),
        false => format!("{text}/*"),
    };
    let is_good = text.len() <= MAX_PATTERN && text.chars().all(accepted);
    // `**` is many `*` to the crate, and an error elsewhere than between slashes.
    let read = Pattern::new(&full)
        .ok()
        .filter(|_| is_good && !text.contains("**"));
    read.ok_or_else(|| {
        let remedy = "use a pattern such as events/*-clean.jpg, with *, ? and […]".to_owned();
        ArchiveError::field("pattern", text, remedy)
    })
}

impl<'a> Conditions<'a> {
    /// Checks a query. `by_likeness`: the most alike come first.
    pub(crate) fn new(query: &'a Query, by_likeness: bool) -> Result<Self, ArchiveError> {
        let pattern = query.pattern.as_deref().map(read_pattern).transpose()?;
        let limit = query.limit.unwrap_or(DEFAULT_LIMIT);
        if !(1..=MAX_LIMIT).contains(&limit) {
            let remedy = format!("use 1 to {MAX_LIMIT}");
            return Err(ArchiveError::field("limit", &limit.to_string(), remedy));
        }
        if let (Some(since), Some(until)) = (query.since, query.until)
            && since >= until
        {
            let remedy = "use a time behind since".to_owned();
            return Err(ArchiveError::field("until", &until.to_string(), remedy));
        }
        let likes = [
            query.like.is_some(),
            query.like_text.is_some(),
            query.like_picture.is_some(),
        ];
        if likes.into_iter().filter(|is_given| *is_given).count() > 1 {
            let remedy = "use one of like, like_text and like_picture".to_owned();
            return Err(ArchiveError::field("like", "", remedy));
        }
        if by_likeness && query.order != Order::Newest {
            let remedy = "leave it out: the most alike come first".to_owned();
            let order = match query.order {
                Order::Name => "name",
                _ => "oldest",
            };
            return Err(ArchiveError::field("order", order, remedy));
        }
        let lower = |text: &Option<String>| text.as_ref().map(|text| text.to_lowercase());
        Ok(Self {
            query,
            pattern,
            names: [&query.camera, &query.class, &query.zone].map(lower),
            text: lower(&query.text),
            labels: query.labels.iter().map(label_text).collect(),
            limit,
        })
    }

    pub(crate) fn query(&self) -> &Query {
        self.query
    }

    /// Returns whether details of entries decide what matches.
    pub(crate) fn need_details(&self) -> bool {
        let query = self.query;
        let texts = [&query.event, &query.text];
        texts.into_iter().any(Option::is_some) || query.track.is_some() || !query.labels.is_empty()
    }

    /// Returns whether a slot fulfils the conditions but that of time, as far as it is known.
    pub(crate) fn is_met_by_slot(&self, slot: &Slot) -> bool {
        let query = self.query;
        let facts = &slot.facts;
        let names = [&facts.camera, &facts.class, &facts.zone];
        let mut names = self.names.iter().zip(names);
        let options = MatchOptions {
            case_sensitive: true,
            require_literal_separator: true,
            require_literal_leading_dot: false,
        };
        names.all(|(wanted, name)| wanted.is_none() || wanted == name)
            && query
                .retention
                .is_none_or(|wanted| (wanted == Retention::Protected) == slot.is_protected)
            && query
                .content_type
                .as_deref()
                .is_none_or(|begin| facts.content_type.starts_with(begin))
            && self
                .pattern
                .as_ref()
                .is_none_or(|pattern| pattern.matches_with(slot.name().as_str(), options))
            && slot
                .details
                .as_ref()
                .is_none_or(|known| self.is_met_by_details(known))
    }

    /// Returns whether an entry with these details fulfils the conditions on them.
    pub(crate) fn is_met_by_details(&self, known: &Details) -> bool {
        let query = self.query;
        let (event, text) = (query.event.as_deref(), self.text.as_deref());
        let track = query.track.map(|track| track.to_string());
        let has_label = |label: &String| known.has(LABEL, |one| one == label);
        event.is_none_or(|wanted| known.has(EVENT, |one| one.eq_ignore_ascii_case(wanted)))
            && track.is_none_or(|wanted| known.has(TRACK, |one| one == wanted))
            && self.labels.iter().all(has_label)
            && text.is_none_or(|wanted| known.has(TEXT, |one| one.contains(wanted)))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pattern_with_other_characters_is_refused() {
        let long = "x".repeat(300);
        for bad in ["a/**", "a b", "a/\0", "ä/*", "a/[", &long] {
            assert!(read_pattern(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn time_that_is_not_read_is_refused_with_an_example() {
        let read = serde_json::from_value::<Query>(json!({"since": "yesterday"}));
        let error = read.unwrap_err().to_string();
        let expected = "\"yesterday\" is not a time; use one such as 2026-03-01T08:00:00Z";
        assert!(error.starts_with(expected), "{error}");
    }

    #[test]
    fn invalid_limits_are_refused_with_the_remedy() {
        for bad in [
            json!({"limit": 0}),
            json!({"limit": 1001}),
            json!({"since": "2026-11-05T00:00:00Z", "until": "2026-11-04T00:00:00Z"}),
        ] {
            let query: Query = serde_json::from_value(bad.clone()).unwrap();
            assert!(
                Conditions::new(&query, false)
                    .unwrap_err()
                    .to_string()
                    .contains("use "),
                "{bad}"
            );
        }
    }
}
