//! Classes of calls, and how much of a limit each may use.
//!
//! A ceiling bounds a class together with all lower classes: the nested constraints of RFC 4127.
//! What lies above the ceiling of a class is left to the higher ones.
//!
//! | class, with all lower ones | ceiling |
//! |---|---|
//! | person | 100 % |
//! | set-up | 90 % |
//! | escalation | 50 % |
//! | heartbeat | 20 % |
//! | look | 10 % |

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::money::Money;

/// Percentage of the calls of an hour, and of a day's money, that second opinions and chains of one
/// rule may use.
const RULE_PERCENT: u64 = 20;

/// Purpose of a call. The order is that of precedence, the lowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallClass {
    /// A look at a camera's frame in the periodic check.
    Look,
    /// The remark on findings of the periodic check.
    Heartbeat,
    /// A second opinion.
    Escalation,
    /// A set-up that a program asks for over the agent's API.
    SetUp,
    /// A user's request or question, with its rewording.
    Person,
}

impl CallClass {
    /// All classes, the highest first.
    pub const ALL: [Self; 5] = [
        Self::Person,
        Self::SetUp,
        Self::Escalation,
        Self::Heartbeat,
        Self::Look,
    ];

    /// Returns the most of `limit` that this class may use together with all lower ones.
    pub const fn ceiling(self, limit: u64) -> u64 {
        percent_of(
            limit,
            match self {
                Self::Person => 100,
                Self::SetUp => 90,
                Self::Escalation => 50,
                Self::Heartbeat => 20,
                Self::Look => 10,
            },
        )
    }

    /// Returns the classes whose ceilings bound this one: itself and the higher ones.
    pub(crate) fn bounds(self) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().rev().filter(move |c| *c >= self)
    }

    /// Returns the classes below its ceiling, for messages.
    pub(super) const fn group(self) -> &'static str {
        match self {
            Self::Person => "all calls",
            Self::SetUp => "set-ups over the API and automatic calls",
            Self::Escalation => "second opinions, heartbeats and looks at frames",
            Self::Heartbeat => "heartbeats and looks at frames",
            Self::Look => "looks at frames",
        }
    }

    /// Returns one call of this class, for messages.
    pub(super) const fn one(self) -> &'static str {
        match self {
            Self::Person => "a request",
            Self::SetUp => "a set-up over the API",
            Self::Escalation => "a second opinion",
            Self::Heartbeat => "a heartbeat",
            Self::Look => "a look at a frame",
        }
    }
}

impl fmt::Display for CallClass {
    /// Formats the calls of the class, in the plural.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Person => "requests",
            Self::SetUp => "set-ups over the API",
            Self::Escalation => "second opinions",
            Self::Heartbeat => "heartbeats",
            Self::Look => "looks at frames",
        })
    }
}

/// Calls of one class, of one rule where they are second opinions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassCalls {
    pub class: CallClass,
    /// Pipeline and rule, such as `gate/door`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    pub calls: u32,
}

/// Returns the most calls of `limit` an hour that one rule's second opinions may use: one at least.
pub(super) fn rule_ceiling(limit: u32) -> u32 {
    to_calls(percent_of(limit.into(), RULE_PERCENT)).max(1)
}

/// Returns the most of a day's `limit` that second opinions and chains of one rule may use.
pub(crate) const fn rule_money(limit: Money) -> Money {
    Money(percent_of(limit.0, RULE_PERCENT))
}

/// Converts a part of a `u32` limit back.
pub(super) fn to_calls(part: u64) -> u32 {
    u32::try_from(part).unwrap_or(u32::MAX)
}

/// Returns `percent` of `limit`, rounded down; above 100 counts as 100.
pub(super) const fn percent_of(limit: u64, percent: u64) -> u64 {
    let percent = if percent > 100 { 100 } else { percent };
    // Divides first, so that no amount overflows.
    limit / 100 * percent + limit % 100 * percent / 100
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ceiling_leaves_a_part_to_higher_classes() {
        let of_an_hour = CallClass::ALL.map(|class| class.ceiling(60));
        assert_eq!(of_an_hour, [60, 54, 30, 12, 6]);
        for limit in [1, 2, 9, 60, u64::MAX] {
            let ceilings = CallClass::ALL.map(|class| class.ceiling(limit));
            assert_eq!(ceilings[0], limit);
            assert!(ceilings.is_sorted_by(|higher, lower| higher >= lower));
            assert!(ceilings[1] < limit, "{limit}");
        }
    }

    #[test]
    fn percentage_is_exact_for_every_amount() {
        assert_eq!(percent_of(1_000, 80), 800);
        assert_eq!(percent_of(99, 80), 79);
        assert_eq!(
            percent_of(u64::MAX, 80),
            u64::MAX / 100 * 80 + 15 * 80 / 100
        );
    }
}
