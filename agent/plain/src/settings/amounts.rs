//! The numbers of settings: a confidence, and durations by what they are for.
//!
//! A number is used by one phrase only, and one that is out of its range is never clamped.

use std::ops::Range;

use crate::names::class_begins;
use crate::reader::{Found, Reader, one_of};
use crate::refusal::Refusal;
use crate::scene::quoted;

/// Seconds of quiet after an event, where they were said.
pub(super) fn cooldown(r: &mut Reader<'_>) -> Option<f64> {
    if let Some(found) = r.find(&["@cooldown"]) {
        // `at least one alert per hour` is more, and not fewer.
        if r.is_behind(found.at.start, "least|minimum|than") {
            return None;
        }
        r.mark(found.at.clone());
        return Some(found.value(0));
    }
    // `tell me about each person`; a count is of each anyway, and `when every car` is of all.
    let of_class = || {
        let mut words = r.positions();
        let is_each = |i: &usize| r.is_free(*i, "each|every") && class_begins(r, i + 1);
        // A model may have a class "camera": `on every camera` is about those of the box.
        let at = words.find(|i| is_each(i) && !r.is(i + 1, "camera|cam"))?;
        let from = at - usize::from(at > 0 && r.is_free(at - 1, "about|of|for"));
        (!r.has(&["when|if|whenever", "@count"])).then_some(from..at + 1)
    };
    // `on camera every one` is about cameras.
    let is_event = |at: &Range<usize>| !r.is_behind(at.start, "camera|cameras");
    let each = r
        .lexicon
        .expand("@each_one")
        .flat_map(|one| r.find_all(one));
    let mut all: Vec<Range<usize>> = each.filter(is_event).collect();
    if all.is_empty() {
        all.extend(of_class());
    }
    all.iter().for_each(|at| r.mark(at.clone()));
    (!all.is_empty()).then_some(0.0)
}

/// Most events within an hour, from two on; `at most once an hour` is a cool-down.
pub(super) fn hourly_cap(r: &mut Reader<'_>) -> Option<u32> {
    if r.take(&["@twice_an_hour"]).is_some() {
        return Some(2);
    }
    let found = r.find(&["@hourly_cap"])?;
    let most = found.value(0);
    let is_cap = most.fract() == 0.0 && (2.0..=3600.0).contains(&most);
    is_cap.then(|| {
        r.mark(found.at);
        most as u32
    })
}

/// The duration of a condition; any other time stays unread.
pub(super) fn hold(r: &mut Reader<'_>) -> Option<Found> {
    let found = r.find(&["@held_for"])?;
    is_for_a_time(r, &found).then(|| {
        r.mark(found.at.clone());
        found
    })
}

/// Whether a time is the duration of a condition, and no limit or length of a clip:
/// `within 10 seconds`, `for only 10 seconds`.
fn is_for_a_time(r: &Reader<'_>, found: &Found) -> bool {
    const LIMITS: &str = "within|in|inside|until|till";
    let start = found.at.start;
    let before = r.before_articles(start);
    // A camera may be called Till.
    let free = before.checked_sub(1).map_or("", |i| r.free_word(i));
    !r.is(start, LIMITS)
        && !one_of(LIMITS, free)
        && !r.is_behind(before, "only|just|clip|clips|video|recording")
}

/// Seconds as a person says them.
pub(crate) fn seconds(seconds: f64) -> String {
    let (count, unit) = match seconds {
        s if s >= 3600.0 && s % 3600.0 == 0.0 => (s / 3600.0, "hour"),
        s if s >= 60.0 && s % 60.0 == 0.0 => (s / 60.0, "minute"),
        s => (s, "second"),
    };
    format!("{count} {unit}{}", if count == 1.0 { "" } else { "s" })
}

/// Reads a confidence: one that is named, else a bare share (`to cars at 0.6`). A bare share counts
/// only with a word that suggests a confidence, and away from a shape.
pub(super) fn confidence(r: &mut Reader<'_>, is_named: bool) -> Result<Option<f64>, Refusal> {
    const SHAPES: &str =
        "line|lines|zone|area|half|third|quarter|corner|side|picture|rectangle|polygon|box";
    let found = match is_named {
        true => r.find(&["@confidence"]),
        false => r.find(&["at|to|is <p>"]),
    };
    let Some(found) = found else {
        return Ok(None);
    };
    let last = r.word(found.at.end - 1);
    let is_share = one_of("%|percent", last) || last.contains('.');
    if !is_named && (!is_share || r.has(&[SHAPES])) {
        return Ok(None);
    }
    r.mark(found.at.clone());
    let value = found.value(0);
    if !(0.0..=1.0).contains(&value) {
        return Err(Refusal::meaning(format!(
            "A confidence lies between 0 and 1 or 0 % and 100 %; {} does not. Say the request again with another one.",
            quoted(&r.written(found.at))
        )));
    }
    Ok(Some(value))
}
