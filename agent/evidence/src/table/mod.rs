//! Look-ups in a table: a CSV file, or a table of an SQLite database.
//!
//! - The file is opened read-only, and read again when its size or time of change differs.
//! - At most [`MAX_ROWS`] rows and [`MAX_BYTES`] of text are held; a larger table is refused.
//! - Two different rows that are equally near are not an answer.
//! - A table that can't be read is a failure of each look-up, until it can be read again.

mod load;
mod near;
mod rows;

use std::path::Path;
use std::time::SystemTime;

use serde_json::{Map, Value, json};
use watchkeeper_config::lookups::TableLookup;

use crate::source::SourceAnswer;
use near::Match;
pub use rows::{MAX_BYTES, MAX_ROWS, TableError};

/// Size and time of change of the files of a table.
type Stamp = Vec<Option<(u64, SystemTime)>>;

/// A table that is read again when it changes.
#[derive(Debug)]
pub struct Table {
    config: TableLookup,
    loaded: Option<(Stamp, near::Index)>,
}

impl Table {
    pub fn new(config: TableLookup) -> Self {
        Self {
            config,
            loaded: None,
        }
    }

    /// Reads the table, and returns the names of the columns that become data.
    ///
    /// # Errors
    /// [`TableError`] with field, value and remedy.
    pub fn columns(&mut self) -> Result<&[String], TableError> {
        self.index().map(near::Index::columns)
    }

    /// Looks a value up. It reads files: call it on a blocking thread.
    pub fn look_up(&mut self, value: &str) -> SourceAnswer {
        let path = self.config.path.clone();
        let is_fuzzy = self.config.is_fuzzy;
        match self.index() {
            Ok(index) => answer(index, value, is_fuzzy, &path),
            Err(error) => SourceAnswer::failed(error.to_string()),
        }
    }

    fn index(&mut self) -> Result<&near::Index, TableError> {
        let stamp = stamp(&self.config.path);
        let is_current = self
            .loaded
            .as_ref()
            .is_some_and(|(known, _)| *known == stamp);
        let index = match self.loaded.take().filter(|_| is_current) {
            Some((_, index)) => index,
            None => near::Index::new(load::load(&self.config)?, self.config.is_alike),
        };
        Ok(&self.loaded.insert((stamp, index)).1)
    }
}

/// The stamps of the file and of its database log.
fn stamp(path: &Path) -> Stamp {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let of = |path: &Path| {
        let found = std::fs::metadata(path).ok()?;
        Some((found.len(), found.modified().ok()?))
    };
    vec![of(path), of(Path::new(&log))]
}

fn answer(index: &near::Index, value: &str, is_fuzzy: bool, path: &Path) -> SourceAnswer {
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    match index.find(value, is_fuzzy) {
        Match::None => SourceAnswer::no_answer(format!("{file} has no row for {value:?}")),
        Match::Ambiguous { count } => SourceAnswer::no_answer(format!(
            "{file} has {count} rows that fit {value:?} equally well"
        )),
        Match::One {
            row,
            confidence,
            how,
        } => {
            let cells = index.columns().iter().zip(&row.cells);
            let cells = cells.map(|(name, cell)| (name.clone(), Value::from(cell.as_str())));
            SourceAnswer::Answered {
                confidence,
                note: format!("{file}: {how} row of {:?} for {value:?}", row.key),
                data: json!({
                    "value": value, "key": row.key, "match": how,
                    "row": cells.collect::<Map<String, Value>>(),
                }),
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests;
