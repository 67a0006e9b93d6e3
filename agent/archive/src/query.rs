//! Queries: which entries are wanted, and in which order. Sans-IO.
//!
//! - Conditions are joined by "and"; an absent one admits every entry.
//! - Words are compared without regard to case.
//! - Memory is bounded by the limit of the answer and by [`MAX_ANSWER_BYTES`], not by the number of
//!   entries. What an answer leaves out is asked for with its member `next` as `after`.
//! - An answer is a prefix of the order: behind an entry that it leaves out comes none.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};

use glob::{MatchOptions, Pattern};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::entry::{Entry, Retention};
use crate::error::ArchiveError;
use crate::name::EntryName;

/// Most entries of one answer.
pub const MAX_LIMIT: usize = 1_000;
/// Entries of an answer when the query has no limit.
pub const DEFAULT_LIMIT: usize = 100;
/// Most bytes of the records of one answer; its first entry comes in any case.
pub const MAX_ANSWER_BYTES: u64 = 4 << 20;
/// Longest pattern, in characters.
const MAX_PATTERN: usize = 200;

/// Order of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Order {
    /// By the time of what is seen, the newest first.
    #[default]
    Newest,
    /// By that time, the oldest first.
    Oldest,
    Name,
}

impl Order {
    /// The rank of an entry; the greatest comes first, of equal ones the smallest name.
    pub(crate) fn rank(self, entry: &Entry) -> f64 {
        // Exact up to the year 2255.
        let at = entry.moment().as_microsecond() as f64;
        match self {
            Self::Newest => at,
            Self::Oldest => -at,
            Self::Name => 0.0,
        }
    }
}

/// Conditions of a query.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Query {
    /// `collection/name` with `*`, `?` and `[…]`; without a slash, the collection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub camera: Option<String>,
    /// Zone or line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Id of the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub track: Option<i64>,
    /// Part of the text, a code or a label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Seen at this time or later.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub since: Option<Timestamp>,
    /// Seen before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
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
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub like: Option<EntryName>,
    /// The most alike to this text first; needs a model that reads texts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub like_text: Option<String>,
    /// A JPEG or PNG file in base64, at most 12 MB of it: the most alike to it first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub like_picture: Option<String>,
    pub order: Order,
    /// Continue behind the entry of this name, in the order of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub after: Option<EntryName>,
    /// Most entries of the answer, 1 to 1000; 100 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

impl Query {
    /// Returns whether it compares with what only a model can embed.
    #[must_use]
    pub fn needs_model(&self) -> bool {
        self.like_text.is_some() || self.like_picture.is_some()
    }

    /// Returns whether its only condition is the pattern, so that no record decides what matches.
    pub(crate) fn is_of_names(&self) -> bool {
        let texts = [
            &self.class,
            &self.camera,
            &self.zone,
            &self.event,
            &self.text,
        ];
        let is_absent = texts
            .into_iter()
            .chain([&self.content_type])
            .all(Option::is_none);
        let is_any_time = self.since.is_none() && self.until.is_none();
        is_absent
            && is_any_time
            && self.track.is_none()
            && self.retention.is_none()
            && self.labels.is_empty()
    }
}

/// A query that was checked, collecting its answer.
#[derive(Debug)]
pub(crate) struct Search<'a> {
    query: &'a Query,
    pattern: Option<Pattern>,
    /// Entry behind which the answer begins.
    after: Option<Ranked>,
    limit: usize,
    /// Whether ranks are likenesses.
    by_likeness: bool,
    best: BinaryHeap<Reverse<Ranked>>,
    /// The greatest entry that had no room in `best`.
    left_out: Option<Ranked>,
    /// Bytes of the records in `best`.
    bytes: u64,
    matched: u64,
}

/// The answer of a query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Matches {
    pub entries: Vec<Entry>,
    /// All that match; with `after`, those behind it.
    pub matched: u64,
    /// The value of `after` for the rest, where the limit or the bytes of an answer end it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub next: Option<EntryName>,
    /// Likeness of each entry, -1 to 1, where it was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub likeness: Vec<f64>,
}

