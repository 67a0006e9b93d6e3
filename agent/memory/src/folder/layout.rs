//! Files of a memory, and the notes in each.
//!
//! ```text
//! knowledge.md               facts about the site
//! preferences.md             wishes of users
//! observations/2026-11-22.md observations, by day (UTC)
//! observations/undated.md    observations before the clock was set
//! journal/2026-11.md         lessons, by month
//! journal/undated.md
//! active.json                the active configuration
//! ```
//!
//! Invariant: only these names and names of dates are opened, never one that outside text chose.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::Offset;

use super::error::{FileError, MemoryError, Problem};
use super::limits::{MAX_DAYS, MAX_MONTHS};
use crate::note::Kind;

pub(super) const KNOWLEDGE: &str = "knowledge.md";
pub(super) const PREFERENCES: &str = "preferences.md";
pub(super) const ACTIVE: &str = "active.json";
const OBSERVATIONS: &str = "observations";
const JOURNAL: &str = "journal";
const UNDATED: &str = "undated";
/// Folders, the parent first.
pub(super) const FOLDERS: [&str; 3] = ["", OBSERVATIONS, JOURNAL];

/// A file of notes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NoteFile {
    /// Path below the folder.
    pub(super) file: PathBuf,
    pub(super) kind: Kind,
    /// Day of the file, or the first of its month.
    pub(super) day: Option<Date>,
}

impl NoteFile {
    /// Returns the first lines of a new file.
    pub(super) fn header(&self) -> String {
        let name = self.file.file_stem().unwrap_or_default().to_string_lossy();
        let title = match self.kind {
            Kind::Knowledge => "Knowledge".to_owned(),
            Kind::Preference => "Preferences".to_owned(),
            Kind::Observation => format!("Observations, {name}"),
            Kind::Lesson => format!("Lessons, {name}"),
        };
        format!(
            "# {title}\n\n<!-- Edit as you like: add, change, delete. A line of ## begins a note; marks are optional: \
             ## TIME @camera #tag (person) -->\n\n"
        )
    }
}

/// Returns the file of a note of `kind` made at `at`.
pub(super) fn place(kind: Kind, at: Option<Timestamp>) -> NoteFile {
    let date = at.map(|at| Offset::UTC.to_datetime(at).date());
    let dated = |folder: &str, name: Option<String>| {
        let name = name.unwrap_or_else(|| UNDATED.to_owned());
        Path::new(folder).join(format!("{name}.md"))
    };
    let (file, day) = match kind {
        Kind::Knowledge => (KNOWLEDGE.into(), None),
        Kind::Preference => (PREFERENCES.into(), None),
        Kind::Observation => (dated(OBSERVATIONS, date.map(|d| d.to_string())), date),
        Kind::Lesson => {
            let month = date.map(|d| d.first_of_month());
            (dated(JOURNAL, month.map(month_name)), month)
        }
    };
    NoteFile { file, kind, day }
}

fn month_name(month: Date) -> String {
    month.to_string().chars().take("2026-11".len()).collect()
}

pub(super) fn is_dated(file: &Path) -> bool {
    file.file_stem().is_some_and(|stem| stem != UNDATED)
}

/// Lists the existing files of notes by path, and the Markdown files that are not read.
pub(super) fn list(
    folder: &Path,
) -> Result<(BTreeMap<PathBuf, NoteFile>, Vec<Problem>), MemoryError> {
    let mut places = BTreeMap::new();
    let mut ignored = Vec::new();
    for kind in [Kind::Knowledge, Kind::Preference] {
        let place = place(kind, None);
        if fs::symlink_metadata(folder.join(&place.file)).is_ok() {
            places.insert(place.file.clone(), place);
        }
    }
    for (kind, name, max) in [
        (Kind::Observation, OBSERVATIONS, 2 * MAX_DAYS),
        (Kind::Lesson, JOURNAL, 2 * MAX_MONTHS),
    ] {
        let path = folder.join(name);
        let io = |source| MemoryError::Io {
            path: path.clone(),
            source,
        };
        let mut found: BTreeMap<PathBuf, NoteFile> = BTreeMap::new();
        for entry in fs::read_dir(&path).map_err(io)? {
            let file = Path::new(name).join(entry.map_err(io)?.file_name());
            let stem = file.file_stem().and_then(|stem| stem.to_str());
            let is_markdown = file.extension().is_some_and(|e| e == "md");
            let is_hidden = stem.is_some_and(|stem| stem.starts_with('.'));
            if !is_markdown || is_hidden {
                continue;
            }
            match stem.and_then(|stem| day(kind, stem)) {
                Some(day) => {
                    found.insert(file.clone(), NoteFile { file, kind, day });
                }
                None => ignored.push(Problem {
                    file,
                    error: FileError::Name,
                }),
            }
        }
        // Users may keep more files than the agent does, up to twice as many.
        while found.len() > max {
            let Some((file, _)) = found.pop_first() else {
                break;
            };
            ignored.push(Problem {
                file,
                error: FileError::TooMany(max),
            });
        }
        places.append(&mut found);
    }
    ignored.sort_by(|a, b| a.file.cmp(&b.file));
    Ok((places, ignored))
}

/// Parses the day of a file name: `Some(None)` for an undated file, `None` for another name.
fn day(kind: Kind, stem: &str) -> Option<Option<Date>> {
    if stem == UNDATED {
        return Some(None);
    }
    let (text, length) = match kind {
        Kind::Lesson => (format!("{stem}-01"), "2026-11".len()),
        _ => (stem.to_owned(), "2026-11-22".len()),
    };
    if stem.len() != length {
        return None;
    }
    text.parse().ok().map(Some)
}
