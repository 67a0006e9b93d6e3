//! The conditions that a request asks of each picture.
//!
//! Two values of one field are joined or refused: no picture has both.

use watchkeeper_pictures::scores::SHARP;

use super::objects::ObjectCount;
use super::self_standing::{Test, is_score};
use super::words::Range;

/// What a request asks of each picture.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Conditions {
    /// Each on its own field, apart from negations.
    pub(super) tests: Vec<Test>,
    pub(super) shown: Vec<ObjectCount>,
    pub(super) without_duplicates: Option<bool>,
    /// Least sharpness, from 0 to 1; `Some(None)`: blurred ones too.
    pub(super) min_sharpness: Option<Option<f64>>,
    /// Whether one of the tests of scores is enough: "blurred or too dark".
    pub(super) is_any: bool,
    /// A noun that is wanted or unwanted, and that no rule reads there.
    pub(super) unknown: Option<String>,
}

impl Conditions {
    /// Adds a test; `None` if no picture, or no clear one, can meet it with the others.
    pub(super) fn add(&mut self, test: Test) -> Option<()> {
        if test.is_wanted && test.field == "sharpness" && test.comparison.starts_with('>') {
            self.raise_sharpness(test.value.parse().ok()?);
            return Some(());
        }
        if self.tests.contains(&test) {
            return Some(());
        }
        let mut wanted = self.tests.iter().filter(|old| old.is_wanted);
        // "In March and on 5 May" has no picture.
        let is_date = |field: &str| ["day", "month"].contains(&field);
        let fits = !test.is_wanted
            || wanted.all(|old| match old.field == test.field {
                true => old.overlaps(&test),
                false => !(is_date(old.field) && is_date(test.field)),
            });
        fits.then(|| self.tests.push(test))
    }

    /// Adds a number of objects; `None` if no picture can have it with the others of its class.
    pub(super) fn show(&mut self, shown: ObjectCount) -> Option<()> {
        let mut others = self.shown.iter().filter(|old| old.class == shown.class);
        let fits = others.all(|old| old.overlaps(&shown));
        fits.then(|| self.shown.push(shown))
    }

    /// Adds one more value to the last test: "JPEG and PNG files" have one or the other format.
    pub(super) fn join(&mut self, test: &Test) -> bool {
        let last = self.tests.last_mut().filter(|last| {
            let is_wanted = last.is_wanted && test.is_wanted;
            let has_values = (last.comparison, test.comparison) == ("is", "is");
            is_wanted && has_values && last.field == test.field && WITH_VALUES.contains(&test.field)
        });
        let is_joined = last.is_some();
        if let Some(last) = last {
            last.value = format!("{} or {}", last.value, test.value);
        }
        is_joined
    }

    /// Adds a fault to another one: "blurred or too dark photos" have one of the two.
    pub(super) fn join_fault(&mut self, test: &Test) -> bool {
        let is_joined = self.has_fault_before(test);
        if is_joined {
            self.tests.push(test.clone());
            self.is_any = true;
        }
        is_joined
    }

    /// Returns whether a test and the last one are of faults.
    pub(super) fn has_fault_before(&self, test: &Test) -> bool {
        test.is_fault() && self.tests.last().is_some_and(Test::is_fault)
    }

    /// Adds hours to the last ones: "before 9 or after 18".
    pub(super) fn join_hours(&mut self, test: &Test) -> bool {
        let last = self.tests.last_mut();
        let all = last.and_then(|last| {
            let both = format!("{} or {}", last.hours_text()?, test.hours_text()?);
            Some((last, both))
        });
        let is_joined = all.is_some();
        if let Some((last, both)) = all {
            *last = Test::is("hour", &both);
        }
        is_joined
    }

    /// Returns whether a test is the other bound of the field of the last one.
    pub(super) fn bounds_last(&self, test: &Test) -> bool {
        let last = self.tests.last();
        last.is_some_and(|last| last.field == test.field && last.overlaps(test))
    }

    /// Wants at least this sharpness; of several bounds the highest counts.
    pub(super) fn raise_sharpness(&mut self, least: f64) {
        let least = self.least_sharpness().map_or(least, |old| old.max(least));
        self.min_sharpness = Some(Some(least));
    }