/// An entry with its rank; the greatest stay.
#[derive(Debug)]
struct Ranked {
    rank: f64,
    entry: Entry,
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Ranked {}

impl Ranked {
    /// Compares with another rank and name. Of equal ranks the smaller name is the greater.
    fn order(&self, rank: f64, name: &EntryName) -> Ordering {
        let order = self.rank.total_cmp(&rank);
        order.then_with(|| name.cmp(&self.entry.name))
    }
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order(other.rank, &other.entry.name)
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
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

impl<'a> Search<'a> {
    /// Checks a query.
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
        Ok(Self {
            query,
            pattern,
            after: None,
            limit,
            by_likeness,
            best: BinaryHeap::new(),
            left_out: None,
            bytes: 0,
            matched: 0,
        })
    }

    /// Begins the answer behind `entry`.
    pub(crate) fn begin_behind(&mut self, entry: Entry, rank: f64) {
        self.after = Some(Ranked { rank, entry });
    }

    /// The name at which a scan in the order of names may begin.
    pub(crate) fn first_name(&self) -> Option<&EntryName> {
        let in_names = self.query.order == Order::Name && !self.by_likeness;
        self.query.after.as_ref().filter(|_| in_names)
    }

    /// The only collection that can match, where the pattern names one.
    pub(crate) fn collection(&self) -> Option<&str> {
        let pattern = self.query.pattern.as_deref()?;
        let collection = pattern.split_once('/').map_or(pattern, |(first, _)| first);
        crate::name::check_collection(collection).ok()?;
        Some(collection)
    }

    /// Takes an entry if it matches and has a rank.
    pub(crate) fn visit(&mut self, entry: Entry, rank: impl FnOnce(&Entry) -> Option<f64>) {
        if !self.admits(&entry) {
            return;
        }
        let Some(rank) = rank(&entry).filter(|rank| self.is_behind_begin(*rank, &entry.name))
        else {
            return;
        };
        let found = Ranked { rank, entry };
        self.matched += 1;
        if self.left_out.as_ref().is_some_and(|best| found < *best) {
            return;
        }
        self.bytes += found.entry.record_bytes();
        self.best.push(Reverse(found));
        while self.is_over()
            && let Some(Reverse(worst)) = self.best.pop()
        {
            self.bytes -= worst.entry.record_bytes();
            // All entries in `best` are greater than any that was left out before.
            self.left_out = Some(worst);
        }
    }

    /// Counts an entry that matches, behind one that was left out.
    pub(crate) fn count(&mut self) {
        self.matched += 1;
    }

    /// Whether an entry was left out, so that none behind it comes.
    pub(crate) fn is_full(&self) -> bool {
        self.left_out.is_some()
    }

    /// Whether an entry is behind that of [`Query::after`].
    pub(crate) fn is_behind_begin(&self, rank: f64, name: &EntryName) -> bool {
        let is_behind = |after: &Ranked| after.order(rank, name) == Ordering::Greater;
        self.after.as_ref().is_none_or(is_behind)
    }

    /// Whether the pattern admits a name.
    pub(crate) fn admits_name(&self, name: &EntryName) -> bool {
        let options = MatchOptions {
            case_sensitive: true,
            require_literal_separator: true,
            require_literal_leading_dot: false,
        };
        let pattern = self.pattern.as_ref();
        pattern.is_none_or(|pattern| pattern.matches_with(name.as_str(), options))
    }

    fn is_over(&self) -> bool {
        let count = self.best.len();
        count > self.limit || (self.bytes > MAX_ANSWER_BYTES && count > 1)
    }

