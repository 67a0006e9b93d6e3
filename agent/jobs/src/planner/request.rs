//! What a request wants, read word by word.
//!
//! Invariant: every word is used by exactly one rule or is in the closed list of words without
//! meaning here; else the request is refused.

use std::fmt;

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, ToSpan as _};

use super::words::{
    FILLERS, GROUPINGS, ORDERS, PICTURE_WORDS, is_plural, is_single, number, singular, tokens,
};

/// Pictures that "the best" means where no number is given.
pub(super) const FEW: u64 = 10;

/// Least sharpness of a picture that is not blurred. In the test data the sharp ones of a scene
/// have at least 0.56, the blurred ones at most 0.19.
pub(super) const SHARP: f64 = 0.35;

/// Why a request has no plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotUnderstood {
    Words(Vec<String>),
    WhichPictures,
}

impl fmt::Display for NotUnderstood {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Words(words) => {
                let words: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
                write!(f, "not understood: {}", words.join(", "))?;
            }
            Self::WhichPictures => f.write_str("say which pictures: a folder, or a time")?,
        }
        f.write_str(
            "; for example: organise ./photos by day and keep the 3 best of each, \
             or: the best 10 pictures of last week's cars. Groups are by ",
        )?;
        let groupings: Vec<&str> = GROUPINGS.iter().map(|(word, _)| *word).collect();
        let orders: Vec<&str> = ORDERS.iter().map(|(word, _)| *word).collect();
        let (groupings, orders) = (groupings.join(", "), orders.join(", "));
        write!(f, "{groupings}; choices are the {orders}")
    }
}

impl std::error::Error for NotUnderstood {}

/// Times of the pictures, in local time; the end is not included.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Range {
    pub(super) since: Option<DateTime>,
    pub(super) until: Option<DateTime>,
}

