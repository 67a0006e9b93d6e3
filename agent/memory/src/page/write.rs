//! Writer of notes; the only code that decides what is quoted.

use std::fmt::Write as _;

use super::{begins_note, body};
use crate::note::Note;

/// Formats a note: a heading, an empty line and the words.
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

/// Returns a valid page without the note that begins at `line`: a heading with all below it, or a
/// paragraph.
pub(crate) fn without(page: &[u8], line: usize) -> Vec<u8> {
    let lines: Vec<&[u8]> = page.split_inclusive(|byte| *byte == b'\n').collect();
    let text = |line: &[u8]| {
        let text = String::from_utf8_lossy(line);
        text.trim_end_matches(['\r', '\n']).to_owned()
    };
    let (before, rest) = lines.split_at(line.saturating_sub(1).min(lines.len()));
    let is_heading = rest
        .first()
        .is_some_and(|line| begins_note(text(line).trim_start_matches('\u{feff}')));
    let is_end = |line: &&[u8]| match is_heading {
        true => begins_note(&text(line)),
        false => text(line).trim().is_empty(),
    };
    let below = rest.iter().skip(1);
    let length = 1 + below.take_while(|line| !is_end(line)).count();
    let after = rest.get(length..).unwrap_or_default();
    [before, after].concat().concat()
}
