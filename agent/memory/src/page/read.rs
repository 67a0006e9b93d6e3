//! Reads a page.
//!
//! Invariant: every note that can be understood is read, whatever stands beside it.

use jiff::civil::Date;

use super::{BadHeading, begins_note, body, heading};
use crate::note::{BadWords, Kind, MAX_CHARS, NotAllowed, Note, Origin, Words};

/// What a page says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// Its notes, in their order.
    pub notes: Vec<Placed>,
    /// What could not be understood.
    pub faults: Vec<Fault>,
}

/// A note and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// The line that it begins with, from 1.
    pub line: usize,
    /// The note.
    pub note: Note,
}

/// Something on a page that could not be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct Fault {
    /// Where, from 1.
    pub line: usize,
    /// What.
    pub why: Why,
}

/// What could not be understood, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    /// The page is no text.
    #[error("this is not UTF-8, so nothing of the file is read; save it as UTF-8")]
    NotUtf8,
    /// A mark of a note.
    #[error("{0}; until then this note is not read")]
    Heading(#[from] BadHeading),
    /// A note without words.
    #[error("{0}; until then this note is not read")]
    Words(#[from] BadWords),
    /// A note that is too long; its beginning is read.
    #[error("only the first {MAX_CHARS} characters of this note are read; divide it")]
    Long,
    /// A note that may not stand here.
    #[error("{0}; this note is not read")]
    NotAllowed(#[from] NotAllowed),
}

/// Reads the page `bytes`, whose notes are of `kind` and, where the file is of a day, of `day`.
///
/// # Errors
/// When it is no text; then nothing of it is read.
pub fn read(bytes: &[u8], kind: Kind, day: Option<Date>) -> Result<Page, Fault> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = bytes.get(..error.valid_up_to()).unwrap_or_default();
        let line = before.iter().filter(|b| **b == b'\n').count() + 1;
        let why = Why::NotUtf8;
        Fault { line, why }
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
        page.take(start + 1, kind, placed);
    }
    Ok(page)
}

/// What stands before the first heading: each paragraph is a note of a person. Titles and comments are none.
fn paragraphs(lines: &[&str], kind: Kind, page: &mut Page) {
    let mut at = 0;
    for paragraph in lines.split(|line| line.trim().is_empty()) {
        let line = at + 1;
        at += paragraph.len() + 1;
        let titles = paragraph.iter().take_while(|l| l.starts_with("# "));
        let titles = titles.count();
        let words = paragraph.get(titles..).unwrap_or_default();
        let comment = words.first().is_some_and(|l| l.starts_with("<!--"))
            && words.last().is_some_and(|l| l.trim_end().ends_with("-->"));
        if !words.is_empty() && !comment {
            let placed = note(heading::Heading::default(), words);
            page.take(line + titles, kind, placed);
        }
    }
}

/// The note of a heading and the lines under it, and whether it was cut.
fn note(heading: heading::Heading, under: &[&str]) -> Result<(Note, bool), Why> {
    let (text, quoted) = body::read(under);
    // A person types plain words; what is quoted and not marked is nobody's.
    let unmarked = if quoted {
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
    fn take(&mut self, line: usize, kind: Kind, note: Result<(Note, bool), Why>) {
        let allowed = note.and_then(|(note, cut)| {
            note.origin.may_be(kind)?;
            Ok((note, cut))
        });
        let why = match allowed {
            Ok((note, cut)) => {
                self.notes.push(Placed { line, note });
                cut.then_some(Why::Long)
            }
            Err(why) => Some(why),
        };
        self.faults.extend(why.map(|why| Fault { line, why }));
    }
}
