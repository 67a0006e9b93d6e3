//! Writer of notes; the only code that decides what is quoted.

use std::fmt::Write as _;

use super::body;
use crate::note::Note;

/// Formats a note: a heading, an empty line and the words.
#[must_use]
pub fn write(note: &Note) -> String {
    let mut out = "##".to_owned();
    let mut mark = |mark: std::fmt::Arguments<'_>| {
        // Writing to a string can't fail.
        out.write_fmt(mark).unwrap_or_default();
    };
    if let Some(at) = note.at {
        mark(format_args!(" {}", super::heading::whole_seconds(at)));
    }
    if let Some(camera) = &note.camera {
        mark(format_args!(" @{camera}"));
    }
    for tag in &note.tags {
        mark(format_args!(" #{tag}"));
    }
    mark(format_args!(" ({})", note.origin));
    let words = note.words.as_str();
    let words = if note.origin.trusted() {
        body::escape(words)
    } else {
        body::quote(words)
    };
    format!("{out}\n\n{words}")
}
