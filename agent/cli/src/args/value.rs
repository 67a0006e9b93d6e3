//! Parsers of single values; each error is the end of a sentence of clap.

use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, Zoned};
use watchkeeper_assistant::moment::{FORMS, parse_moment};
use watchkeeper_config::privacy::check_region;
use watchkeeper_contract::privacy::Region;

/// Longest search for cameras in seconds.
const MAX_SEARCH_S: f64 = 60.0;

/// Parses a whole number.
pub(super) fn count<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    let wrong = |_| "must be a whole number, 0 or more".to_owned();
    text.parse().map_err(wrong)
}

pub(super) fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(n) if n > 0.0 && n.is_finite() => Ok(n),
        _ => Err("must be a number above 0".to_owned()),
    }
}

/// Parses a number of seconds, with or without the unit.
pub(super) fn seconds(text: &str) -> Result<f64, String> {
    let number = positive(text.strip_suffix('s').unwrap_or(text));
    number.map_err(|_| "must be seconds above 0, such as 3 or 3s".to_owned())
}

/// Parses the duration of a search.
pub(super) fn search_seconds(text: &str) -> Result<f64, String> {
    match seconds(text) {
        Ok(n) if n <= MAX_SEARCH_S => Ok(n),
        _ => Err(format!(
            "must be seconds above 0 and up to {MAX_SEARCH_S}, such as 3 or 3s"
        )),
    }
}

/// Parses a control of a camera and its value.
pub(super) fn setting(text: &str) -> Result<(String, i64), String> {
    let form = "must be NAME=NUMBER, such as exposure_time_absolute=200";
    let (name, value) = text.split_once('=').ok_or(form)?;
    let value = value.trim().parse().map_err(|_| form)?;
    Ok((name.trim().to_owned(), value))
}

/// Parses a time with an offset, or in this machine's time zone.
pub(super) fn until(text: &str) -> Result<Timestamp, String> {
    parse_moment(text, &TimeZone::system()).ok_or_else(|| format!("must be a time such as {FORMS}"))
}

/// Parses a time, or how long ago it was.
pub(super) fn past(text: &str) -> Result<Timestamp, String> {
    let ago = || {
        let span: Span = text.parse().ok()?;
        let ago = Zoned::now().checked_sub(span).ok()?.timestamp();
        (ago < Timestamp::now()).then_some(ago)
    };
    until(text).or_else(|error| ago().ok_or(format!("{error}, or how long ago, such as 24h")))
}

/// Parses a duration in seconds, with or without units.
pub(super) fn lifetime(text: &str) -> Result<u64, String> {
    let read = || {
        let span: Span = text.parse().ok()?;
        let now = Zoned::now();
        let end = now.checked_add(span).ok()?;
        let seconds = u64::try_from(now.duration_until(&end).as_secs()).ok();
        seconds.filter(|seconds| *seconds > 0)
    };
    let form = || "must be seconds, or a duration such as 24h".to_owned();
    text.parse().ok().or_else(read).ok_or_else(form)
}

/// Parses a time that is over, or how long ago it was.
pub(super) fn seen(text: &str) -> Result<Timestamp, String> {
    let time = past(text)?;
    let is_over = time <= Timestamp::now();
    is_over
        .then_some(time)
        .ok_or_else(|| "is still to come".to_owned())
}

/// Parses a region of a privacy mask, in fractions of the picture.
pub(super) fn region(text: &str) -> Result<Region, String> {
    let numbers = text.split(',').map(|number| number.trim().parse::<f64>());
    let numbers: Vec<f64> = numbers.collect::<Result<_, _>>().unwrap_or_default();
    let pairs = numbers.chunks_exact(2);
    let is_odd = !pairs.remainder().is_empty();
    let corners: Region = pairs.map(|pair| [pair[0], pair[1]]).collect();
    if is_odd {
        return Err("must be pairs, such as 0,0,0.5,0,0.5,0.4".to_owned());
    }
    check_region(&corners).map_err(|error| error.to_string())?;
    Ok(corners)
}

pub(super) fn unit_interval(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(n) if (0.0..=1.0).contains(&n) => Ok(n),
        _ => Err("must be a number from 0 to 1".to_owned()),
    }
}
