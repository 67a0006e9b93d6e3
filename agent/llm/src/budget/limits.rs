//! The limits, and the two answers to a call that would break one.

use std::fmt;
use std::time::Duration;

use crate::money::Money;

/// What may be spent. Days and months are those of UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Attempts within sixty minutes.
    pub calls_per_hour: u32,
    /// Tokens of one call, prompt and most output together.
    pub tokens_per_call: u64,
    /// Money a day.
    pub day: Money,
    /// Money a month.
    pub month: Money,
    /// Share of the money of a day or month from which on smaller models and pictures are used, in percent.
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
    /// Money of `limit` from which on it is saved.
    pub(crate) const fn soft(&self, limit: Money) -> Money {
        let percent = if self.soft_percent > 100 {
            100
        } else {
            self.soft_percent
        };
        // Divided first: amounts near the largest must not overflow.
        Money(limit.0 / 100 * percent as u64 + limit.0 % 100 * percent as u64 / 100)
    }
}

/// Whether money is to be saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Economy {
    /// There is enough.
    Full,
    /// The soft limit is passed: smaller models, smaller pictures.
    Reduced,
}

/// A span for which money is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Period {
    /// A day.
    Day,
    /// A month.
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

/// A call that is not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Too many within the hour.
    #[error(
        "{limit} calls to the model were made within the hour, which is the limit; wait {} min or raise `calls_per_hour` (the box goes on watching)",
        free_in.as_secs().div_ceil(60)
    )]
    Calls {
        /// The limit.
        limit: u32,
        /// Until the oldest no longer counts.
        free_in: Duration,
    },
    /// Too large.
    #[error(
        "the call would take up to {needed} tokens and {limit} are allowed; begin a new conversation, send smaller pictures or raise `tokens_per_call`"
    )]
    Tokens {
        /// Of the prompt, and of the output at most.
        needed: u64,
        /// The limit.
        limit: u64,
    },
    /// Too dear.
    #[error(
        "the {period}'s budget for the model is used up ({spent} of {limit}, and the call may cost {needed}); wait for the next {period} or raise `{period}_usd` (the box goes on watching)"
    )]
    Money {
        /// Whose money.
        period: Period,
        /// Spent, with what is reserved.
        spent: Money,
        /// The limit.
        limit: Money,
        /// What the call may cost at most.
        needed: Money,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_is_its_share_for_every_amount() {
        let limits = Limits::default();
        assert_eq!(limits.soft(Money(1_000)), Money(800));
        assert_eq!(limits.soft(Money(99)), Money(79));
        assert_eq!(
            limits.soft(Money(u64::MAX)),
            Money(u64::MAX / 100 * 80 + 15 * 80 / 100)
        );
    }
}
