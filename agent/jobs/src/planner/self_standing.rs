//! Conditions that stand for themselves: a folder, a name, a shape, a format, a size or a score.

use std::str::FromStr as _;

use watchkeeper_pictures::condition::Condition;
use watchkeeper_pictures::scores::SHARP;

use super::unread_words::Words;
use super::words::{
    BLURRED, COPYING_VERBS, GROUPINGS, NEGATIONS, ORDERS, Table, is_filler, is_path,
    is_picture_word, number,
};

/// A field with a test.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Test {
    pub(super) field: &'static str,
    pub(super) comparison: &'static str,
    pub(super) value: String,
    pub(super) is_wanted: bool,
}

impl Test {
    pub(super) fn is(field: &'static str, value: &str) -> Self {
        Self::new(field, "is", value)
    }

    pub(super) fn new(field: &'static str, comparison: &'static str, value: impl ToString) -> Self {
        Self {
            field,
            comparison,
            value: value.to_string(),
            is_wanted: true,
        }
    }

    /// Returns whether it finds a fault of pictures: blurred, too dark or too bright.
    pub(super) fn is_fault(&self) -> bool {
        let fault = (self.field, self.comparison);
        self.is_wanted
            && [("sharpness", "<"), ("brightness", "<"), ("highlights", ">")].contains(&fault)
    }

    /// This test or its opposite. Of what is known or not the opposite is another value.
    pub(super) fn wanted(self, is_wanted: bool) -> Self {
        match (is_wanted, self.value.as_str()) {
            (false, "known") => Self::is(self.field, "unknown"),
            (false, "unknown") => Self::is(self.field, "known"),
            _ => Self { is_wanted, ..self },
        }
    }

    /// The condition or its opposite, as `filter` takes it.
    pub(super) fn text(&self) -> String {
        let Self {
            field,
            comparison,
            value,
            is_wanted,
        } = self;
        let value = match *field {
            "hour" => clock_times(value),
            _ => value.clone(),
        };
        match (is_wanted, *comparison) {
            (true, _) => format!("{field} {comparison} {value}"),
            (false, "is") => format!("{field} is not {value}"),
            (false, _) => format!("{field} not {comparison} {value}"),
        }
    }

    /// The hours of a test, from and until.
    fn hours(&self) -> Option<(f64, f64)> {
        let bound = |text: &str| text.parse::<f64>().ok();
        match self.comparison {
            "<" => Some((0.0, bound(&self.value)?)),
            ">=" => Some((bound(&self.value)?, 24.0)),
            _ => {
                let (from, until) = self.value.split_once('-')?;
                Some((bound(from)?, bound(until)?)).filter(|(from, until)| from < until)
            }
        }
    }

    /// The hours of a wanted test as ranges.
    pub(super) fn hours_text(&self) -> Option<String> {
        let value = &self.value;
        let hours = match self.comparison {
            "is" => value.clone(),
            "<" => format!("0-{value}"),
            ">=" => format!("{value}-24"),
            _ => return None,
        };
        Some(hours).filter(|_| self.field == "hour" && self.is_wanted)
    }

    /// Returns whether one is a lower and the other a higher upper bound, or both are hours of
    /// which some are the same.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        if let Some((one, other)) = self
            .hours()
            .zip(other.hours())
            .filter(|_| self.field == "hour")
        {
            return one.0.max(other.0) < one.1.min(other.1);
        }
        let (lower, upper) = match self.comparison.starts_with('>') {
            true => (self, other),
            false => (other, self),
        };
        let bound = |test: &Self| test.value.parse::<f64>().ok();
        let bounds = bound(lower).zip(bound(upper));
        let are_opposite = lower.comparison.starts_with('>') && upper.comparison.starts_with('<');
        are_opposite && bounds.is_some_and(|(lower, upper)| lower < upper)
    }
}

/// Hours of a test as times of a clock: `9.5-10` is `9:30-10`.
fn clock_times(hours: &str) -> String {
    let time = |hour: &str| {
        let seconds = hour
            .parse::<f64>()
            .map(|hour| (hour * 3600.0).round() as u32);
        match seconds.map(|seconds| (seconds / 3600, seconds / 60 % 60, seconds % 60)) {
            Ok((hour, minute @ 1.., 0)) => format!("{hour}:{minute:02}"),
            Ok((hour, minute, second @ 1..)) => format!("{hour}:{minute:02}:{second:02}"),
            _ => hour.to_owned(),
        }
    };
    let range = |range: &str| range.split('-').map(time).collect::<Vec<_>>().join("-");
    hours
        .split(" or ")
        .map(range)
        .collect::<Vec<_>>()
        .join(" or ")
}

