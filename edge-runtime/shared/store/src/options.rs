//! Bounds of a store.

/// Bounds of a store.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Memory for the database's cache, in bytes.
    pub cache_bytes: u64,
    /// Bytes that must stay free on the disk; a write that would go below is refused before the
    /// database sees it.
    pub min_free_bytes: u64,
    /// At opening, the file is compacted when it takes more than this many times the live bytes…
    pub compact_ratio: f64,
    /// …and more than this many bytes.
    pub compact_floor_bytes: u64,
}

impl Options {
    /// Returns [`Self::cache_bytes`] as redb takes it.
    pub(crate) fn cache_bytes(&self) -> usize {
        usize::try_from(self.cache_bytes).unwrap_or(usize::MAX)
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cache_bytes: 4 << 20,
            min_free_bytes: 16 << 20,
            compact_ratio: 4.0,
            compact_floor_bytes: 32 << 20,
        }
    }
}
