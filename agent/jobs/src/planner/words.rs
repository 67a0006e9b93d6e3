//! The words that the planner knows, in lists that are closed: any other is not understood.

use jiff::civil::DateTime;
use watchkeeper_english::{is_courtesy, one_of};

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

/// Words without a meaning of their own here, beside [`is_courtesy`].
const FILLERS: &str = "\
    all|among|and|any|anything|are|arrange|as|assemble|at|be|been|bring|build|captured|choose\
    |collate|collect|compile|copy|create|deliver|did|divide|divided|do|each|entire|everything\
    |export|extract|fetch|files|find|for|from|gather|get|give|group|grouped|have|in|into|is|keep\
    |keeping|made|make|must|needed|of|only|order|ordered|organise|organize|pick|prepare|produce\
    |provide|put|rank|ranked|rest|return|save|saw|seen|select|show|simply|so|sort|sorted|split\
    |take|taken|that|them|there|to|took|was|were|what|whatever|where|which|whole|with";

/// Phrases with their meanings, separated by `|` or on lines of their own: `PHRASE=MEANING`, or a
/// phrase that means itself. A line with `#` is a comment.
#[derive(Clone, Copy)]
pub(super) struct Table(pub(super) &'static str);

impl Table {
    pub(super) fn entries(self) -> impl Iterator<Item = (&'static str, &'static str)> + Clone {
        let lines = self.0.lines().filter(|line| !line.starts_with('#'));
        let entries = lines.flat_map(|line| line.split('|')).map(str::trim);
        entries.filter(|entry| !entry.is_empty()).map(|entry| {
            let (phrase, meaning) = entry.split_once('=').unwrap_or((entry, entry));
            (phrase.trim_end(), meaning.trim_start())
        })
    }

    pub(super) fn phrases(self) -> impl Iterator<Item = &'static str> + Clone {
        self.entries().map(|(phrase, _)| phrase)
    }

    /// The meaning of a phrase in lower case.
    pub(super) fn get(self, phrase: &str) -> Option<&'static str> {
        let mut entries = self.entries();
        entries.find_map(|(known, meaning)| (known == phrase).then_some(meaning))
    }
}

/// Words that mean nothing if they begin a request: "photos with a view" are others.
pub(super) const FIRST_VERBS: &str = "\
    bundle|check|cut|display|filter|hand|identify|lay|list|locate|present|pull|search|see|separate\
    |view";

/// Words that mean pictures only.
const PICTURE_NOUNS: &str = "\
    image|images|photo|photograph|photographs|photos|pic|pics|picture|pictures|shot\
    |shots|snap|snaps|snapshot|snapshots|still|stills";
/// Other words for what every request is about.
const OTHER_NOUNS: &str = "event|events|ones|folder|folders|version|versions";
/// Words for one picture.
const SINGLE: &str = "\
    event|file|image|one|photo|photograph|pic|picture|shot|snap|snapshot|still|version";

/// Words before what a picture must not have.
pub(super) const NEGATIONS: &str = "\
    without|except|exclude|excluding|ignore|ignoring|lacking|no|none|not|neither|omit|remove\
    |drop|skip";

/// Those of [`NEGATIONS`] that may deny more than the next condition.
pub(super) const EXCEPTIONS: &str =
    "except|exclude|excluding|ignore|ignoring|omit|skip|remove|drop";

/// Words for pictures of a burst, for copies, and for blurred ones.
pub(super) const DUPLICATES: [&str; 4] = ["duplicates", "copies", "bursts", IDENTICALS];

/// What requests for exact copies are read as.
pub(super) const IDENTICALS: &str = "identicals";
pub(super) const BLURRED: [&str; 3] = ["blurred", "blurry", "unsharp"];

/// Words that may stand between a negation and what it denies.
pub(super) const BETWEEN: &str = "\
    a|an|the|any|all|near|those|ones|anything|everything|photos|pictures|images|that\
    |what|which|are|is|were";

/// Words before the noun of a group.
pub(super) const EACH: [&str; 3] = ["each", "every", "per"];

/// Words after "by" or "each", and the tool's own word.
pub(super) const GROUPINGS: Table = Table(include_str!("groupings.txt"));

/// The grouping by the look of pictures, which a tool of its own makes of pictures only.
pub(super) const LIKENESS: &str = "look";

/// Values that "into" divides pictures by, and the grouping: "into sharp and blurred ones".
pub(super) const DIVISIONS: Table = Table(
    "sharp=sharpness|blurred=sharpness|blurry=sharpness|unsharp=sharpness|landscape=shape\
     |portrait=shape|square=shape|horizontal=shape|vertical=shape|jpeg=format|jpegs=format\
     |png=format|pngs=format|webp=format",
);

/// Groupings by time, each within the one before.
pub(super) const OF_TIME: [&str; 4] = ["year", "month", "day", "hour"];

/// Words beside the longest time between neighbours in a group.
pub(super) const GAPS: &str = "\
    break|breaks|gap|gaps|interruption|interruptions|interval|intervals|pause|pauses";

