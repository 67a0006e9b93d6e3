//! Parser of pages.
//!
//! Invariant: every valid note is read, whatever other text the file has.

use jiff::civil::Date;

use super::{BadHeading, begins_note, body, heading};
use crate::note::{BadWords, Kind, MAX_CHARS, NotAllowed, Note, Origin, Words};

/// Notes and errors of a page, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    pub notes: Vec<Placed>,
    pub errors: Vec<PageError>,
}

/// A note with its first line, from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    pub line: usize,
    pub note: Note,
}

/// Invalid part of a page, with its line from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct PageError {
    pub line: usize,
    pub why: PageErrorKind,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PageErrorKind {
    #[error("the file is not UTF-8, so nothing is read; save it as UTF-8")]
    NotUtf8,
    #[error("{0}; until then this note is not read")]
    Heading(#[from] BadHeading),
    #[error("{0}; until then this note is not read")]
    Words(#[from] BadWords),
    /// The note is too long; its beginning is read.
    #[error("only the first {MAX_CHARS} characters of this note are read; split it")]
    Long,
    #[error("{0}; this note is not read")]
    NotAllowed(#[from] NotAllowed),
}

/// Parses a page of notes of `kind`, with the day of its file.
///
/// # Errors
/// [`PageErrorKind::NotUtf8`]; other errors are in [`Page::errors`].
pub fn read(bytes: &[u8], kind: Kind, day: Option<Date>) -> Result<Page, PageError> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = bytes.get(..error.valid_up_to()).unwrap_or_default();
        let line = before.iter().filter(|b| **b == b'\n').count() + 1;
        let why = PageErrorKind::NotUtf8;
        PageError { line, why }
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines: Vec<&str> = text.lines().collect();
    let mut page = Page::default();
    let starts = (0..lines.len()).filter(|at| lines.get(*at).is_some_and(|l| begins_note(l)));
    let starts: Vec<usize> = starts.collect();
    let first = starts.first().copied().unwrap_or(lines.len());
    paragraphs(lines.get(..first).unwrap_or_default(), kind, &mut page);
    for (n, start) in starts.iter().enumerate() {
        let end = starts.get(n + 1).copied().unwrap_or(lines.len());
        let Some([line, under @ ..]) = lines.get(*start..end) else {
            continue;
        };
        let placed = match heading::read(line, day) {
            Ok(heading) => note(heading, under),
            Err(error) => Err(error.into()),
        };
        page.add(start + 1, kind, placed);
    }
    Ok(page)
}

/// Parses the text before the first heading: each paragraph but titles and comments is a user's
/// note.
fn paragraphs(lines: &[&str], kind: Kind, page: &mut Page) {
    let mut at = 0;
    for paragraph in lines.split(|line| line.trim().is_empty()) {
        let line = at + 1;
        at += paragraph.len() + 1;
        let titles = paragraph.iter().take_while(|l| l.starts_with("# "));
        let titles = titles.count();
        let words = paragraph.get(titles..).unwrap_or_default();
        let is_comment = words.first().is_some_and(|l| l.starts_with("<!--"))
            && words.last().is_some_and(|l| l.trim_end().ends_with("-->"));
        if !words.is_empty() && !is_comment {
            let placed = note(heading::Heading::default(), words);
            page.add(line + titles, kind, placed);
        }
    }
}

/// Builds the note of a heading and the lines below it, and returns whether it was cut.
fn note(heading: heading::Heading, body: &[&str]) -> Result<(Note, bool), PageErrorKind> {
    let (text, is_quoted) = body::read(body);
    // Users write plain words; a quotation without a mark has an unknown origin.
    let unmarked = if is_quoted {
        Origin::Unknown
    } else {
        Origin::Person
    };
    let text = if heading.title.is_empty() {
        text
    } else {
        format!("{}\n{}", heading.title, text.trim())
    };
    let (words, cut) = Words::beginning(&text)?;
    let note = Note {
        at: heading.at,
        camera: heading.camera,
        tags: heading.tags,
        origin: heading.origin.unwrap_or(unmarked),
        words,
    };
    Ok((note, cut))
}

impl Page {
    fn add(&mut self, line: usize, kind: Kind, note: Result<(Note, bool), PageErrorKind>) {
        let allowed = note.and_then(|(note, cut)| {
            note.origin.may_be(kind)?;
            Ok((note, cut))
        });
        let why = match allowed {
            Ok((note, cut)) => {
                self.notes.push(Placed { line, note });
                cut.then_some(PageErrorKind::Long)
            }
            Err(why) => Some(why),
        };
        self.errors.extend(why.map(|why| PageError { line, why }));
    }
}
