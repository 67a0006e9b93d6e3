//! Parts of sentences for users.

use std::borrow::Cow;

use watchkeeper_contract::pipeline::{PipelineState, PipelineStatus};
use watchkeeper_contract::problem::nearest;
pub use watchkeeper_jobs::counted;

/// Words in quotes, separated by commas.
pub fn quoted(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
    words.join(", ")
}

/// Whether a character is invisible and may change a terminal or the order of the text around it.
/// It is a control character other than line feed and tab, or explicit directional formatting
/// (Unicode Bidirectional Algorithm, UAX #9, table 4).
pub fn is_unseen(c: char) -> bool {
    let turns = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || (c.is_control() && c != '\n' && c != '\t')
}

/// A text from outside that is safe to print: `\u{fffd}` replaces invisible characters.
pub fn printable(text: &str) -> Cow<'_, str> {
    if text.contains(is_unseen) {
        Cow::Owned(text.replace(is_unseen, "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    }
}

/// A text from outside on one line: blanks replace line breaks and invisible characters.
pub fn single_line(text: &str) -> String {
    let breaks = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    let plain = text
        .chars()
        .map(|c| if breaks(c) || is_unseen(c) { ' ' } else { c });
    plain.collect()
}

/// Cuts a text to `max_chars` characters and an ellipsis.
pub fn cut(mut text: String, max_chars: usize) -> String {
    if let Some((end, _)) = text.char_indices().nth(max_chars) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Keeps those that fit into `room` together, the first ones first.
pub(crate) fn keep_fitting<T>(items: &mut Vec<T>, mut room: usize, size: impl Fn(&T) -> usize) {
    items.retain(|item| match room.checked_sub(size(item)) {
        Some(left) => {
            room = left;
            true
        }
        None => false,
    });
}

/// Formats the refusal of a name that no `what` has, with the nearest one or all.
pub fn unknown(what: &str, name: &str, known: &[&str]) -> String {
    let hint = match nearest(name, known.iter().copied()) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("there are {}", known.join(", ")),
    };
    let name: String = name.chars().take(40).collect();
    format!("there is no {what} {name:?}; {hint}")
}

/// The size of a file in kB or MB, decimal.
pub fn size(bytes: u64) -> String {
    match bytes {
        ..100_000 => format!("{} kB", bytes.div_ceil(1000)),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

/// A duration in its two largest units.
pub fn duration(seconds: f64) -> String {
    let whole = seconds.round().max(0.0) as u64;
    match (whole / 86_400, whole / 3600 % 24, whole / 60 % 60) {
        (0, 0, 0) => format!("{whole} s"),
        (0, 0, minutes) => match whole % 60 {
            0 => format!("{minutes} min"),
            seconds => format!("{minutes} min {seconds} s"),
        },
        (0, hours, 0) => format!("{hours} h"),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, 0, _) => format!("{days} d"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

/// Local date and time, to the second.
pub fn local_time(unix_ms: i64) -> String {
    format_local(unix_ms, "%F %T")
}

/// Local time of the day, such as `17:00`.
pub(crate) fn local_minute(unix_ms: i64) -> String {
    format_local(unix_ms, "%H:%M")
}

/// Formats a time of this machine's zone by a format of `strftime`.
pub fn format_local(unix_ms: i64, format: &str) -> String {
    match jiff::Timestamp::from_millisecond(unix_ms) {
        Ok(at) => at
            .to_zoned(jiff::tz::TimeZone::system())
            .strftime(format)
            .to_string(),
        Err(_) => format!("{unix_ms} ms"),
    }
}

/// A sentence about the state of a pipeline after a change.
pub fn changed_pipeline(changed: &PipelineStatus) -> String {
    let state = match &changed.state {
        PipelineState::Starting | PipelineState::Running if changed.spec.paused => {
            "being paused".to_owned()
        }
        state => pipeline_state(state),
    };
    let until = changed.paused_until.map_or_else(String::new, |until| {
        format!(" until {}", local_time(until.as_millisecond()))
    });
    format!("pipeline {} is {state}{until}", changed.spec.id)
}

/// The state of a pipeline, with the reason of a failure.
pub fn pipeline_state(state: &PipelineState) -> String {
    match state {
        PipelineState::Failed { message } => format!("failed: {message}"),
        other => other.name().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_file_has_a_size_in_kb() {
        let sizes = [1, 46_200, 99_999, 100_000, 1_250_000].map(size);
        assert_eq!(sizes, ["1 kB", "47 kB", "100 kB", "0.1 MB", "1.2 MB"]);
    }

    #[test]
    fn duration_has_its_two_largest_units() {
        for (seconds, text) in [
            (5.4, "5 s"),
            (65.0, "1 min 5 s"),
            (120.0, "2 min"),
            (7_200.0, "2 h"),
            (3_700.0, "1 h 1 min"),
            (90_000.0, "1 d 1 h"),
        ] {
            assert_eq!(duration(seconds), text);
        }
    }

    #[test]
    fn one_is_singular_and_words_are_quoted_one_by_one() {
        assert_eq!(counted(1, "event"), "1 event");
        assert_eq!(counted(0, "event"), "0 events");
        assert_eq!(
            quoted(&["at".to_owned(), "a b".to_owned()]),
            r#""at", "a b""#
        );
    }

    #[test]
    fn printable_replaces_control_and_bidi_characters() {
        assert_eq!(
            printable("a\u{1b}[2Jb\r\u{9b}1m\u{202e}c"),
            "a\u{fffd}[2Jb\u{fffd}\u{fffd}1m\u{fffd}c"
        );
        assert!(matches!(
            printable("two\nlines,\ta tab, è"),
            Cow::Borrowed(_)
        ));
    }

    #[test]
    fn single_line_has_no_break_and_no_direction() {
        assert_eq!(single_line("a\tb\r\nc\u{2028}d\u{202e}e"), "a b  c d e");
    }

    #[test]
    fn text_is_cut_between_characters() {
        assert_eq!(cut("über".to_owned(), 4), "über");
        assert_eq!(cut("über".to_owned(), 1), "ü…");
    }
}
