//! Prices of tokens, in whole nanodollars, so that costs are exact.

use crate::money::Money;
use crate::usage::Usage;

/// Prices of a token for prompts up to a size (a nanodollar a token is a thousandth of a dollar a
/// million).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Maximum tokens of the prompt; absent: any.
    pub prompt_to: Option<u64>,
    pub input: Money,
    /// Output, thinking included.
    pub output: Money,
    pub cache_read: Money,
    /// Input written to a cache kept for minutes.
    pub cache_write: Money,
    /// Input written to a cache kept for an hour.
    pub cache_write_long: Money,
}

/// Rates of a model by rising size of the prompt; the last is for any size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prices(Vec<Rate>);

impl Prices {
    /// Takes rates by rising `prompt_to`; the last has none.
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

    /// Returns the cost of `usage`.
    pub fn cost(&self, usage: &Usage) -> Money {
        self.rate(usage.prompt()).map_or(Money::ZERO, |rate| {
            rate.input.times(usage.input)
                + rate.cache_read.times(usage.cache_read)
                + rate.cache_write.times(usage.cache_write)
                + rate.cache_write_long.times(usage.cache_write_long)
                + rate.output.times(usage.output)
        })
    }

    /// Returns the highest cost of a call: all input at its highest price, and all output.
    pub fn worst(&self, prompt: u64, output: u64) -> Money {
        self.rate(prompt).map_or(Money::ZERO, |rate| {
            rate.input.max(rate.cache_write).times(prompt) + rate.output.times(output)
        })
    }
}