/// A test, and the place of the word after it.
pub(super) type Found = (Test, usize);

/// Words before a number, and the comparison.
pub(super) const COMPARISONS: Table = Table(
    "at least=>=|at most=<=|no more than=<=|more than=>|larger than=>|bigger than=>|less than=<\
     |heavier than=>|lighter than=<|fewer than=<|smaller than=<|up to=<=|max=<=|maximum=<=|over=>\
     |above=>|under=<|below=<\
     |exactly==",
);

/// Words behind a number and its unit, and the comparison.
const BOUNDS: Table = Table("or more=>=|or larger=>=|or bigger=>=|or less=<=|or smaller=<=");

/// Units of a size, and the field.
const UNITS: Table = Table(
    "megapixels|megapixel=megapixels|mp=megapixels|pixels wide=width|pixels high=height\
     |pixels tall=height|pixel wide=width|pixel high=height|pixel tall=height|kb=kilobytes\
     |kilobytes|mb=megabytes|megabytes",
);

/// Comparisons of a side, with the field.
const SIDES: Table =
    Table("wider than=width >|narrower than=width <|taller than=height >|higher than=height >");

/// Phrases before a part of the names of files, and the pattern.
const NAMES: Table = Table(
    "begin with=NAME*|begins with=NAME*|beginning with=NAME*|start with=NAME*|starts with=NAME*\
     |starting with=NAME*|contain=*NAME*|contains=*NAME*|containing=*NAME*|have=*NAME*|has=*NAME*\
     |include=*NAME*|includes=*NAME*|including=*NAME*|end with=*NAME|ends with=*NAME\
     |ending with=*NAME|end in=*NAME|ends in=*NAME|ending in=*NAME|named=NAME|called=NAME",
);

/// Verbs of a further pattern, as in "and end with b".
const OF_PATTERNS: &str =
    "begin|begins|beginning|contain|contains|containing|end|ends|ending|start|starts|starting";

/// Words before those of [`NAMES`]: `whose file names`, `with a name`.
const OF_NAMES: &str = "a|and|file|filename|filenames|have|name|names|of|that|the|their|whose|with";

/// Measured traits that a request may bound.
pub(super) const SCORES: [&str; 5] = ["sharpness", "quality", "exposure", "contrast", "brightness"];

/// Returns whether a field is known of measured pictures only.
pub(super) fn is_score(field: &str) -> bool {
    field == "highlights" || SCORES.contains(&field)
}

/// Fewest digits of a code that is not in quotation marks: "code 4 of each" is a number.
const MIN_CODE: usize = 6;

const SHAPES: Table = Table(
    "landscape|portrait|horizontal=landscape|vertical=portrait|upright=portrait|tall=portrait\
     |square",
);

/// Formats that the tools read.
pub(super) const FORMATS: Table = Table("jpeg|jpg=jpeg|jpegs=jpeg|jpgs=jpeg|png|pngs=png|webp");

/// Phrases that describe pictures by themselves, each with a condition. Of the development photos
/// the 6 darkened have a brightness up to 0.113, and of the others 2 below 0.125. The 6 brightened
/// have more than 0.09 in white, and of the others one.
const PROPERTIES: Table = Table(
    "undated=time is unknown|geotagged=place is known|taller than wide=shape is portrait\
     |wider than tall=shape is landscape|landscape oriented=shape is landscape\
     |portrait oriented=shape is portrait|dark=brightness < 0.125|too dark=brightness < 0.125\
     |underexposed=brightness < 0.125|too bright=highlights > 0.08|overexposed=highlights > 0.08",
);

