//! Conditions on what is known of a picture: `width >= 1000`, `camera is not gate`.
//!
//! - The form is `FIELD COMPARISON VALUE`. `is` takes texts, ranges of numbers with both ends, or
//!   ranges of times and hours without their ends, joined by `or`. A range of hours may pass
//!   midnight: `hour is 22-6`.
//! - `place` takes a distance too: `place is within 20 km of 52.52 13.4`.
//! - `folder` is a folder that the file is below; the words of its name count.
//! - `name` is a pattern of the file's name: `name is IMG_*`; `day` one of any year: `5 October`.
//! - `code` is a line of the text of one of the codes that were read.
//! - Hours are numbers or times of a clock: `hour is 9:30-17`.
//! - `not` negates a comparison: `hour not >= 19`.
//! - A picture whose value is not known meets negations and `is unknown` only.
//! - A value that no picture can have is refused.

use std::path::Path;
use std::str::FromStr;

use jiff::civil::DateTime;
use jiff::fmt::strtime;

use crate::picture::Picture;
use crate::place::{Place, distance_m};
use crate::scores::Trait;

/// Reads what a condition compares; `None` if it is not known.
#[derive(Debug, Clone, Copy)]
enum Field {
    Text(fn(&Picture) -> Option<String>),
    Number(fn(&Picture) -> Option<f64>),
    /// A [`Field::Number`] of measured pictures.
    Score(Trait),
    Time(fn(&Picture) -> Option<DateTime>),
}

const FIELDS: [(&str, Field); 28] = [
    ("camera", Field::Text(|picture| picture.camera.clone())),
    ("class", Field::Text(|picture| picture.class.clone())),
    ("zone", Field::Text(|picture| picture.zone.clone())),
    ("folder", Field::Text(folder)),
    (
        "name",
        Field::Text(|picture| Some(picture.name().to_owned())),
    ),
    ("time", Field::Time(|picture| picture.taken)),
    (
        "place",
        Field::Text(|picture| Some(format!("{:?}", picture.place?))),
    ),
    ("day", Field::Text(|picture| taken(picture, "%-d %B"))),
    ("weekday", Field::Text(|picture| taken(picture, "%A"))),
    ("month", Field::Text(|picture| taken(picture, "%B"))),
    ("format", Field::Text(Picture::format)),
    (
        "shape",
        Field::Text(|picture| Some(picture.shape().to_owned())),
    ),
    ("hour", Field::Number(|picture| picture.taken.map(hour))),
    ("width", Field::Number(|picture| Some(picture.width.into()))),
    (
        "height",
        Field::Number(|picture| Some(picture.height.into())),
    ),
    ("megapixels", Field::Number(megapixels)),
    ("kilobytes", Field::Number(|picture| bytes(picture, 1e3))),
    ("megabytes", Field::Number(|picture| bytes(picture, 1e6))),
    (
        "objects",
        Field::Number(|picture| Some(picture.objects.as_ref()?.len() as f64)),
    ),
    (
        "code",
        Field::Text(|picture| Some(picture.codes.as_ref()?.join("\n"))),
    ),
    (
        "codes",
        Field::Number(|picture| Some(picture.codes.as_ref()?.len() as f64)),
    ),
    ("quality", Field::Score(Trait::Overall)),
    ("sharpness", Field::Score(Trait::Sharpness)),
    ("exposure", Field::Score(Trait::Exposure)),
    ("contrast", Field::Score(Trait::Contrast)),
    ("noise", Field::Score(Trait::Noise)),
    ("brightness", Field::Score(Trait::Brightness)),
    ("highlights", Field::Score(Trait::Highlights)),
];

/// The folder of the file, with those above it.
fn folder(picture: &Picture) -> Option<String> {
    let folder = Path::new(&picture.file).parent()?;
    Some(folder.to_string_lossy().into_owned())
}

/// A part of the local time of the exposure.
fn taken(picture: &Picture, format: &str) -> Option<String> {
    Some(picture.taken?.strftime(format).to_string())
}