/// Verbs that ask for groups.
pub(super) const GROUPING_VERBS: &str = "group|grouped|split|divide|divided|separate";

/// Verbs that ask for an order and not for groups, with "by" and one of [`SORTINGS`].
pub(super) const SORTING_VERBS: &str = "sort|sorted|rank|ranked|order|ordered";

/// Phrases behind a number of all pictures.
pub(super) const IN_TOTAL: Table = Table("in total|in all|overall|altogether|total");

/// Words after "by" that name an order, and the tool's own word.
pub(super) const SORTINGS: Table = Table(
    "sharpness|quality|exposure|contrast|brightness=brightest|resolution=largest|name\
     |file name=name|file size=most_bytes|size=most_bytes|time=oldest|date=oldest\
     |date taken=oldest",
);

/// Phrases for an order in which pictures are shown, and the tool's own word.
pub(super) const SEQUENCES: Table = Table(
    "chronologically=oldest|in chronological order=oldest|in date order=oldest\
     |in reverse chronological order=newest|alphabetically=name|in alphabetical order=name",
);

/// Words for the first of an order, and the tool's own word. A longer phrase comes first.
pub(super) const ORDERS: Table = Table(include_str!("orders.txt"));

/// Verbs before "to" and the name of what is made.
pub(super) const COPYING_VERBS: &str = "collect|copy|file|gather|move|put|save|store";

/// Words of EXIF that name a camera without a capital or a digit too.
const MAKERS: &str = "\
    canon|dji|fujifilm|galaxy|gopro|hasselblad|huawei|ipad|iphone|kodak|leica|nikon\
    |olympus|panasonic|pentax|pixel|ricoh|samsung|sony|xiaomi";

/// Returns whether a word names a maker of cameras.
pub(super) fn is_maker(word: &str) -> bool {
    one_of(MAKERS, &word.to_lowercase())
}

/// Returns whether a word stands for one picture.
pub(super) fn is_single(word: &str) -> bool {
    one_of(SINGLE, &word.to_lowercase())
}

/// Reads a number from 1 to 10,000, in digits or as a word.
pub(super) fn number(word: &str) -> Option<u64> {
    u64::try_from(watchkeeper_english::number(&word.to_lowercase())?).ok()
}

/// Splits a request at spaces and commas. A quoted text is one word in double quotation marks; the
/// ending `'s` is dropped. Before a comma "on" is "onwards", and "apart" is "separately".
pub(super) fn tokens(text: &str) -> Vec<String> {
    let words = tokens_with_commas(text).into_iter();
    words.map(|(word, _)| word).collect()
}

/// The words of [`tokens`], each with whether a comma, colon or semicolon follows.
pub(super) fn tokens_with_commas(text: &str) -> Vec<(String, bool)> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let quoted = ['"', '\''].into_iter().find_map(|mark| {
            let (quoted, after) = rest.strip_prefix(mark)?.split_once(mark)?;
            // "'90s" is no quotation.
            (mark == '"' || !after.starts_with(char::is_alphanumeric)).then_some((quoted, after))
        });
        let mut is_clause_end = false;
        let (word, after) = match quoted {
            Some((quoted, after)) => (format!("\"{quoted}\""), after),
            None => {
                let end = rest.find(|c: char| c.is_whitespace() || c == ',');
                let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
                is_clause_end = word.ends_with([';', ':']);
                let word = word.trim_end_matches(['!', '?', ';', ':']);
                let word = match is_path(word) {
                    // "(./a)" and "(folder ./a)", but "./a(1)".
                    true if !word.contains('(') => word.trim_end_matches(')'),
                    true => word
                        .strip_prefix('(')
                        .map_or(word, |word| word.trim_end_matches(')')),
                    false => word.trim_matches(['(', ')']).trim_end_matches('.'),
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
            words.push((word, is_clause_end || after.trim_start().starts_with(',')));
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
    word.contains('/') && !is_slash_date(word) || [".", ".."].contains(&word)
}

/// Returns whether a word is a date whose day and month are not told apart: `05/10/2026`.
pub(super) fn is_slash_date(word: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let (first, rest) = word.split_once('/').unwrap_or_default();
    first.len() <= 2 && is_number(first) && rest.split('/').all(is_number)
}

/// Returns whether a word means nothing by itself here.
pub(super) fn is_filler(word: &str) -> bool {
    let word = word.to_lowercase();
    is_courtesy(&word) || one_of(FILLERS, &word) || is_picture_word(&word)
}

/// Returns whether a lower-case word stands for what every request is about.
pub(super) fn is_picture_word(word: &str) -> bool {
    one_of(PICTURE_NOUNS, word) || one_of(OTHER_NOUNS, word)
}

/// Returns whether a word means pictures only.
pub(super) fn is_picture_noun(word: &str) -> bool {
    one_of(PICTURE_NOUNS, &word.to_lowercase())
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
