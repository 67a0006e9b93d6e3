//! What tokens cost.
//!
//! Invariant: prices are whole nanodollars a token, so that a cost is exact.

use crate::money::Money;
use crate::usage::Usage;

/// Prices for prompts up to a size, in nanodollars a token (which is a thousandth of dollars a million).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Longest prompt it is for, in tokens; absent: any.
    pub prompt_to: Option<u64>,
    /// Input.
    pub input: Money,
    /// Output, thinking included.
    pub output: Money,
    /// Input read from the cache.
    pub cache_read: Money,
    /// Input written to the cache for minutes.
    pub cache_write: Money,
    /// Input written to the cache for an hour.
    pub cache_write_long: Money,
}

/// The rates of a model, by rising size of prompt; the last is for any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prices(Vec<Rate>);

impl Prices {
    /// Rates by rising `prompt_to`, of which only the last is open.
    ///
    /// # Errors
    /// One phrase.
    pub(super) fn new(rates: Vec<Rate>) -> Result<Self, &'static str> {
        let Some((last, before)) = rates.split_last() else {
            return Err("holds no rate; give at least one");
        };
        let bounds: Vec<Option<u64>> = before.iter().map(|rate| rate.prompt_to).collect();
        if last.prompt_to.is_some() || bounds.contains(&None) || !bounds.is_sorted() {
            return Err("must have rising `prompt_to`, and none in the last rate");
        }
        Ok(Self(rates))
    }

    fn rate(&self, prompt: u64) -> Option<&Rate> {
        let mut rates = self.0.iter();
        rates.find(|rate| rate.prompt_to.is_none_or(|to| prompt <= to))
    }

    /// What `usage` costs.
    #[must_use]
    pub fn cost(&self, usage: &Usage) -> Money {
        self.rate(usage.prompt()).map_or(Money::ZERO, |rate| {
            rate.input.times(usage.input)
                + rate.cache_read.times(usage.cache_read)
                + rate.cache_write.times(usage.cache_write)
                + rate.cache_write_long.times(usage.cache_write_long)
                + rate.output.times(usage.output)
        })
    }

    /// The most that a call can cost: all of the prompt at the dearest price that input may have, all of the output.
    #[must_use]
    pub fn worst(&self, prompt: u64, output: u64) -> Money {
        self.rate(prompt).map_or(Money::ZERO, |rate| {
            rate.input.max(rate.cache_write).times(prompt) + rate.output.times(output)
        })
    }
}
