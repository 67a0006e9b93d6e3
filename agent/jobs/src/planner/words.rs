//! The words that the planner knows, in lists that are closed: any other is not understood.

use jiff::civil::DateTime;
use watchkeeper_english::{number_word, one_of};

/// Times of the pictures, in local time; the end is not included.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Range {
    pub(super) since: Option<DateTime>,
    pub(super) until: Option<DateTime>,
}

/// Choice of the pictures to keep.
#[derive(Debug, Clone, Copy)]
pub(super) struct Choice {
    /// Place of the word beside the number.
    pub(super) place: usize,
    /// `None` if no number is given.
    pub(super) count: Option<u64>,
    /// `None` if no word says what is best.
    pub(super) order: Option<&'static str>,
}

impl Choice {
    /// As many as a number at or beside a place.
    pub(super) const fn of_number(place: usize, count: u64) -> Self {
        Self {
            place,
            count: Some(count),
            order: None,
        }
    }

    /// Returns whether a number of several pictures comes before the grouping, if there is one.
    pub(super) fn counts_before(self, grouping: Option<usize>) -> bool {
        self.count.is_some_and(|count| count > 1) && grouping.is_none_or(|place| self.place < place)
    }
}

/// Words without a meaning of their own here.
const FILLERS: &str = "\
    a|all|among|are|give|an|and|as|at|choose|copy|each|find|for|from|get|group|i|in|into|keep\
    |make|me|my|of|only|organise|organize|pick|please|select|show|sort|the|them|then|to\
    |want|with|arrange|grouped|sorted|taken|rank|ranked|collect|gather|extract|our|files\
    |build|can|captured|could|create|divide|divided|everything|have|hello|hi|just\
    |keeping|need|order|ordered|prepare|put|save|saw|seen|split|thanks|that|there|us|was\
    |we|were|would|you|your";

/// Phrases that mean what one of the planner's own words does.
pub(super) const SYNONYMS: [(&[&str], &str); 23] = [
    (&["apart", "from"], "except"),
    (&["aside", "from"], "except"),
    (&["other", "than"], "except"),
    (&["get", "rid", "of"], "remove"),
    (&["throw", "out"], "remove"),
    (&["out", "of"], "of"),
    (&["leave", "out"], "without"),
    (&["leaving", "out"], "without"),
    (&["near-duplicates"], "duplicates"),
    (&["duplicate", "photos"], "duplicates"),
    (&["duplicate", "pictures"], "duplicates"),
    (&["duplicate", "images"], "duplicates"),
    (&["duplicate", "ones"], "duplicates"),
    (&["the", "rest"], "them"),
    (&["most", "recent"], "newest"),
    (&["&"], "and"),
    (&["go", "through"], "show"),
    (&["todays"], "today"),
    (&["yesterdays"], "yesterday"),
    (&["would", "like"], "want"),
    (&["i'd", "like"], "want"),
    (&["i", "took"], "taken"),
    (&["we", "took"], "taken"),
];

/// Words that mean nothing if they begin a request: "photos with a view" are others.
pub(super) const FIRST_VERBS: [&str; 5] = ["list", "display", "view", "see", "which"];

/// Words for what every request is about: first [`PICTURE_NOUNS`] that mean pictures only.
const PICTURE_WORDS: [&str; 17] = [
    "picture",
    "pictures",
    "pic",
    "pics",
    "photo",
    "photos",
    "photograph",
    "photographs",
    "image",
    "images",
    "shot",
    "shots",
    "event",
    "events",
    "ones",
    "folder",
    "folders",
];
const PICTURE_NOUNS: usize = 12;

/// Words before what a picture must not have.
pub(super) const NEGATIONS: &str = "\
    without|except|exclude|excluding|ignore|ignoring|lacking|no|none|not|omit|remove\
    |drop|skip";

/// Those of [`NEGATIONS`] that may deny more than the next condition.
pub(super) const EXCEPTIONS: &str = "except|exclude|excluding|ignore|ignoring|omit|skip";

/// Words before the noun of a group.
pub(super) const EACH: [&str; 3] = ["each", "every", "per"];

/// Words after "by" or "each", and the tool's own word. A longer one comes before its begin.
pub(super) const GROUPINGS: [(&str, &str); 28] = [
    ("year", "year"),
    ("month", "month"),
    ("week", "week"),
    ("day of the week", "weekday"),
    ("day", "day"),
    ("date", "day"),
    ("hour of the day", "hour_of_day"),
    ("hour", "hour"),
    ("weekday", "weekday"),
    ("orientation", "shape"),
    ("moment", "gap"),
    ("event", "gap"),
    ("gap", "gap"),
    ("place", "place"),
    ("location", "place"),
    ("camera model", "camera"),
    ("camera", "camera"),
    ("class", "class"),
    ("kind", "class"),
    ("object", "class"),
    ("zone", "zone"),
    ("line", "zone"),
    ("bay", "zone"),
    ("area", "zone"),
    ("gate", "zone"),
    ("folder", "folder"),
    ("similarity", LIKENESS),
    ("likeness", LIKENESS),
];

/// The grouping by the look of pictures, which a tool of its own makes of pictures only.
pub(super) const LIKENESS: &str = "look";

