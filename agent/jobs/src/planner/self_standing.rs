//! Conditions that stand for themselves: a time of the day, a weekday, a shape, a format, a size or
//! a score.

use std::str::FromStr as _;

use watchkeeper_english::{NIGHT, one_of, part_of_day};
use watchkeeper_pictures::condition::Condition;
use watchkeeper_pictures::scores::SHARP;

use super::unread_words::{BLURRED, Words};
use super::words::{Table, is_filler, is_path, is_picture_noun, is_picture_word, number};

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

    fn new(field: &'static str, comparison: &'static str, value: impl ToString) -> Self {
        Self {
            field,
            comparison,
            value: value.to_string(),
            is_wanted: true,
        }
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

    /// Returns whether one is a lower and the other a higher upper bound.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
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
    hours.split('-').map(time).collect::<Vec<_>>().join("-")
}

/// A test, and the place of the word after it.
type Found = (Test, usize);

/// Words before a number, and the comparison.
pub(super) const COMPARISONS: Table = Table(
    "at least=>=|at most=<=|no more than=<=|more than=>|larger than=>|bigger than=>|less than=<\
     |fewer than=<|smaller than=<|up to=<=|max=<=|maximum=<=|over=>|above=>|under=<|below=<\
     |exactly==",
);

/// Words behind a number and its unit, and the comparison.
const BOUNDS: Table = Table("or more=>=|or larger=>=|or bigger=>=|or less=<=|or smaller=<=");

/// Units of a size, and the field.
const UNITS: Table = Table(
    "megapixels|megapixel=megapixels|mp=megapixels|pixels wide=width|pixels high=height\
     |pixels tall=height|kb=kilobytes|kilobytes|mb=megabytes|megabytes",
);

/// Comparisons of a side, with the field.
const SIDES: Table =
    Table("wider than=width >|narrower than=width <|taller than=height >|higher than=height >");

/// Measured traits that a request may bound.
pub(super) const SCORES: [&str; 5] = ["sharpness", "quality", "exposure", "contrast", "brightness"];

/// Returns whether a field is known of measured pictures only.
pub(super) fn is_score(field: &str) -> bool {
    field == "highlights" || SCORES.contains(&field)
}

/// Words behind bare numbers that are hours.
const BEHIND_HOURS: &str = "and|at|by|each|every|from|in|of|on|only|per|sorted|with|without";

const WEEKDAYS: Table = Table(
    "monday|tuesday|wednesday|thursday|friday|saturday|sunday|weekend=saturday or sunday\
     |weekday=monday or tuesday or wednesday or thursday or friday",
);

const MONTHS: Table =
    Table("january|february|march|april|may|june|july|august|september|october|november|december");

const SHAPES: Table =
    Table("landscape|portrait|horizontal=landscape|vertical=portrait|upright=portrait|square");

const FORMATS: Table = Table("jpeg|jpg=jpeg|jpegs=jpeg|jpgs=jpeg|png|pngs=png|webp|gif|tiff|bmp");

/// Phrases that describe pictures by themselves, each with a condition. Of the development photos
/// the 6 darkened have a brightness up to 0.113, and of the others 2 below 0.125. The 6 brightened
/// have more than 0.09 in white, and of the others one.
const PROPERTIES: Table = Table(
    "undated=time is unknown|geotagged=place is known|taller than wide=shape is portrait\
     |wider than tall=shape is landscape|landscape-oriented=shape is landscape\
     |portrait-oriented=shape is portrait|dark=brightness < 0.125|too dark=brightness < 0.125\
     |underexposed=brightness < 0.125|too bright=highlights > 0.08|overexposed=highlights > 0.08",
);