    /// The months that are wanted beside a time: "the last week in March" may be one of March.
    pub(super) fn month_beside(&self, range: Range) -> Option<String> {
        let month = self.date(&["day", "month"])?.value.clone();
        (range != Range::default()).then_some(month)
    }

    /// Returns whether a test has a number, whose other bound "at most 8" may be.
    pub(super) fn bounds_a_number(&self) -> bool {
        let is_said = |least: f64| (least - SHARP).abs() > f64::EPSILON;
        self.tests.iter().any(|test| test.comparison != "is")
            || self
                .shown
                .iter()
                .any(|shown| !shown.is_any() && !shown.is_none())
            || self.least_sharpness().is_some_and(is_said)
    }

    /// The first wanted date of these fields.
    pub(super) fn date(&self, fields: &[&str]) -> Option<&Test> {
        let mut wanted = self.tests.iter().filter(|test| test.is_wanted);
        wanted.find(|test| fields.contains(&test.field))
    }

    pub(super) fn drop_dates(&mut self, fields: &[&str]) {
        self.tests
            .retain(|test| !test.is_wanted || !fields.contains(&test.field));
    }

    /// Conditions of metadata, as `filter` takes them.
    pub(super) fn of_metadata(&self) -> Vec<String> {
        let is_read = |field: &str| !is_score(field) && field != "code";
        let of_metadata = self.tests.iter().filter(|test| is_read(test.field));
        of_metadata.map(Test::text).collect()
    }

    /// Conditions of the texts of codes, as `filter` takes them.
    pub(super) fn of_codes(&self) -> Vec<String> {
        let of_codes = self.tests.iter().filter(|test| test.field == "code");
        of_codes.map(Test::text).collect()
    }

    /// Conditions of scores, as `filter` takes them: those of which one is enough, and the others.
    pub(super) fn of_scores(&self) -> (Vec<String>, Vec<String>) {
        let of_scores = self.tests.iter().filter(|test| is_score(test.field));
        let (either, all): (Vec<&Test>, _) =
            of_scores.partition(|test| self.is_any && test.is_fault());
        let texts = |tests: Vec<&Test>| tests.into_iter().map(Test::text).collect();
        (texts(either), texts(all))
    }

    /// Returns whether pictures must be decoded for them, without those of a detector.
    pub(super) fn are_of_pixels(&self) -> bool {
        let cleans = self.without_duplicates == Some(true) || self.least_sharpness().is_some();
        cleans || self.tests.iter().any(|test| is_score(test.field))
    }

    /// Least sharpness of a picture, from 0 to 1.
    pub(super) fn least_sharpness(&self) -> Option<f64> {
        self.min_sharpness.flatten()
    }

    /// Words that a request can't mean: only a refinement takes conditions back, and duplicates are
    /// shown or dropped.
    pub(super) fn refused(&self, shows_duplicates: bool) -> impl Iterator<Item = &'static str> {
        let is_taken_back = self.without_duplicates == Some(false);
        let is_both = shows_duplicates && self.without_duplicates.is_some();
        let duplicates = (is_taken_back || is_both).then_some("duplicates");
        let blurred = (self.min_sharpness == Some(None)).then_some("blurred");
        duplicates.into_iter().chain(blurred)
    }

    /// Adds later conditions, which replace those on the same field or class.
    pub(super) fn extend(&mut self, later: Self) {
        let is_of = |test: &Test, field: &str| test.field == field;
        let bounds_sharpness = later.tests.iter().any(|test| is_of(test, "sharpness"));
        if bounds_sharpness {
            self.min_sharpness = None;
        }
        self.tests.retain(|old| {
            let is_bounded_again = later.min_sharpness.is_some() && is_of(old, "sharpness");
            !is_bounded_again && !later.tests.iter().any(|new| is_of(new, old.field))
        });
        let shown = &mut self.shown;
        shown.retain(|old| !later.shown.iter().any(|new| new.class == old.class));
        self.tests.extend(later.tests);
        self.shown.extend(later.shown);
        self.without_duplicates = later.without_duplicates.or(self.without_duplicates);
        self.min_sharpness = later.min_sharpness.or(self.min_sharpness);
    }
}

/// Fields with texts, of which a picture may have one or another.
const WITH_VALUES: [&str; 8] = [
    "weekday", "month", "day", "hour", "format", "shape", "folder", "name",
];
