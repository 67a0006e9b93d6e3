//! Rows of a table, their bounds, and why a table can't be read.

use std::path::PathBuf;

/// Most rows of a table.
pub const MAX_ROWS: usize = 100_000;
/// Most bytes of its cells.
pub const MAX_BYTES: usize = 64 << 20;

/// Why a table can't be read.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    #[error("{path}: can't be read: {why}; check the path and its permissions")]
    Unreadable { path: PathBuf, why: String },
    #[error("{path}: is empty; it needs a header line with the column {key}")]
    Empty { path: PathBuf, key: String },
    #[error(
        "{path}: line {line} has {found} fields, and the header has {expected}; separate fields \
         by commas, and put one with a comma in double quotes"
    )]
    Fields {
        path: PathBuf,
        line: u64,
        found: u64,
        expected: u64,
    },
    #[error(
        "{path}: line {line} is not UTF-8; save the file as UTF-8, such as with \
         `iconv -f LATIN1 -t UTF-8`"
    )]
    NotUtf8 { path: PathBuf, line: u64 },
    #[error("{field} = {value:?}: {path} has no such column; it has {known}")]
    UnknownColumn {
        field: &'static str,
        value: String,
        path: PathBuf,
        known: String,
    },
    #[error(
        "{path}: line 1 has semicolons between the names of the columns; save the file with commas \
         between the fields"
    )]
    Semicolons { path: PathBuf },
    #[error("table = {value:?}: {path} has no such table or view; it has {known}")]
    UnknownTable {
        value: String,
        path: PathBuf,
        known: String,
    },
    #[error("table: {0} is a database; name its table or view")]
    NeedsTable(PathBuf),
    #[error("table = {value:?}: {path} is no database; remove the key")]
    NoDatabase { value: String, path: PathBuf },
    #[error("{path}: has more than {what}; use a smaller table or a database view")]
    TooLarge { path: PathBuf, what: String },
}

/// One row: the cells of the columns that become data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) key: String,
    pub(crate) cells: Vec<String>,
}

/// The rows of a table.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rows {
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Row>,
}
