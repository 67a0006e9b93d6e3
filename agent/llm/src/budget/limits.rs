//! Limits of what may be spent.

use super::class::percent_of;
use crate::money::Money;

/// Limits of spending. Days and months are in UTC. A class of calls may use a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum attempts within sixty minutes.
    pub calls_per_hour: u32,
    /// Maximum tokens of one call, prompt and output together.
    pub tokens_per_call: u64,
    pub day: Money,
    pub month: Money,
    /// Percentage of a day's or month's budget above which smaller models and pictures are used.
    pub soft_percent: u8,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            calls_per_hour: 60,
            tokens_per_call: 200_000,
            day: Money(1_000_000_000),
            month: Money(20_000_000_000),
            soft_percent: 80,
        }
    }
}

impl Limits {
    /// Returns the soft limit of `limit`.
    pub(crate) const fn soft(&self, limit: Money) -> Money {
        Money(percent_of(limit.0, self.soft_percent as u64))
    }
}

/// Whether money is to be saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Economy {
    Full,
    /// Above the soft limit: smaller models, smaller pictures.
    Reduced,
}
