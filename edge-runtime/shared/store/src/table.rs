//! The table of records: its name, and how keyspaces and keys become its keys.
//!
//! - The records of a keyspace are adjacent, in the order of their keys.

use std::path::Path;

use redb::TableDefinition;

use crate::newer::NewerFormat;
use crate::record;

/// Name of the database in the data folder.
pub(crate) const FILE: &str = "records.redb";

/// All records: from [`full_key`] to [`record::encode`].
pub(crate) const RECORDS: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("records");

/// Key in the table of the number of the last batch. No keyspace has an empty name.
pub(crate) const BATCHES: &[u8] = b"\0batches";

/// Returns the key in the table.
pub(crate) fn full_key(keyspace: &str, key: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(keyspace.len() + 1 + key.len());
    out.extend_from_slice(keyspace.as_bytes());
    out.push(0);
    out.extend_from_slice(key);
    out
}

/// Splits a key of the table into keyspace and key.
pub(crate) fn split_key(full: &[u8]) -> (String, Vec<u8>) {
    let at = full.iter().position(|b| *b == 0).unwrap_or(full.len());
    let (name, rest) = full.split_at(at);
    (
        String::from_utf8_lossy(name).into_owned(),
        rest.get(1..).unwrap_or_default().to_vec(),
    )
}

/// Makes the error about a record of a newer format in the folder `data`.
pub(crate) fn newer_record(data: &Path, full: &[u8], found: u16) -> NewerFormat {
    let (keyspace, key) = split_key(full);
    let what = format!("record {} of {keyspace:?}", key.escape_ascii());
    NewerFormat::new(data.parent().unwrap_or(data), what, found, record::FORMAT)
}
