//! Plans: named steps with tool, parameters, dependencies and reason.
//!
//! Owns the form of a plan, its reading, check and repair.
//!
//! - [`read()`] and [`check()`] collect all faults instead of ending at the first one.
//! - A [`CheckedPlan`] is the only form that is run. Each step follows those it depends on.
//! - A step depends on those that its `${step.key}` references name; `depends_on` adds others.
//!
//! Not here: running, and what the tools do.

mod anchor;
pub(crate) mod check;
mod difference;
pub(crate) mod fault;
mod folders;
pub(crate) mod graph;
mod read;
pub(crate) mod reference;
mod repair;
mod schema;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};

pub use anchor::anchor;
pub(crate) use check::check_without_box;
pub use check::{CheckedPlan, check};
pub use difference::difference;
pub use fault::{Fault, FaultKind};
pub use folders::NamedFolder;
pub use read::{read, read_parts, read_text};
pub use repair::{Change, Repaired, Unrepaired, repair};
pub use schema::{params_schema, schema};

/// Most steps of a plan.
pub const MAX_STEPS: usize = 1000;
/// Longest name of a plan, in characters.
pub const MAX_NAME: usize = 200;
/// Most names in `depends_on` of a step.
pub const MAX_DEPENDENCIES: usize = 100;
/// Largest plan file in bytes.
pub const MAX_PLAN_BYTES: usize = 1 << 20;
/// Most tries of a step, and most alternatives.
pub const MAX_TRIES: u64 = 10;
/// Longest pause between two tries.
pub const MAX_PAUSE_S: u64 = 600;
/// Longest time limit of one try.
pub const MAX_TIMEOUT_S: u64 = 86_400;

/// Tries of a step and the pauses between them, after which it counts as failed.
const TRIES: u64 = 3;
const PAUSES_S: [u64; 3] = [2, 5, 10];
pub(crate) const TIMEOUT_S: u64 = 3600;

/// A plan as it was written.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Values that the caller may replace, for `${inputs.key}`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<String, Value>,
    pub steps: Vec<Step>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rewards: Option<Rewards>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Step {
    pub name: String,
    #[serde(flatten)]
    pub call: Call,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<String>,
    /// Why the step is needed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(skip_serializing_if = "Retry::is_default")]
    pub retry: Retry,
    /// Time limit of one try, in seconds.
    #[serde(skip_serializing_if = "is_default_timeout")]
    pub timeout_s: u64,
    /// Calls that replace the step's own one after it has failed, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<Call>,
}

impl Step {
    /// Returns the step's own call and its alternatives, in the order in which they are tried.
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        std::iter::once(&self.call).chain(&self.alternatives)
    }

    fn calls_mut(&mut self) -> impl Iterator<Item = &mut Call> {
        std::iter::once(&mut self.call).chain(&mut self.alternatives)
    }
}

/// A tool with its parameters, which may have references.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Call {
    pub tool: String,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub params: Map<String, Value>,
}

/// One line: the tool with its parameters.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let params = self.params.iter();
        let params: Vec<String> = params.map(|(k, v)| format!("{k}: {v}")).collect();
        write!(f, "{} ({})", self.tool, params.join(", "))
    }
}

/// How often a step is tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Retry {
    pub tries: u64,
    /// Pause before each further try, in seconds; the last one is repeated.
    pub pauses_s: Vec<u64>,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            tries: TRIES,
            pauses_s: PAUSES_S.to_vec(),
        }
    }
}

impl Retry {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The pause after try number `tried`, counted from 1.
    pub(crate) fn pause(&self, tried: u64) -> Duration {
        let place = usize::try_from(tried.saturating_sub(1)).unwrap_or(usize::MAX);
        let pause = self.pauses_s.get(place).or(self.pauses_s.last());
        Duration::from_secs(pause.copied().unwrap_or(0))
    }
}

const fn is_default_timeout(timeout_s: &u64) -> bool {
    *timeout_s == TIMEOUT_S
}

/// Rewards of a step in the trajectory.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Rewards {
    pub success: f64,
    pub failure: f64,
}
