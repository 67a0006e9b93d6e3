//! Actions that wait for a yes.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::operation::Operation;
use crate::proposal::conversation::CONFIRM_TIMEOUT_S;

/// Most actions of one proposal.
pub const MAX_ACTIONS: usize = 4;

/// What a yes would do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum ProposedAction {
    Archive {
        operation: Operation,
    },
    /// A job on pictures, as a request that the rules of the planner understand.
    Job {
        request: String,
    },
}

impl ProposedAction {
    /// One line for a person.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Archive { operation } => operation.describe(),
            Self::Job { request } => format!("run the job: {request}"),
        }
    }
}

/// Actions that were shown and wait for a yes.
#[derive(Debug, Clone, PartialEq)]
pub struct WaitingActions {
    pub actions: Vec<ProposedAction>,
    /// Time at which they were shown.
    pub at: Timestamp,
}

impl WaitingActions {
    /// Whether a yes at `now` still counts.
    #[must_use]
    pub fn is_fresh(&self, now: Timestamp) -> bool {
        let age = now.duration_since(self.at);
        age >= SignedDuration::ZERO && age.as_secs() <= CONFIRM_TIMEOUT_S
    }
}

/// The actions in one sentence.
#[must_use]
pub fn describe_all(actions: &[ProposedAction]) -> String {
    let lines: Vec<String> = actions.iter().map(ProposedAction::describe).collect();
    lines.join("; ")
}