impl Words {
    /// A condition that stands for itself.
    pub(super) fn test(&self, place: usize) -> Option<Found> {
        let tests = [
            Self::subfolders,
            Self::file_names,
            Self::part_of_day,
            Self::clock_times,
            Self::weekdays,
            Self::days,
            Self::months,
            Self::property,
            Self::near,
            Self::shape,
            Self::format,
            Self::zone_or_class,
            Self::code_text,
            Self::size,
            Self::score,
            Self::focus,
        ];
        tests.into_iter().find_map(|read| read(self, place))
    }

    /// Returns whether a weekday, shape or format stands at a place without a preposition.
    pub(super) fn is_bare_value(&self, place: usize) -> bool {
        let has_preposition = self.is_one(place, &["in", "on", "at", "during"]);
        let reads = [Self::weekdays, Self::shape, Self::format];
        !has_preposition && reads.iter().any(|read| read(self, place).is_some())
    }

    /// `undated`, `too dark` or `taller than wide`. "After dark" is a time.
    pub(super) fn property(&self, place: usize) -> Option<Found> {
        let (property, end) = self.meaning(place, PROPERTIES)?;
        let (field, test) = property.split_once(' ')?;
        let (comparison, value) = test.split_once(' ')?;
        let is_described = self.get(end).is_some_and(is_filler)
            || self.is_after_one(place, "are")
            || self.is_after_one(place, NEGATIONS);
        let is_meant = is_described || !self.stands(place, &["dark"]);
        is_meant.then(|| (Test::new(field, comparison, value), end))
    }

    /// `within 20 km of 52.52, 13.40`: a distance from a place, in degrees.
    fn near(&self, place: usize) -> Option<Found> {
        let words = ["within", "", "", "of", "", ""].into_iter().zip(place..);
        let words = words.map(|(word, at)| {
            let is_there = word.is_empty() || self.stands(at, &[word]);
            self.get(at).filter(|_| is_there)
        });
        let words: Option<Vec<&str>> = words.collect();
        let test = Test::is("place", &words?.join(" ").to_lowercase());
        let is_read = Condition::from_str(&test.text()).is_ok();
        is_read.then_some((test, place + 6))
    }

    /// `code "A-17"` or `the label 9780441014989`: the text of a code.
    pub(super) fn code_text(&self, place: usize) -> Option<Found> {
        let at = place + usize::from(self.is_in(place, "a|the"));
        let text = self.get(at + 1).filter(|_| self.has_folder)?;
        let is_number = text.len() >= MIN_CODE && text.bytes().all(|b| b.is_ascii_digit());
        let is_quoted = text.starts_with('"');
        let text = text.trim_matches('"');
        // In a condition these words have a meaning of their own.
        let is_word = text.starts_with("not ") || ["", "known", "unknown"].contains(&text);
        let is_text = is_number || is_quoted && !is_word && !text.contains(" or ");
        let is_meant = is_text && self.is_in(at, "barcode|code|label");
        // The reader returns an EAN-13 that begins with 0 as UPC-A.
        let upc = text
            .strip_prefix('0')
            .filter(|upc| is_number && upc.len() == 12);
        let text = upc.map_or_else(|| text.to_owned(), |upc| format!("{text} or {upc}"));
        is_meant.then(|| (Test::is("code", &text), at + 2))
    }

    /// `in landscape format`, `portrait orientation` or `square photos`. The format beside a
    /// contact sheet may be that of the sheet.
    fn shape(&self, place: usize) -> Option<Found> {
        let at = place + usize::from(self.stands(place, &["in"]));
        let (shape, end) = self.meaning(at, SHAPES)?;
        let has_noun = self.is_one(end, &["format", "orientation", "mode"]);
        if has_noun && self.is_of_output(place) {
            return None;
        }
        // "Upright (portrait format)".
        let is_said_again = self.shape(at + 1).is_some();
        let is_joined = self.is_one(at + 1, &["and", "or"]) && self.shape(at + 2).is_some();
        let next = self.get(at + 1).unwrap_or_default().to_lowercase();
        let is_described = is_picture_word(&next) || next == "only" || self.is_after_one(at, "are");
        let is_shape = has_noun || is_joined || is_said_again || is_described;
        let test = Test::is("shape", shape);
        is_shape.then_some((test, end + usize::from(has_noun)))
    }

