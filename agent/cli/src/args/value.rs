//! Parsers of single values; each error is the end of a sentence of clap.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use watchkeeper_assistant::moment::{FORMS, parse_moment};

pub(super) fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(n) if n > 0.0 && n.is_finite() => Ok(n),
        _ => Err("must be a number above 0".to_owned()),
    }
}

/// Parses a time with an offset, or in this machine's time zone.
pub(super) fn until(text: &str) -> Result<Timestamp, String> {
    parse_moment(text, &TimeZone::system()).ok_or_else(|| format!("must be a time such as {FORMS}"))
}

pub(super) fn unit_interval(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(n) if (0.0..=1.0).contains(&n) => Ok(n),
        _ => Err("must be a number from 0 to 1".to_owned()),
    }
}
