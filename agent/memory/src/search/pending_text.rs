//! Texts to embed, and the keys of texts.
//!
//! Invariant: a key depends on the text alone, so equal texts share a vector.

use xxhash_rust::xxh3::xxh3_128;

/// Hash of a text. Two texts collide with a chance of 1 in 10^38; then they share a vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(pub(crate) u128);

impl Key {
    pub(crate) fn from_text(text: &str) -> Self {
        Self(xxh3_128(text.as_bytes()))
    }
}

/// A text without a vector; the caller returns it together with one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingText {
    key: Key,
    text: String,
}

impl PendingText {
    pub(crate) fn new(key: Key, text: String) -> Self {
        Self { key, text }
    }

    pub(crate) fn key(&self) -> Key {
        self.key
    }

    pub fn text(&self) -> &str {
        &self.text
    }
}
