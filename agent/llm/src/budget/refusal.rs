//! The refusal of a call that would exceed a limit: for what, by which ceiling, for how long.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::class::{CallClass, ClassCalls};
use crate::money::Money;

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

/// Quantity that a ceiling bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallBound {
    /// Second opinions and chains of one rule.
    Rule(String),
    /// A class with all lower ones.
    Class(CallClass),
}

impl CallBound {
    /// Returns whether the ceiling counts `calls`.
    pub(super) fn counts(&self, calls: &ClassCalls) -> bool {
        match self {
            Self::Rule(rule) => calls.rule.as_ref() == Some(rule),
            Self::Class(class) => calls.class <= *class,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error(
        "no LLM call for {}: {}{}; {}raise `calls_per_hour` of [llm] (pipelines keep running)",
        class.one(), calls_clause(bound, *limit, *allowed), most_clause(most.as_ref()),
        wait_clause(*free_in)
    )]
    Calls {
        class: CallClass,
        /// The ceiling that is reached.
        bound: CallBound,
        limit: u32,
        /// Calls below the ceiling.
        allowed: u32,
        /// Class that used most of them.
        most: Option<ClassCalls>,
        /// Time until a call fits again; `None` if none ever does.
        free_in: Option<Duration>,
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
        "no LLM call for {}: {}; {}raise `{period}_usd` of [llm] (pipelines keep running)",
        class.one(), money_clause(bound, *period, [*spent, *allowed, *limit, *needed]),
        wait_clause(*free_in)
    )]
    Money {
        class: CallClass,
        /// The ceiling that is reached.
        bound: CallBound,
        period: Period,
        /// Spent and reserved below the ceiling.
        spent: Money,
        limit: Money,
        /// Money below the ceiling.
        allowed: Money,
        /// Highest cost of the call.
        needed: Money,
        /// Time until the next period; `None` if the call never fits.
        free_in: Option<Duration>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalCause {
    /// The calls of the hour.
    Hour,
    /// The calls of one rule in the hour.
    Rule,
    /// The tokens of one call.
    Tokens,
    /// The money of the day.
    Day,
    /// The money of the month.
    Month,
    /// The money of one rule in the day.
    RuleDay,
}

impl fmt::Display for RefusalCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hour => "calls an hour",
            Self::Rule => "calls of a rule an hour",
            Self::Tokens => "tokens of a call",
            Self::Day => "money a day",
            Self::Month => "money a month",
            Self::RuleDay => "money of a rule a day",
        })
    }
}

impl Refusal {
    pub const fn cause(&self) -> RefusalCause {
        match self {
            Self::Calls {
                bound: CallBound::Rule(_),
                ..
            } => RefusalCause::Rule,
            Self::Calls { .. } => RefusalCause::Hour,
            Self::Tokens { .. } => RefusalCause::Tokens,
            Self::Money {
                bound: CallBound::Rule(_),
                ..
            } => RefusalCause::RuleDay,
            Self::Money {
                period: Period::Day,
                ..
            } => RefusalCause::Day,
            Self::Money { .. } => RefusalCause::Month,
        }
    }

    /// Returns how long it holds; the longest duration where no wait ends it.
    pub fn wait(&self) -> Duration {
        match self {
            Self::Calls { free_in, .. } | Self::Money { free_in, .. } => {
                free_in.unwrap_or(Duration::MAX)
            }
            Self::Tokens { .. } => Duration::MAX,
        }
    }
}

fn calls_clause(bound: &CallBound, limit: u32, allowed: u32) -> String {
    let group = match bound {
        CallBound::Class(CallClass::Person) => {
            return format!("all {limit} calls of the hour are used");
        }
        CallBound::Class(class) => class.group(),
        CallBound::Rule(_) => "one rule",
    };
    format!("{group} may use {allowed} of the {limit} calls an hour")
}

fn most_clause(most: Option<&ClassCalls>) -> String {
    let Some(ClassCalls { class, rule, calls }) = most else {
        return String::new();
    };
    let of = rule.as_deref().map(|rule| format!(" of {rule}"));
    format!(", {calls} went to {class}{}", of.unwrap_or_default())
}

fn money_clause(bound: &CallBound, period: Period, amounts: [Money; 4]) -> String {
    let [spent, allowed, limit, needed] = amounts;
    let (group, by) = match bound {
        CallBound::Class(CallClass::Person) => {
            return format!(
                "{spent} of the {period}'s LLM budget of {limit} is used, and the call may cost {needed}"
            );
        }
        CallBound::Class(class) => (class.group(), String::new()),
        CallBound::Rule(rule) => ("one rule", format!(" by {rule}")),
    };
    format!(
        "{group} may use {allowed} of the {period}'s LLM budget of {limit} ({spent} is used{by}, and the call may cost {needed})"
    )
}

/// Returns "wait … or ", rounded up to minutes, hours or days.
fn wait_clause(free_in: Option<Duration>) -> String {
    let Some(free_in) = free_in else {
        return String::new();
    };
    let minutes = free_in.as_secs().div_ceil(60);
    match minutes {
        0..=120 => format!("wait {minutes} min or "),
        121..=2_880 => format!("wait {} h or ", minutes.div_ceil(60)),
        _ => format!("wait {} days or ", minutes.div_ceil(1_440)),
    }
}