/// The length of the file in units of bytes; `None` if it is gone.
fn bytes(picture: &Picture, unit: f64) -> Option<f64> {
    Some(picture.file_bytes()? as f64 / unit)
}

fn hour(taken: DateTime) -> f64 {
    let [hour, minute, second] = [taken.hour(), taken.minute(), taken.second()].map(i32::from);
    f64::from(hour * 3600 + minute * 60 + second) / 3600.0
}

fn megapixels(picture: &Picture) -> Option<f64> {
    Some(f64::from(picture.width) * f64::from(picture.height) / 1e6)
}

fn score(picture: &Picture, of: Trait) -> Option<f64> {
    picture.scores?.get(of)
}

/// Test of a value by a condition.
#[derive(Debug, Clone, PartialEq)]
enum Test {
    Known(bool),
    /// One of these texts, or none of them.
    OneOf {
        texts: Vec<String>,
        is: bool,
    },
    Within {
        ranges: Vec<(f64, f64)>,
        is: bool,
    },
    During {
        ranges: Vec<(DateTime, DateTime)>,
        is: bool,
    },
    Compared {
        by: Comparison,
        with: f64,
        is: bool,
    },
    Near {
        place: Place,
        metres: f64,
        is: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Less,
    AtMost,
    Equal,
    AtLeast,
    More,
}

/// A condition on one field of a picture.
#[derive(Debug, Clone)]
pub struct Condition {
    name: &'static str,
    field: Field,
    test: Test,
    /// Texts that are the end of a camera's name, see [`Self::know_cameras`].
    whole: Vec<String>,
}

/// A text that is not a condition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no condition such as \"width >= 1000\", \"place is unknown\" or \"camera is not \
     gate\"; the fields are {fields}",
    fields = FIELDS.map(|(name, _)| name).join(", ")
)]
pub struct InvalidCondition(String);

/// Names of the fields that a condition may be about.
pub fn field_names() -> impl Iterator<Item = &'static str> {
    FIELDS.into_iter().map(|(name, _)| name)
}

impl Condition {
    /// Makes the condition that a field has this text.
    pub fn is(name: &str, text: &str) -> Option<Self> {
        let texts = vec![text.to_owned()];
        Self::new(name, Test::OneOf { texts, is: true })
    }

    /// Makes the condition that a number is at least this.
    pub fn at_least(name: &str, with: f64) -> Option<Self> {
        let by = Comparison::AtLeast;
        let is = true;
        Self::new(name, Test::Compared { by, with, is })
    }

    /// `None` if there is no such field, or it never has such a value.
    fn new(name: &str, test: Test) -> Option<Self> {
        let (name, field) = FIELDS.into_iter().find(|(known, _)| *known == name)?;
        let is_text = matches!(field, Field::Text(_));
        let is_time = matches!(field, Field::Time(_));
        let fits = match &test {
            Test::During { ranges, .. } => is_time && ranges.iter().all(|(from, to)| from < to),
            Test::Within { .. } | Test::Compared { .. } if is_time => false,
            Test::Known(_) => true,
            Test::Near { .. } => name == "place",
            Test::OneOf { texts, .. } => is_text && texts.iter().all(|text| can_be(name, text)),
            Test::Within { ranges, .. } => {
                let is_range = |(from, to): &(f64, f64)| from <= to || name == "hour";
                !is_text && ranges.iter().all(is_range)
            }
            Test::Compared { .. } => !is_text,
        };
        fits.then_some(Self {
            name,
            field,
            test,
            whole: Vec::new(),
        })
    }

    /// Looks which texts are the end of the name of a picture's camera. Those mean no camera with
    /// further words then: "iPhone 12" is no "iPhone 12 Pro" where there are both.
    pub fn know_cameras(&mut self, pictures: &[Picture]) {
        let Test::OneOf { texts, .. } = &self.test else {
            return;
        };
        let cameras = || pictures.iter().filter_map(|one| one.camera.as_deref());
        let is_end = |text: &&String| cameras().any(|camera| ends_with_words(text, camera));
        self.whole = texts.iter().filter(is_end).cloned().collect();
    }

