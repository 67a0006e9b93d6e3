//! Tokens that a call consumed, in one form for every provider.
//!
//! - The four kinds of input do not overlap; thinking is part of the output.

use serde::{Deserialize, Serialize};

/// Tokens of one call, or the sum over many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Input outside any cache.
    pub input: u64,
    /// Input read from the provider's cache.
    pub cache_read: u64,
    /// Input written to a cache kept for minutes.
    pub cache_write: u64,
    /// Input written to a cache kept for an hour.
    pub cache_write_long: u64,
    /// Output, thinking included.
    pub output: u64,
    /// Output that was thinking, where the provider reports it.
    pub thinking: u64,
}

impl Usage {
    /// Returns the tokens of the whole prompt.
    pub const fn prompt(&self) -> u64 {
        self.input
            .saturating_add(self.cache_read)
            .saturating_add(self.cache_write)
            .saturating_add(self.cache_write_long)
    }

    /// Returns the tokens of prompt and output.
    pub const fn total(&self) -> u64 {
        self.prompt().saturating_add(self.output)
    }

    /// Adds another usage.
    pub const fn plus(&self, other: &Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
            cache_write_long: self.cache_write_long.saturating_add(other.cache_write_long),
            output: self.output.saturating_add(other.output),
            thinking: self.thinking.saturating_add(other.thinking),
        }
    }
}
