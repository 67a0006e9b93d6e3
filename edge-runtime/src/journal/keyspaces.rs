//! Keyspaces and keys of the journal's store.

use watchkeeper_store::Keyspace;

/// Event records by number.
pub(super) const EVENTS: Keyspace = Keyspace::new("events");
/// The head and the note of losses.
pub(super) const META: Keyspace = Keyspace::new("journal");
/// Key of the head in [`META`].
pub(super) const HEAD: &[u8] = b"head";
