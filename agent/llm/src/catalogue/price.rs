//! Prices of tokens, in whole nanodollars, so that costs are exact.

use serde::Deserialize;

use crate::money::Money;
use crate::usage::Usage;

/// Prices of a token for prompts up to a size (a nanodollar a token is a thousandth of a dollar a
/// million).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Written")]
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
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<Rate>")]
pub struct Prices(Vec<Rate>);

/// A rate as it is written, in dollars a million tokens.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    prompt_to: Option<u64>,
    input: f64,
    output: f64,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
    cache_write_long: Option<f64>,
}

impl TryFrom<Written> for Rate {
    type Error = String;
    fn try_from(written: Written) -> Result<Self, String> {
        let input = nano(written.input)?;
        // Without prices for its cache a provider charges the price of input.
        let or_input = |price: Option<f64>| price.map_or(Ok(input), nano);
        Ok(Self {
            prompt_to: written.prompt_to,
            input,
            output: nano(written.output)?,
            cache_read: or_input(written.cache_read)?,
            cache_write: or_input(written.cache_write)?,
            cache_write_long: or_input(written.cache_write_long)?,
        })
    }
}

/// Converts dollars a million tokens to nanodollars a token.
fn nano(dollars: f64) -> Result<Money, String> {
    let nano = dollars * 1000.0;
    let is_whole = (nano - nano.round()).abs() < 1e-6;
    if !(0.0..=1e7).contains(&nano) || !is_whole {
        return Err(format!(
            "{dollars} must be 0 to 10000 dollars a million tokens, in steps of 0.001"
        ));
    }
    Ok(Money(nano.round() as u64))
}

/// Takes rates by rising `prompt_to`; the last has none.
impl TryFrom<Vec<Rate>> for Prices {
    type Error = &'static str;
    fn try_from(rates: Vec<Rate>) -> Result<Self, &'static str> {
        let Some((last, before)) = rates.split_last() else {
            return Err("holds no rate; give at least one");
        };
        let bounds: Vec<Option<u64>> = before.iter().map(|rate| rate.prompt_to).collect();
        if last.prompt_to.is_some() || bounds.contains(&None) || !bounds.is_sorted() {
            return Err("must have rising `prompt_to`, and none in the last rate");
        }
        Ok(Self(rates))
    }
}

impl Prices {
    fn rate(&self, prompt: u64) -> Option<&Rate> {
        let mut rates = self.0.iter();
        rates.find(|rate| rate.prompt_to.is_none_or(|to| prompt <= to))
    }

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