    /// `JPEG files`, `PNGs` or `in PNG format`.
    fn format(&self, place: usize) -> Option<Found> {
        let at = place + usize::from(self.stands(place, &["in"]));
        let (format, end) = self.meaning(at, FORMATS)?;
        let has_noun = self.is_one(end, &["format"]);
        if has_noun && self.is_of_output(place) || self.is_after(place, 1, &["as", "to", "into"]) {
            return None;
        }
        Some((Test::is("format", format), end + usize::from(has_noun)))
    }

    /// `from folder kitchen and folder hall`, `only house 7` or `in mill_road_3`: folders in that
    /// of a request. A word with `_` is a name.
    fn subfolders(&self, place: usize) -> Option<Found> {
        let named = |begin: usize| {
            let begin = begin + usize::from(self.is_in(begin, "the"));
            let noun = self.get(begin)?.to_lowercase();
            let name = self
                .get(begin + 1)
                .filter(|name| !is_filler(name) && !is_path(name));
            let name = name.map(|name| name.trim_matches('"'));
            if self.has_folder && noun.contains('_') && !noun.contains(['.', '"', '*']) {
                let end = begin + 1;
                return Some((noun, end + usize::from(self.is_in(end, "folder"))));
            }
            match GROUPINGS.get(&noun) {
                Some("folder") if noun == "folder" => Some((name?.to_owned(), begin + 2)),
                // "House 7" may be the folder 7.
                Some("folder") if name?.starts_with(|c: char| c.is_ascii_digit()) => {
                    let name = name?;
                    Some((format!("{name} or {noun} {name}"), begin + 2))
                }
                _ => None,
            }
        };
        // "Put them in folder best" names what is made.
        let is_put = (0..place).any(|at| self.is_in(at, COPYING_VERBS));
        let is_in = self.stands(place, &["in"]) && !is_put;
        let is_led = is_in || self.is_in(place, "from|of|only");
        let (first, mut end) = named(place + usize::from(is_led))?;
        let mut names = vec![first];
        while self.is_one(end, &["and", "or"])
            && let Some((name, behind)) = named(end + 1)
        {
            names.push(name);
            end = behind;
        }
        let is_meant = is_led || self.is_after_one(place, NEGATIONS);
        is_meant.then(|| (Test::is("folder", &names.join(" or ")), end))
    }

    /// `whose name starts with IMG or DSC`, or `named IMG_*`: a pattern of the name.
    fn file_names(&self, place: usize) -> Option<Found> {
        let (mark, mut at) = self.name_of_files(place)?;
        let mut patterns = Vec::new();
        while let Some(word) = self.get(at) {
            let word = word.trim_matches('"');
            // "Starting with the newest" is an order; "and end with b" is another test.
            let is_other = self.meaning(at, ORDERS).is_some() || self.is_in(at, OF_PATTERNS);
            if is_filler(word) || is_other {
                return None;
            }
            // The ending of a file is not of its name: "ends with 7" finds n7.jpg.
            let ending = word.rsplit('.').next().unwrap_or(word).to_lowercase();
            let is_end = mark.ends_with("*NAME") && FORMATS.get(&ending).is_none();
            let pattern = mark.replace("NAME", word);
            patterns.push(if is_end { pattern + ".*" } else { pattern });
            at += 1;
            if !self.is_one(at, &["and", "or"]) {
                break;
            }
            at += 1;
        }
        let is_read = mark != "NAME" || patterns.iter().all(|name| name.contains(['*', '.']));
        let test = Test::is("name", &patterns.join(" or "));
        (is_read && !patterns.is_empty()).then_some((test, at))
    }

    /// `whose file name contains` or `named` at a place: the pattern, and the place behind.
    pub(super) fn name_of_files(&self, place: usize) -> Option<(&'static str, usize)> {
        let verb = (place..self.len()).find(|at| !self.is_in(*at, OF_NAMES))?;
        // "That have" is one of the words before.
        let verb = verb - usize::from(verb > place && self.is_in(verb - 1, "have"));
        let (mark, end) = self.meaning(verb, NAMES)?;
        let mut before = place..verb;
        let says_name = before.any(|at| self.is_in(at, "filename|filenames|name|names"));
        let is_bare = verb == place && self.is_in(place, "beginning|called|named|starting");
        (says_name || is_bare).then_some((mark, end))
    }