    /// Returns the name of the field.
    pub fn field(&self) -> &'static str {
        self.name
    }

    /// Returns whether it is about a score of measured pictures.
    pub fn needs_scores(&self) -> bool {
        matches!(self.field, Field::Score(_))
    }

    /// Returns whether a picture fails because its value is not known.
    pub fn lacks_value(&self, picture: &Picture) -> bool {
        let is_known = match self.field {
            Field::Text(read) => read(picture).is_some(),
            Field::Time(read) => read(picture).is_some(),
            Field::Number(read) => read(picture).is_some(),
            Field::Score(part) => score(picture, part).is_some(),
        };
        !is_known && !self.is_met(picture) && self.test != Test::Known(true)
    }

    /// Returns whether a picture meets it.
    pub fn is_met(&self, picture: &Picture) -> bool {
        if let Test::Near { place, metres, is } = self.test {
            let distance = picture.place.map(|own| distance_m(own, place));
            return distance.is_some_and(|distance| distance <= metres) == is;
        }
        match self.field {
            Field::Text(read) => self.is_met_by_text(read(picture).as_deref()),
            Field::Time(read) => self.is_met_by_time(read(picture)),
            Field::Number(read) => self.is_met_by_number(read(picture)),
            Field::Score(part) => self.is_met_by_number(score(picture, part)),
        }
    }

    fn is_met_by_text(&self, value: Option<&str>) -> bool {
        let Test::OneOf { texts, is } = &self.test else {
            return self.test == Test::Known(value.is_some());
        };
        let fits = |value: &str, text: &String| match self.name {
            "camera" if self.whole.contains(text) => ends_with_words(text, value),
            "camera" => has_words(text, value),
            "folder" => {
                let mut folders = Path::new(value).iter();
                let wanted = words(text);
                folders.any(|one| words(&one.to_string_lossy()) == wanted)
            }
            "name" => fits_pattern(text, value),
            "code" => value.lines().any(|code| code == text),
            _ => value.eq_ignore_ascii_case(text),
        };
        value.is_some_and(|value| texts.iter().any(|text| fits(value, text))) == *is
    }

    fn is_met_by_number(&self, value: Option<f64>) -> bool {
        match self.test {
            Test::Known(is) => value.is_some() == is,
            Test::Within { ref ranges, is } => {
                let mut ranges = ranges.iter();
                let is_in = |value: f64| match self.name {
                    "hour" => ranges.any(|(from, to)| is_within_hours(value, *from, *to)),
                    _ => ranges.any(|(from, to)| (*from..=*to).contains(&value)),
                };
                value.is_some_and(is_in) == is
            }
            Test::Compared { by, with, is } => {
                let fits = |value: f64| match by {
                    Comparison::Less => value < with,
                    Comparison::AtMost => value <= with,
                    Comparison::Equal => value == with,
                    Comparison::AtLeast => value >= with,
                    Comparison::More => value > with,
                };
                value.is_some_and(fits) == is
            }
            Test::OneOf { .. } | Test::During { .. } | Test::Near { .. } => false,
        }
    }

    fn is_met_by_time(&self, value: Option<DateTime>) -> bool {
        match &self.test {
            Test::Known(is) => value.is_some() == *is,
            Test::During { ranges, is } => {
                let mut ranges = ranges.iter();
                value.is_some_and(|value| ranges.any(|(from, to)| (*from..*to).contains(&value)))
                    == *is
            }
            _ => false,
        }
    }
}

/// Returns whether a field may have a text. Places are known or not.
fn can_be(name: &str, text: &str) -> bool {
    match name {
        "place" => false,
        "weekday" => strtime::parse("%A", text).is_ok(),
        "month" => strtime::parse("%B", text).is_ok(),
        // Of some year: "29 February" is a day.
        "day" => strtime::parse("%d %B %Y", format!("{text} 2000"))
            .and_then(|day| day.to_date())
            .is_ok(),
        "shape" => ["landscape", "portrait", "square"].contains(&&*text.to_lowercase()),
        _ => true,
    }
}

fn is_within_hours(value: f64, from: f64, to: f64) -> bool {
    match from <= to {
        true => from <= value && value < to,
        false => from <= value || value < to,
    }
}

