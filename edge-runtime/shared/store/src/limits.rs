//! Largest keys and payloads of a store.

/// Longest key within a keyspace, in bytes.
pub const MAX_KEY_BYTES: usize = 256;

/// Largest payload of a record, in bytes.
///
/// Most records have a few kilobytes and pictures are files, but a stored workflow definition may
/// have 4 MiB.
pub const MAX_VALUE_BYTES: usize = 6 << 20;

/// Longest mark of a store, in bytes.
pub const MAX_MARK_BYTES: usize = 256;
