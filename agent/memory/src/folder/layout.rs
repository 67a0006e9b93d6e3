//! Which files there are, and which notes stand in which.
//!
//! ```text
//! knowledge.md               what is true of the site
//! preferences.md             what people want
//! observations/2026-11-22.md what was seen, by day (UTC)
//! observations/undated.md    what was seen while the box did not know the time
//! journal/2026-11.md         what was learned, by month
//! journal/undated.md
//! active.json                the active configuration
//! ```
//!
//! Invariant: no name that text from outside could have chosen is ever opened: names are made of dates, or are these.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::Offset;

use super::error::{MemoryError, Problem, Trouble};
use crate::note::Kind;

/// Days of observations that are kept. With [`max_notes`] of a day that is 100,000. Beyond, the oldest files are removed, unless a person wrote in them.
pub const MAX_DAYS: usize = 400;
/// Months of lessons that are kept, by the same rule.
pub const MAX_MONTHS: usize = 60;

pub(super) const KNOWLEDGE: &str = "knowledge.md";
pub(super) const PREFERENCES: &str = "preferences.md";
pub(super) const ACTIVE: &str = "active.json";
const OBSERVATIONS: &str = "observations";
const JOURNAL: &str = "journal";
const UNDATED: &str = "undated";
/// The folders, the outer one first.
pub(super) const FOLDERS: [&str; 3] = ["", OBSERVATIONS, JOURNAL];

/// Notes that a file may have before none is added any more. It is full then: which of them can go, a person knows.
pub(super) const fn max_notes(kind: Kind) -> usize {
    match kind {
        Kind::Observation => 250,
        Kind::Knowledge | Kind::Lesson => 1_000,
        Kind::Preference => 200,
    }
}

/// Those among them that the agent may have written: half, so that a person always has room. A dated file gives way as a whole and needs no such bound.
pub(super) const fn max_of_agent(kind: Kind) -> usize {
    match kind {
        Kind::Knowledge => max_notes(kind) / 2,
        Kind::Observation | Kind::Lesson | Kind::Preference => max_notes(kind),
    }
}

/// Dated files of a kind that are kept.
pub(super) const fn keep(kind: Kind) -> Option<usize> {
    match kind {
        Kind::Observation => Some(MAX_DAYS),
        Kind::Lesson => Some(MAX_MONTHS),
        Kind::Knowledge | Kind::Preference => None,
    }
}

/// A file of notes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// Below the folder.
    pub(super) file: PathBuf,
    pub(super) kind: Kind,
    /// The day or the first of the month that it is of.
    pub(super) day: Option<Date>,
}

impl Place {
    /// How a new file begins.
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

/// Where a note of `kind` made at `at` belongs.
pub(super) fn place(kind: Kind, at: Option<Timestamp>) -> Place {
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
    Place { file, kind, day }
}

fn month_name(month: Date) -> String {
    month.to_string().chars().take("2026-11".len()).collect()
}

/// Whether `file` is named after a date.
pub(super) fn is_dated(file: &Path) -> bool {
    file.file_stem().is_some_and(|stem| stem != UNDATED)
}

/// The files of notes in `folder` that there are, by path, and what else stands there that somebody may have meant as notes.
pub(super) fn list(folder: &Path) -> Result<(BTreeMap<PathBuf, Place>, Vec<Problem>), MemoryError> {
    let mut places = BTreeMap::new();
    let mut strange = Vec::new();
    for kind in [Kind::Knowledge, Kind::Preference] {
        let place = place(kind, None);
        if fs::symlink_metadata(folder.join(&place.file)).is_ok() {
            places.insert(place.file.clone(), place);
        }
    }
    for (kind, name, most) in [
        (Kind::Observation, OBSERVATIONS, 2 * MAX_DAYS),
        (Kind::Lesson, JOURNAL, 2 * MAX_MONTHS),
    ] {
        let path = folder.join(name);
        let io = |source| MemoryError::Io {
            path: path.clone(),
            source,
        };
        let mut found: BTreeMap<PathBuf, Place> = BTreeMap::new();
        for entry in fs::read_dir(&path).map_err(io)? {
            let file = Path::new(name).join(entry.map_err(io)?.file_name());
            let stem = file.file_stem().and_then(|stem| stem.to_str());
            let markdown = file.extension().is_some_and(|e| e == "md");
            let hidden = stem.is_some_and(|stem| stem.starts_with('.'));
            if !markdown || hidden {
                continue;
            }
            match stem.and_then(|stem| day(kind, stem)) {
                Some(day) => {
                    found.insert(file.clone(), Place { file, kind, day });
                }
                None => strange.push(Problem {
                    file,
                    trouble: Trouble::Name,
                }),
            }
        }
        // A person may keep more than is kept without one, but not without a bound.
        while found.len() > most {
            let Some((file, _)) = found.pop_first() else {
                break;
            };
            strange.push(Problem {
                file,
                trouble: Trouble::Many(most),
            });
        }
        places.append(&mut found);
    }
    strange.sort_by(|a, b| a.file.cmp(&b.file));
    Ok((places, strange))
}

/// The day that a file name says; none when it is no name of such a file.
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
