//! Actions that wait for a yes.

use serde::{Deserialize, Serialize};

use super::operation::Operation;

/// Most actions of one proposal.
pub const MAX_ACTIONS: usize = 4;

/// An action that waits for a yes.
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

/// Actions that one yes would do, in order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProposedActions {
    pub actions: Vec<ProposedAction>,
    /// Language model that proposes them; absent: the words of a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

impl ProposedAction {
    /// One line for a person.
    pub fn describe(&self) -> String {
        match self {
            Self::Archive { operation } => operation.describe(),
            Self::Job { request } => format!("run the job: {request}"),
        }
    }
}

pub(crate) fn describe_all(actions: &[ProposedAction]) -> String {
    let lines: Vec<String> = actions.iter().map(ProposedAction::describe).collect();
    lines.join("; ")
}