    fn admits(&self, entry: &Entry) -> bool {
        let query = self.query;
        let known = &entry.metadata;
        let moment = entry.moment();
        self.admits_name(&entry.name)
            && is_same(query.class.as_deref(), known.class.as_deref())
            && is_same(query.camera.as_deref(), known.camera.as_deref())
            && is_same(query.zone.as_deref(), known.zone.as_deref())
            && is_same(query.event.as_deref(), known.event.as_deref())
            && query
                .track
                .is_none_or(|track| known.tracks.contains(&track))
            && query.since.is_none_or(|since| since <= moment)
            && query.until.is_none_or(|until| moment < until)
            && query
                .retention
                .is_none_or(|wanted| wanted == entry.retention)
            && query
                .labels
                .iter()
                .all(|(key, value)| known.labels.get(key) == Some(value))
            && query
                .content_type
                .as_deref()
                .is_none_or(|begin| entry.content_type.starts_with(begin))
            && query
                .text
                .as_deref()
                .is_none_or(|text| has_text(entry, text))
    }

    pub(crate) fn finish(self) -> Matches {
        let best = self.best.into_sorted_vec();
        let ranks = best.iter().map(|Reverse(ranked)| ranked.rank);
        let likeness = if self.by_likeness {
            ranks.collect()
        } else {
            Vec::new()
        };
        let entries = best.into_iter().map(|Reverse(ranked)| ranked.entry);
        let entries: Vec<Entry> = entries.collect();
        let is_cut = self.matched > entries.len() as u64;
        let last = entries.last().filter(|_| is_cut);
        Matches {
            next: last.map(|entry| entry.name.clone()),
            entries,
            matched: self.matched,
            likeness,
        }
    }
}

fn is_same(wanted: Option<&str>, found: Option<&str>) -> bool {
    let same = |wanted: &str| found.is_some_and(|found| found.eq_ignore_ascii_case(wanted));
    wanted.is_none_or(same)
}

fn has_text(entry: &Entry, wanted: &str) -> bool {
    let wanted = wanted.to_lowercase();
    let known = &entry.metadata;
    let labels = known.labels.iter().flat_map(|(key, value)| [key, value]);
    let mut texts = known.text.iter().chain(&known.codes).chain(labels);
    texts.any(|text| text.to_lowercase().contains(&wanted))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;
    use watchkeeper_pictures::likeness::cosine;

    use super::*;

    fn entry(name: &str, metadata: serde_json::Value) -> Entry {
        serde_json::from_value(json!({
            "name": name, "number": 1, "archived": "2026-11-20T00:00:00Z", "bytes": 3,
            "sha256": crate::ContentHash::of(name.as_bytes()), "content_type": "image/jpeg",
            "content": "stored", "retention": "normal", "metadata": metadata,
        }))
        .unwrap()
    }

    fn names(query: serde_json::Value) -> Vec<String> {
        let query: Query = serde_json::from_value(query).unwrap();
        let rank = |entry: &Entry| {
            let likeness = cosine(&[1.0, 0.0], &entry.metadata.embedding);
            match query.like {
                Some(_) => likeness,
                None => Some(query.order.rank(entry)),
            }
        };
        let mut search = Search::new(&query, query.like.is_some()).unwrap();
        let time = |day: u32| format!("2026-11-{day:02}T12:00:00Z");
        for found in [
            entry(
                "yard/a.jpg",
                json!({"class": "car", "camera": "gate", "time": time(3),
                "embedding": [1.0, 0.1]}),
            ),
            entry(
                "yard/b.jpg",
                json!({"class": "person", "camera": "gate", "time": time(5),
                "text": "HH AB 12", "embedding": [0.0, 1.0]}),
            ),
            entry(
                "dock/a.jpg",
                json!({"class": "truck", "zone": "bay 2", "time": time(4),
                "codes": ["4006381333931"], "labels": {"order": "A-17"}, "tracks": [7]}),
            ),
        ] {
            search.visit(found, rank);
        }
        let found = search.finish().entries;
        found.iter().map(|entry| entry.name.to_string()).collect()
    }

    #[test]
    fn conditions_are_joined() {
        assert_eq!(names(json!({})), ["yard/b.jpg", "dock/a.jpg", "yard/a.jpg"]);
        assert_eq!(
            names(json!({"order": "name"})),
            ["dock/a.jpg", "yard/a.jpg", "yard/b.jpg"]
        );
        assert_eq!(
            names(json!({"camera": "GATE", "class": "car"})),
            ["yard/a.jpg"]
        );
        assert_eq!(names(json!({"text": "ab 12"})), ["yard/b.jpg"]);
        assert_eq!(names(json!({"text": "381333"})), ["dock/a.jpg"]);
        assert_eq!(
            names(json!({"labels": {"order": "A-17"}, "track": 7})),
            ["dock/a.jpg"]
        );
        assert_eq!(names(json!({"zone": "bay 2", "class": "car"})), [""; 0]);
        let span = json!({"since": "2026-11-04T00:00:00Z", "until": "2026-11-05T00:00:00Z"});
        assert_eq!(names(span), ["dock/a.jpg"]);
        assert_eq!(
            names(json!({"order": "oldest", "limit": 1})),
            ["yard/a.jpg"]
        );
        assert_eq!(names(json!({"like": "x/y"})), ["yard/a.jpg", "yard/b.jpg"]);
    }

    /// Follows `next` from page to page; returns all names.
    fn pages(entries: &[Entry], limit: usize) -> Vec<String> {
        let (mut names, mut after): (Vec<String>, Option<EntryName>) = (Vec::new(), None);
        loop {
            let query = Query {
                limit: Some(limit),
                ..Query::default()
            };
            let mut search = Search::new(&query, false).unwrap();
            let last = entries
                .iter()
                .find(|entry| Some(&entry.name) == after.as_ref());
            if let Some(last) = last {
                search.begin_behind(last.clone(), query.order.rank(last));
            }
            for entry in entries {
                search.visit(entry.clone(), |entry| Some(query.order.rank(entry)));
            }
            let found = search.finish();
            let bytes: u64 = found.entries.iter().map(Entry::record_bytes).sum();
            assert!(bytes <= MAX_ANSWER_BYTES || found.entries.len() == 1);
            assert!(found.entries.len() <= limit);
            names.extend(found.entries.iter().map(|entry| entry.name.to_string()));
            after = found.next;
            if after.is_none() {
                return names;
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn pages_of_entries_of_mixed_sizes_leave_none_out(
            // Minutes before noon, and whether the record has 29 kB.
            kinds in prop::collection::vec((0..300_i64, prop::bool::weighted(0.8)), 200..320),
            limit in prop_oneof![1..400_usize, Just(MAX_LIMIT)],
        ) {
            let noon: Timestamp = "2026-11-20T12:00:00Z".parse().unwrap();
            let kinds = kinds.into_iter().enumerate();
            let entries: Vec<Entry> = kinds
                .map(|(nth, (minutes, is_large))| {
                    let mut entry = entry(&format!("yard/{nth:03}"), json!({}));
                    entry.metadata.time = Some(noon - jiff::SignedDuration::from_mins(minutes));
                    entry.metadata.embedding = vec![0.5; if is_large { 2_048 } else { 0 }];
                    entry
                })
                .collect();
            let mut expected: Vec<&Entry> = entries.iter().collect();
            expected.sort_by_key(|entry| (Reverse(entry.metadata.time), entry.name.clone()));
            let expected: Vec<_> = expected.iter().map(|entry| entry.name.to_string()).collect();
            // Few pages: each one visits all entries.
            prop_assert_eq!(pages(&entries, limit.max(40)), expected);
        }
    }

    #[test]
    fn pattern_is_of_collection_and_name() {
        assert_eq!(names(json!({"pattern": "dock"})), ["dock/a.jpg"]);
        assert_eq!(
            names(json!({"pattern": "*/a.*"})),
            ["dock/a.jpg", "yard/a.jpg"]
        );
        assert_eq!(names(json!({"pattern": "yard/[b-z].jpg"})), ["yard/b.jpg"]);
        assert_eq!(names(json!({"pattern": "y*"})).len(), 2);
        for bad in [
            "../x",
            "a/**",
            "a b",
            "a/\0",
            "ä/*",
            "a/[",
            &"x".repeat(300),
        ] {
            let refused = read_pattern(bad);
            assert!(bad == "../x" || refused.is_err(), "{bad}");
        }
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
                Search::new(&query, false)
                    .unwrap_err()
                    .to_string()
                    .contains("use "),
                "{bad}"
            );
        }
    }
}