impl Words {
    /// A condition that stands for itself.
    pub(super) fn test(&self, place: usize) -> Option<Found> {
        let tests = [
            Self::part_of_day,
            Self::clock_times,
            Self::weekdays,
            Self::months,
            Self::property,
            Self::near,
            Self::shape,
            Self::format,
            Self::zone,
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

    /// `in the morning`, `at night`, `morning photos`, or the word after a day.
    fn part_of_day(&self, place: usize) -> Option<Found> {
        let has_preposition = self.is_one(place, &["in", "at", "during", "on"]);
        let at = place + usize::from(has_preposition);
        let at = at + usize::from(has_preposition && self.stands(at, &["the"]));
        let is_behind_day = place > 0 && self.get(place - 1).is_none();
        // "Mornings" are those of any day.
        let several = self.several_parts_of_day(at);
        let one = || part_of_day(&self.get(at)?.to_lowercase());
        let (from, to) = several.or_else(one)?;
        let hour = |minutes: i64| match minutes / 60 {
            hour @ ..=24 => hour,
            hour => hour - 24,
        };
        let hours = format!("{}-{}", hour(from), hour(to));
        let is_before_noun = self.get(at + 1).is_some_and(is_picture_noun);
        let is_meant = has_preposition || is_behind_day || several.is_some() || is_before_noun;
        is_meant.then(|| (Test::is("hour", &hours), at + 1))
    }

    /// `mornings`: from when to when they are.
    pub(super) fn several_parts_of_day(&self, place: usize) -> Option<(i64, i64)> {
        part_of_day(self.get(place)?.to_lowercase().strip_suffix('s')?)
    }

    /// `between 8:00 and 10:00`, `from 8 to 10 pm`, `after 18:00` or `before noon`.
    fn clock_times(&self, place: usize) -> Option<Found> {
        let first = self.clock(place + 1)?;
        let pairs = [("between", "and"), ("from", "to"), ("from", "until")];
        let is_pair = |(begin, joint): &(&str, &str)| {
            self.stands(place, &[begin]) && self.stands(first.end, &[joint])
        };
        if pairs.iter().any(is_pair) {
            let last = self.clock(first.end + 1)?;
            // "From 9 am to 5" may end in the night; "22 and 6" and "9 and 17" are of a clock of 24
            // hours.
            let is_of_24 = !first.is_clear && first.hour.max(last.hour) > 12.0;
            // "From 10 to 20 November", "between 5 and 15 people".
            let next = self.get(last.end).map(str::to_lowercase);
            let is_over = next.is_none_or(|next| one_of(BEHIND_HOURS, &next));
            if !(last.is_clear || is_of_24 && is_over) {
                return None;
            }
            // "Between 8 and 10 pm"; "between 11 and 1 pm" begins before noon.
            let is_later = !first.is_clear && first.hour + 12.0 < last.hour;
            let from = first.hour % 24.0 + if is_later { 12.0 } else { 0.0 };
            let hours = format!("{from}-{}", last.hour);
            return Some((Test::is("hour", &hours), last.end));
        }
        let comparison = match () {
            // Midnight ends one day and begins the next.
            () if !first.is_clear || first.hour % 24.0 == 0.0 => return None,
            () if self.is_one(place, &["after", "from"]) => ">=",
            () if self.stands(place, &["before"]) => "<",
            () => return None,
        };
        Some((Test::new("hour", comparison, first.hour), first.end))
    }

    /// A time of the clock, such as `18:30`, `18:30:15`, `8 am`, `8pm`, `8 in the morning`, `8
    /// o'clock` or `noon`.
    fn clock(&self, place: usize) -> Option<Clock> {
        let word = self.get(place)?.to_lowercase();
        let clear = |hour: f64, end| {
            Some(Clock {
                hour,
                is_clear: true,
                end,
            })
        };
        match word.as_str() {
            "noon" | "midday" => return clear(12.0, place + 1),
            "midnight" => return clear(24.0, place + 1),
            _ => {}
        }
        let split = word.find(|c: char| !c.is_ascii_digit() && c != ':');
        let (time, glued) = word.split_at(split.unwrap_or(word.len()));
        let parts: Option<Vec<u32>> = time.split(':').map(|part| part.parse().ok()).collect();
        let (number, minute, second) = match *parts?.as_slice() {
            [hour] => (hour, 0, 0),
            [hour, minute] => (hour, minute, 0),
            [hour, minute, second] => (hour, minute, second),
            _ => return None,
        };
        if number > 24 || minute > 59 || second > 59 {
            return None;
        }
        let next = self.get(place + 1).unwrap_or_default().to_lowercase();
        let part_of_day = self.stands(place + 1, &["in", "the"]);
        let part_of_day = part_of_day.then(|| self.get(place + 3)).flatten();
        let (half, end) = match (glued, part_of_day.map(str::to_lowercase).as_deref()) {
            ("", _) if ["am", "pm", "o'clock"].contains(&next.as_str()) => {
                (next.as_str(), place + 2)
            }
            // "12 in the evening" may be noon or midnight.
            ("", Some("morning")) if number < 12 => ("am", place + 4),
            ("", Some("evening")) if number < 12 => ("pm", place + 4),
            ("", Some("afternoon")) if number <= 12 => ("pm", place + 4),
            _ => (glued, place + 1),
        };
        let hour = match (half, number) {
            ("" | "o'clock", number) => number,
            ("am", 1..=12) => number % 12,
            ("pm", 1..=12) => number % 12 + 12,
            _ => return None,
        };
        Some(Clock {
            hour: f64::from(hour * 3600 + minute * 60 + second) / 3600.0,
            is_clear: ["am", "pm"].contains(&half) || time.contains(':'),
            end,
        })
    }

    pub(super) fn is_weekday(&self, place: usize) -> bool {
        self.meaning(place, WEEKDAYS).is_some()
    }

    /// `on Sundays`, `on a Monday`, `at weekends`, `Saturdays and Sundays` or `Monday mornings`. A
    /// night is of two days.
    fn weekdays(&self, place: usize) -> Option<Found> {
        let has_preposition = self.is_one(place, &["on", "at", "during"]);
        let mut at = place + usize::from(has_preposition);
        let has_article = has_preposition && self.stands(at, &["a"]);
        at += usize::from(has_article);
        let mut days: Vec<&str> = Vec::new();
        loop {
            let word = self.get(at).unwrap_or_default().to_lowercase();
            let name = word.strip_suffix('s');
            let is_group = self.is_after(at, 1, &["by", "each", "per", "every"]);
            let parts = self.several_parts_of_day(at + 1).filter(|_| !is_group);
            // "Sunday photos" may be those of one Sunday.
            let is_kind = self.is_one(at, &["weekend", "weekday"]);
            let is_kind = is_kind && self.get(at + 1).is_some_and(is_picture_noun);
            let is_any = has_article || is_kind || parts.is_some_and(|part| part != NIGHT);
            let name = name.or(is_any.then_some(word.as_str()));
            let name = name.filter(|_| parts != Some(NIGHT));
            let Some(texts) = name.and_then(|name| WEEKDAYS.get(name)) else {
                break;
            };
            days.push(texts);
            at += 1;
            let is_joined = self.is_one(at, &["and", "or"]);
            at += usize::from(is_joined);
        }
        let is_joint = at > place && self.is_one(at - 1, &["and", "or"]);
        let test = Test::is("weekday", &days.join(" or "));
        (!days.is_empty()).then(|| (test, at - usize::from(is_joint)))
    }

    /// `in March`, `from June to August`, `March photos` or a month that is denied: of any year.
    fn months(&self, place: usize) -> Option<Found> {
        let is_between = self.stands(place, &["between"]);
        let is_from = self.stands(place, &["from"]);
        let is_led = is_between || is_from || self.is_in(place, "in|during");
        let begin = place + usize::from(is_led);
        let (first, mut end) = self.meaning(begin, MONTHS)?;
        let mut months = vec![first];
        let joint = if is_between { "and" } else { "to|until|till" };
        if (is_between || is_from)
            && self.is_in(end, joint)
            && let Some((last, behind)) = self.meaning(end + 1, MONTHS)
        {
            let all = MONTHS.phrases().chain(MONTHS.phrases());
            let mut later = all.skip_while(|month| *month != first).skip(1);
            while months.last() != Some(&last) {
                months.push(later.next()?);
            }
            end = behind;
        }
        while !is_between
            && self.is_in(end, "and|or")
            && let Some((month, behind)) = self.meaning(end + 1, MONTHS)
        {
            months.push(month);
            end = behind;
        }
        // "In March 23" and "in March until Friday" are dates.
        let goes_on = self.is_in(end, "to|until|till") || self.get(end).and_then(number).is_some();
        let is_before_noun = self.get(end).is_some_and(is_picture_noun);
        let is_meant = is_led || is_before_noun || self.is_negated(begin);
        let test = Test::is("month", &months.join(" or "));
        (is_meant && !goes_on && !(is_between && months.len() == 1)).then_some((test, end))
    }

    /// `undated`, `too dark` or `taller than wide`. "After dark" is a time.
    fn property(&self, place: usize) -> Option<Found> {
        let (property, end) = self.meaning(place, PROPERTIES)?;
        let (field, test) = property.split_once(' ')?;
        let (comparison, value) = test.split_once(' ')?;
        let is_described = self.get(end).is_some_and(is_filler) || self.is_after_one(place, "are");
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
        let is_described = is_picture_word(&next) || next == "only";
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

    /// `in zone bay-2` or `zone "bay 2"`.
    fn zone(&self, place: usize) -> Option<Found> {
        let at = place + usize::from(self.is_one(place, &["in", "at", "of", "from"]));
        let name = self.get(at + 1).filter(|name| !is_filler(name))?;
        let is_group = self.is_after(at, 1, &["by", "each", "per", "every", "and", "then"]);
        let is_zone = self.stands(at, &["zone"]) && !is_group && !is_path(name);
        is_zone.then(|| (Test::is("zone", name.trim_matches('"')), at + 2))
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
            let end = at + 1 + usize::from(self.stands(at + 1, &["pixels"]));
            return Some((Test::new(field, comparison, value(at)?), end));
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
        if self.is_after(article, 1, &["and", "or"]) {
            return None;
        }
        let noun = self.get(place + 1).unwrap_or_default().to_lowercase();
        let has_noun = is_picture_word(&noun);
        let is_said = place > 0 && self.stands(place - 1, &["are"]);
        let comparison = match () {
            () if self.is_one(place, &BLURRED) && (has_noun || is_said) => "<",
            () if self.stands(place, &["sharp"]) && is_said => ">=",
            () => return None,
        };
        let test = Test::new("sharpness", comparison, SHARP);
        Some((test, place + 1 + usize::from(has_noun)))
    }
}

/// A time of the clock in a request.
struct Clock {
    /// 0 to 24, with minutes and seconds as a fraction.
    hour: f64,
    /// Whether it can only be a time of the clock, and of which half of the day.
    is_clear: bool,
    end: usize,
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
        let mut parts = conditions.texts(false);
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
            (
                "in the morning and in the evening",
                "hour is 6-12, left evening",
            ),
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
        ]);
        for text in [
            "from 9 am to 5",
            "between noon and 3",
            "after midnight",
            "before midnight",
            "before 12 am",
            "since 8 am",
            "since midnight",
            "after 8 o'clock",
            "after 12 in the evening",
            "before 12:30 in the morning",
        ] {
            let found = read(text);
            assert!(found.contains("left"), "{text}: {found}");
        }
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
