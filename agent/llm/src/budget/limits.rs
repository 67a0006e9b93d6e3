//! Limits, and the refusal of a call that would exceed one.

use std::fmt;
use std::time::Duration;

use crate::money::Money;

/// What may be spent. Days and months are in UTC.
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
        let percent = if self.soft_percent > 100 {
            100
        } else {
            self.soft_percent
        };
        // Divides first, so that no amount overflows.
        Money(limit.0 / 100 * percent as u64 + limit.0 % 100 * percent as u64 / 100)
    }
}

/// Whether money is to be saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Economy {
    Full,
    /// Above the soft limit: smaller models, smaller pictures.
    Reduced,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Period {
    Day,
    Month,
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Day => "day",
            Self::Month => "month",
        })
    }
}

/// Why the budget refuses a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error(
        "the limit of {limit} LLM calls an hour is reached; wait {} min or raise `calls_per_hour` of [llm] (pipelines keep running)",
        free_in.as_secs().div_ceil(60)
    )]
    Calls {
        limit: u32,
        /// Time until the oldest call no longer counts.
        free_in: Duration,
    },
    #[error(
        "the call would take up to {needed} tokens and {limit} are allowed; start a new conversation, send smaller pictures or raise `tokens_per_call` of [llm]"
    )]
    Tokens {
        /// Tokens of the prompt, and maximum tokens of the output.
        needed: u64,
        limit: u64,
    },
    #[error(
        "the {period}'s LLM budget is used up ({spent} of {limit}, and the call may cost {needed}); wait for the next {period} or raise `{period}_usd` of [llm] (pipelines keep running)"
    )]
    Money {
        period: Period,
        /// Spent and reserved.
        spent: Money,
        limit: Money,
        /// Highest cost of the call.
        needed: Money,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn soft_limit_is_exact_for_every_amount() {
        let limits = Limits::default();
        assert_eq!(limits.soft(Money(1_000)), Money(800));
        assert_eq!(limits.soft(Money(99)), Money(79));
        assert_eq!(
            limits.soft(Money(u64::MAX)),
            Money(u64::MAX / 100 * 80 + 15 * 80 / 100)
        );
    }
}