    /// `in zone bay-2`, `zone "bay 2"` or `of class car`: what pictures of events say of it.
    fn zone_or_class(&self, place: usize) -> Option<Found> {
        let at = place + usize::from(self.is_one(place, &["in", "at", "of", "from"]));
        let name = self.get(at + 1).filter(|name| !is_filler(name))?;
        let is_group = self.is_after(at, 1, &["by", "each", "per", "every", "and", "then"]);
        let mut fields = ["zone", "class"].into_iter();
        let field = fields.find(|field| self.stands(at, &[field]))?;
        let is_meant = !is_group && !is_path(name) && (field == "zone" || !self.has_folder);
        is_meant.then(|| (Test::is(field, name.trim_matches('"')), at + 2))
    }

    /// Returns whether a format at a place may be that of what is made.
    fn is_of_output(&self, place: usize) -> bool {
        let is_behind_as = place > 0 && self.stands(place - 1, &["as"]);
        is_behind_as || self.find(&["contact", "sheet"]).is_some()
    }

    /// `wider than 1000 pixels`, `at least 2 megapixels`, `8 megapixels or more` or `over 1000
    /// pixels wide`.
    fn size(&self, place: usize) -> Option<Found> {
        let value = |at: usize| {
            let word = self.get(at)?;
            let digits = word.parse::<f64>().ok().filter(|n| *n >= 0.0);
            digits.or_else(|| number(word).map(|number| number as f64))
        };
        if let Some((side, at)) = self.meaning(place, SIDES) {
            let (field, comparison) = side.split_once(' ')?;
            let end = at + 1 + usize::from(self.is_in(at + 1, "pixel|pixels"));
            return Some((Test::new(field, comparison, value(at)?), end));
        }
        // "Between 50 and 100 KB".
        if self.stands(place, &["between"])
            && let Some(from) = value(place + 1)
            && let joint = place + 2 + usize::from(self.meaning(place + 2, UNITS).is_some())
            && self.stands(joint, &["and"])
            && let Some((to, (field, end))) = value(joint + 1).zip(self.meaning(joint + 2, UNITS))
        {
            return Some((Test::is(field, &format!("{from}-{to}")), end));
        }
        let begin = place + usize::from(self.stands(place, &["of"]));
        let compared = self.meaning(begin, COMPARISONS);
        let at = compared.map_or(begin, |(_, at)| at);
        let (field, end) = self.meaning(at + 1, UNITS)?;
        let (comparison, end) = match compared {
            Some((comparison, _)) => (comparison, end),
            None => self.meaning(end, BOUNDS)?,
        };
        Some((Test::new(field, comparison, value(at)?), end))
    }

    /// `sharpness at least 0.5` or `a quality over 0.6`.
    fn score(&self, place: usize) -> Option<Found> {
        let field = SCORES
            .into_iter()
            .find(|score| self.stands(place, &[score]))?;
        let at = place + 1 + usize::from(self.stands(place + 1, &["of"]));
        let (comparison, at) = self.meaning(at, COMPARISONS).unwrap_or((">=", at));
        let bound = self.get(at)?.parse::<f64>().ok();
        let bound = bound.filter(|bound| (0.0..=1.0).contains(bound))?;
        Some((Test::new(field, comparison, bound), at + 1))
    }

