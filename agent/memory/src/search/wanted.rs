//! Texts that wait for their vectors, and the key by which a vector is known again.
//!
//! Invariant: a key is a function of the text alone, so the same words have the same vector wherever they stand.

use xxhash_rust::xxh3::xxh3_128;

/// Which text. Two texts share one by chance once in 10^38, and then one of them is found by the vector of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(pub(crate) u128);

impl Key {
    /// That of a text.
    pub(crate) fn of(text: &str) -> Self {
        Self(xxh3_128(text.as_bytes()))
    }
}

/// A text without its vector. It is handed back with what an embedder makes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    key: Key,
    text: String,
}

impl Wanted {
    pub(crate) fn new(key: Key, text: String) -> Self {
        Self { key, text }
    }

    pub(crate) fn key(&self) -> Key {
        self.key
    }

    /// What is to be embedded.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}
