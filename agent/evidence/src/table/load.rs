//! Reads the rows of a CSV file or a database, within the bounds.
//!
//! - The first bytes say which of both a file is, not its name.
//! - A database is opened to read only, and its table is one of those that it lists.
//! - A table beyond the bounds is refused whole: a part of it would answer "not there".

use std::io::Read as _;
use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};
use watchkeeper_config::lookups::TableLookup;

use super::rows::{MAX_BYTES, MAX_ROWS, Row, Rows, TableError};

/// First bytes of every SQLite database.
const SQLITE: &[u8] = b"SQLite format 3\0";
/// Time that a locked database is waited for, in milliseconds.
const BUSY_MS: u64 = 2_000;

pub(super) fn load(config: &TableLookup) -> Result<Rows, TableError> {
    let path = &config.path;
    let mut start = [0; SQLITE.len()];
    let file = std::fs::File::open(path).map_err(|error| unreadable(path, &error))?;
    let read = (&file)
        .read(&mut start)
        .map_err(|error| unreadable(path, &error))?;
    match (&config.table, start.get(..read) == Some(SQLITE)) {
        (Some(table), true) => database(config, table),
        (None, true) => Err(TableError::NeedsTable(path.clone())),
        (Some(table), false) => Err(TableError::NoDatabase {
            value: table.clone(),
            path: path.clone(),
        }),
        (None, false) => csv(config),
    }
}

fn unreadable(path: &Path, error: &dyn std::fmt::Display) -> TableError {
    TableError::Unreadable {
        path: path.to_owned(),
        why: error.to_string(),
    }
}

fn csv(config: &TableLookup) -> Result<Rows, TableError> {
    let path = &config.path;
    let size = std::fs::metadata(path).map_or(0, |found| found.len());
    if size > MAX_BYTES as u64 {
        return Err(too_large(path, MAX_BYTES, "bytes"));
    }
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .from_path(path)
        .map_err(|error| unreadable(path, &error))?;
    let header = reader.headers().map_err(|error| malformed(path, &error))?;
    if header.is_empty() {
        let key = config.key.clone();
        let path = path.clone();
        return Err(TableError::Empty { path, key });
    }
    let header: Vec<String> = header
        .iter()
        .map(|name| name.trim_start_matches('\u{feff}').to_owned())
        .collect();
    if let [one] = header.as_slice()
        && one.contains(';')
        && *one != config.key
    {
        return Err(TableError::Semicolons { path: path.clone() });
    }
    let plan = Columns::new(config, header)?;
    let mut rows = Filling::new(config, plan.names());
    for record in reader.records() {
        let record = record.map_err(|error| malformed(path, &error))?;
        let cell = |nth: usize| record.get(nth).unwrap_or_default().to_owned();
        rows.push(
            cell(plan.key),
            plan.data.iter().map(|nth| cell(*nth)).collect(),
        )?;
    }
    Ok(rows.rows)
}

fn malformed(path: &Path, error: &csv::Error) -> TableError {
    let line_of = |pos: &Option<csv::Position>| pos.as_ref().map_or(1, csv::Position::line);
    let path = path.to_owned();
    match error.kind() {
        csv::ErrorKind::UnequalLengths {
            pos,
            expected_len,
            len,
        } => TableError::Fields {
            path,
            line: line_of(pos),
            found: *len,
            expected: *expected_len,
        },
        csv::ErrorKind::Utf8 { pos, .. } => TableError::NotUtf8 {
            path,
            line: line_of(pos),
        },
        _ => unreadable(&path, error),
    }
}

fn database(config: &TableLookup, table: &str) -> Result<Rows, TableError> {
    let path = &config.path;
    let failed = |error: rusqlite::Error| unreadable(path, &error);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags).map_err(failed)?;
    let wait = std::time::Duration::from_millis(BUSY_MS);
    db.busy_timeout(wait).map_err(failed)?;
    let known = tables(&db).map_err(failed)?;
    if !known.iter().any(|name| name == table) {
        return Err(TableError::UnknownTable {
            value: table.to_owned(),
            path: path.clone(),
            known: known.join(", "),
        });
    }
    let query = format!("SELECT * FROM {} LIMIT {}", quoted(table), MAX_ROWS + 1);
    let mut statement = db.prepare(&query).map_err(failed)?;
    let header = statement.column_names().map(str::to_owned);
    let plan = Columns::new(config, header.collect())?;
    let mut rows = Filling::new(config, plan.names());
    let mut found = statement.query([]).map_err(failed)?;
    while let Some(row) = found.next().map_err(failed)? {
        let cell = |nth: usize| row.get_ref(nth).map(text_of);
        let key = cell(plan.key).map_err(failed)?;
        let cells: Result<Vec<String>, _> = plan.data.iter().map(|nth| cell(*nth)).collect();
        rows.push(key, cells.map_err(failed)?)?;
    }
    Ok(rows.rows)
}

fn tables(db: &Connection) -> rusqlite::Result<Vec<String>> {
    let query = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name";
    let mut statement = db.prepare(query)?;
    let names = statement.query_map([], |row| row.get(0))?;
    names.collect()
}

/// A name as SQL takes it; it was found among the names of the database.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn text_of(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => String::new(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
        ValueRef::Blob(bytes) => format!("({} bytes)", bytes.len()),
    }
}

fn too_large(path: &Path, most: usize, what: &str) -> TableError {
    TableError::TooLarge {
        path: path.to_owned(),
        what: format!("{most} {what}"),
    }
}

/// Positions of the columns that are used.
struct Columns {
    key: usize,
    data: Vec<usize>,
    header: Vec<String>,
}

impl Columns {
    fn new(config: &TableLookup, header: Vec<String>) -> Result<Self, TableError> {
        let find = |field: &'static str, value: &String| {
            let found = header.iter().position(|name| name == value);
            found.ok_or_else(|| TableError::UnknownColumn {
                field,
                value: value.clone(),
                path: config.path.clone(),
                known: header.join(", "),
            })
        };
        let key = find("key", &config.key)?;
        let named = config.columns.iter().map(|name| find("columns", name));
        let mut data = named.collect::<Result<Vec<usize>, _>>()?;
        if config.columns.is_empty() {
            data = (0..header.len()).collect();
        }
        Ok(Self { key, data, header })
    }

    fn names(&self) -> Vec<String> {
        let names = self.data.iter().filter_map(|nth| self.header.get(*nth));
        names.cloned().collect()
    }
}

/// Rows that are being read, with their size.
struct Filling<'a> {
    path: &'a Path,
    rows: Rows,
    bytes: usize,
}

impl<'a> Filling<'a> {
    fn new(config: &'a TableLookup, columns: Vec<String>) -> Self {
        Self {
            path: &config.path,
            rows: Rows {
                columns,
                rows: Vec::new(),
            },
            bytes: 0,
        }
    }

    fn push(&mut self, key: String, cells: Vec<String>) -> Result<(), TableError> {
        self.bytes += key.len() + cells.iter().map(String::len).sum::<usize>();
        if self.rows.rows.len() >= MAX_ROWS {
            return Err(too_large(self.path, MAX_ROWS, "rows"));
        }
        if self.bytes > MAX_BYTES {
            return Err(too_large(self.path, MAX_BYTES, "bytes"));
        }
        self.rows.rows.push(Row { key, cells });
        Ok(())
    }
}