/// Pictures that a request is about.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Source {
    Folder(String),
    /// Pictures of events, of a class or rule if one is named.
    Events {
        what: Option<String>,
        since: DateTime,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Request {
    pub(super) source: Source,
    pub(super) range: Range,
    pub(super) camera: Option<String>,
    pub(super) by: Option<&'static str>,
    /// Pictures to keep, of each group where there are groups, and by what order.
    pub(super) best: Option<(u64, &'static str)>,
    /// Order in which the pictures are shown.
    pub(super) order: Option<&'static str>,
    pub(super) without_duplicates: bool,
    /// Least sharpness of a picture, from 0 to 1.
    pub(super) min_sharpness: Option<f64>,
    /// Name of the album or the contact sheet.
    pub(super) name: Option<String>,
    pub(super) sheet: bool,
    pub(super) album: bool,
}

impl Request {
    pub(super) fn read(text: &str, now: DateTime) -> Result<Self, NotUnderstood> {
        match Self::read_in_part(text, now) {
            Ok((request, left)) if left.is_empty() => Ok(request),
            Ok((_, left)) => Err(NotUnderstood::Words(left)),
            Err(error) => Err(error),
        }
    }

    /// Reads what is understood, and returns the words that are not.
    pub(super) fn read_in_part(
        text: &str,
        now: DateTime,
    ) -> Result<(Self, Vec<String>), NotUnderstood> {
        let mut words = Words::new(text);
        let folder = words.folder();
        let camera = words.camera();
        let range = words.range(now);
        let without_duplicates = words.without(&["duplicates", "copies", "bursts"]);
        let without_blurred = words.without(&["blurred", "blurry", "unsharp"]);
        let sheet = words.take(&["contact", "sheet"]);
        let album = words.take(&["album"]);
        let order = words.shown_order();
        let best = words.best();
        let by = words.grouping();
        let mut left = words.left();
        let source = match (folder, range.since) {
            (Some(folder), _) => Source::Folder(folder),
            (None, Some(since)) => {
                let mut plurals =
                    (0..left.len()).filter(|n| left.get(*n).is_some_and(|word| is_plural(word)));
                let what = match (plurals.next(), plurals.next()) {
                    (Some(one), None) => Some(singular(&left.remove(one))),
                    _ => None,
                };
                Source::Events { what, since }
            }
            (None, None) if !left.is_empty() => return Err(NotUnderstood::Words(left)),
            (None, None) => return Err(NotUnderstood::WhichPictures),
        };
        let request = Self {
            source,
            range,
            camera,
            by,
            best,
            order,
            without_duplicates,
            min_sharpness: without_blurred.then_some(SHARP),
            name: None,
            sheet,
            album,
        };
        Ok((request, left))
    }

    /// Returns whether it can only be a request for files: "show me the latest event" is a
    /// question.
    pub(super) fn organises(&self) -> bool {
        self.by.is_some() || self.keeps()
    }

    /// Returns whether it says which pictures are kept, or what is made of them.
    pub(super) fn keeps(&self) -> bool {
        let by_look = |(_, by): (u64, &str)| by == "quality" || by == "sharpness";
        let cleans = self.without_duplicates || self.min_sharpness.is_some();
        let selects = self.best.is_some_and(by_look);
        selects || cleans || self.sheet || self.album
    }
}

/// The words of a request that no rule has used so far; a used one is `None`.
pub(super) struct Words(Vec<Option<String>>);

impl Words {
    pub(super) fn new(text: &str) -> Self {
        Self(tokens(text).into_iter().map(Some).collect())
    }

    pub(super) fn get(&self, place: usize) -> Option<&str> {
        self.0.get(place)?.as_deref()
    }

    /// Returns whether `phrase` stands at `place`, in any case of letters.
    fn stands(&self, place: usize, phrase: &[&str]) -> bool {
        let mut pairs = phrase.iter().enumerate();
        pairs.all(|(n, word)| {
            self.get(place + n)
                .is_some_and(|found| found.eq_ignore_ascii_case(word))
        })
    }

    pub(super) fn find(&self, phrase: &[&str]) -> Option<usize> {
        (0..self.0.len()).find(|place| self.stands(*place, phrase))
    }

    pub(super) fn use_up(&mut self, place: usize, number: usize) {
        for word in self.0.iter_mut().skip(place).take(number) {
            *word = None;
        }
    }

    /// Uses up a phrase; returns whether it was there.
    pub(super) fn take(&mut self, phrase: &[&str]) -> bool {
        let place = self.find(phrase);
        if let Some(place) = place {
            self.use_up(place, phrase.len());
        }
        place.is_some()
    }

    /// A word that is quoted or has a slash.
    fn folder(&mut self) -> Option<String> {
        let is_path = |word: &Option<String>| {
            word.as_deref()
                .is_some_and(|word| word.starts_with('"') || word.contains('/'))
        };
        let path = self.0.iter_mut().find(|word| is_path(word))?.take()?;
        Some(path.trim_matches('"').to_owned())
    }

    /// `of camera gate`: a name that is no other word of the language.
    pub(super) fn camera(&mut self) -> Option<String> {
        for place in 0..self.0.len() {
            let before = ["of", "from", "by"]
                .iter()
                .any(|word| self.stands(place, &[word, "camera"]));
            let name = self.get(place + 2).map(str::to_owned);
            if let Some(name) = name.filter(|name| before && !FILLERS.contains(&name.as_str()))
                && !self.stands(place, &["by"])
            {
                self.use_up(place, 3);
                return Some(name);
            }
        }
        None
    }

    pub(super) fn range(&mut self, now: DateTime) -> Range {
        self.named_range(now)
            .or_else(|| self.last_units(now))
            .unwrap_or_else(|| self.dates())
    }

    fn named_range(&mut self, now: DateTime) -> Option<Range> {
        let today = now.date().to_datetime(Time::midnight());
        let back = |days: i64| today.checked_sub(days.days()).unwrap_or(today);
        let month = now.date().first_of_month().to_datetime(Time::midnight());
        let before = month.checked_sub(1.month()).unwrap_or(month);
        let monday = i64::from(now.weekday().to_monday_zero_offset());
        let hours = SignedDuration::from_hours;
        let evening = back(1).saturating_add(hours(18));
        let ranges: [(&[&str], DateTime, DateTime); 7] = [
            (&["today"], today, now),
            (&["yesterday"], back(1), today),
            (&["this", "week"], back(monday), now),
            (&["last", "week"], back(monday + 7), back(monday)),
            (&["this", "month"], month, now),
            (&["last", "month"], before, month),
            (
                &["last", "night"],
                evening,
                today.saturating_add(hours(8)).min(now),
            ),
        ];
        let found = ranges.into_iter().find(|(phrase, ..)| self.take(phrase));
        found.map(|(_, since, until)| Range {
            since: Some(since),
            until: Some(until),
        })
    }

    /// `last 3 days` or `last hour`.
    fn last_units(&mut self, now: DateTime) -> Option<Range> {
        let units = [("hour", 1), ("day", 24), ("week", 168)];
        for place in 0..self.0.len() {
            let written = self.get(place + 1).and_then(number);
            let amount = written.or(Some(1));
            let used = 2 + usize::from(written.is_some());
            let unit = self.get(place + used - 1).map(singular);
            let unit = units
                .iter()
                .find(|(name, _)| unit.as_deref() == Some(*name));
            if let (true, Some(amount), Some((name, hours))) =
                (self.stands(place, &["last"]), amount, unit)
            {
                self.use_up(place, used);
                let hours = i64::try_from(amount).unwrap_or(1).saturating_mul(*hours);
                let since = match *name == "hour" {
                    true => hours_before(now, hours, TimeZone::system()),
                    false => now.checked_sub(SignedDuration::from_hours(hours)).ok(),
                };
                return Some(Range {
                    since: Some(since.unwrap_or(now)),
                    until: Some(now),
                });
            }
        }
        None
    }

    /// `since 2026-03-01`, `before 2026-04-01` or `on 2026-03-01`.
    fn dates(&mut self) -> Range {
        let mut range = Range::default();
        for place in 0..self.0.len() {
            let date = self
                .get(place + 1)
                .and_then(|word| word.parse::<Date>().ok());
            let Some(date) = date else { continue };
            let begin = date.to_datetime(Time::midnight());
            let end = date
                .tomorrow()
                .unwrap_or(date)
                .to_datetime(Time::midnight());
            let stands = |words: &[&str]| words.iter().any(|word| self.stands(place, &[word]));
            if stands(&["since", "from"]) {
                range.since = Some(begin);
            } else if stands(&["before"]) {
                range.until = Some(begin);
            } else if stands(&["until", "to"]) {
                range.until = Some(end);
            } else if stands(&["on", "of"]) {
                (range.since, range.until) = (Some(begin), Some(end));
            } else if stands(&["after"]) {
                range.since = Some(end);
            } else {
                continue;
            }
            self.use_up(place, 2);
        }
        range
    }

    pub(super) fn without(&mut self, nouns: &[&str]) -> bool {
        for verb in ["without", "no", "not", "remove", "drop", "skip"] {
            for noun in nouns {
                for middle in ["", "near", "the", "all"] {
                    let phrase = [verb, middle, noun];
                    let phrase: Vec<&str> = phrase.into_iter().filter(|w| !w.is_empty()).collect();
                    if self.take(&phrase) {
                        return true;
                    }
                }
            }
        }
        false
    }

    /// `by day`, `of each day` or `per day`.
    pub(super) fn grouping(&mut self) -> Option<&'static str> {
        for place in 0..self.0.len() {
            let begins = ["by", "each", "per", "every"];
            if !begins.iter().any(|begin| self.stands(place, &[begin])) {
                continue;
            }
            let noun = self.get(place + 1).map(str::to_lowercase);
            let known = GROUPINGS
                .iter()
                .find(|(name, _)| noun.as_deref() == Some(*name));
            if let Some((_, by)) = known {
                self.use_up(place, 2);
                return Some(by);
            }
        }
        None
    }

    /// `the three best`, `best 3`, `the sharpest picture`, `the newest` or `keep one of each`.
    fn best(&mut self) -> Option<(u64, &'static str)> {
        let (count, order) = self.order_and_count()?;
        Some((count.unwrap_or(FEW), order))
    }

    /// `newest first`: the order in which pictures are shown.
    pub(super) fn shown_order(&mut self) -> Option<&'static str> {
        let known = ORDERS.iter().filter(|(word, _)| *word != "first");
        let (word, order) = known
            .into_iter()
            .find(|(word, _)| self.find(&[word, "first"]).is_some())?;
        self.take(&[word, "first"]);
        Some(order)
    }

    /// The order, and the number if one is given.
    pub(super) fn order_and_count(&mut self) -> Option<(Option<u64>, &'static str)> {
        let order = ORDERS.iter().find_map(|(word, order)| {
            let place = self.find(&[word])?;
            Some((place, *order))
        });
        let Some((place, order)) = order else {
            return self.kept_number().map(|count| (Some(count), "quality"));
        };
        let before = place.checked_sub(1);
        let number_before = before.and_then(|at| self.get(at)).and_then(number);
        let number_after = self.get(place + 1).and_then(number);
        let of_each = self.stands(place + 1, &["of", "each"]);
        let is_one = of_each || self.get(place + 1).is_some_and(is_single);
        self.use_up(place, 1);
        if self.stands(place + 1, &["one"]) {
            self.use_up(place + 1, 1);
        }
        let count = match (before, number_before, number_after) {
            (Some(before), Some(number), _) => {
                self.use_up(before, 1);
                Some(number)
            }
            (_, None, Some(number)) if !is_one => {
                self.use_up(place + 1, 1);
                Some(number)
            }
            _ if is_one => Some(1),
            _ => None,
        };
        Some((count, order))
    }

    /// `keep one picture of each day`: a number after a verb of choice.
    pub(super) fn kept_number(&mut self) -> Option<u64> {
        let verbs = ["keep", "pick", "choose", "select"];
        for place in 0..self.0.len() {
            let skipped = usize::from(self.stands(place + 1, &["only"]));
            let count = self.get(place + 1 + skipped).and_then(number);
            if let Some(count) = count.filter(|_| verbs.iter().any(|v| self.stands(place, &[v]))) {
                self.use_up(place + 1 + skipped, 1);
                return Some(count);
            }
        }
        None
    }

    /// Words that nothing has used.
    pub(super) fn left(self) -> Vec<String> {
        let words = self.0.into_iter().flatten();
        let meant = words.filter(|word| {
            let word = word.to_lowercase();
            !FILLERS.contains(&word.as_str()) && !PICTURE_WORDS.contains(&word.as_str())
        });
        meant.collect()
    }
}

/// Returns the local time when `hours` before `now` began; the clock may have been changed since.
/// Of a time that the clock repeats the first pass counts, so that nothing is left out.
fn hours_before(now: DateTime, hours: i64, zone: TimeZone) -> Option<DateTime> {
    let now = now.to_zoned(zone).ok()?;
    let began = now.checked_sub(SignedDuration::from_hours(hours)).ok()?;
    Some(began.datetime())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use super::*;

    #[test]
    fn hours_count_over_a_change_of_the_clock() {
        for (now, expected) in [
            // The clock has left out the hour from 2 to 3, and repeated it.
            ("2026-03-29T04:00:00", "2026-03-29T00:00:00"),
            ("2026-10-25T04:00:00", "2026-10-25T02:00:00"),
            ("2026-06-01T04:00:00", "2026-06-01T01:00:00"),
        ] {
            let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
            let found = hours_before(now.parse().unwrap(), 3, zone);
            assert_eq!(found, Some(expected.parse().unwrap()), "{now}");
        }
    }
}