/// Returns whether a name fits a pattern, in which `*` stands for any text, in any case of letters.
fn fits_pattern(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.to_lowercase(), name.to_lowercase());
    let Some((first, rest)) = pattern.split_once('*') else {
        return name == pattern;
    };
    let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    let inner = name.strip_prefix(first);
    let mut inner = inner.and_then(|name| name.strip_suffix(last));
    for part in middle.split('*') {
        inner = inner.and_then(|inner| inner.split_once(part).map(|(_, rest)| rest));
    }
    inner.is_some()
}

/// The words of a name in lower case, which other characters separate.
fn words(name: &str) -> Vec<String> {
    let words = name.split(|letter: char| !letter.is_alphanumeric());
    let words = words.filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

/// Returns whether a name has the wanted words in their order, in any case of letters; others may
/// be between them.
fn has_words(wanted: &str, name: &str) -> bool {
    let name = name.to_lowercase();
    let mut words = name.split(' ');
    let wanted = wanted.to_lowercase();
    wanted
        .split(' ')
        .all(|word| words.any(|known| known == word))
}

/// Returns whether a name has the wanted words, and its last one is the last of them.
fn ends_with_words(wanted: &str, name: &str) -> bool {
    let last = |text: &str| text.rsplit(' ').next().map(str::to_lowercase);
    has_words(wanted, name) && last(wanted) == last(name)
}

impl FromStr for Condition {
    type Err = InvalidCondition;

    fn from_str(text: &str) -> Result<Self, InvalidCondition> {
        read(text).ok_or_else(|| InvalidCondition(text.to_owned()))
    }
}

fn read(text: &str) -> Option<Condition> {
    let (name, rest) = text.trim().split_once(' ')?;
    let tests = match rest.trim() {
        "is known" => [Some(Test::Known(true)), None],
        "is unknown" => [Some(Test::Known(false)), None],
        // A camera may be named 22-6.
        rest if name == "time" => [time_test(rest), None],
        rest if name == "place" => [near_test(rest), None],
        rest => [number_test(name, rest), text_test(rest)],
    };
    let mut tests = tests.into_iter().flatten();
    tests.find_map(|test| Condition::new(name, test))
}

fn time_test(text: &str) -> Option<Test> {
    let (is, spans) = after_is(text)?;
    let ranges = spans.split(" or ").map(|span| {
        let (from, to) = span.split_once(" to ")?;
        Some((from.trim().parse().ok()?, to.trim().parse().ok()?))
    });
    let ranges = ranges.collect::<Option<_>>()?;
    Some(Test::During { ranges, is })
}

fn near_test(text: &str) -> Option<Test> {
    let (is, rest) = after_is(text)?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let ["within", distance, unit, "of", latitude, longitude] = words.as_slice() else {
        return None;
    };
    let within = |text: &str, most: f64| {
        let number = text.parse::<f64>().ok()?;
        (number.abs() <= most).then_some(number)
    };
    let place = Place {
        latitude: within(latitude, 90.0)?,
        longitude: within(longitude, 180.0)?,
    };
    let metres = match *unit {
        "m" => 1.0,
        "km" => 1e3,
        _ => return None,
    } * within(distance, 1e5).filter(|distance| *distance >= 0.0)?;
    Some(Test::Near { place, metres, is })
}

fn text_test(text: &str) -> Option<Test> {
    let (is, texts) = after_is(text)?;
    let texts = texts.split(" or ").map(|text| text.trim().to_owned());
    let texts: Vec<String> = texts.collect();
    let is_written = texts.iter().all(|text| !text.is_empty());
    is_written.then_some(Test::OneOf { texts, is })
}

/// Whether `is` or `is not` begins a text, and what follows it.
fn after_is(text: &str) -> Option<(bool, &str)> {
    let rest = text.strip_prefix("is ")?.trim_start();
    Some(match rest.strip_prefix("not ") {
        Some(rest) => (false, rest),
        None => (true, rest),
    })
}

fn number_test(name: &str, text: &str) -> Option<Test> {
    let number = |text: &str| match text.trim().split_once(':') {
        // "9:30" or "9:30:15".
        Some((hour, rest)) if name == "hour" => {
            let (minute, second) = rest.split_once(':').unwrap_or((rest, "0"));
            let part = |text: &str| text.parse::<u8>().ok().filter(|part| *part < 60);
            let [hour, minute, second] = [hour, minute, second].map(part);
            Some(f64::from(hour?) + f64::from(minute?) / 60.0 + f64::from(second?) / 3600.0)
        }
        _ => text.trim().parse::<f64>().ok().filter(|n| n.is_finite()),
    };
    if let Some((is, ranges)) = after_is(text) {
        let ranges = ranges.split(" or ").map(|range| {
            let (from, to) = range.split_once('-')?;
            Some((number(from)?, number(to)?))
        });
        let ranges = ranges.collect::<Option<_>>()?;
        return Some(Test::Within { ranges, is });
    }
    let compared = text.strip_prefix("not ");
    let is = compared.is_none();
    let (by, with) = compared.unwrap_or(text).split_once(' ')?;
    let by = match by {
        "<" => Comparison::Less,
        "<=" => Comparison::AtMost,
        "=" => Comparison::Equal,
        ">=" => Comparison::AtLeast,
        ">" => Comparison::More,
        _ => return None,
    };
    let with = number(with)?;
    Some(Test::Compared { by, with, is })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use super::*;
    use crate::picture::testing::picture;

    /// A Saturday at half past nine in the evening.
    fn known() -> Picture {
        Picture {
            camera: Some("Canon EOS R5".to_owned()),
            place: Some(Place {
                latitude: 50.0,
                longitude: 8.0,
            }),
            width: 4000,
            height: 3000,
            objects: Some(Vec::new()),
            ..picture("/a/b.JPG", Some("2026-11-28T21:30:00"))
        }
    }

    #[test]
    fn picture_meets_a_condition_on_what_is_known_of_it() {
        for (text, expected) in [
            ("camera is Canon EOS R5", true),
            ("camera is canon", true),
            ("camera is eos r5", true),
            ("camera is EOS R", false),
            ("camera is Canon R5", true),
            ("camera is Canon R6", false),
            ("camera is R5 Canon", false),
            ("folder is A", true),
            ("folder is b", false),
            ("name is IMG_* or *.jpg", true),
            ("name is b", false),
            ("camera is nikon or canon", true),
            ("camera is not canon", false),
            ("camera is not nikon or sony", true),
            ("place is known", true),
            ("place is unknown", false),
            ("place is within 20 km of 50.1 8.0", true),
            ("place is not within 20 km of 50.1 8.0", false),
            ("place is within 500 m of 50.1 8.0", false),
            ("month is june or november", true),
            ("hour is 21:30-22", true),
            ("hour >= 21:30:01", false),
            ("megabytes < 1", false),
            ("weekday is saturday or sunday", true),
            ("shape is landscape", true),
            ("format is jpeg", true),
            ("format is png", false),
            ("hour is 18-24", true),
            ("hour is 22-6", false),
            ("hour is 6-12 or 21-22", true),
            ("hour is not 22-6", true),
            ("hour is not 22-6 or 21-22", false),
            ("day is 5 October or 28 november", true),
            ("day is 8 november", false),
            (
                "time is 2026-11-01 to 2026-11-02 or 2026-11-28 to 2026-11-29",
                true,
            ),
            ("hour >= 21.5", true),
            ("width >= 4000", true),
            ("width > 4000", false),
            ("width is 1000-4000", true),
            ("width is 4000-5000", true),
            ("height < 3000", false),
            ("height <= 3000", true),
            ("height not <= 3000", false),
            ("hour not >= 22", true),
            ("megapixels = 12", true),
            ("objects = 0", true),
        ] {
            let condition: Condition = text.parse().unwrap();
            assert_eq!(condition.is_met(&known()), expected, "{text}");
        }
    }

    #[test]
    fn unknown_value_meets_no_comparison_but_a_negation() {
        let unknown = picture("/a/b.png", None);
        for (text, is_met, lacks) in [
            ("camera is canon", false, true),
            ("camera is not canon", true, false),
            ("camera is unknown", true, false),
            ("camera is known", false, false),
            ("hour < 24", false, true),
            ("sharpness < 0.5", false, true),
            ("objects < 1", false, true),
            ("hour is not 0-12", true, false),
            ("hour not >= 19", true, false),
        ] {
            let condition: Condition = text.parse().unwrap();
            assert_eq!(condition.is_met(&unknown), is_met, "{text}");
            assert_eq!(condition.lacks_value(&unknown), lacks, "{text}");
        }
    }

    #[test]
    fn name_of_one_camera_that_begins_another_means_the_one() {
        let of = |camera: &str| Picture {
            camera: Some(camera.to_owned()),
            ..picture("/a", None)
        };
        let pictures = ["Apple iPhone 12", "Apple iPhone 12 Pro"].map(of);
        for (text, expected) in [
            ("camera is iPhone 12", [true, false]),
            ("camera is Apple iPhone 12", [true, false]),
            ("camera is Apple 12", [true, false]),
            ("camera is not iPhone 12", [false, true]),
            ("camera is iPhone 12 Pro", [false, true]),
            ("camera is Apple", [true, true]),
        ] {
            let mut condition: Condition = text.parse().unwrap();
            condition.know_cameras(&pictures);
            let met = [0, 1].map(|n| condition.is_met(&pictures[n]));
            assert_eq!(met, expected, "{text}");
        }
    }

    #[test]
    fn folder_is_compared_by_the_words_of_its_name() {
        let of = |text: &str, file: &str| {
            let condition: Condition = text.parse().unwrap();
            condition.is_met(&picture(file, None))
        };
        assert!(of("folder is oak lane 12", "/srv/Oak_Lane-12/a.jpg"));
        assert!(!of("folder is 1-23", "/srv/12-3/a.jpg"));
    }

    #[test]
    fn time_is_within_a_span_without_its_end_or_outside() {
        for (text, taken, expected) in [
            ("time is 2026-11-16 to 2026-11-23", "2026-11-16T00:00", true),
            (
                "time is 2026-11-16 to 2026-11-23",
                "2026-11-23T00:00",
                false,
            ),
            (
                "time is not 2026-11-16 to 2026-11-23",
                "2026-11-22T23:59",
                false,
            ),
            (
                "time is not 2026-11-16 to 2026-11-23",
                "2026-11-23T00:00",
                true,
            ),
        ] {
            let condition: Condition = text.parse().unwrap();
            let met = condition.is_met(&picture("/a", Some(taken)));
            assert_eq!(met, expected, "{text}: {taken}");
        }
        let outside: Condition = "time is not 2026-11-16 to 2026-11-23".parse().unwrap();
        assert!(outside.is_met(&picture("/a", None)));
    }

    #[test]
    fn hours_of_a_range_may_pass_midnight() {
        let condition: Condition = "hour is 22-6".parse().unwrap();
        for (time, expected) in [
            ("22:00", true),
            ("05:59", true),
            ("06:00", false),
            ("21:59", false),
        ] {
            let one = picture("/a", Some(&format!("2026-11-28T{time}:00")));
            assert_eq!(condition.is_met(&one), expected, "{time}");
        }
    }

    #[test]
    fn text_that_is_no_condition_is_refused_with_the_fields() {
        for text in [
            "",
            "width",
            "mood is good",
            "width is big",
            "camera > 3",
            "width >= wide",
            "camera is ",
            "hour is 5",
            "width >= inf",
            "width is 2000-1000",
            "place is Berlin",
            "time is 2026",
            "time is 2026-11-23 to 2026-11-16",
            "time > 2026",
            "day is 5",
            "weekday is sunnday",
            "weekday is sunday or moonday",
            "shape is portrat",
            "camera not >= 3",
            "hour not is 5-6",
        ] {
            let refused = text.parse::<Condition>().unwrap_err().to_string();
            assert!(refused.contains("camera, class, zone"), "{text}: {refused}");
        }
    }
}