    /// `the blurred ones`, or `which pictures are blurred` or `are sharp`: only those. Behind "and"
    /// they may be wanted beside others: "the duplicates and the blurred ones".
    fn focus(&self, place: usize) -> Option<Found> {
        let article = self.with_lead(place, &["the", "all", "my"]);
        let is_joined = self.is_after(article, 1, &["and", "or"]);
        if is_joined && article > 1 && self.get(article - 2).is_some() {
            return None;
        }
        let noun = self.get(place + 1).unwrap_or_default().to_lowercase();
        let is_of_several =
            self.is_one(place + 1, &["and", "or"]) && self.property(place + 2).is_some();
        let has_noun = is_picture_word(&noun);
        let is_said = is_of_several || place > 0 && self.stands(place - 1, &["are"]);
        let comparison = match () {
            () if self.is_one(place, &BLURRED) && (has_noun || is_said) => "<",
            () if self.stands(place, &["sharp"]) && is_said => ">=",
            () => return None,
        };
        let test = Test::new("sharpness", comparison, SHARP);
        Some((test, place + 1 + usize::from(has_noun)))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use super::super::unread_words::Words;
    use crate::cameras::KnownNames;

    /// The tests of a request, and the words that are left.
    fn read(text: &str) -> String {
        let mut words = Words::new(text, "2026-11-28T15:00:00".parse().unwrap());
        let conditions = words.conditions(&KnownNames::default());
        let mut parts = conditions.of_metadata();
        parts.extend(words.left().iter().map(|word| format!("left {word}")));
        parts.join(", ")
    }

    fn assert_all(cases: &[(&str, &str)]) {
        for (text, expected) in cases {
            assert_eq!(read(text), *expected, "{text}");
        }
    }

    #[test]
    fn values_of_one_field_are_joined_or_left() {
        assert_all(&[
            ("JPEG and PNG files", "format is jpeg or png"),
            ("on Sundays and on Mondays", "weekday is sunday or monday"),
            ("square and vertical photos", "shape is square or portrait"),
            ("after 8:00 and before 18:00", "hour >= 8, hour < 18"),
            (
                "before 8:00 and after 18:00",
                "hour < 8, left after, left 18:00",
            ),
            ("before 8:00 or after 18:00", "hour is 0-8 or 18-24"),
            ("in the morning and in the evening", "hour is 6-12 or 18-24"),
            (
                "square photos, in portrait format",
                "shape is square, left portrait, left format",
            ),
        ]);
    }

    #[test]
    fn hours_that_are_not_clear_are_left() {
        assert_all(&[
            ("from 9 am to 5 pm", "hour is 9-17"),
            ("between 8 and 10 pm", "hour is 20-22"),
            ("between midnight and 6 am", "hour is 0-6"),
            ("between 22 and 6", "hour is 22-6"),
            ("not after 19:00", "hour not >= 19"),
            ("between 9 and 12 in the morning", "hour is 9-12"),
            ("in the evening or at night", "hour is 18-24 or 22-6"),
            ("morning photos before 8 o'clock", "hour is 6-12, hour < 8"),
            ("between 7 o'clock and 9 in the evening", "hour is 19-21"),
            ("from 8 o'clock to 5 pm", "hour is 8-17"),
            ("between half past 9 and 12 am", "hour is 9:30-12"),
        ]);
        for text in [
            "from 9 am to 5",
            "between noon and 3",
            "after midnight",
            "before midnight",
            "before 12 am",
            "since 8 am",
            "since midnight",
            "after 3 o'clock",
            "after 12 in the evening",
            "before 12:30 in the morning",
        ] {
            let found = read(text);
            assert!(found.contains("left"), "{text}: {found}");
        }
    }

    #[test]
    fn days_and_seasons_without_a_year_are_those_of_any() {
        assert_all(&[
            ("on 5 October", "day is 5 october"),
            (
                "on the 5th and the 12th of October",
                "day is 5 october or 12 october",
            ),
            ("from 3 to 5 May", "day is 3 may or 4 may or 5 may"),
            ("October 5th", "day is 5 october"),
            ("not on 24 December", "day is not 24 december"),
            ("in summer", "month is june or july or august"),
            ("spring photos", "month is march or april or may"),
            (
                "on 5 October 2026",
                "left on, left 5, left October, left 2026",
            ),
            (
                "the best 5 March photos",
                "month is march, left best, left 5",
            ),
        ]);
    }

    #[test]
    fn part_of_a_file_name_stands_behind_a_verb_in_any_form() {
        assert_all(&[
            ("whose file names contain \"plate\"", "name is *plate*"),
            ("with names containing plate", "name is *plate*"),
            ("their names begin with pets", "name is pets*"),
            ("whose name ends in _a or _b", "name is *_a.* or *_b.*"),
            ("starting with the newest", "left starting, left newest"),
        ]);
    }

    #[test]
    fn shape_and_format_are_those_of_pictures() {
        assert_all(&[
            ("square photos", "shape is square"),
            ("photos of the square", "left square"),
            ("photos as PNG", "left PNG"),
            (
                "a contact sheet in landscape format",
                "left contact, left sheet, left landscape, left format",
            ),
            (
                "a contact sheet of PNG files",
                "format is png, left contact, left sheet",
            ),
        ]);
    }
}