/// Groupings by time, each within the one before.
pub(super) const OF_TIME: [&str; 4] = ["year", "month", "day", "hour"];

/// Verbs that ask for groups.
pub(super) const GROUPING_VERBS: [&str; 5] = ["group", "grouped", "split", "divide", "divided"];

/// Verbs that ask for an order and not for groups, with "by" and one of [`SORTINGS`].
pub(super) const SORTING_VERBS: [&str; 6] =
    ["sort", "sorted", "rank", "ranked", "order", "ordered"];
/// Words after "by" that name an order, and the tool's own word.
pub(super) const SORTINGS: [(&str, &str); 6] = [
    ("sharpness", "sharpness"),
    ("quality", "quality"),
    ("exposure", "exposure"),
    ("contrast", "contrast"),
    ("name", "name"),
    ("time", "oldest"),
];

/// Words for the first of an order, and the tool's own word.
pub(super) const ORDERS: [(&str, &str); 11] = [
    ("best", "quality"),
    ("top", "quality"),
    ("sharpest", "sharpness"),
    ("newest", "newest"),
    ("latest", "newest"),
    ("oldest", "oldest"),
    ("earliest", "oldest"),
    ("first", "oldest"),
    ("largest", "largest"),
    ("biggest", "largest"),
    ("nicest", "quality"),
];

/// Returns whether a word stands for one picture.
pub(super) fn is_single(word: &str) -> bool {
    [
        "picture",
        "pic",
        "photo",
        "photograph",
        "image",
        "one",
        "shot",
    ]
    .iter()
    .any(|one| word.eq_ignore_ascii_case(one))
}

/// Reads a number from 1 to 10,000, in digits or as a word.
pub(super) fn number(word: &str) -> Option<u64> {
    let word = word.to_lowercase();
    let named = number_word(&word).map(u64::from);
    named
        .or_else(|| word.parse().ok())
        .filter(|number| (1..=10_000).contains(number))
}

/// Splits a request at spaces and commas. A quoted text is one word and keeps its quotation marks;
/// the ending `'s` is dropped. Before a comma "on" is "onwards", and "apart" is "separately".
pub(super) fn tokens(text: &str) -> Vec<String> {
    let words = tokens_with_commas(text).into_iter();
    words.map(|(word, _)| word).collect()
}

/// The words of [`tokens`], each with whether a comma follows.
pub(super) fn tokens_with_commas(text: &str) -> Vec<(String, bool)> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (word, after) = match rest
            .strip_prefix('"')
            .and_then(|quoted| quoted.split_once('"'))
        {
            Some((quoted, after)) => (format!("\"{quoted}\""), after),
            None => {
                let end = rest.find(|c: char| c.is_whitespace() || c == ',');
                let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
                let word = word.trim_end_matches(['!', '?', ';', ':']);
                let word = match is_path(word) {
                    true => word,
                    false => word.trim_end_matches('.'),
                };
                let word = word
                    .strip_suffix("'s")
                    .or(word.strip_suffix("’s"))
                    .unwrap_or(word);
                let word = match word {
                    "on" if after.starts_with(',') => "onwards",
                    "apart" | "aside" if after.starts_with(',') => "separately",
                    word => word,
                };
                (word.to_owned(), after)
            }
        };
        if !word.is_empty() {
            words.push((word, after.trim_start().starts_with(',')));
        }
        rest = after.trim_start_matches(|c: char| c.is_whitespace() || c == ',');
    }
    words
}

/// Returns whether a word may name a folder: it is quoted or a path.
pub(super) fn is_folder(word: &str) -> bool {
    word.starts_with('"') || is_path(word)
}

/// Returns whether a word that is not quoted is a path.
pub(super) fn is_path(word: &str) -> bool {
    word.contains('/') || [".", ".."].contains(&word)
}

/// Returns whether a word means nothing by itself here.
pub(super) fn is_filler(word: &str) -> bool {
    let word = word.to_lowercase();
    one_of(FILLERS, &word) || is_picture_word(&word)
}

/// Returns whether a lower-case word stands for what every request is about.
pub(super) fn is_picture_word(word: &str) -> bool {
    PICTURE_WORDS.contains(&word)
}

/// Returns whether a word means pictures only.
pub(super) fn is_picture_noun(word: &str) -> bool {
    let mut nouns = PICTURE_WORDS.iter().take(PICTURE_NOUNS);
    nouns.any(|noun| word.eq_ignore_ascii_case(noun))
}

/// Videos, which no tool of jobs reads.
pub(super) const VIDEOS: [&str; 6] = ["clip", "clips", "video", "videos", "films", "recordings"];

/// Returns whether a word is the plural of a class or rule, or the class of the motion detector:
/// "delete", "stop" and "clips" are not.
pub(super) fn is_plural(word: &str) -> bool {
    let word = word.to_lowercase();
    let is_regular = word.ends_with('s') && !word.ends_with("ss") && word.len() > 3;
    let is_other = is_path(&word) || VIDEOS.contains(&word.as_str());
    ["people", "motion", "sheep"].contains(&word.as_str()) || is_regular && !is_other
}
