//! Money in whole nanodollars: sums are exact, and a token's price is a whole number.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

const DOLLAR: u64 = 1_000_000_000;

/// An amount in billionths of a US dollar. Sums saturate.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Money(pub u64);

impl Money {
    pub const ZERO: Self = Self(0);

    /// Converts dollars; `None` for a number that is negative, not finite or over ten million.
    pub fn from_dollars(dollars: f64) -> Option<Self> {
        let is_amount = dollars.is_finite() && (0.0..=1e7).contains(&dollars);
        // In range by the check: at most 1e16.
        is_amount.then(|| Self((dollars * DOLLAR as f64).round() as u64))
    }

    /// Returns dollars, for display and metrics.
    pub fn dollars(self) -> f64 {
        self.0 as f64 / DOLLAR as f64
    }

    #[must_use]
    pub const fn times(self, n: u64) -> Self {
        Self(self.0.saturating_mul(n))
    }

    /// Subtracts `other`, down to zero.
    #[must_use]
    pub const fn less(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for Money {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Money {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Money {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Money {
    /// Two decimals from a dollar, four below, six below a cent: `$12.50`, `$0.0120`, `$0.000500`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = match self.0 {
            0 => 2,
            n if n < DOLLAR / 100 => 6,
            n if n < DOLLAR => 4,
            _ => 2,
        };
        write!(f, "${:.digits$}", self.dollars())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_amounts_are_not_shown_as_zero() {
        assert_eq!(Money(500_000).to_string(), "$0.000500");
        assert_eq!(Money(12_000_000).to_string(), "$0.0120");
        assert_eq!(Money(12_500_000_000).to_string(), "$12.50");
        assert_eq!(Money::ZERO.to_string(), "$0.00");
    }

    #[test]
    fn invalid_dollars_are_none() {
        assert_eq!(Money::from_dollars(0.25), Some(Money(250_000_000)));
        for wrong in [-1.0, f64::NAN, f64::INFINITY, 1e8] {
            assert_eq!(Money::from_dollars(wrong), None, "{wrong}");
        }
    }
}
