//! Status and headers of an answer.

use std::time::Duration;

/// Maximum pause that a server may ask for; a longer one is cut to it.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(7 * 24 * 3600);

/// Status and the headers that matter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResponseHead {
    pub status: u16,
    /// Shortest pause before the next request.
    pub retry_after: Option<Duration>,
    /// The server's advice on sending the request again (`x-should-retry`).
    pub should_retry: Option<bool>,
    pub request_id: Option<String>,
}

impl ResponseHead {
    /// Reads the headers. `header` returns one by its name in lower case; `now_ms` is the wall
    /// clock in milliseconds since 1970.
    pub fn read<'h>(status: u16, header: impl Fn(&str) -> Option<&'h str>, now_ms: i64) -> Self {
        let millis = header("retry-after-ms").and_then(|text| duration(text, 0.001));
        let seconds = header("retry-after")
            .and_then(|text| duration(text, 1.0).or_else(|| until(text, now_ms)));
        let should_retry = match header("x-should-retry") {
            Some("true") => Some(true),
            Some("false") => Some(false),
            _ => None,
        };
        let id = header("request-id").or_else(|| header("x-request-id"));
        Self {
            status,
            retry_after: millis.or(seconds).map(|d| d.min(MAX_RETRY_AFTER)),
            should_retry,
            request_id: id.map(|id| id.chars().filter(char::is_ascii_graphic).take(80).collect()),
        }
    }

    pub const fn is_success(&self) -> bool {
        matches!(self.status, 200..=299)
    }
}

fn duration(text: &str, unit: f64) -> Option<Duration> {
    let number: f64 = text.trim().parse().ok()?;
    Duration::try_from_secs_f64(number * unit).ok()
}

/// Returns the time from now to an HTTP date (RFC 9110, 5.6.7).
fn until(text: &str, now_ms: i64) -> Option<Duration> {
    let then = jiff::fmt::rfc2822::DateTimeParser::new()
        .relaxed_weekday(true)
        .parse_timestamp(text.trim())
        .ok()?;
    let ms = then.as_millisecond().saturating_sub(now_ms).max(0);
    Some(Duration::from_millis(ms.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pause(name: &'static str, value: &'static str) -> Option<Duration> {
        // 2026-11-22T00:00:00Z
        let now_ms = 1_795_305_600_000;
        ResponseHead::read(429, |asked| (asked == name).then_some(value), now_ms).retry_after
    }

    #[test]
    fn retry_after_is_read_as_seconds_milliseconds_or_date() {
        assert_eq!(pause("retry-after", "7"), Some(Duration::from_secs(7)));
        assert_eq!(
            pause("retry-after", "0.5"),
            Some(Duration::from_millis(500))
        );
        assert_eq!(
            pause("retry-after-ms", "250"),
            Some(Duration::from_millis(250))
        );
        assert_eq!(
            pause("retry-after", "Sun, 22 Nov 2026 00:00:30 GMT"),
            Some(Duration::from_secs(30))
        );
        assert_eq!(
            pause("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT"),
            Some(Duration::ZERO)
        );
        assert_eq!(pause("retry-after", "1e300"), None);
        for nonsense in ["", "-1", "NaN", "soon", "inf"] {
            assert_eq!(pause("retry-after", nonsense), None, "{nonsense}");
        }
        assert_eq!(pause("retry-after", "99999999"), Some(MAX_RETRY_AFTER));
    }
}
